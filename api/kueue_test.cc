// SPDX-License-Identifier: Apache-2.0
#include "api/kueue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::api {
namespace {

using testing::HasSubstr;

Json Parsed(std::string_view text) {
  Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

ClusterQueue Queue(std::string_view spec) {
  Json json = Json::Obj({{"metadata", Json::Obj({{"name", "cq"}})}});
  json.Set("spec", Parsed(spec));
  Result<ClusterQueue> queue = ClusterQueueFromJson(json);
  EXPECT_TRUE(queue.has_value());
  return queue.value_or(ClusterQueue());
}

// A queue with one flavor and one resource, whose entry is given.
ClusterQueue QueueWith(std::string_view quota, std::string_view cohort = "team") {
  return Queue(R"({"cohortName":")" + std::string(cohort) +
               R"(","resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f",
               "resources":[)" +
               std::string(quota) + "]}]}]}");
}

Workload WorkloadOf(std::string_view spec, std::string_view status = "{}") {
  Json json = Json::Obj(
      {{"metadata",
        Json::Obj({{"name", "wl"}, {"namespace", "ns"}, {"uid", "u"}, {"resourceVersion", "7"}})}});
  json.Set("spec", Parsed(spec));
  json.Set("status", Parsed(status));
  Result<Workload> workload = WorkloadFromJson(json);
  EXPECT_TRUE(workload.has_value());
  return workload.value_or(Workload());
}

TEST(ClusterQueue, ReadsEveryFieldThatHasAMeaning) {
  const ClusterQueue queue = Queue(R"({
    "cohortName":"team","queueingStrategy":"StrictFIFO","namespaceSelector":{},
    "resourceGroups":[{"coveredResources":["cpu","memory"],"flavors":[
      {"name":"spot","resources":[
        {"name":"cpu","nominalQuota":"10","borrowingLimit":"5","lendingLimit":"2500m"},
        {"name":"memory","nominalQuota":"64Gi"}]}]}],
    "flavorFungibility":{"whenCanBorrow":"TryNextFlavor","whenCanPreempt":"TryNextFlavor",
                         "preference":"PreemptionOverBorrowing"},
    "preemption":{"withinClusterQueue":"LowerOrNewerEqualPriority","reclaimWithinCohort":"Any",
                  "borrowWithinCohort":{"policy":"LowerPriority","maxPriorityThreshold":100}},
    "stopPolicy":"HoldAndDrain",
    "admissionChecksStrategy":{"admissionChecks":[{"name":"prov","onFlavors":["spot"]}]},
    "fairSharing":{"weight":"500m"},"someNewField":{"x":1}})");
  EXPECT_EQ(queue.problem, "");
  EXPECT_EQ(queue.cohort, "team");
  EXPECT_TRUE(queue.strict_fifo);
  EXPECT_TRUE(queue.namespace_selector.Matches({}));
  ASSERT_EQ(queue.groups.size(), 1U);
  const ResourceQuota& cpu = queue.groups[0].flavors.at(0).resources.at(0);
  EXPECT_EQ(cpu.nominal.MilliValue(), 10000);
  EXPECT_EQ(cpu.borrowing_limit->Value(), 5);
  EXPECT_EQ(cpu.lending_limit->MilliValue(), 2500);
  EXPECT_FALSE(queue.groups[0].flavors[0].resources[1].borrowing_limit.has_value());
  EXPECT_TRUE(queue.fungibility.borrow_try_next);
  EXPECT_TRUE(queue.fungibility.preempt_try_next);
  EXPECT_TRUE(queue.fungibility.prefer_preemption_over_borrowing);
  EXPECT_EQ(queue.preemption.within_cluster_queue, PreemptionPolicy::kLowerOrNewerEqualPriority);
  EXPECT_EQ(queue.preemption.reclaim_within_cohort, PreemptionPolicy::kAny);
  EXPECT_TRUE(queue.preemption.borrow_within_cohort);
  EXPECT_EQ(queue.preemption.max_priority_threshold, 100);
  EXPECT_EQ(queue.stop_policy, StopPolicy::kHoldAndDrain);
  ASSERT_EQ(queue.admission_checks.size(), 1U);
  EXPECT_EQ(queue.admission_checks[0].on_flavors, std::vector<std::string>{"spot"});
  EXPECT_EQ(queue.fair_weight.MilliValue(), 500);
}

