// SPDX-License-Identifier: Apache-2.0
#include "cli/fit.h"

#include <initializer_list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Json Parsed(const std::string& text) {
  auto json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json ? *json : Json();
}

std::vector<Document> Input(std::initializer_list<std::string> texts) {
  std::vector<Document> out;
  for (const std::string& text : texts) {
    out.push_back({"file.json, document " + std::to_string(out.size() + 1), Parsed(text)});
  }
  return out;
}

std::string Node(const std::string& name, int gpus, const std::string& spec = "{}") {
  return R"({"apiVersion": "v1", "kind": "Node", "metadata": {"name": ")" + name +
         R"("}, "spec": )" + spec + R"(, "status": {"allocatable": {"pods": "110", "x.y/gpu": ")" +
         std::to_string(gpus) + R"("}}})";
}

std::string Job(const std::string& name, int pods, int gpus, const std::string& more_status = "") {
  const std::string count = std::to_string(pods);
  return R"({"kind": "Job", "metadata": {"name": ")" + name +
         R"(", "namespace": "team"}, "spec": {"parallelism": )" + count + R"(, "completions": )" +
         count +
         R"(, "template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"x.y/gpu": )" +
         std::to_string(gpus) + R"(}}}]}}}, "status": {)" + more_status + "}}";
}

std::string Pod(const std::string& name, const std::string& node, int gpus,
                const std::string& phase = "Running", const std::string& metadata = "") {
  return R"({"kind": "Pod", "metadata": {"name": ")" + name + "\"" + metadata +
         R"(}, "spec": {"nodeName": ")" + node +
         R"(", "containers": [{"name": "c", "resources": {"requests": {"x.y/gpu": )" +
         std::to_string(gpus) + R"(}}}]}, "status": {"phase": ")" + phase + "\"}}";
}

std::vector<std::string> Verdicts(const std::vector<Document>& documents) {
  std::vector<std::string> out;
  const auto report = Fit(documents);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  if (report) {
    for (const FitAnswer& answer : report->answers) {
      out.push_back(answer.gang + " " + std::string(VerdictName(answer.fit.kind)));
    }
  }
  return out;
}

std::string Problem(const std::vector<Document>& documents) {
  const auto report = Fit(documents);
  EXPECT_FALSE(report.has_value());
  return report ? "" : report.error().message;
}

TEST(FitTest, SaysWhereEachPodGoes) {
  const auto report = Fit(Input({Node("a", 8), Node("b", 8), Job("train", 3, 4)}));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_TRUE(report->AllFit());
  EXPECT_EQ(ToText(*report), "Job team/train: fits\n  main (3 pods): a x 2, b\n");
  EXPECT_EQ(ToJson(*report).Dump(),
            R"({"answers":[{"gang":"Job team/train","verdict":"Fits","message":"","pods":3,)"
            R"("placement":[{"podSet":"main","node":"a","count":2},)"
            R"({"podSet":"main","node":"b","count":1}]}],"notes":[]})");
}

TEST(FitTest, AJobThatFitsKeepsItsPlacesFromThoseBehindIt) {
  EXPECT_THAT(Verdicts(Input({Node("a", 8), Node("b", 8), Job("first", 3, 4), Job("second", 2, 4),
                              Job("third", 1, 4)})),
              ElementsAre("Job team/first Fits", "Job team/second NotNow", "Job team/third Fits"));
}

TEST(FitTest, SaysWhatIsMissing) {
  const auto report =
      Fit(Input({Node("a", 8), Pod("p", "a", 6), Job("now", 2, 2), Job("never", 2, 8)}));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_FALSE(report->AllFit());
  EXPECT_EQ(VerdictName(report->answers[0].fit.kind), "NotNow");
  EXPECT_EQ(VerdictName(report->answers[1].fit.kind), "Never");
  EXPECT_THAT(report->answers[0].fit.message, HasSubstr("gpu"));
  EXPECT_THAT(ToText(*report), HasSubstr("Job team/now: does not fit: 1 of 2 pods fit now; "));
  EXPECT_THAT(ToText(*report), HasSubstr("Job team/never: does not fit: can't ever fit "));
}

TEST(FitTest, WhatIsLeftToTheSchedulerIsNoYes) {
  std::string job = Job("x", 2, 1);
  job.replace(job.find(R"("containers")"), 12,
              R"("volumes": [{"name": "v", "rbd": {"image": "i"}}],
                 "containers")");
  const auto report = Fit(Input({Node("a", 8), job}));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_FALSE(report->AllFit());
  EXPECT_THAT(ToText(*report), StartsWith("Job team/x: left to the scheduler: "));
  EXPECT_THAT(ToText(*report), HasSubstr("main (2 pods): a x 2"));
}

// The text with `more` put before the first `at`.
std::string With(std::string text, const std::string& at, const std::string& more) {
  return text.insert(text.find(at), more);
}

std::string Host(const std::string& name, int gpus) {
  return With(Node(name, gpus), R"(}, "spec")",
              R"(, "labels": {"kubernetes.io/hostname": ")" + name + "\"}");
}

