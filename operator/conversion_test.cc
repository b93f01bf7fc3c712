// SPDX-License-Identifier: Apache-2.0
#include "operator/conversion.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::conversion {
namespace {

constexpr const char* kOld = "kueue.x-k8s.io/v1beta1";
constexpr const char* kNew = "kueue.x-k8s.io/v1beta2";

Json Object(const std::string& kind, const std::string& version, const std::string& rest) {
  auto parsed = Json::Parse(R"({"apiVersion":")" + version + R"(","kind":")" + kind +
                            R"(","metadata":{"name":"x","uid":"1"},)" + rest + "}");
  EXPECT_TRUE(parsed) << rest;
  return parsed ? *parsed : Json();
}

std::string ErrorOf(Json object, const char* version) {
  const Status status = Convert(&object, version);
  return status ? "" : status.error().message;
}

struct Case {
  std::string name;
  std::string kind;
  std::string old_form;
  std::string new_form;
};

const std::vector<Case>& BothWays() {
  static const std::vector<Case> cases = {
      {"cohort", "ClusterQueue", R"("spec":{"cohort":"all"})", R"("spec":{"cohortName":"all"})"},
      {"fields that only v1beta2 has", "ClusterQueue",
       R"("spec":{"concurrentAdmissionPolicy":{"migration":{"mode":"RetainFirstAdmission"}}})",
       R"("spec":{"concurrentAdmissionPolicy":{"migration":{"mode":"RetainFirstAdmission"}}})"},
      {"cohorts differ in no field that is kept", "Cohort", R"("spec":{"parentName":"root"})",
       R"("spec":{"parentName":"root"})"},
      {"usage", "LocalQueue",
       R"("spec":{"clusterQueue":"c"},"status":{"flavorUsage":[{"name":"f"}]})",
       R"("spec":{"clusterQueue":"c"},"status":{"flavorsUsage":[{"name":"f"}]})"},
      {"kubeconfig", "MultiKueueCluster",
       R"("spec":{"kubeConfig":{"location":"l","locationType":"Secret"}})",
       R"("spec":{"clusterSource":{"kubeConfig":{"location":"l","locationType":"Secret"}}})"},
      {"profile", "MultiKueueCluster",
       R"("spec":{"kubeConfig":{"location":"","locationType":"Secret"},"clusterProfileRef":{"name":"p"}})",
       R"("spec":{"clusterSource":{"clusterProfileRef":{"name":"p"}}})"},
      {"class of workloads", "Workload",
       R"("spec":{"priorityClassName":"high","priorityClassSource":"kueue.x-k8s.io/workloadpriorityclass"})",
       R"("spec":{"priorityClassRef":{"group":"kueue.x-k8s.io","kind":"WorkloadPriorityClass","name":"high"}})"},
      {"class of pods", "Workload",
       R"("spec":{"priorityClassName":"high","priorityClassSource":"scheduling.k8s.io/priorityclass"})",
       R"("spec":{"priorityClassRef":{"group":"scheduling.k8s.io","kind":"PriorityClass","name":"high"}})"},
      {"no class", "Workload", R"("spec":{"priority":7})", R"("spec":{"priority":7})"},
      {"gates", "Workload", R"("spec":{"preemptionGates":[{"name":"g"}]})",
       R"("spec":{"preemptionGates":[{"name":"g"}]})"},
      {"execution time", "Workload", R"("status":{"accumulatedPastExexcutionTimeSeconds":3})",
       R"("status":{"accumulatedPastExecutionTimeSeconds":3})"},
      {"topology, one domain", "Workload",
       R"("status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","topologyAssignment":{"levels":["rack"],"domains":[{"values":["r1"],"count":2}]}}]}})",
       R"("status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","topologyAssignment":{"levels":["rack"],"slices":[{"domainCount":1,"podCounts":{"universal":2},"valuesPerLevel":[{"universal":"r1"}]}]}}]}})"},
      {"topology, common parts of names", "Workload",
       R"("status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","topologyAssignment":{"levels":["rack","host"],"domains":[{"values":["r1","h-1-x"],"count":2},{"values":["r1","h-22-x"],"count":3}]}}]}})",
       R"("status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","topologyAssignment":{"levels":["rack","host"],"slices":[{"domainCount":2,"podCounts":{"individual":[2,3]},"valuesPerLevel":[{"universal":"r1"},{"individual":{"prefix":"h-","roots":["1","22"],"suffix":"-x"}}]}]}}]}})"},
      {"topology, no domain", "Workload",
       R"("status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","topologyAssignment":{"levels":["rack"],"domains":[]}}]}})",
       R"("status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","topologyAssignment":{"levels":["rack"],"slices":[]}}]}})"},
  };
  return cases;
}

