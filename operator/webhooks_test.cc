// SPDX-License-Identifier: Apache-2.0
#include "operator/webhooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/base64.h"
#include "operator/syntax.h"
#include "operator/testing/parse.h"

namespace tutti::webhooks {
namespace {

constexpr const char* kUs = "system:serviceaccount:tutti-system:tutti-controller-manager";

Rules OurRules() {
  Rules rules;
  rules.own_user = kUs;
  rules.pod_groups = true;
  rules.has_default_queue = [](const std::string& ns) { return ns == "with-default"; };
  return rules;
}

struct Call {
  std::string operation = "CREATE";
  Json object;
  Json old_object;
  std::string user = "alice";
  std::string ns = "team-a";
};

Json Ask(std::string_view path, const Call& call, const Rules& rules = OurRules()) {
  const Json review =
      Json::Obj({{"apiVersion", "admission.k8s.io/v1"},
                 {"kind", "AdmissionReview"},
                 {"request", Json::Obj({{"uid", "u1"},
                                        {"operation", call.operation},
                                        {"namespace", call.ns},
                                        {"userInfo", Json::Obj({{"username", call.user}})},
                                        {"object", call.object},
                                        {"oldObject", call.old_object}})}});
  const auto answer = Answer(path, review, rules);
  EXPECT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)["response"]["uid"].AsString(), "u1");
  return (*answer)["response"];
}

// The JSON patch of a response, "" when there is none.
std::string PatchOf(const Json& response) {
  EXPECT_TRUE(response["allowed"].AsBool()) << response.Dump();
  if (!response.Has("patch")) {
    return "";
  }
  EXPECT_EQ(response["patchType"].AsString(), "JSONPatch");
  return DecodeBase64(response["patch"].AsString()).value();
}

std::string DenialOf(const Json& response) {
  if (response["allowed"].AsBool()) {
    return "";
  }
  EXPECT_EQ(response["status"]["code"].AsInt(), 403);
  return response["status"]["message"].AsString();
}

constexpr const char* kSuspendPatch = R"([{"op":"add","path":"/spec/suspend","value":true}])";

TEST(WebhooksTest, JobsAreHeldAtCreation) {
  struct Case {
    std::string name;
    std::string job;
    std::string ns;
    std::string patch;
  };
  const std::vector<Case> cases = {
      {"queued", R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{}})", "team-a",
       kSuspendPatch},
      {"queued, suspend false",
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"suspend":false}})",
       "team-a", kSuspendPatch},
      {"already held",
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"suspend":true}})",
       "team-a", ""},
      {"no queue", R"({"metadata":{},"spec":{}})", "team-a", ""},
      {"empty queue label", R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":""}},"spec":{}})",
       "team-a", ""},
      {"child of a controller",
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"},"ownerReferences":[{"kind":"JobSet","apiVersion":"x/v1","controller":true}]},"spec":{}})",
       "team-a", ""},
      {"of a CronJob",
       R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"},"ownerReferences":[{"kind":"CronJob","apiVersion":"batch/v1","controller":true}]},"spec":{}})",
       "team-a", kSuspendPatch},
      {"default queue, no labels", R"({"metadata":{},"spec":{}})", "with-default",
       R"([{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/metadata/labels/kueue.x-k8s.io~1queue-name","value":"default"},{"op":"add","path":"/spec/suspend","value":true}])"},
      {"default queue, other labels",
       R"({"metadata":{"labels":{"a":"b"}},"spec":{"suspend":true}})", "with-default",
       R"([{"op":"add","path":"/metadata/labels/kueue.x-k8s.io~1queue-name","value":"default"}])"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(PatchOf(Ask("/mutate-batch-v1-job", {"CREATE", P(c.job), {}, "alice", c.ns})),
              c.patch)
        << c.name;
  }
  Rules all = OurRules();
  all.manage_jobs_without_queue_name = true;
  EXPECT_EQ(
      PatchOf(Ask("/mutate-batch-v1-job", {"CREATE", P(R"({"metadata":{},"spec":{}})"), {}}, all)),
      kSuspendPatch);
}

TEST(WebhooksTest, HeldJobsStayHeldUnlessWeResumeThem) {
  const Json held =
      P(R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"suspend":true}})");
  const Json resumed =
      P(R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"suspend":false}})");
  const Json unlabelled = P(R"({"metadata":{},"spec":{}})");
  const Json plain_held = P(R"({"metadata":{},"spec":{"suspend":true}})");
  EXPECT_EQ(PatchOf(Ask("/mutate-batch-v1-job", {"UPDATE", resumed, held})), kSuspendPatch);
  EXPECT_EQ(PatchOf(Ask("/mutate-batch-v1-job", {"UPDATE", unlabelled, held})), kSuspendPatch);
  EXPECT_EQ(PatchOf(Ask("/mutate-batch-v1-job", {"UPDATE", resumed, held, kUs})), "");
  EXPECT_EQ(PatchOf(Ask("/mutate-batch-v1-job", {"UPDATE", resumed, resumed})), "");
  EXPECT_EQ(PatchOf(Ask("/mutate-batch-v1-job", {"UPDATE", unlabelled, plain_held})), "");
}

