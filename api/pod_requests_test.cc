// SPDX-License-Identifier: Apache-2.0
#include "api/pod_requests.h"

#include <fstream>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Json Parsed(std::string_view text) {
  Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

PodShape Shape(std::string_view text, const PodContext& context = {}) {
  Result<PodShape> shape = ShapeOf(Parsed(text), context);
  EXPECT_TRUE(shape.has_value()) << (shape ? "" : shape.error().message);
  return shape.value_or(PodShape());
}

std::string ErrorOf(std::string_view text, const PodContext& context = {}) {
  const Result<PodShape> shape = ShapeOf(Parsed(text), context);
  return shape ? "no error" : shape.error().message;
}

LimitRange Range(std::string_view limits) {
  Json json = Json::Obj({{"metadata", Json::Obj({{"name", "range"}, {"namespace", "ns"}})}});
  json.At("spec").Set("limits", Parsed(limits));
  Result<LimitRange> range = LimitRangeFromJson(json);
  EXPECT_TRUE(range.has_value());
  return range.value_or(LimitRange());
}

// The cases and the expected numbers were made with SetObjectDefaults_Pod, LimitRanger's
// PodMutateLimitFunc, component-helpers' PodRequests and the scheduler's GetHostPorts, v1.36.3.
TEST(PodShape, AgreesWithKubernetesOnTheTable) {
  std::ifstream file(std::string(TUTTI_SOURCE_DIR) + "/api/testdata/pods.json");
  ASSERT_TRUE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  const Json cases = Parsed(text.str());
  ASSERT_GT(cases.AsArray().size(), 40U);
  for (const Json& test : cases.AsArray()) {
    SCOPED_TRACE(test["name"].AsString());
    std::vector<LimitRange> ranges;
    for (Json range : test["limitRanges"].AsArray()) {
      ranges.push_back(LimitRangeFromJson(range).value_or(LimitRange()));
    }
    RuntimeClass runtime_class;
    PodContext context;
    for (const LimitRange& range : ranges) {
      context.limit_ranges.push_back(&range);
    }
    if (test.Has("runtimeClassOverhead")) {
      runtime_class.overhead =
          ResourceListFromJson(test["runtimeClassOverhead"]).value_or(ResourceList());
      context.runtime_class = &runtime_class;
    }
    const Result<PodShape> shape =
        test["running"].AsBool() ? ShapeOfRunning(test["pod"]) : ShapeOf(test["pod"], context);
    ASSERT_TRUE(shape.has_value()) << shape.error().message;
    Amounts expected;
    for (const auto& [resource, amount] : test["requests"].AsObject()) {
      expected[resource] = amount.AsInt();
    }
    EXPECT_EQ(shape->requests, expected);
    std::vector<std::string> ports;
    for (const HostPort& port : shape->host_ports) {
      ports.push_back(port.ip + "/" + port.protocol + "/" + std::to_string(port.port));
    }
    std::sort(ports.begin(), ports.end());
    std::vector<std::string> expected_ports;
    for (const Json& port : test["hostPorts"].AsArray()) {
      expected_ports.push_back(port.AsString());
    }
    EXPECT_EQ(ports, expected_ports);
  }
}

TEST(PodShape, NamesTheFieldOfAMalformedQuantity) {
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[{"resources":{"requests":{"cpu":"one"}}}]}})"),
              HasSubstr("spec.template.spec.containers[0].resources.requests[cpu]: \"one\""));
  PodContext context;
  context.path = "spec.podSets[1].template";
  EXPECT_THAT(
      ErrorOf(R"({"spec":{"initContainers":[{},{"resources":{"limits":{"memory":"-1Gi"}}}]}})",
              context),
      HasSubstr("spec.podSets[1].template.spec.initContainers[1].resources.limits[memory]: "
                "\"-1Gi\" must not be negative"));
  context.path = "";
  EXPECT_THAT(ErrorOf(R"({"spec":{"overhead":{"cpu":"x"}}})", context),
              HasSubstr("spec.overhead[cpu]"));
  EXPECT_THAT(ErrorOf(R"({"spec":{"resources":{"requests":{"cpu":"x"}}}})", context),
              HasSubstr("spec.resources.requests[cpu]"));
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[{"resources":{"requests":["cpu"]}}]}})", context),
              HasSubstr("spec.containers[0].resources.requests: must be a map"));
}