// Pods that can't be on a host with those that the term, but for its topology, selects.
std::string Apart(const std::string& object, const std::string& term) {
  return With(object, R"("containers")",
              R"("affinity": {"podAntiAffinity": {
                   "requiredDuringSchedulingIgnoredDuringExecution": [{
                     "topologyKey": "kubernetes.io/hostname", )" +
                  term + "}]}}, ");
}

TEST(FitTest, RulesAboutOtherPodsSeeTheirLabelsAndNamespaces) {
  const std::string web =
      Pod("w", "a", 0, "Running", R"(, "namespace": "web", "labels": {"app": "web"})");
  const std::string app = R"("labelSelector": {"matchLabels": {"app": "web"}})";
  const std::string elsewhere = app + R"(, "namespaces": ["web"])";
  const std::string any = app + R"(, "namespaceSelector": {})";
  EXPECT_THAT(Verdicts(Input({Host("a", 8), web, Apart(Job("own", 1, 1), app)})),
              ElementsAre("Job team/own Fits"));
  EXPECT_THAT(Verdicts(Input({Host("a", 8), web, Apart(Job("named", 1, 1), elsewhere),
                              Apart(Job("any", 1, 1), any)})),
              ElementsAre("Job team/named NotNow", "Job team/any NotNow"));
}

TEST(FitTest, NamespacesAreSelectedByTheLabelsThatTheInputHas) {
  const std::string web = Pod("w", "a", 0, "Running", R"(, "namespace": "web")");
  const auto select = [](const std::string& key, const std::string& value) {
    return R"("labelSelector": {}, "namespaceSelector": {"matchLabels": {")" + key + R"(": ")" +
           value + R"("}})";
  };
  const std::string by_tier = Apart(Job("x", 1, 1), select("tier", "front"));
  const std::string ns =
      R"({"kind": "Namespace", "metadata": {"name": "web", "labels": {"tier": "front"}}})";
  EXPECT_THAT(Verdicts(Input({Host("a", 8), web, by_tier, ns})), ElementsAre("Job team/x NotNow"));
  const auto without = Fit(Input({Host("a", 8), web, by_tier}));
  ASSERT_TRUE(without.has_value());
  EXPECT_EQ(VerdictName(without->answers[0].fit.kind), "Fits");
  EXPECT_THAT(without->notes,
              ElementsAre("Namespace team is not in the input: no labels but its name",
                          "Namespace web is not in the input: no labels but its name"));
  EXPECT_THAT(
      Verdicts(Input({Host("a", 8), web,
                      Apart(Job("x", 1, 1), select("kubernetes.io/metadata.name", "web"))})),
      ElementsAre("Job team/x NotNow"));
}

TEST(FitTest, PodsOfAJobHaveTheLabelsThatTheServerGivesThem) {
  for (const std::string label : {"job-name", "batch.kubernetes.io/job-name"}) {
    const std::string job =
        Apart(Job("x", 2, 1), R"("labelSelector": {"matchLabels": {")" + label + R"(": "x"}})");
    EXPECT_THAT(Verdicts(Input({Host("a", 8), job})), ElementsAre("Job team/x Never")) << label;
    EXPECT_THAT(Verdicts(Input({Host("a", 8), Host("b", 8), job})), ElementsAre("Job team/x Fits"))
        << label;
  }
}

TEST(FitTest, PodsThatAreThereKeepAGangWithRulesAway) {
  const std::string apart = R"("labelSelector": {"matchLabels": {"job-name": "x"}},
                               "namespaces": ["team"])";
  const std::string hermit = Apart(Pod("h", "a", 0), apart);
  const std::string none = R"("labelSelector": {"matchLabels": {"app": "none"}})";
  EXPECT_THAT(Verdicts(Input({Host("a", 8), hermit, Apart(Job("x", 1, 1), none)})),
              ElementsAre("Job team/x NotNow"));
  EXPECT_THAT(Verdicts(Input({Host("a", 8), hermit, Apart(Job("y", 1, 1), none)})),
              ElementsAre("Job team/y Fits"));
}