TEST(ClusterQueue, AbsentFieldsHaveTheApisDefaults) {
  const ClusterQueue queue = Queue("{}");
  EXPECT_EQ(queue.problem, "");
  EXPECT_FALSE(queue.strict_fifo);
  EXPECT_FALSE(queue.namespace_selector.Matches({}));
  EXPECT_FALSE(queue.fungibility.borrow_try_next);
  EXPECT_TRUE(queue.fungibility.preempt_try_next);
  EXPECT_EQ(queue.preemption.within_cluster_queue, PreemptionPolicy::kNever);
  EXPECT_EQ(queue.stop_policy, StopPolicy::kNone);
  EXPECT_EQ(queue.fair_weight.Value(), 1);
}

TEST(ClusterQueue, MalformedAndNegativeQuotasAreNamed) {
  EXPECT_THAT(QueueWith(R"({"name":"cpu","nominalQuota":"ten"})").problem,
              HasSubstr("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: \"ten\""));
  EXPECT_THAT(QueueWith(R"({"name":"cpu","nominalQuota":"-1"})").problem,
              HasSubstr("nominalQuota: \"-1\" must not be negative"));
  EXPECT_THAT(QueueWith(R"({"name":"cpu"})").problem, HasSubstr("nominalQuota: is missing"));
  EXPECT_THAT(QueueWith(R"({"name":"cpu","nominalQuota":"1","borrowingLimit":"-2"})").problem,
              HasSubstr("borrowingLimit: \"-2\""));
  EXPECT_EQ(QueueWith(R"({"name":"cpu","nominalQuota":"-1"})")
                .groups[0]
                .flavors[0]
                .resources[0]
                .nominal.Value(),
            0);
}

TEST(ClusterQueue, QuotaBeyond64BitsIsNoLimitAtAll) {
  const ClusterQueue queue = QueueWith(R"({"name":"cpu","nominalQuota":"1e30"})");
  EXPECT_EQ(queue.problem, "");
  EXPECT_EQ(ToAmount("cpu", queue.groups[0].flavors[0].resources[0].nominal), INT64_MAX);
}

TEST(ClusterQueue, LimitsThatContradictAreNamed) {
  EXPECT_THAT(QueueWith(R"({"name":"cpu","nominalQuota":"1","lendingLimit":"2"})").problem,
              HasSubstr("lendingLimit: \"2\" must not be above nominalQuota \"1\""));
  EXPECT_THAT(QueueWith(R"({"name":"cpu","nominalQuota":"1","borrowingLimit":"2"})", "").problem,
              HasSubstr("borrowingLimit: has no meaning without cohortName"));
  EXPECT_THAT(QueueWith(R"({"name":"cpu","nominalQuota":"1","lendingLimit":"1"})", "").problem,
              HasSubstr("lendingLimit: has no meaning without cohortName"));
}

TEST(ClusterQueue, ResourcesMustRepeatCoveredResourcesInOrder) {
  EXPECT_THAT(QueueWith(R"({"name":"memory","nominalQuota":"1"})").problem,
              HasSubstr("resources[0].name: \"memory\" must be coveredResources[0], \"cpu\""));
  EXPECT_THAT(QueueWith("").problem, HasSubstr("has 0 entries, coveredResources has 1"));
  const char* twice = R"({"resourceGroups":[
    {"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu",
                                            "nominalQuota":"1"}]}]},
    {"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu",
                                            "nominalQuota":"1"}]}]}]})";
  EXPECT_THAT(Queue(twice).problem,
              HasSubstr("spec.resourceGroups[1].coveredResources[0]: \"cpu\" is covered twice"));
  EXPECT_THAT(Queue(twice).problem,
              HasSubstr("spec.resourceGroups[1].flavors[0].name: \"f\" is used twice"));
}

TEST(ClusterQueue, UnknownValuesAndForbiddenCombinationsAreNamed) {
  EXPECT_THAT(Queue(R"({"queueingStrategy":"LIFO"})").problem,
              HasSubstr("spec.queueingStrategy: \"LIFO\" must be one of BestEffortFIFO"));
  EXPECT_THAT(Queue(R"({"stopPolicy":7})").problem, HasSubstr("spec.stopPolicy: 7 must be one"));
  EXPECT_THAT(Queue(R"({"preemption":{"borrowWithinCohort":{"policy":"LowerPriority"}}})").problem,
              HasSubstr("needs reclaimWithinCohort other than Never"));
  EXPECT_THAT(Queue(R"({"flavorFungibility":{"preference":"BorrowingOverPreemption"}})").problem,
              HasSubstr("preference: needs whenCanBorrow"));
  EXPECT_THAT(Queue(R"({"fairSharing":{"weight":"1n"}})").problem,
              HasSubstr("spec.fairSharing.weight: \"1n\" must be 0 or more than 1n"));
  EXPECT_EQ(Queue(R"({"fairSharing":{"weight":"0"}})").problem, "");
  EXPECT_EQ(Queue(R"({"fairSharing":{"weight":"2n"}})").problem, "");
  EXPECT_THAT(
      Queue(R"({"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"X"}]}})").problem,
      HasSubstr("spec.namespaceSelector: matchExpressions[0].operator"));
}