// known-bugs D8: the API server refuses it in a Job; a Workload may have been stored without that.
TEST(PodShape, ANegativeRequestDoesNotOffsetThatOfAnotherContainer) {
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[
      {"resources":{"requests":{"nvidia.com/gpu":"4"},"limits":{"nvidia.com/gpu":"4"}}},
      {"resources":{"requests":{"nvidia.com/gpu":"-2"},"limits":{"nvidia.com/gpu":"-2"}}}]}})"),
              HasSubstr("containers[1].resources.requests[nvidia.com/gpu]: \"-2\" must not "
                        "be negative"));
}

TEST(PodShape, RefusesAmountsBeyond64Bits) {
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[{"resources":{"requests":{"cpu":"1e16"}}}]}})"),
              HasSubstr("total request of cpu"));
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[
      {"resources":{"requests":{"memory":"5E"}}},{"resources":{"requests":{"memory":"5E"}}}]}})"),
              HasSubstr("total request of memory"));
  EXPECT_EQ(Shape(R"({"spec":{"containers":[{"resources":{"requests":
                      {"memory":"9223372036854775807"}}}]}})")
                .requests.at("memory"),
            std::numeric_limits<int64_t>::max());
}

TEST(PodShape, RefusesRequestsAboveLimitsAlsoThoseOfALimitRange) {
  EXPECT_THAT(ErrorOf(R"({"spec":{"containers":[{"resources":
                  {"requests":{"cpu":"3"},"limits":{"cpu":"2"}}}]}})"),
              HasSubstr("spec.containers[0]: Invalid value: [\"cpu\"]: requests must not exceed "
                        "its limits (cpu: 3 > 2)"));
  const LimitRange range = Range(R"([{"type":"Container","default":{"cpu":"2"}}])");
  PodContext context;
  context.limit_ranges = {&range};
  EXPECT_THAT(
      ErrorOf(R"({"spec":{"containers":[{"resources":{"requests":{"cpu":"3"}}}]}})", context),
      HasSubstr("cpu: 3 > 2"));
}

TEST(PodShape, ReadsSelectorsTolerationsAndAffinity) {
  const PodShape shape = Shape(R"({"spec":{
    "nodeSelector":{"zone":"a"},
    "tolerations":[{"key":"gpu","operator":"Exists","effect":"NoSchedule"},
                   {"key":"x","value":"y","tolerationSeconds":5}],
    "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{
      "nodeSelectorTerms":[{},{"matchExpressions":[{"key":"k","operator":"In","values":["v"]}],
                               "matchFields":[{"key":"metadata.name","operator":"In",
                                               "values":["n1"]}]}]}}},
    "schedulerName":"default-scheduler","nodeName":"n7"}})");
  EXPECT_EQ(shape.node_selector, (StringMap{{"zone", "a"}}));
  ASSERT_THAT(shape.tolerations, SizeIs(2));
  EXPECT_EQ(shape.tolerations[1].seconds, 5);
  EXPECT_TRUE(shape.has_required_affinity);
  ASSERT_THAT(shape.required_affinity, SizeIs(1));  // the empty term can never match
  EXPECT_TRUE(shape.required_affinity[0].Matches({{"k", "v"}}, "n1"));
  EXPECT_FALSE(shape.required_affinity[0].Matches({{"k", "v"}}, "n2"));
  EXPECT_EQ(shape.scheduler_name, "");
  EXPECT_EQ(shape.node_name, "n7");
}

TEST(PodShape, KeepsThatAffinityWasAskedThoughNoTermCanMatch) {
  const PodShape shape = Shape(R"({"spec":{"affinity":{"nodeAffinity":
      {"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}}})");
  EXPECT_TRUE(shape.has_required_affinity);
  EXPECT_THAT(shape.required_affinity, IsEmpty());
}

TEST(PodShape, FlagsWhatIsLeftToTheScheduler) {
  EXPECT_EQ(Shape(R"({"spec":{"volumes":[{"name":"e","emptyDir":{}}],"affinity":{"podAffinity":
      {"preferredDuringSchedulingIgnoredDuringExecution":[{}]}},
      "topologySpreadConstraints":[{"whenUnsatisfiable":"ScheduleAnyway"}]}})"),
            PodShape());
  const PodShape shape = Shape(R"({"spec":{
    "affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}},
    "topologySpreadConstraints":[{"whenUnsatisfiable":"DoNotSchedule"}],
    "volumes":[{"name":"d","rbd":{"image":"i"}}],
    "schedulingGates":[{"name":"wait"}]}})");
  EXPECT_TRUE(shape.has_pod_affinity);
  EXPECT_TRUE(shape.has_topology_spread);
  EXPECT_TRUE(shape.has_inline_disks);
  EXPECT_TRUE(shape.has_scheduling_gates);
}