TEST(FitTest, PodsThatEndedHoldNothingAndTerminatingOnesDo) {
  EXPECT_THAT(Verdicts(Input({Node("a", 8), Pod("p", "a", 8, "Succeeded"), Job("x", 1, 8)})),
              ElementsAre("Job team/x Fits"));
  EXPECT_THAT(Verdicts(Input(
                  {Node("a", 8),
                   Pod("p", "a", 8, "Running", R"(, "deletionTimestamp": "2026-01-01T00:00:00Z")"),
                   Job("x", 1, 8)})),
              ElementsAre("Job team/x NotNow"));
}

TEST(FitTest, CordonsAndTaintsKeepJobsAway) {
  const std::string taint = R"({"taints": [{"key": "k", "effect": "NoSchedule"}]})";
  EXPECT_THAT(Verdicts(Input({Node("a", 8, R"({"unschedulable": true})"), Node("b", 8, taint),
                              Job("x", 1, 8)})),
              ElementsAre("Job team/x Never"));
}

TEST(FitTest, ReadsListsAndTypedLists) {
  const std::string typed =
      R"({"metadata": {"name": "n"}, "status": {"allocatable": {"x.y/gpu": 1, "pods": 9}}})";
  EXPECT_THAT(
      Verdicts(Input({R"({"kind": "List", "items": [)" + Node("a", 8) + "," + Job("x", 1, 8) + "]}",
                      R"({"kind": "NodeList", "items": [)" + typed + "]}"})),
      ElementsAre("Job team/x Fits"));
}

TEST(FitTest, AWorkloadOfSeveralPodSetsIsOneGang) {
  const std::string pod_set = R"({"name": "NAME", "count": COUNT, "template": {"spec":
      {"containers": [{"name": "c", "resources": {"requests": {"x.y/gpu": GPUS}}}]}}})";
  const auto part = [&](const std::string& name, const std::string& count,
                        const std::string& gpus) {
    std::string out = pod_set;
    out.replace(out.find("NAME"), 4, name);
    out.replace(out.find("COUNT"), 5, count);
    out.replace(out.find("GPUS"), 4, gpus);
    return out;
  };
  const std::string workload = R"({"kind": "Workload", "metadata": {"name": "w", "namespace": "t"},
      "spec": {"podSets": [)" + part("leader", "1", "6") +
                               "," + part("workers", "2", "4") + "]}}";
  const auto report = Fit(Input({Node("a", 8), Node("b", 8), workload}));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(ToText(*report),
            "Workload t/w: fits\n  leader (1 pod): a\n  workers (2 pods): b x 2\n");
  std::string owned = workload;
  owned.replace(
      owned.find(R"("name": "w")"), 11,
      R"("name": "w", "ownerReferences": [{"kind": "Job", "name": "j", "controller": true}])");
  EXPECT_THAT(Problem(Input({Node("a", 8), owned})),
              HasSubstr("1 Workload left out: made from another object"));
}

TEST(FitTest, LimitRangesAndRuntimeClassesCount) {
  const std::string job = R"({"kind": "Job", "metadata": {"name": "x", "namespace": "team"}, "spec":
      {"template": {"spec": {"runtimeClassName": "vm", "containers": [{"name": "c"}]}}}})";
  const std::string range =
      R"({"kind": "LimitRange", "metadata": {"name": "r", "namespace": "team"},
      "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}})";
  const std::string vm = R"({"kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "h",
      "overhead": {"podFixed": {"cpu": "500m"}}})";
  const auto node = [](const std::string& cpu) {
    return R"({"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"pods": 9, "cpu": ")" +
           cpu + "\"}}}";
  };
  EXPECT_THAT(Verdicts(Input({node("1500m"), job, range, vm})), ElementsAre("Job team/x Fits"));
  EXPECT_THAT(Verdicts(Input({node("1499m"), job, range, vm})), ElementsAre("Job team/x Never"));
  const auto report = Fit(Input({node("1"), job, range}));
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->notes,
              ElementsAre("RuntimeClass vm is not in the input: no overhead counted"));
}