TEST(ClusterQueue, StatusTextIsTheSameForEqualContent) {
  const char* a = R"({"metadata":{"name":"q"},"status":{"pendingWorkloads":1,"conditions":[]}})";
  const char* b = R"({"metadata":{"name":"q"},"status":{"conditions":[],"pendingWorkloads":1}})";
  EXPECT_EQ(ClusterQueueFromJson(Parsed(a))->status_json,
            ClusterQueueFromJson(Parsed(b))->status_json);
}

TEST(Cohort, MayLendMoreThanItsOwnQuota) {
  const auto cohort = CohortFromJson(Parsed(R"({"metadata":{"name":"c"},"spec":{"parentName":"p",
    "resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[
      {"name":"cpu","nominalQuota":"1","lendingLimit":"5"}]}]}]}})"));
  ASSERT_TRUE(cohort.has_value());
  EXPECT_EQ(cohort->problem, "");
  EXPECT_EQ(cohort->parent, "p");
  const auto root = CohortFromJson(Parsed(R"({"metadata":{"name":"c"},"spec":{
    "resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[
      {"name":"cpu","nominalQuota":"1","lendingLimit":"1"}]}]}]}})"));
  EXPECT_THAT(root->problem, HasSubstr("has no meaning without parentName"));
}

TEST(SmallKueueKinds, AreDecoded) {
  const auto queue = LocalQueueFromJson(Parsed(
      R"({"metadata":{"name":"q","namespace":"ns"},"spec":{"clusterQueue":"cq","stopPolicy":"Hold"}})"));
  EXPECT_EQ(queue->cluster_queue, "cq");
  EXPECT_EQ(queue->stop_policy, StopPolicy::kHold);
  const auto flavor = ResourceFlavorFromJson(Parsed(R"({"metadata":{"name":"f"},"spec":{
    "nodeLabels":{"a":"b"},"nodeTaints":[{"key":"t","effect":"NoSchedule"}],
    "tolerations":[{"operator":"Exists"}],"topologyName":"rack"}})"));
  EXPECT_EQ(flavor->node_labels.at("a"), "b");
  EXPECT_EQ(flavor->node_taints.size(), 1U);
  EXPECT_EQ(flavor->tolerations.size(), 1U);
  EXPECT_EQ(flavor->topology_name, "rack");
  const auto check =
      AdmissionCheckFromJson(Parsed(R"({"metadata":{"name":"a"},"spec":{"controllerName":"x/y",
                                "parameters":{"apiGroup":"g","kind":"K","name":"n"}}})"));
  EXPECT_EQ(check->controller, "x/y");
  EXPECT_EQ(check->parameters, (CheckParameters{"g", "K", "n"}));
  EXPECT_EQ(TopologyFromJson(Parsed(R"({"metadata":{"name":"t"},"spec":{"levels":[
                {"nodeLabel":"rack"},{"nodeLabel":"kubernetes.io/hostname"}]}})"))
                ->levels,
            (std::vector<std::string>{"rack", "kubernetes.io/hostname"}));
  EXPECT_EQ(WorkloadPriorityClassFromJson(
                Parsed(R"({"metadata":{"name":"w"},"value":99999999999,"description":"d"})"))
                ->value,
            INT32_MAX);
}

TEST(Workload, SpecSurvivesARoundTrip) {
  const char* spec = R"({"queueName":"q","podSets":[
    {"name":"driver","count":1,"template":{"spec":{"containers":[{"name":"c"}]}}},
    {"name":"workers","count":8,"minCount":2,"template":{"metadata":{"labels":{"a":"b"}},
     "spec":{"containers":[]}},"topologyRequest":{"required":"rack"}}],
    "priority":-5,"priorityClassRef":{"group":"kueue.x-k8s.io","kind":"WorkloadPriorityClass",
    "name":"low"},"active":false,"maximumExecutionTimeSeconds":60})";
  const Workload workload = WorkloadOf(spec);
  EXPECT_EQ(workload.problem, "");
  EXPECT_EQ(ToJson(workload)["spec"], Parsed(spec));
  EXPECT_FALSE(ToJson(workload)["metadata"].Has("uid"));
  EXPECT_FALSE(ToJson(workload).Has("status"));
}