Rules PodRules() {
  Rules rules = OurRules();
  rules.pods = true;
  rules.deployments = true;
  return rules;
}

TEST(WebhooksTest, QueuedPodsAreHeldAndSayTheirRole) {
  const Json pod = P(
      R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"containers":[{"name":"c"}]}})");
  const std::string patch = PatchOf(Ask("/mutate--v1-pod", {"CREATE", pod, {}}, PodRules()));
  for (
      const char* part :
      {R"({"op":"add","path":"/metadata/labels/kueue.x-k8s.io~1managed","value":"true"})",
       R"({"op":"add","path":"/metadata/finalizers","value":["kueue.x-k8s.io/managed"]})",
       R"({"op":"add","path":"/spec/schedulingGates","value":[{"name":"kueue.x-k8s.io/admission"}]})",
       R"("path":"/metadata/annotations/kueue.x-k8s.io~1role-hash")"}) {
    EXPECT_THAT(patch, testing::HasSubstr(part));
  }
  EXPECT_EQ(PatchOf(Ask("/mutate--v1-pod", {"CREATE", pod, {}}, OurRules())), "");
  EXPECT_EQ(PatchOf(Ask("/mutate--v1-pod", {"CREATE", P(R"({"metadata":{},"spec":{}})"), {}},
                        PodRules())),
            "");
}

TEST(WebhooksTest, PodsOfJobsAreLeftAlone) {
  const Json pod = P(
      R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"},"ownerReferences":[{"kind":"Job","apiVersion":"batch/v1","controller":true}]},"spec":{}})");
  EXPECT_EQ(PatchOf(Ask("/mutate--v1-pod", {"CREATE", pod, {}}, PodRules())), "");
}

TEST(WebhooksTest, PodGroupsSayTheirSize) {
  const auto problems = [](const char* metadata) {
    return DenialOf(Ask("/validate--v1-pod",
                        {"CREATE", P(std::string(R"({"metadata":)") + metadata + "}"), {}},
                        PodRules()));
  };
  EXPECT_EQ(problems(R"({"labels":{"kueue.x-k8s.io/pod-group-name":"g"},)"
                     R"("annotations":{"kueue.x-k8s.io/pod-group-total-count":"2"}})"),
            "");
  EXPECT_THAT(problems(R"({"labels":{"kueue.x-k8s.io/pod-group-name":"g"}})"),
              testing::HasSubstr("pod-group-total-count]: must be set"));
  EXPECT_THAT(problems(R"({"annotations":{"kueue.x-k8s.io/pod-group-total-count":"2"}})"),
              testing::HasSubstr("pod-group-name]: must be set"));
  EXPECT_THAT(problems(R"({"labels":{"kueue.x-k8s.io/pod-group-name":"g"},)"
                       R"("annotations":{"kueue.x-k8s.io/pod-group-total-count":"0"}})"),
              testing::HasSubstr("greater than 0"));
  EXPECT_THAT(problems(R"({"labels":{"kueue.x-k8s.io/managed":"yes"}})"),
              testing::HasSubstr("can only be \"true\""));
}

TEST(WebhooksTest, ADeploymentHandsItsQueueToItsPods) {
  const Json deployment = P(
      R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"template":{"metadata":{"labels":{"app":"x"}}}}})");
  const std::string patch =
      PatchOf(Ask("/mutate-apps-v1-deployment", {"CREATE", deployment, {}}, PodRules()));
  for (
      const char* part :
      {R"({"op":"add","path":"/spec/template/metadata/annotations/kueue.x-k8s.io~1pod-suspending-parent","value":"deployment"})",
       R"({"op":"add","path":"/spec/template/metadata/labels/kueue.x-k8s.io~1queue-name","value":"q"})",
       R"({"op":"add","path":"/spec/template/metadata/labels/kueue.x-k8s.io~1managed","value":"true"})"}) {
    EXPECT_THAT(patch, testing::HasSubstr(part));
  }
  const Json running = P(
      R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{},"status":{"readyReplicas":1}})");
  const Json moved =
      P(R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"other"}},"spec":{}})");
  EXPECT_THAT(DenialOf(Ask("/validate-apps-v1-deployment", {"UPDATE", moved, running}, PodRules())),
              testing::HasSubstr("scale to 0 first"));
}

TEST(WebhooksTest, LabelledPodsJoinTheirGroup) {
  const Json pod = P(R"({"metadata":{"labels":{"tutti.dev/pod-group":"g1"}},"spec":{}})");
  EXPECT_EQ(PatchOf(Ask("/mutate--v1-pod", {"CREATE", pod, {}})),
            R"([{"op":"add","path":"/spec/schedulingGroup","value":{"podGroupName":"g1"}}])");
  const Json preset = P(
      R"({"metadata":{"labels":{"tutti.dev/pod-group":"g1"}},"spec":{"schedulingGroup":{"podGroupName":"x"}}})");
  EXPECT_EQ(PatchOf(Ask("/mutate--v1-pod", {"CREATE", preset, {}})), "");
  EXPECT_EQ(PatchOf(Ask("/mutate--v1-pod", {"CREATE", P(R"({"metadata":{},"spec":{}})"), {}})), "");
  Rules without = OurRules();
  without.pod_groups = false;
  EXPECT_EQ(PatchOf(Ask("/mutate--v1-pod", {"CREATE", pod, {}}, without)), "");
}