TEST(FitTest, WhatDoesNotCountIsSaid) {
  const auto report =
      Fit(Input({Job("done", 1, 1, R"("conditions": [{"type": "Complete", "status": "True"}])"),
                 Job("runs", 1, 1, R"("active": 1)"), Job("x", 1, 1), Pod("waits", "", 1),
                 R"({"kind": "Service", "metadata": {"name": "s"}})"}));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_THAT(report->notes,
              ElementsAre("no Node in the input", "2 Jobs left out: finished, or with active pods",
                          "1 Pod without a node left out: they may take places first",
                          "Service is not looked at: 1 object"));
  EXPECT_EQ(VerdictName(report->answers[0].fit.kind), "Never");
}

TEST(FitTest, BadInputNamesTheDocumentTheObjectAndTheField) {
  EXPECT_EQ(Problem(Input({R"({"metadata": {"name": "n"}})"})),
            "file.json, document 1: kind is missing");
  EXPECT_EQ(Problem(Input({Node("a", 1), R"({"kind": "Pod", "metadata": {}})"})),
            "file.json, document 2: Pod: metadata.name is missing");
  EXPECT_EQ(Problem(Input({R"({"kind": "List", "items": [7]})"})),
            "file.json, document 1: items[0]: must be an object");
  EXPECT_EQ(Problem(Input({Node("a", 1), Node("a", 2)})),
            "file.json, document 2: Node a is in the input twice");
  EXPECT_EQ(Problem(Input({Node("a", 1)})), "no Job and no Workload to place");
  const std::string node = R"({"kind": "Node", "metadata": {"name": "a"},
      "status": {"allocatable": {"cpu": "lots"}}})";
  EXPECT_THAT(Problem(Input({node})),
              StartsWith("file.json, document 1: Node a: status.allocatable"));
  const std::string job =
      R"({"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec":
      {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]}}}})";
  EXPECT_THAT(Problem(Input({job})), StartsWith("file.json, document 1: Job default/x: "
                                                "spec.template.spec.containers[0].resources"));
}

TEST(FitLineTest, AnswersWithTheSameId) {
  const Json answer =
      FitLine(R"({"id": "seed-7", "items": [)" + Node("a", 8) + "," + Job("x", 1, 8) + "]}");
  EXPECT_EQ(answer["id"].AsString(), "seed-7");
  EXPECT_EQ(answer["answers"].AsArray().at(0)["verdict"].AsString(), "Fits");
  EXPECT_FALSE(answer.Has("error"));
}

TEST(FitLineTest, SaysWhatIsWrongWithALine) {
  EXPECT_NE(FitLine("{")["error"].AsString(), "");
  EXPECT_EQ(FitLine(R"({"id": 3})").Dump(),
            R"({"id":3,"error":"items: must be an array of objects"})");
  EXPECT_EQ(FitLine(R"({"id": 3, "items": [{}]})")["error"].AsString(),
            "items[0]: kind is missing");
}

std::string Gpus(const std::string& node, int count, const std::string& version = "") {
  std::string devices;
  for (int i = 0; i < count; ++i) {
    devices += (i == 0 ? "" : ", ") + std::string(R"({"name": "gpu-)") + std::to_string(i) + "\"}";
  }
  return R"({"kind": "ResourceSlice", )" + version + R"("metadata": {"name": "s-)" + node +
         R"("}, "spec": {"driver": "gpu.x.y", "nodeName": ")" + node + R"(", "pool": {"name": ")" +
         node + R"(", "generation": 1, "resourceSliceCount": 1}, "devices": [)" + devices + "]}}";
}

std::string GpuClass() {
  return R"({"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": )"
         R"({"expression": "device.driver == 'gpu.x.y'"}}]}})";
}

std::string ClaimSpec(int devices) {
  return R"({"devices": {"requests": [{"name": "main", "exactly": {"deviceClassName": "gpu", )"
         R"("allocationMode": "ExactCount", "count": )" +
         std::to_string(devices) + "}}]}}";
}

std::string ClaimTemplate(const std::string& name, int devices, const std::string& ns = "team") {
  return R"({"kind": "ResourceClaimTemplate", "metadata": {"name": ")" + name +
         R"(", "namespace": ")" + ns + R"("}, "spec": {"spec": )" + ClaimSpec(devices) + "}}";
}