TEST(ConversionTest, EachVersionBecomesTheOtherAndBack) {
  for (const Case& c : BothWays()) {
    const Json old_form = Object(c.kind, kOld, c.old_form);
    const Json new_form = Object(c.kind, kNew, c.new_form);
    Json object = old_form;
    ASSERT_TRUE(Convert(&object, kNew)) << c.name;
    EXPECT_EQ(object.DumpSorted(), new_form.DumpSorted()) << c.name;
    ASSERT_TRUE(Convert(&object, kOld)) << c.name;
    EXPECT_EQ(object.DumpSorted(), old_form.DumpSorted()) << c.name;
  }
}

TEST(ConversionTest, OldFieldsBecomeTheirSuccessorsOrGo) {
  const std::vector<Case> cases = {
      {"checks", "ClusterQueue", R"("spec":{"admissionChecks":["a","b"]})",
       R"("spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":"a"},{"name":"b"}]}})"},
      {"no checks", "ClusterQueue",
       R"("spec":{"admissionChecks":[],"admissionChecksStrategy":{"admissionChecks":[{"name":"c"}]}})",
       R"("spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":"c"}]}})"},
      {"fungibility", "ClusterQueue",
       R"("spec":{"flavorFungibility":{"whenCanBorrow":"Borrow","whenCanPreempt":"Preempt"}})",
       R"("spec":{"flavorFungibility":{"whenCanBorrow":"MayStopSearch","whenCanPreempt":"MayStopSearch"}})"},
      {"old status", "ClusterQueue",
       R"("status":{"pendingWorkloads":1,"pendingWorkloadsStatus":{},"fairSharing":{"weightedShare":1,"admissionFairSharingStatus":{}}})",
       R"("status":{"pendingWorkloads":1,"fairSharing":{"weightedShare":1}})"},
      {"old status of a cohort", "Cohort",
       R"("status":{"fairSharing":{"weightedShare":1,"admissionFairSharingStatus":{}}})",
       R"("status":{"fairSharing":{"weightedShare":1}})"},
      {"flavors of a LocalQueue", "LocalQueue", R"("status":{"flavors":[{"name":"f"}]})",
       R"("status":{})"},
      {"a class without a source", "Workload",
       R"("spec":{"priorityClassName":"high","priorityClassSource":"","priority":1})",
       R"("spec":{"priority":1})"},
  };
  for (const Case& c : cases) {
    Json object = Object(c.kind, kOld, c.old_form);
    ASSERT_TRUE(Convert(&object, kNew)) << c.name;
    EXPECT_EQ(object.DumpSorted(), Object(c.kind, kNew, c.new_form).DumpSorted()) << c.name;
  }
}

TEST(ConversionTest, TheSameVersionIsLeftAlone) {
  const Json object = Object("ClusterQueue", kNew, R"("spec":{"cohortName":"all"})");
  Json copy = object;
  ASSERT_TRUE(Convert(&copy, kNew));
  EXPECT_EQ(copy, object);
}

TEST(ConversionTest, WhatCantBeConvertedIsNamed) {
  EXPECT_THAT(ErrorOf(Object("ClusterQueue", "kueue.x-k8s.io/v1alpha1", R"("spec":{})"), kNew),
              testing::HasSubstr("no conversion from kueue.x-k8s.io/v1alpha1"));
  EXPECT_THAT(ErrorOf(Object("ClusterQueue", kNew, R"("spec":{})"), "batch/v1"),
              testing::HasSubstr("to batch/v1"));
  EXPECT_THAT(ErrorOf(Object("Topology", kOld, R"("spec":{})"), kNew),
              testing::HasSubstr("kind Topology"));
  EXPECT_THAT(
      ErrorOf(
          Object(
              "Workload", kOld,
              R"("status":{"admission":{"podSetAssignments":[{"topologyAssignment":{"levels":["a","b"],"domains":[{"values":["x"],"count":1}]}}]}})"),
          kNew),
      testing::HasSubstr("status.admission.podSetAssignments[0]: "
                         "topologyAssignment.domains[0].values must have one entry"));
}