// A Job with these labels, annotations (JSON objects) and spec.
Json Job(const std::string& labels, const std::string& annotations = "{}",
         const std::string& spec = R"({"suspend":true,"parallelism":4})") {
  return P(R"({"metadata":{"name":"j","labels":)" + labels + R"(,"annotations":)" + annotations +
           R"(},"spec":)" + spec + "}");
}

TEST(WebhooksTest, JobRulesAtCreation) {
  struct Case {
    std::string labels;
    std::string annotations;
    std::string spec;
    std::string problem;  // "" = allowed
  };
  const std::string held = R"({"suspend":true,"parallelism":4})";
  const std::vector<Case> cases = {
      {R"({"kueue.x-k8s.io/queue-name":"q"})", "{}", held, ""},
      {R"({"kueue.x-k8s.io/queue-name":"Q_"})", "{}", held,
       "metadata.labels[kueue.x-k8s.io/queue-name]: not the name"},
      {R"({"kueue.x-k8s.io/queue-name":"q"})", "{}", R"({"parallelism":1})",
       "spec.suspend: a queued Job must be held"},
      {"{}", "{}", R"({"parallelism":1})", ""},
      {R"({"kueue.x-k8s.io/priority-class":"a b"})", "{}", held,
       "not the name of a WorkloadPriorityClass"},
      {R"({"kueue.x-k8s.io/max-exec-time-seconds":"60"})", "{}", held, ""},
      {R"({"kueue.x-k8s.io/max-exec-time-seconds":"0"})", "{}", held,
       "must be a number of seconds from 1"},
      {R"({"kueue.x-k8s.io/max-exec-time-seconds":"2147483648"})", "{}", held,
       "must be a number of seconds"},
      {R"({"kueue.x-k8s.io/max-exec-time-seconds":"-5"})", "{}", held,
       "must be a number of seconds"},
      {"{}", R"({"kueue.x-k8s.io/job-min-parallelism":"3"})", held, ""},
      {"{}", R"({"kueue.x-k8s.io/job-min-parallelism":"4"})", held, "must be a number from 1 to 3"},
      {"{}", R"({"kueue.x-k8s.io/job-min-parallelism":"2"})",
       R"({"suspend":true,"parallelism":4,"completions":2})", "must be a number from 1 to 1"},
      {"{}", R"({"kueue.x-k8s.io/job-completions-equal-parallelism":"yes"})", held,
       R"(must be "true" or "false")"},
      {"{}", R"({"kueue.x-k8s.io/job-completions-equal-parallelism":"true"})", held,
       "needs spec.completionMode"},
      {"{}", R"({"kueue.x-k8s.io/job-completions-equal-parallelism":"true"})",
       R"({"suspend":true,"parallelism":4,"completions":5,"completionMode":"Indexed"})",
       "spec.completions: must be equal"},
      {"{}", R"({"kueue.x-k8s.io/admission-gated-by":"example.com/a, example.com/b"})", held, ""},
      {"{}", R"({"kueue.x-k8s.io/admission-gated-by":"plain"})", held,
       "must have the form example.com/name"},
      {"{}", R"({"kueue.x-k8s.io/admission-gated-by":"a.b/c,a.b/c"})", held, "is named twice"},
      {"{}", R"({"kueue.x-k8s.io/prebuilt-workload-name":"-x"})", held,
       "not the name of a Workload"},
  };
  for (const Case& c : cases) {
    const std::string denial = DenialOf(
        Ask("/validate-batch-v1-job", {"CREATE", Job(c.labels, c.annotations, c.spec), {}}));
    EXPECT_EQ(denial.empty(), c.problem.empty()) << c.labels << c.annotations << denial;
    EXPECT_THAT(denial, testing::HasSubstr(c.problem)) << c.labels << c.annotations;
  }
}