TEST(Workload, AbsentFieldsHaveTheApisDefaults) {
  const Workload workload = WorkloadOf(R"({"podSets":[{"template":{}}]})");
  EXPECT_EQ(workload.problem, "");
  EXPECT_TRUE(workload.active);
  EXPECT_EQ(workload.pod_sets.at(0).name, "main");
  EXPECT_EQ(workload.pod_sets[0].count, 1);
  EXPECT_TRUE(workload.pod_sets[0].topology_request.IsNull());
  EXPECT_FALSE(workload.QuotaReserved());
}

TEST(Workload, WhatIsWrongIsNamed) {
  EXPECT_THAT(WorkloadOf("{}").problem, HasSubstr("spec.podSets: must have at least one"));
  EXPECT_THAT(WorkloadOf(R"({"podSets":[{"name":"a"},{"name":"a"}]})").problem,
              HasSubstr("spec.podSets[1].name: \"a\" is used twice"));
  EXPECT_THAT(WorkloadOf(R"({"podSets":[{"count":2,"minCount":3}]})").problem,
              HasSubstr("spec.podSets[0].minCount: 3 must be between 1 and count, 2"));
  EXPECT_THAT(
      WorkloadOf(R"({"podSets":[{"name":"a","minCount":1},{"name":"b","minCount":1}]})").problem,
      HasSubstr("at most one entry may use minCount"));
  EXPECT_THAT(WorkloadOf(R"({"podSets":[{"count":-1}]})").problem,
              HasSubstr("spec.podSets[0].count: must not be negative"));
  EXPECT_THAT(
      WorkloadOf(R"({"podSets":[{"template":{"spec":{"containers":[{"resources":{"requests":
                 {"cpu":"x"}}}]}}}]})")
          .problem,
      HasSubstr("spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: \"x\""));
  EXPECT_THAT(WorkloadOf(R"({"podSets":[{}]})", R"({"admission":{"clusterQueue":"q",
                "podSetAssignments":[{"resourceUsage":{"cpu":"??"}}]}})")
                  .problem,
              HasSubstr("status.admission.podSetAssignments[0].resourceUsage[cpu]"));
}

TEST(Workload, NumbersOutOfRangeDoNotWrap) {
  const Workload workload = WorkloadOf(R"({"podSets":[{"count":4294967297}],"priority":-1e20})");
  EXPECT_EQ(workload.pod_sets[0].count, INT32_MAX);
  EXPECT_EQ(workload.priority, INT32_MIN);
}

constexpr const char* kFullStatus = R"({
  "conditions":[
    {"type":"QuotaReserved","status":"True","reason":"QuotaReserved","message":"m",
     "lastTransitionTime":"2026-11-30T09:00:00Z","observedGeneration":1},
    {"type":"PodsReady","status":"False","reason":"WaitForStart","message":"",
     "lastTransitionTime":"2026-11-30T09:00:00Z"},
    {"type":"WaitingForReplacementPods","status":"True","reason":"R","message":"",
     "lastTransitionTime":"2026-11-30T09:00:00Z"}],
  "admission":{"clusterQueue":"cq","podSetAssignments":[
    {"name":"main","flavors":{"cpu":"spot"},"resourceUsage":{"cpu":"4"},"count":2,
     "topologyAssignment":{"levels":["rack"],"slices":[]}}]},
  "admissionChecks":[{"name":"prov","state":"Pending","lastTransitionTime":"2026-11-30T09:00:00Z",
    "message":"","podSetUpdates":[{"name":"main","nodeSelector":{"a":"b"}}],"retryCount":2,
    "requeueAfterSeconds":30}],
  "requeueState":{"count":3,"requeueAt":"2026-11-30T10:00:00Z"},
  "reclaimablePods":[{"name":"main","count":1}],
  "schedulingStats":{"evictions":[{"reason":"Preempted","underlyingCause":"","count":2}]},
  "accumulatedPastExecutionTimeSeconds":17,
  "clusterName":"worker-1"})";