TEST(PodShape, KeepsTheClaimsInThePodsOrder) {
  const PodShape shape = Shape(R"({"spec":{"resourceClaims":[
    {"name":"gpu","resourceClaimTemplateName":"one-gpu"},
    {"name":"net","resourceClaimName":"fabric"}]}})");
  EXPECT_EQ(shape.claims, (std::vector<PodClaim>{{"gpu", "", "one-gpu"}, {"net", "fabric", ""}}));
  EXPECT_NE(InternShape(shape), InternShape(PodShape()));
}

TEST(PodShape, KeepsTheClaimsOfItsVolumes) {
  const PodShape shape = Shape(R"({"spec":{"volumes":[
    {"name":"cache","emptyDir":{}},
    {"name":"data","persistentVolumeClaim":{"claimName":"set"}},
    {"name":"scratch","ephemeral":{"volumeClaimTemplate":{
      "metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"old"}},
      "spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"fast","volumeMode":"Block",
              "selector":{"matchLabels":{"tier":"1"}},
              "resources":{"requests":{"storage":"10Gi"}}}}}}]}})");
  ASSERT_TRUE(shape.volumes);
  ASSERT_EQ(shape.volumes->claims.size(), 2);
  EXPECT_EQ(shape.volumes->claims[0], (PodVolume{"data", "set", std::nullopt}));
  const PodVolume& made = shape.volumes->claims[1];
  ASSERT_TRUE(made.made);
  EXPECT_EQ(made.made->storage_class, "old");  // the annotation goes before the field
  EXPECT_TRUE(made.made->block);
  EXPECT_EQ(made.made->storage, *Quantity::Parse("10Gi"));
  EXPECT_TRUE(made.made->selector.Matches({{"tier", "1"}}));
  EXPECT_NE(InternShape(shape), InternShape(PodShape()));
}

TEST(PodShape, NamesTheVolumeWhoseTemplateCantBeRead) {
  const Result<PodShape> shape = ShapeOf(*Json::Parse(R"({"spec":{"volumes":[
    {"name":"scratch","ephemeral":{"volumeClaimTemplate":{
      "spec":{"resources":{"requests":{"storage":"much"}}}}}}]}})"),
                                         {});
  ASSERT_FALSE(shape);
  EXPECT_THAT(shape.error().message, testing::HasSubstr("volumes[scratch]"));
  EXPECT_THAT(shape.error().message, testing::HasSubstr("storage"));
}

TEST(PodShape, KeepsWhatEachContainerAsksOfResourcesThatMayBeDevices) {
  const PodShape shape = Shape(R"({"spec":{
    "initContainers":[
      {"name":"i","resources":{"requests":{"cpu":"1","nvidia.com/gpu":"2"}}},
      {"name":"s","restartPolicy":"Always","resources":{"limits":{"nvidia.com/gpu":"1"}}}],
    "containers":[
      {"name":"a","resources":{"requests":{
        "deviceclass.resource.kubernetes.io/gpu":"3","example.com/half":"500m",
        "kubernetes.io/native":"1","nvidia.com/gpu":"0"}}}]}})");
  EXPECT_EQ(
      shape.container_resources,
      (std::vector<ContainerResource>{{0, true, "nvidia.com/gpu", 2, 1},
                                      {1, false, "nvidia.com/gpu", 1, 0},
                                      {2, false, "deviceclass.resource.kubernetes.io/gpu", 3, 0}}));
}

TEST(PodShape, OddTypesNeverCrash) {
  for (const char* text :
       {"null", "[]", "{}", R"({"spec":[]})", R"({"spec":{"containers":{}}})",
        R"({"spec":{"containers":[1,null,"x",[]]}})", R"({"spec":{"nodeSelector":[1]}})",
        R"({"spec":{"containers":[{"ports":[{"hostPort":99999999999}]}]}})"}) {
    EXPECT_TRUE(ShapeOf(Parsed(text), {}).has_value()) << text;
  }
  EXPECT_THAT(ErrorOf(R"({"spec":{"tolerations":{}}})"), HasSubstr("spec.tolerations"));
}