TEST(WebhooksTest, JobRulesOnUpdate) {
  struct Case {
    std::string name;
    Json before;
    Json after;
    std::string problem;
  };
  const std::string run = R"({"suspend":false,"parallelism":4})";
  const std::vector<Case> cases = {
      {"queue while running", Job(R"({"kueue.x-k8s.io/queue-name":"a"})", "{}", run),
       Job(R"({"kueue.x-k8s.io/queue-name":"b"})", "{}", run),
       R"(cannot be changed from "a" to "b" while the Job runs)"},
      {"queue while held", Job(R"({"kueue.x-k8s.io/queue-name":"a"})"),
       Job(R"({"kueue.x-k8s.io/queue-name":"b"})"), ""},
      {"resumed by somebody", Job(R"({"kueue.x-k8s.io/queue-name":"a"})"),
       Job(R"({"kueue.x-k8s.io/queue-name":"a"})", "{}", run),
       "only the queue controller may resume"},
      {"priority removed", Job(R"({"kueue.x-k8s.io/priority-class":"p"})"), Job("{}"),
       "cannot be removed"},
      {"priority added while running", Job("{}", "{}", run),
       Job(R"({"kueue.x-k8s.io/priority-class":"p"})", "{}", run),
       "cannot be added while the Job runs"},
      {"priority changed while running", Job(R"({"kueue.x-k8s.io/priority-class":"p"})", "{}", run),
       Job(R"({"kueue.x-k8s.io/priority-class":"q"})", "{}", run), ""},
      {"time limit while running", Job("{}", "{}", run),
       Job(R"({"kueue.x-k8s.io/max-exec-time-seconds":"5"})", "{}", run),
       "can be changed only while the Job is suspended"},
      {"gate added", Job("{}"), Job("{}", R"({"kueue.x-k8s.io/admission-gated-by":"a.b/c"})"),
       "can't be added"},
      {"gate removed", Job("{}", R"({"kueue.x-k8s.io/admission-gated-by":"a.b/c,a.b/d"})"),
       Job("{}", R"({"kueue.x-k8s.io/admission-gated-by":"a.b/d"})"), ""},
      {"parallelism of a partial Job",
       Job("{}", R"({"kueue.x-k8s.io/job-min-parallelism":"2"})", run),
       Job("{}", R"({"kueue.x-k8s.io/job-min-parallelism":"2"})",
           R"({"suspend":false,"parallelism":5})"),
       "spec.parallelism: cannot be changed"},
      {"elastic", Job("{}"), Job("{}", R"({"kueue.x-k8s.io/elastic-job":"true"})"),
       "can be set only at creation"},
      {"prebuilt while running", Job("{}", "{}", run),
       Job("{}", R"({"kueue.x-k8s.io/prebuilt-workload-name":"w"})", run),
       "cannot be changed while the Job runs"},
      {"nothing", Job(R"({"kueue.x-k8s.io/queue-name":"a"})", "{}", run),
       Job(R"({"kueue.x-k8s.io/queue-name":"a"})", "{}", run), ""},
  };
  for (const Case& c : cases) {
    const std::string denial =
        DenialOf(Ask("/validate-batch-v1-job", {"UPDATE", c.after, c.before}));
    EXPECT_EQ(denial.empty(), c.problem.empty()) << c.name << ": " << denial;
    EXPECT_THAT(denial, testing::HasSubstr(c.problem)) << c.name;
    EXPECT_EQ(DenialOf(Ask("/validate-batch-v1-job", {"UPDATE", c.after, c.before, kUs})), "")
        << c.name;
  }
  const Json queued = Job(R"({"kueue.x-k8s.io/queue-name":"a"})");
  EXPECT_THAT(DenialOf(Ask("/validate-batch-v1-job",
                           {"UPDATE", Job("{}"), queued, "alice", "with-default"})),
              testing::HasSubstr("cannot be removed in a namespace with a default LocalQueue"));
}

Json ClusterQueue(const std::string& spec, const std::string& metadata = R"({"name":"cq"})") {
  return P(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":)" +
           metadata + R"(,"spec":)" + spec + "}");
}

constexpr const char* kGoodQueue =
    R"({"namespaceSelector":{},"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"4"}]}]}]})";

TEST(WebhooksTest, ClusterQueueRules) {
  struct Case {
    std::string spec;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {kGoodQueue, ""},
      {R"({"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"-4"}]}]}]})",
       "nominalQuota"},
      {R"({"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"memory","nominalQuota":"4"}]}]}]})",
       "spec.resourceGroups[0].flavors[0].resources[0].name"},
      {R"({"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"4","borrowingLimit":"1"}]}]}]})",
       "borrowingLimit"},
      {R"({"resourceGroups":[{"coveredResources":["-cpu"],"flavors":[{"name":"f","resources":[{"name":"-cpu","nominalQuota":"4"}]}]}]})",
       "spec.resourceGroups[0].coveredResources"},
      {R"({"namespaceSelector":{"matchLabels":{"a b":"c"}},"resourceGroups":[]})",
       "spec.namespaceSelector.matchLabels"},
      {R"({"resourceGroups":[],"admissionChecksStrategy":{"admissionChecks":[{"name":"c","onFlavors":["nope"]}]}})",
       R"(onFlavors: "nope" is not a flavor)"},
  };
  for (const Case& c : cases) {
    const std::string denial = DenialOf(
        Ask("/validate-kueue-x-k8s-io-v1beta2-clusterqueue", {"CREATE", ClusterQueue(c.spec), {}}));
    EXPECT_EQ(denial.empty(), c.problem.empty()) << c.spec << denial;
    EXPECT_THAT(denial, testing::HasSubstr(c.problem)) << c.spec;
  }
  // What is wrong already and unchanged doesn't block other updates.
  const Json old_checks = ClusterQueue(cases.back().spec);
  EXPECT_EQ(DenialOf(Ask("/validate-kueue-x-k8s-io-v1beta2-clusterqueue",
                         {"UPDATE", old_checks, old_checks})),
            "");
  // Neither does it keep a finalizer from going.
  const Json leaving =
      ClusterQueue(cases[1].spec, R"({"name":"cq","deletionTimestamp":"2026-01-01T00:00:00Z"})");
  EXPECT_EQ(
      DenialOf(Ask("/validate-kueue-x-k8s-io-v1beta2-clusterqueue", {"UPDATE", leaving, leaving})),
      "");
}

