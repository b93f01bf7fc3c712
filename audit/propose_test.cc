// SPDX-License-Identifier: Apache-2.0
#include "audit/propose.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kueue.h"
#include "audit/object_stream.h"
#include "audit/testing/dump.h"
#include "audit/yaml_text.h"

namespace tutti::audit {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(YamlTextTest, WritesWhatYamlReadsBack) {
  const Json json = *Json::Parse(
      R"({"a":"plain/name-1.x","b":"yes","c":"12","d":12,"e":[],"f":{},"g":["x",{"h":1,"i":[{"j":null}]},["k"]],"l":"two\nlines","m":true,"0":""})");
  EXPECT_EQ(ToYaml(json), R"(a: plain/name-1.x
b: "yes"
c: "12"
d: 12
e: []
f: {}
g:
- x
- h: 1
  i:
  - j: null
-
  - k
l: "two\nlines"
m: true
"0": ""
)");
}

TEST(YamlTextTest, DiffsAreUnified) {
  EXPECT_EQ(UnifiedDiff("f", "a\n", "a\n"), "");
  EXPECT_EQ(UnifiedDiff("f", "", "a\nb\n"), "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
  EXPECT_EQ(UnifiedDiff("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n"),
            "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
}

std::map<std::string, ProposedFile> Proposal() {
  Collector collector({.keep_manifests = true, .now = {}});
  ObjectStream stream(
      "in", [&](const Json& object, const std::string& where) { collector.Take(object, where); });
  planted::DumpOptions options;
  options.jobs = 200;
  options.planted = 10;
  (void)planted::WriteDump(options, [&stream](std::string_view piece) { stream.Feed(piece); });
  stream.Finish();
  const Audit audit = MakeAudit("in", collector.Finish(), Prices::Examples(), {});
  std::map<std::string, ProposedFile> out;
  for (ProposedFile& file : Propose(audit)) {
    out[file.path] = file;
  }
  return out;
}

TEST(ProposeTest, QueuesOfEachNamespaceAndTheJobsInThem) {
  const auto files = Proposal();
  EXPECT_TRUE(files.contains("queues/flavor-nvidia-h100-80gb-hbm3.yaml"));
  EXPECT_TRUE(files.contains("queues/flavor-nvidia-a100-sxm4-80gb.yaml"));
  size_t jobs = 0;
  for (const auto& [path, file] : files) {
    if (path.starts_with("jobs/")) {
      ++jobs;
      EXPECT_THAT(file.after, HasSubstr("kueue.x-k8s.io/queue-name: main"));
      EXPECT_THAT(file.after, HasSubstr("nvidia.com/gpu: "));
      EXPECT_THAT(file.after, Not(HasSubstr("status:")));
      // Nothing but the label is new, and nothing is gone.
      const std::string diff = UnifiedDiff(path, file.before, file.after);
      EXPECT_THAT(diff, HasSubstr("+    kueue.x-k8s.io/queue-name: main\n"));
      EXPECT_THAT(diff, Not(HasSubstr("\n-")));
    } else {
      EXPECT_EQ(file.before, "");
      const std::string ns =
          path.substr(path.find("team-") == std::string::npos ? 0 : path.find("team-"), 6);
      if (path.starts_with("queues/cluster-queue-")) {
        EXPECT_TRUE(files.contains("queues/local-queue-" + ns + ".yaml")) << path;
        EXPECT_THAT(file.after, HasSubstr("cohortName: all"));
        EXPECT_THAT(file.after, HasSubstr("- name: nvidia.com/gpu\n        nominalQuota: "));
      }
    }
  }
  EXPECT_EQ(jobs, 10U);
}

}  // namespace
}  // namespace tutti::audit
