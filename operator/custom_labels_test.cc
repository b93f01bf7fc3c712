// SPDX-License-Identifier: Apache-2.0
#include "operator/custom_labels.h"

#include <gtest/gtest.h>

#include "operator/metrics.h"

namespace tutti {
namespace {

using Source = CustomLabel::Source;

CustomLabel Label(const char* name, Source source = Source::kClusterQueue) {
  CustomLabel label;
  label.name = name;
  label.source = source;
  return label;
}

CustomLabels Some() {
  CustomLabel cost = Label("cost");
  cost.annotation_key = "billing/cost";
  CustomLabel kind = Label("kind", Source::kWorkload);
  kind.label_key = "workload-kind";
  kind.tracked_values = {"batch", "serving"};
  return CustomLabels({Label("team"), cost, kind, Label("floor", Source::kLocalQueue)});
}

TEST(CustomLabelsTest, ValuesComeFromLabelsOrAnnotationsAndOnlyTrackedOnesAreTold) {
  const CustomLabels labels = Some();
  api::ObjectMeta meta;
  meta.labels = {{"team", "ml"}, {"workload-kind", "other"}};
  meta.annotations = {{"billing/cost", "42"}};
  EXPECT_EQ(labels.NamesOf(Source::kClusterQueue),
            (std::vector<std::string>{"custom_team", "custom_cost"}));
  EXPECT_EQ(labels.ValuesOf(Source::kClusterQueue, meta), (std::vector<std::string>{"ml", "42"}));
  EXPECT_EQ(labels.ValuesOf(Source::kWorkload, meta),
            (std::vector<std::string>{"kueue.x-k8s.io/_UNTRACKED_VALUE_"}));
  EXPECT_EQ(labels.ValuesOf(Source::kLocalQueue, meta), (std::vector<std::string>{""}));
  EXPECT_FALSE(labels.Has(Source::kCohort));
  EXPECT_EQ(labels.WorkloadLabelKeys(), (std::vector<std::string>{"workload-kind"}));
  EXPECT_TRUE(labels.WorkloadAnnotationKeys().empty());
}

TEST(CustomLabelsTest, GaugesFollowANewValueAndCountersKeepTheOld) {
  Metrics metrics;
  metrics.UseCustomLabels(Some());
  metrics.SetCustomValues(Source::kClusterQueue, "a", {"ml", "42"});
  metrics.Set(Metric::kPendingWorkloads, {"a", "active"}, 3);
  metrics.Add(Metric::kQuotaReservedWorkloads, {"a", ""}, 2);
  EXPECT_NE(metrics.Render().find("custom_cost=\"42\",custom_team=\"ml\""), std::string::npos);

  metrics.SetCustomValues(Source::kClusterQueue, "a", {"hr", "42"});
  metrics.Set(Metric::kPendingWorkloads, {"a", "active"}, 5);
  const std::string page = metrics.Render();
  EXPECT_EQ(metrics.ValueForTest(Metric::kPendingWorkloads, {"a", "active"}), 5);
  const auto line_of = [&page](const std::string& metric, const std::string& team) {
    size_t at = 0;
    while ((at = page.find("\n" + metric + "{", at)) != std::string::npos) {
      const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
      if (line.find("custom_team=\"" + team + "\"") != std::string::npos) {
        return line;
      }
      ++at;
    }
    return std::string();
  };
  EXPECT_EQ(line_of("kueue_pending_workloads", "ml"), "");
  EXPECT_NE(line_of("kueue_pending_workloads", "hr"), "");
  EXPECT_NE(line_of("kueue_quota_reserved_workloads_total", "ml"), "");
}

TEST(CustomLabelsTest, LabelsOfWorkloadsSplitTheAdmittedOnes) {
  Metrics metrics;
  metrics.UseCustomLabels(Some());
  EXPECT_TRUE(metrics.SplitByWorkload(Metric::kAdmittedActiveWorkloads));
  EXPECT_FALSE(metrics.SplitByWorkload(Metric::kReservingActiveWorkloads));
  metrics.Set(Metric::kAdmittedActiveWorkloads, {"a", "batch"}, 2);
  metrics.Set(Metric::kAdmittedActiveWorkloads, {"a", "serving"}, 1);
  EXPECT_EQ(metrics.ValueForTest(Metric::kAdmittedActiveWorkloads, {"a", "batch"}), 2);
  EXPECT_EQ(metrics.ValueForTest(Metric::kLogBugs), 0);
}

}  // namespace
}  // namespace tutti