TEST(WebhooksTest, QueuesAndFlavorsGetTheirFinalizer) {
  const std::string path = "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue";
  EXPECT_EQ(
      PatchOf(Ask(path, {"CREATE", ClusterQueue("{}"), {}})),
      R"([{"op":"add","path":"/metadata/finalizers","value":["kueue.x-k8s.io/resource-in-use"]}])");
  EXPECT_EQ(
      PatchOf(Ask(path, {"CREATE", ClusterQueue("{}", R"({"name":"cq","finalizers":["x"]})"), {}})),
      R"([{"op":"add","path":"/metadata/finalizers/-","value":"kueue.x-k8s.io/resource-in-use"}])");
  EXPECT_EQ(
      PatchOf(Ask(
          path,
          {"CREATE",
           ClusterQueue("{}", R"({"name":"cq","finalizers":["kueue.x-k8s.io/resource-in-use"]})"),
           {}})),
      "");
}

TEST(WebhooksTest, CohortLendingMayExceedNominalButQuotasMayNotBeNegative) {
  const auto cohort = [](const std::string& quota) {
    return P(
        R"({"metadata":{"name":"c"},"spec":{"parentName":"p","resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu",)" +
        quota + "}]}]}]}}");
  };
  const std::string path = "/validate-kueue-x-k8s-io-v1beta2-cohort";
  EXPECT_EQ(DenialOf(Ask(path, {"CREATE", cohort(R"("nominalQuota":"1","lendingLimit":"5")"), {}})),
            "");
  EXPECT_THAT(DenialOf(Ask(path, {"CREATE", cohort(R"("nominalQuota":"-1")"), {}})),
              testing::HasSubstr("nominalQuota"));
}

TEST(WebhooksTest, ResourceFlavorRules) {
  struct Case {
    std::string spec;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {R"({"nodeLabels":{"gpu":"a100"},"nodeTaints":[{"key":"a/b","value":"c","effect":"NoSchedule"}],"tolerations":[{"operator":"Exists"}]})",
       ""},
      {R"({"nodeLabels":{"bad key":"x"}})", "spec.nodeLabels"},
      {R"({"nodeLabels":{"k":"bad value"}})", "spec.nodeLabels[k]"},
      {R"({"nodeTaints":[{"key":"!","effect":"NoSchedule"}]})", "spec.nodeTaints[0].key"},
      {R"({"nodeTaints":[{"key":"a","value":"-","effect":"NoSchedule"}]})",
       "spec.nodeTaints[0].value"},
      {R"({"nodeTaints":[{"key":"a","effect":"NoSchedule"},{"key":"a","value":"x","effect":"NoSchedule"}]})",
       "is there twice"},
      {R"({"nodeTaints":[{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoExecute"}]})",
       ""},
      {R"({"tolerations":[{"key":"a b","operator":"Exists"}]})", "spec.tolerations[0].key"},
      {R"({"tolerations":[{"operator":"Equal"}]})", "must be Exists where key is empty"},
  };
  for (const Case& c : cases) {
    const Json flavor = P(R"({"metadata":{"name":"f"},"spec":)" + c.spec + "}");
    const std::string denial =
        DenialOf(Ask("/validate-kueue-x-k8s-io-v1beta2-resourceflavor", {"CREATE", flavor, {}}));
    EXPECT_EQ(denial.empty(), c.problem.empty()) << c.spec << denial;
    EXPECT_THAT(denial, testing::HasSubstr(c.problem)) << c.spec;
  }
}

Json Workload(const std::string& pod_sets, const std::string& status = "{}",
              const std::string& annotations = "{}") {
  return P(R"({"metadata":{"name":"w","namespace":"team-a","annotations":)" + annotations +
           R"(},"spec":{"podSets":)" + pod_sets + R"(},"status":)" + status + "}");
}

constexpr const char* kMain =
    R"([{"name":"main","count":2,"template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}}])";
constexpr const char* kReserved =
    R"({"conditions":[{"type":"QuotaReserved","status":"True"}],"admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"main","flavors":{"cpu":"f"},"resourceUsage":{"cpu":"2"},"count":2}]}})";

