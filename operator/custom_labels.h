// SPDX-License-Identifier: Apache-2.0
// metrics.customLabels: labels of queues, cohorts and workloads that kueue_* metrics carry, too.
#pragma once

#include <string>
#include <vector>

#include "api/meta.h"

namespace tutti {

// metrics.customLabels[]
struct CustomLabel {
  enum class Source { kClusterQueue, kCohort, kLocalQueue, kWorkload };
  std::string name;
  std::string label_key;       // sourceLabelKey
  std::string annotation_key;  // sourceAnnotationKey; if both are empty, `name` is the label key
  Source source = Source::kClusterQueue;
  std::vector<std::string> tracked_values;  // empty = all
};

class CustomLabels {
 public:
  using Source = CustomLabel::Source;

  explicit CustomLabels(std::vector<CustomLabel> labels) : labels_(std::move(labels)) {}

  [[nodiscard]] bool Has(Source source) const;
  // As exported: "custom_<name>", in the order of the configuration.
  [[nodiscard]] std::vector<std::string> NamesOf(Source source) const;
  // In the same order; "" where the object has none, one fixed text for values that are not
  // tracked.
  [[nodiscard]] std::vector<std::string> ValuesOf(Source source, const api::ObjectMeta& meta) const;
  // What a job must hand on to its Workload for its labels to be known.
  [[nodiscard]] std::vector<std::string> WorkloadLabelKeys() const;
  [[nodiscard]] std::vector<std::string> WorkloadAnnotationKeys() const;

 private:
  std::vector<CustomLabel> labels_;
};

}  // namespace tutti