// A claim of `pod` ("" = of nobody) that holds gpu-0 of the node.
std::string HeldClaim(const std::string& name, const std::string& node, const std::string& pod) {
  const std::string owner =
      pod.empty()
          ? ""
          : R"(, "annotations": {"resource.kubernetes.io/pod-claim-name": "gpus"}, )"
            R"("ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "uid": "u", "controller": true, "name": ")" +
                pod + "\"}]";
  return R"({"kind": "ResourceClaim", "metadata": {"name": ")" + name +
         R"(", "namespace": "team", "uid": ")" + name + "\"" + owner + R"(}, "spec": )" +
         ClaimSpec(1) +
         R"(, "status": {"allocation": {"devices": {"results": [{"request": "main", )"
         R"("driver": "gpu.x.y", "device": "gpu-0", "pool": ")" +
         node +
         R"("}]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": )"
         R"("metadata.name", "operator": "In", "values": [")" +
         node + R"("]}]}]}}}})";
}

// Pods whose claim "gpus" comes from the template, or is the one of that name.
std::string ClaimJob(const std::string& name, int pods, const std::string& source) {
  const std::string count = std::to_string(pods);
  return R"({"kind": "Job", "metadata": {"name": ")" + name +
         R"(", "namespace": "team"}, "spec": {"parallelism": )" + count + R"(, "completions": )" +
         count +
         R"(, "template": {"spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpus", )" +
         source + "}]}}}}";
}

std::string FromTemplate(const std::string& name) {
  return R"("resourceClaimTemplateName": ")" + name + "\"";
}

std::string ClaimPod(const std::string& name, const std::string& node) {
  return R"({"kind": "Pod", "metadata": {"name": ")" + name +
         R"(", "namespace": "team"}, "spec": {"nodeName": ")" + node +
         R"(", "containers": [{"name": "c"}], "resourceClaims": [{"name": "gpus", )" +
         FromTemplate("one") + R"(}]}, "status": {"phase": "Running"}})";
}

TEST(FitTest, PodsWithClaimsGetNodesAndDevices) {
  const auto cluster = [](int pods) {
    return Input({Node("a", 0), Node("b", 0), Gpus("a", 4), Gpus("b", 2), GpuClass(),
                  ClaimTemplate("two", 2), ClaimJob("train", pods, FromTemplate("two"))});
  };
  const auto fits = Fit(cluster(3));
  ASSERT_TRUE(fits.has_value()) << fits.error().message;
  EXPECT_EQ(ToText(*fits), "Job team/train: fits\n  main (3 pods): a x 2, b\n");
  const auto no = Fit(cluster(4));
  ASSERT_TRUE(no.has_value()) << no.error().message;
  EXPECT_EQ(no->answers[0].fit.kind, engine::FitKind::kNever);
  EXPECT_THAT(no->answers[0].fit.message, HasSubstr("gpu"));
}

TEST(FitTest, DevicesOfAGangThatFitsAreTaken) {
  EXPECT_THAT(Verdicts(Input({Node("a", 0), Gpus("a", 4), GpuClass(), ClaimTemplate("two", 2),
                              ClaimJob("first", 1, FromTemplate("two")),
                              ClaimJob("second", 2, FromTemplate("two")),
                              ClaimJob("third", 1, FromTemplate("two"))})),
              ElementsAre("Job team/first Fits", "Job team/second NotNow", "Job team/third Fits"));
}

TEST(FitTest, AllocatedClaimsHoldTheirDevices) {
  const auto cluster = [](const std::string& claim) {
    return Input({Node("a", 0), Gpus("a", 2), GpuClass(), ClaimTemplate("one", 1),
                  ClaimPod("p", "a"), claim, ClaimJob("train", 2, FromTemplate("one"))});
  };
  const auto held = Fit(cluster(HeldClaim("p-gpus", "a", "p")));
  ASSERT_TRUE(held.has_value()) << held.error().message;
  EXPECT_EQ(held->answers[0].fit.kind, engine::FitKind::kNotNow);
  EXPECT_THAT(held->notes, ElementsAre());

  // The claim of the pod isn't there, but somebody else's is.
  const auto missing = Fit(cluster(HeldClaim("q-gpus", "a", "q")));
  ASSERT_TRUE(missing.has_value()) << missing.error().message;
  EXPECT_THAT(missing->notes,
              ElementsAre("1 Pod with a ResourceClaim that is not in the input: its devices count "
                          "as free"));
}

TEST(FitTest, ASharedClaimThatIsAllocatedSaysWherePodsRun) {
  const auto report = Fit(
      Input({Node("a", 0), Node("b", 0), Gpus("a", 1), Gpus("b", 1), GpuClass(),
             HeldClaim("ours", "b", ""), ClaimJob("train", 2, R"("resourceClaimName": "ours")")}));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(ToText(*report), "Job team/train: fits\n  main (2 pods): b x 2\n");
}

TEST(FitTest, NamesTheTemplateOrClaimThatIsNotThere) {
  const auto message = [](const std::string& source, const std::string& more) {
    const auto report =
        Fit(Input({Node("a", 0), Gpus("a", 2), GpuClass(), more, ClaimJob("train", 1, source)}));
    EXPECT_TRUE(report.has_value()) << report.error().message;
    return report ? ToText(*report) : "";
  };
  // The template of another namespace is none.
  EXPECT_EQ(message(FromTemplate("one"), ClaimTemplate("one", 1, "other")),
            "Job team/train: does not fit: ResourceClaimTemplate team/one does not exist\n");
  EXPECT_EQ(message(R"("resourceClaimName": "ours")", ClaimTemplate("one", 1)),
            "Job team/train: does not fit: ResourceClaim team/ours does not exist\n");
}

TEST(FitTest, AJobAndAWorkloadOfOneNameHoldTheirOwnPlaces) {
  const std::string workload =
      R"({"kind": "Workload", "metadata": {"name": "first", "namespace": "team"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpus", )" +
      FromTemplate("one") + "}]}}}]}}";
  EXPECT_THAT(
      Verdicts(Input({Node("a", 0), Gpus("a", 2), GpuClass(), ClaimTemplate("one", 1),
                      ClaimJob("first", 1, FromTemplate("one")), workload,
                      ClaimJob("second", 1, FromTemplate("one"))})),
      ElementsAre("Job team/first Fits", "Workload team/first Fits", "Job team/second NotNow"));
}