TEST(WebhooksTest, WorkloadRules) {
  struct Case {
    std::string name;
    Json workload;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"good", Workload(kMain, kReserved), ""},
      {"label",
       Workload(
           R"([{"name":"main","count":1,"template":{"metadata":{"labels":{"a b":"c"}},"spec":{}}}])"),
       "spec.podSets[0].template.metadata.labels"},
      {"pods resource",
       Workload(
           R"([{"name":"main","count":1,"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"pods":"1"}}}]}}}])"),
       "spec.podSets[0].template.spec.containers[0].resources.limits: the resource name \"pods\" "
       "is reserved"},
      {"negative",
       Workload(
           R"([{"name":"main","count":1,"template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"-1"}}}]}}}])"),
       "spec.podSets[0].template"},
      {"slice",
       Workload(
           R"([{"name":"main","count":1,"topologyRequest":{"podSetSliceSize":2},"template":{"spec":{}}}])"),
       "must be set together"},
      {"two minCounts",
       Workload(
           R"([{"name":"a","count":2,"minCount":1,"template":{"spec":{}}},{"name":"b","count":2,"minCount":1,"template":{"spec":{}}}])"),
       "at most one entry may use minCount"},
      {"no admission",
       Workload(kMain, R"({"conditions":[{"type":"QuotaReserved","status":"True"}]})"),
       "status.admission: must be set"},
      {"unknown assignment",
       Workload(
           kMain,
           R"({"admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"other","count":1}]}})"),
       "status.admission.podSetAssignments[0].name"},
      {"indivisible",
       Workload(
           kMain,
           R"({"admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"main","resourceUsage":{"cpu":"1001m"},"count":2}]}})"),
       "can't be divided by the count 2"},
      {"reclaimable", Workload(kMain, R"({"reclaimablePods":[{"name":"main","count":3}]})"),
       "status.reclaimablePods[0].count: must be at most"},
      {"update of unknown podSet",
       Workload(
           kMain,
           R"({"admissionChecks":[{"name":"c","state":"Ready","podSetUpdates":[{"name":"x"}]}]})"),
       "status.admissionChecks[0].podSetUpdates[0].name"},
      {"gate", Workload(kMain, "{}", R"({"kueue.x-k8s.io/admission-gated-by":"plain"})"),
       "must have the form"},
  };
  for (const Case& c : cases) {
    const std::string denial =
        DenialOf(Ask("/validate-kueue-x-k8s-io-v1beta2-workload", {"CREATE", c.workload, {}}));
    EXPECT_EQ(denial.empty(), c.problem.empty()) << c.name << ": " << denial;
    EXPECT_THAT(denial, testing::HasSubstr(c.problem)) << c.name;
  }
}

TEST(WebhooksTest, WorkloadUpdateRules) {
  const std::string path = "/validate-kueue-x-k8s-io-v1beta2-workload";
  const std::string three =
      R"([{"name":"main","count":3,"template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}}])";
  const std::string elsewhere =
      R"({"conditions":[{"type":"QuotaReserved","status":"True"}],"admission":{"clusterQueue":"other","podSetAssignments":[{"name":"main","flavors":{"cpu":"f"},"resourceUsage":{"cpu":"2"},"count":2}]}})";
  const std::string with_topology =
      R"({"conditions":[{"type":"QuotaReserved","status":"True"}],"admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"main","flavors":{"cpu":"f"},"resourceUsage":{"cpu":"2"},"count":2,"topologyAssignment":{"levels":["a"]}}]}})";
  struct Case {
    std::string name;
    Json before;
    Json after;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"podSets while pending", Workload(kMain), Workload(three), ""},
      {"podSets while reserved", Workload(kMain, kReserved), Workload(three, kReserved),
       "spec.podSets: cannot be changed while quota is reserved"},
      {"admission set", Workload(kMain), Workload(kMain, kReserved), ""},
      {"admission cleared", Workload(kMain, kReserved), Workload(kMain), ""},
      {"admission changed", Workload(kMain, kReserved), Workload(kMain, elsewhere),
       "may be set or cleared, but not changed"},
      {"topology assigned later", Workload(kMain, kReserved), Workload(kMain, with_topology), ""},
      {"updates of a Ready check",
       Workload(
           kMain,
           R"({"admissionChecks":[{"name":"c","state":"Ready","podSetUpdates":[{"name":"main"}]}]})"),
       Workload(kMain, R"({"admissionChecks":[{"name":"c","state":"Ready"}]})"),
       "cannot be changed while the check is Ready"},
      {"cluster not nominated", Workload(kMain), Workload(kMain, R"({"clusterName":"x"})"),
       "status.clusterName"},
      {"cluster nominated", Workload(kMain, R"({"nominatedClusterNames":["x"]})"),
       Workload(kMain, R"({"clusterName":"x"})"), ""},
  };
  for (const Case& c : cases) {
    const std::string denial = DenialOf(Ask(path, {"UPDATE", c.after, c.before}));
    EXPECT_EQ(denial.empty(), c.problem.empty()) << c.name << ": " << denial;
    EXPECT_THAT(denial, testing::HasSubstr(c.problem)) << c.name;
  }
}

TEST(WebhooksTest, ReclaimedPodsStayReclaimedWhileReserved) {
  Json before = Workload(kMain, kReserved);
  before.At("status").Set("reclaimablePods", P(R"([{"name":"main","count":2}])"));
  Json after = Workload(kMain, kReserved);
  after.At("status").Set("reclaimablePods", P(R"([{"name":"main","count":1}])"));
  const std::string path = "/validate-kueue-x-k8s-io-v1beta2-workload";
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", after, before})),
              testing::HasSubstr("cannot become smaller"));
  EXPECT_EQ(DenialOf(Ask(path, {"UPDATE", before, after})), "");
}