TEST(PodShape, EqualShapesShareOnePointer) {
  const auto a = InternShape(Shape(R"({"spec":{"nodeSelector":{"z":"1"}}})"));
  const auto b = InternShape(Shape(R"({"spec":{"nodeSelector":{"z":"1"}}})"));
  const auto c = InternShape(Shape(R"({"spec":{"nodeSelector":{"z":"2"}}})"));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(c->node_selector.at("z"), "2");
}

TEST(CheckQuantities, ListsEveryBadFieldAndTheReservedName) {
  EXPECT_THAT(CheckQuantities(Parsed(R"({"spec":{"containers":[{"resources":{
                  "requests":{"cpu":"-1","pods":"1"},"limits":{"memory":"1GB"}}}]}})"),
                              "t"),
              ElementsAre(HasSubstr("t.spec.containers[0].resources.requests[cpu]: \"-1\""),
                          HasSubstr("t.spec.containers[0].resources.limits[memory]: \"1GB\""),
                          HasSubstr("t.spec.containers[0].resources.requests[pods]: the name is")));
  EXPECT_THAT(CheckQuantities(Parsed(R"({"spec":{"containers":[{}]}})"), "t"), IsEmpty());
}

TEST(CheckLimits, ComparesContainersAndThePodWithTheStrictestRange) {
  const LimitRange loose = Range(R"([{"type":"Container","max":{"cpu":"8"},"min":{"cpu":"10m"}}])");
  const LimitRange strict = Range(R"([{"type":"Container","max":{"cpu":"4"},"min":{"memory":"1Gi"}},
                {"type":"Pod","max":{"cpu":"5"},"min":{"memory":"8Gi"}}])");
  PodContext context;
  context.limit_ranges = {&loose, &strict};
  context.path = "spec.podSets[0].template";
  const Json pod = Parsed(R"({"spec":{
    "initContainers":[{"resources":{"requests":{"cpu":"5","memory":"1Gi"},"limits":{"cpu":"5"}}}],
    "containers":[{"resources":{"requests":{"cpu":"3","memory":"512Mi"},"limits":{"cpu":"3"}}},
                  {"resources":{"requests":{"cpu":"3","memory":"2Gi"},"limits":{"cpu":"3"}}}]}})");
  EXPECT_THAT(
      CheckLimits(pod, context),
      ElementsAre("spec.podSets[0].template.spec.initContainers[0]: Invalid value: [\"cpu\"]: "
                  "requests must not be above the limitRange max (cpu: 5 > 4)",
                  "spec.podSets[0].template.spec.containers[0]: Invalid value: [\"memory\"]: "
                  "requests must not be below the limitRange min (memory: 1Gi > 512Mi)",
                  "spec.podSets[0].template.spec: Invalid value: [\"cpu\"]: "
                  "requests must not be above the limitRange max (cpu: 6 > 5)",
                  "spec.podSets[0].template.spec: Invalid value: [\"memory\"]: "
                  "requests must not be below the limitRange min (memory: 8Gi > 2560Mi)"));
}

TEST(CheckLimits, SaysNothingAboutAPodThatFits) {
  const LimitRange range = Range(R"([{"type":"Container","max":{"cpu":"4"},"min":{"cpu":"1"}},
                {"type":"Pod","max":{"cpu":"4"}},{"type":"PersistentVolumeClaim",
                 "max":{"storage":"1Gi"}}])");
  PodContext context;
  context.limit_ranges = {&range};
  EXPECT_THAT(CheckLimits(Parsed(R"({"spec":{"containers":[{"resources":
                  {"requests":{"cpu":"2"}}}]}})"),
                          context),
              IsEmpty());
}

TEST(CheckLimits, ReportsAMalformedQuantityInsteadOfComparing) {
  EXPECT_THAT(
      CheckLimits(Parsed(R"({"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}})"), {}),
      ElementsAre(HasSubstr("spec.template.spec.containers[0].resources.limits[cpu]")));
}

}  // namespace
}  // namespace tutti::api