// --- volumes

TEST(FitTest, PodsGoWhereTheirVolumesAre) {
  const std::string job =
      With(Job("train", 2, 1), R"("containers")",
           R"("volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], )");
  const std::string claim =
      R"({"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "team",
          "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}})";
  const std::string volume =
      R"({"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"nodeAffinity": {"required":
          {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname",
           "operator": "In", "values": ["b"]}]}]}}}})";
  const auto fits = Fit(Input({Host("a", 2), Host("b", 2), claim, volume, job}));
  ASSERT_TRUE(fits.has_value()) << fits.error().message;
  EXPECT_EQ(ToText(*fits), "Job team/train: fits\n  main (2 pods): b x 2\n");
  const auto missing = Fit(Input({Host("a", 2), volume, job}));
  ASSERT_TRUE(missing.has_value()) << missing.error().message;
  EXPECT_THAT(ToText(*missing), HasSubstr("PersistentVolumeClaim team/c doesn't exist"));
  EXPECT_THAT(Problem(Input({R"({"kind": "PersistentVolume", "metadata": {"name": "pv"},
                                 "spec": {"capacity": {"storage": "much"}}})"})),
              HasSubstr("PersistentVolume pv: spec.capacity.storage"));
}

TEST(FitTest, VolumesOfAGangThatFitsAreTaken) {
  const auto job = [](const std::string& name, int pods) {
    return With(Job(name, pods, 1), R"("containers")",
                R"("volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
                   "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}}}}], )");
  };
  const auto volume = [](const std::string& name) {
    return R"({"kind": "PersistentVolume", "metadata": {"name": ")" + name +
           R"("}, "spec": {"storageClassName": "local", "capacity": {"storage": "2Gi"},
              "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
              {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]}}},
              "status": {"phase": "Available"}})";
  };
  const std::string local =
      R"({"kind": "StorageClass", "metadata": {"name": "local"},
          "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"})";
  EXPECT_THAT(Verdicts(Input({Host("a", 8), local, volume("v1"), volume("v2"), volume("v3"),
                              job("first", 2), job("second", 2), job("third", 1)})),
              ElementsAre("Job team/first Fits", "Job team/second NotNow", "Job team/third Fits"));
}

TEST(FitTest, RefusesOtherVersionsOfDevices) {
  EXPECT_EQ(Problem(Input({Gpus("a", 1, R"("apiVersion": "resource.k8s.io/v1beta1", )")})),
            "file.json, document 1: ResourceSlice s-a: apiVersion must be resource.k8s.io/v1, is "
            "resource.k8s.io/v1beta1");
}

}  // namespace
}  // namespace tutti::cli