TEST(WebhooksTest, JobsOfUnmanagedNamespacesAreLeftAlone) {
  Rules rules = OurRules();
  rules.manage_jobs_without_queue_name = true;
  rules.manages = [](const std::string& ns) { return ns == "team-a"; };
  const Json plain = P(R"({"metadata":{},"spec":{}})");
  const Json queued =
      P(R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"suspend":true}})");
  Json running = queued;
  running.At("spec").Set("suspend", false);
  const std::string path = "/mutate-batch-v1-job";
  EXPECT_EQ(PatchOf(Ask(path, {"CREATE", plain, {}}, rules)), kSuspendPatch);
  EXPECT_EQ(PatchOf(Ask(path, {"CREATE", plain, {}, "alice", "other"}, rules)), "");
  EXPECT_EQ(PatchOf(Ask(path, {"UPDATE", running, queued, "alice", "other"}, rules)), "");
  EXPECT_EQ(
      DenialOf(Ask("/validate-batch-v1-job", {"UPDATE", running, queued, "alice", "other"}, rules)),
      "");
}

TEST(WebhooksTest, WhereOthersMayResumeAJobTheyCantMoveItAsWell) {
  Rules rules = OurRules();
  rules.others_may_resume = true;
  const auto job = [](const char* queue, bool suspend) {
    return Json::Obj(
        {{"metadata", Json::Obj({{"labels", Json::Obj({{"kueue.x-k8s.io/queue-name", queue}})}})},
         {"spec", Json::Obj({{"suspend", suspend}})}});
  };
  const std::string path = "/validate-batch-v1-job";
  EXPECT_EQ(DenialOf(Ask(path, {"UPDATE", job("q", false), job("q", true)}, rules)), "");
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", job("r", false), job("q", true)}, rules)),
              testing::HasSubstr("cannot be changed from \"q\" to \"r\""));
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", job("q", false), job("q", true)})),
              testing::HasSubstr("spec.suspend: only the queue controller"));
  rules.manage_jobs_without_queue_name = true;
  const Json plain = P(R"({"metadata":{},"spec":{"suspend":true}})");
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", job("q", false), plain}, rules)),
              testing::HasSubstr("cannot be changed from"));
}

TEST(WebhooksTest, TheDefaultPriorityClassIsForNewQueuedJobsWithoutOne) {
  Rules rules = OurRules();
  rules.default_priority_class = true;
  const std::string path = "/mutate-batch-v1-job";
  const auto job = [](const std::string& labels) {
    return P(R"({"metadata":{"labels":)" + labels + R"(},"spec":{"suspend":true}})");
  };
  EXPECT_EQ(
      PatchOf(Ask(path, {"CREATE", job(R"({"kueue.x-k8s.io/queue-name":"q"})"), {}}, rules)),
      R"([{"op":"add","path":"/metadata/labels/kueue.x-k8s.io~1priority-class","value":"default"}])");
  EXPECT_EQ(PatchOf(Ask(path,
                        {"CREATE",
                         job(R"({"kueue.x-k8s.io/queue-name":"q",)"
                             R"("kueue.x-k8s.io/priority-class":"high"})"),
                         {}},
                        rules)),
            "");
  EXPECT_EQ(PatchOf(Ask(path, {"CREATE", job("{}"), {}}, rules)), "");
}

TEST(WebhooksTest, ElasticWorkloadsMayShrinkWhileReserved) {
  const std::string path = "/validate-kueue-x-k8s-io-v1beta2-workload";
  const auto of = [](int count, const char* reclaimed) {
    Json workload = Workload(
        "[{\"name\":\"main\",\"count\":" + std::to_string(count) + ",\"template\":{}}]", kReserved);
    workload.At("metadata").Set("annotations", P(R"({"kueue.x-k8s.io/elastic-job":"true"})"));
    workload.At("status").At("admission").At("podSetAssignments").MutableArray()[0].Set("count", 2);
    workload.At("status").Set("reclaimablePods", P(reclaimed));
    return workload;
  };
  constexpr const char* kOne = R"([{"name":"main","count":1}])";
  Rules elastic = OurRules();
  elastic.elastic_jobs = true;
  EXPECT_EQ(DenialOf(Ask(path, {"UPDATE", of(1, kOne), of(2, kOne)}, elastic)), "");
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", of(2, kOne), of(1, kOne)}, elastic)),
              testing::HasSubstr("spec.podSets: cannot be changed"));
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", of(1, kOne), of(2, kOne)})),
              testing::HasSubstr("spec.podSets: cannot be changed"));
  // Reclaimed pods are counted anew for the smaller set, and only then.
  EXPECT_EQ(DenialOf(Ask(path, {"UPDATE", of(1, "[]"), of(1, kOne)}, elastic)), "");
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", of(2, "[]"), of(2, kOne)}, elastic)),
              testing::HasSubstr("cannot become smaller"));
}