TEST(StatusApplyBody, CarriesTheWholeSetOfItsManagerAndNothingElse) {
  const Workload workload = WorkloadOf(R"({"podSets":[{}]})", kFullStatus);
  EXPECT_TRUE(workload.QuotaReserved());
  Json expected = Parsed(kFullStatus);
  expected.Erase("reclaimablePods");                    // another manager's
  expected.At("conditions").MutableArray().pop_back();  // not one of the nine
  const Json body = StatusApplyBody(workload, /*strict=*/true);
  EXPECT_EQ(body["status"], expected);
  EXPECT_EQ(body["apiVersion"], Json("kueue.x-k8s.io/v1beta2"));
  EXPECT_EQ(body["kind"], Json("Workload"));
  EXPECT_EQ(body["metadata"].Dump(),
            R"({"name":"wl","namespace":"ns","uid":"u","resourceVersion":"7"})");
  EXPECT_FALSE(body.Has("spec"));
}

TEST(StatusApplyBody, LooseHasNoResourceVersion) {
  const Json body = StatusApplyBody(WorkloadOf(R"({"podSets":[{}]})"), /*strict=*/false);
  EXPECT_EQ(body["metadata"].Dump(), R"({"name":"wl","namespace":"ns","uid":"u"})");
  EXPECT_EQ(body["status"].Dump(), "{}");
}

TEST(StatusApplyBody, ResourceRequestsEndWithTheAdmission) {
  Workload workload = WorkloadOf(R"({"podSets":[{}]})",
                                 R"({"resourceRequests":[{"name":"main","resources":{"cpu":"4"}},
                                     {"name":"empty"}]})");
  EXPECT_EQ(StatusApplyBody(workload, false)["status"]["resourceRequests"].Dump(),
            R"([{"name":"main","resources":{"cpu":"4"}},{"name":"empty"}])");
  workload.status.admission = Admission{"cq", {}};
  EXPECT_FALSE(StatusApplyBody(workload, false)["status"].Has("resourceRequests"));
}

TEST(StatusApplyBody, WritesAllNineConditions) {
  Workload workload = WorkloadOf(R"({"podSets":[{}]})");
  for (const char* type :
       {"QuotaReserved", "Admitted", "Evicted", "Preempted", "Requeued", "PodsReady",
        "DeactivationTarget", "Finished", "BlockedOnPreemptionGates", "Foreign"}) {
    SetCondition(workload.status.conditions, {type, "True", "R", "", {}, 0}, kNoTime);
  }
  EXPECT_EQ(StatusApplyBody(workload, false)["status"]["conditions"].AsArray().size(), 9U);
}

TEST(WorkloadStatus, SurvivesARoundTripThroughItsOwnApply) {
  const Workload workload = WorkloadOf(R"({"podSets":[{}]})", kFullStatus);
  WorkloadStatus expected = workload.status;
  expected.reclaimable_pods.clear();
  RemoveCondition(expected.conditions, "WaitingForReplacementPods");
  EXPECT_EQ(WorkloadStatusFromJson(StatusApplyBody(workload, true)["status"]), expected);
}

TEST(KueueDecoders, OddContentNeverFails) {
  for (const char* part : {"null", "[]", "7", R"("x")", R"({"podSets":[1,null,[]]})",
                           R"({"resourceGroups":[1,{"flavors":[2,{"resources":[3]}]}]})",
                           R"({"conditions":{},"admission":[],"admissionChecks":[1]})",
                           R"({"admission":{"podSetAssignments":[7]},"requeueState":"x"})"}) {
    SCOPED_TRACE(part);
    Json json = Json::Obj({{"metadata", Json::Obj({{"name", "n"}})}});
    json.Set("spec", Parsed(part));
    json.Set("status", Parsed(part));
    EXPECT_TRUE(ClusterQueueFromJson(json).has_value());
    EXPECT_TRUE(CohortFromJson(json).has_value());
    EXPECT_TRUE(LocalQueueFromJson(json).has_value());
    EXPECT_TRUE(ResourceFlavorFromJson(json).has_value());
    EXPECT_TRUE(AdmissionCheckFromJson(json).has_value());
    EXPECT_TRUE(TopologyFromJson(json).has_value());
    EXPECT_TRUE(WorkloadPriorityClassFromJson(json).has_value());
    EXPECT_TRUE(WorkloadFromJson(json).has_value());
  }
  EXPECT_EQ(WorkloadFromJson(Json::Obj()).error().code, ErrorCode::kDecode);
}

}  // namespace
}  // namespace tutti::api