TEST(ConversionTest, SmallSlicesDontFillTheMemory) {
  EXPECT_THAT(
      ErrorOf(
          Object(
              "Workload", kNew,
              R"("status":{"admission":{"podSetAssignments":[{"topologyAssignment":{"levels":["a"],"slices":[{"domainCount":2000000000,"podCounts":{"universal":1},"valuesPerLevel":[{"universal":"x"}]}]}}]}})"),
          kOld),
      testing::HasSubstr("more than 100000 domains"));
}

// Types that the schema forbids must do no harm: the API server isn't the only one who can post.
TEST(ConversionTest, WrongTypesAreSurvived) {
  for (const char* rest :
       {R"("spec":7,"status":[])", R"("spec":null)", R"("status":{"admission":1})",
        R"("spec":{"admissionChecks":{"a":1},"flavorFungibility":[]})",
        R"("status":{"admission":{"podSetAssignments":[3,{"topologyAssignment":[]}]}})"}) {
    for (const char* kind :
         {"ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "Workload"}) {
      for (const auto& [from, to] : {std::pair(kOld, kNew), std::pair(kNew, kOld)}) {
        Json object = Object(kind, from, rest);
        EXPECT_TRUE(Convert(&object, to)) << kind << rest;
        EXPECT_EQ(object["apiVersion"].AsString(), to);
      }
    }
  }
}

TEST(ConversionTest, RandomTopologiesComeBack) {
  std::mt19937 random(7);
  const auto pick = [&random](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  for (int round = 0; round < 500; ++round) {
    const int levels = 1 + pick(3);
    Json domains = Json::Arr();
    const int size = pick(6);
    for (int at = 0; at < size; ++at) {
      Json values = Json::Arr();
      for (int level = 0; level < levels; ++level) {
        std::string text;
        for (int length = pick(4); length > 0; --length) {
          text += static_cast<char>('a' + pick(2));
        }
        values.Push(text);
      }
      domains.Push(Json::Obj({{"values", values}, {"count", 1 + pick(2)}}));
    }
    Json names = Json::Arr();
    for (int level = 0; level < levels; ++level) {
      names.Push("level-" + std::to_string(level));
    }
    Json workload = Object("Workload", kOld, R"("spec":{})");
    workload.Set(
        "status",
        Json::Obj(
            {{"admission",
              Json::Obj({{"podSetAssignments",
                          Json::Arr({Json::Obj(
                              {{"topologyAssignment",
                                Json::Obj({{"levels", names}, {"domains", domains}})}})})}})}}));
    Json object = workload;
    ASSERT_TRUE(Convert(&object, kNew));
    ASSERT_TRUE(Convert(&object, kOld));
    ASSERT_EQ(object.DumpSorted(), workload.DumpSorted());
  }
}

TEST(ConversionTest, ReviewsAreAnsweredWholeOrNotAtAll) {
  Json request = Json::Obj(
      {{"uid", "u"},
       {"desiredAPIVersion", kNew},
       {"objects", Json::Arr({Object("Cohort", kOld, R"("spec":{})"),
                              Object("ClusterQueue", kOld, R"("spec":{"cohort":"all"})")})}});
  Json review = Json::Obj({{"apiVersion", "apiextensions.k8s.io/v1"},
                           {"kind", "ConversionReview"},
                           {"request", request}});
  auto answer = Answer(review);
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)["kind"].AsString(), "ConversionReview");
  EXPECT_EQ((*answer)["response"]["uid"].AsString(), "u");
  EXPECT_EQ((*answer)["response"]["result"]["status"].AsString(), "Success");
  const auto& objects = (*answer)["response"]["convertedObjects"].AsArray();
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[1]["spec"]["cohortName"].AsString(), "all");
  EXPECT_EQ(objects[1]["metadata"]["uid"].AsString(), "1");

  request.At("objects").Push(Object("Topology", kOld, R"("spec":{})"));
  review.Set("request", request);
  answer = Answer(review);
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)["response"]["result"]["status"].AsString(), "Failure");
  EXPECT_THAT((*answer)["response"]["result"]["message"].AsString(),
              testing::HasSubstr("Topology x: kind Topology"));
  EXPECT_FALSE((*answer)["response"].Has("convertedObjects"));

  review.Set("kind", "AdmissionReview");
  EXPECT_EQ(Answer(review).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tutti::conversion