TEST(WebhooksTest, APriorityBoostIsANumberWhereItCounts) {
  const std::string path = "/validate-kueue-x-k8s-io-v1beta2-workload";
  const auto boosted = [](const char* boost) {
    Json workload = Workload(kMain);
    workload.At("metadata")
        .Set("annotations", Json::Obj({{"kueue.x-k8s.io/priority-boost", boost}}));
    return workload;
  };
  Rules rules = OurRules();
  rules.priority_boost = true;
  for (const char* good : {"0", "100", "-5", "+7"}) {
    EXPECT_EQ(DenialOf(Ask(path, {"CREATE", boosted(good), {}}, rules)), "") << good;
  }
  for (const char* bad : {"", "high", "1.5", "3000000000", "1 "}) {
    EXPECT_THAT(DenialOf(Ask(path, {"CREATE", boosted(bad), {}}, rules)),
                testing::HasSubstr("must be a valid signed integer"))
        << bad;
  }
  EXPECT_EQ(DenialOf(Ask(path, {"CREATE", boosted("high"), {}})), "") << "it doesn't count here";
}

TEST(WebhooksTest, AReservationWithoutAdmissionCanBeRepairedButNotMade) {
  const std::string path = "/validate-kueue-x-k8s-io-v1beta2-workload";
  const Json broken =
      Workload(kMain, R"({"conditions":[{"type":"QuotaReserved","status":"True","reason":"x"}]})");
  EXPECT_THAT(DenialOf(Ask(path, {"UPDATE", broken, Workload(kMain)})),
              testing::HasSubstr("status.admission: must be set"));
  EXPECT_EQ(DenialOf(Ask(path, {"UPDATE", broken, broken})), "");
}

TEST(WebhooksTest, MinCountGoesWithoutPartialAdmission) {
  const Json workload = Workload(
      R"([{"name":"a","count":2,"template":{}},{"name":"b","count":2,"minCount":1,"template":{}}])");
  const std::string path = "/mutate-kueue-x-k8s-io-v1beta2-workload";
  EXPECT_EQ(PatchOf(Ask(path, {"CREATE", workload, {}})),
            R"([{"op":"remove","path":"/spec/podSets/1/minCount"}])");
  Rules partial = OurRules();
  partial.partial_admission = true;
  EXPECT_EQ(PatchOf(Ask(path, {"CREATE", workload, {}}, partial)), "");
}

TEST(WebhooksTest, WhatIsNoReviewIsRefusedAndNothingElseCrashes) {
  EXPECT_EQ(Answer("/nope", Json(), OurRules()).error().code, ErrorCode::kNotFound);
  for (const std::string_view path : Paths()) {
    for (
        const char* text :
        {"null", "[]", "5", R"({"kind":"AdmissionReview"})",
         R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}})"}) {
      EXPECT_EQ(Answer(path, P(text), OurRules()).error().code, ErrorCode::kInvalid)
          << path << text;
    }
    // Objects of any shape give an answer.
    for (
        const char* object :
        {"null", "[]", R"({"metadata":5,"spec":[],"status":"x"})",
         R"({"metadata":{"name":"x","labels":[],"annotations":7,"ownerReferences":{}},"spec":{"podSets":[5,{"template":[]}],"resourceGroups":[1,{"flavors":[2]}]}})"}) {
      for (const char* operation : {"CREATE", "UPDATE", "DELETE"}) {
        const Json response = Ask(path, {operation, P(object), P(object)});
        EXPECT_TRUE(response["allowed"].IsBool());
      }
    }
  }
}

TEST(SyntaxTest, NamesAndLabels) {
  for (const char* good : {"a", "a-b.c", "0"}) {
    EXPECT_EQ(syntax::CheckSubdomain(good), "") << good;
  }
  for (const std::string& bad : {std::string(""), std::string("A"), std::string("-a"),
                                 std::string("a-"), std::string("a..b"), std::string(".a"),
                                 std::string("a."), std::string("a-.b"), std::string(254, 'a')}) {
    EXPECT_NE(syntax::CheckSubdomain(bad), "") << bad;
  }
  for (const char* good : {"a", "A_b.c-d", "example.com/Gpu"}) {
    EXPECT_EQ(syntax::CheckQualifiedName(good), "") << good;
  }
  for (const std::string& bad :
       {std::string(""), std::string("/a"), std::string("a/"), std::string("a b"),
        std::string("A/b"), std::string("a/b/c"), std::string(64, 'a')}) {
    EXPECT_NE(syntax::CheckQualifiedName(bad), "") << bad;
  }
  EXPECT_EQ(syntax::CheckLabelValue(""), "");
  EXPECT_EQ(syntax::CheckLabelValue("v1.2_x"), "");
  EXPECT_NE(syntax::CheckLabelValue("-x"), "");
  EXPECT_NE(syntax::CheckLabelValue(std::string(64, 'a')), "");
}

TEST(Base64Test, RoundTripsAndRefusesGarbage) {
  for (const std::string& text :
       {std::string(), std::string("f"), std::string("fo"), std::string("foo"),
        std::string("\0\xFF\x80", 3), std::string(1000, 'x')}) {
    EXPECT_EQ(DecodeBase64(EncodeBase64(text)).value(), text);
  }
  EXPECT_EQ(EncodeBase64("foob"), "Zm9vYg==");
  EXPECT_EQ(DecodeBase64("Zm9v\nYg==\n").value(), "foob");
  for (const char* bad : {"Zm9", "Zm9v!A==", "Z===", "=m9v", "Zm=v"}) {
    EXPECT_FALSE(DecodeBase64(bad)) << bad;
  }
}

}  // namespace
}  // namespace tutti::webhooks
