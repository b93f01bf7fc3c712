// SPDX-License-Identifier: Apache-2.0
#include "operator/gang_probe.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/names.h"
#include "kube/fake_api_server.h"
#include "kube/fake_loop.h"
#include "kube/fake_transport.h"
#include "reconciler/gang.h"

namespace tutti {
namespace {

using reconciler::GangApi;
using reconciler::GangFinding;
using State = GangFinding::State;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// An API server with the chart's policies, and the little of the scheduler and the controller
// manager that the probe looks at.
class GangProbeTest : public testing::Test {
 protected:
  GangProbeTest() : transport_(loop_, server_), client_(transport_) {
    server_.AddAdmission([this](const api::WriteRequest& request, std::string_view, const Json& old,
                                Json& object) -> Status {
      if (request.resource.kind == "PodGroup" && old.IsNull()) {
        object.At("metadata").Set("finalizers", Json::Arr({"scheduling.k8s.io/podgroup"}));
      }
      if (request.resource.kind != "Pod" || !old.IsNull()) {
        return {};
      }
      if (refusal_.has_value()) {
        return Fail(ErrorCode::kForbidden, *refusal_);
      }
      const std::string group = object["metadata"]["labels"][names::kPodGroupLabel].AsString();
      if (!group.empty() && joins_) {
        object.At("spec").Set("schedulingGroup", Json::Obj({{"podGroupName", group}}));
      } else if (!group.empty() && guards_) {
        return Fail(ErrorCode::kForbidden,
                    "spec.schedulingGroup.podGroupName: is \"\", must be \"" + group + "\"");
      }
      return {};
    });
  }

  static api::Resource Pods() { return api::ResourceOf(api::Kind::kPod); }
  static api::Resource Groups() { return reconciler::PodGroupResource(GangApi::kV1Alpha2); }

  void Others() {
    for (const Json& pod : server_.List(Pods())) {
      const bool member = pod["spec"].Has("schedulingGroup");
      if (scheduler_ && !pod["status"].Has("conditions") && (!member || !gang_plugin_)) {
        const Json condition = Json::Obj({{"type", "PodScheduled"}, {"status", "False"}});
        ASSERT_TRUE(server_.MergePatch(
            Pods(), {"own", pod["metadata"]["name"].AsString()},
            Json::Obj({{"status", Json::Obj({{"conditions", Json::Arr({condition})}})}}),
            "status"));
        if (member && knows_groups_) {
          tell_group_at_ = loop_.Now() + group_lag_;
        }
      }
    }
    if (tell_group_at_ && loop_.Now() >= *tell_group_at_) {
      tell_group_at_.reset();
      for (const Json& group : server_.List(Groups())) {
        const Json told = Json::Obj({{"type", "PodGroupScheduled"}, {"status", "False"}});
        ASSERT_TRUE(server_.MergePatch(
            Groups(), {"own", group["metadata"]["name"].AsString()},
            Json::Obj({{"status", Json::Obj({{"conditions", Json::Arr({told})}})}}), "status"));
      }
    }
    for (const Json& group : server_.List(Groups())) {
      if (manager_ && !group["metadata"]["deletionTimestamp"].IsNull()) {
        ASSERT_TRUE(
            server_.MergePatch(Groups(), {"own", group["metadata"]["name"].AsString()},
                               Json::Obj({{"metadata", Json::Obj({{"finalizers", Json()}})}})));
      }
    }
  }

  // Runs one probe to its end.
  void Probe(Duration limit = seconds(120), GangApi api = GangApi::kV1Alpha2) {
    GangProbe probe("own", api, {&loop_, &client_, [this] { return leader_; }});
    probe.Start(
        [this](const GangFinding& finding) {
          ++told_;
          finding_ = finding;
        },
        [this](const std::string& message) { kept_ = message; });
    for (const Time end = loop_.Now() + limit; probe.Running() && loop_.Now() < end;) {
      loop_.Advance(milliseconds(100));
      Others();
    }
    ended_ = !probe.Running();
  }
  void ExpectNothingLeft() {
    EXPECT_TRUE(ended_);
    EXPECT_EQ(told_, 1);
    EXPECT_TRUE(server_.List(Pods()).empty());
    EXPECT_TRUE(server_.List(Groups()).empty());
  }

  kube::FakeLoop loop_;
  kube::FakeApiServer server_;
  kube::FakeTransport transport_;
  kube::Client client_;
  bool joins_ = true;
  bool guards_ = true;
  bool scheduler_ = true;
  bool gang_plugin_ = true;
  bool knows_groups_ = true;
  Duration group_lag_{};  // between the scheduler's writes of a pod and of its group
  std::optional<Time> tell_group_at_;
  bool manager_ = true;
  bool leader_ = true;
  std::optional<std::string> refusal_;
  GangFinding finding_;
  int told_ = 0;
  std::string kept_;
  bool ended_ = false;
};

TEST_F(GangProbeTest, APodThatIsLeftAloneProvesThatGangsHold) {
  Probe();
  EXPECT_EQ(finding_.state, State::kGates) << finding_.message;
  EXPECT_EQ(kept_, "");
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, ASchedulerWithoutTheGangPluginIsNamed) {
  gang_plugin_ = false;
  Probe();
  EXPECT_EQ(finding_.state, State::kDoesNotGate);
  EXPECT_THAT(finding_.message, HasSubstr("kube-scheduler"));
  EXPECT_THAT(finding_.message, HasSubstr("GangScheduling"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, ASchedulerThatTellsTheGroupAfterThePodIsNotBlamedForTheOtherGate) {
  gang_plugin_ = false;
  group_lag_ = milliseconds(700);
  Probe();
  EXPECT_EQ(finding_.state, State::kDoesNotGate);
  EXPECT_THAT(finding_.message, HasSubstr("GangScheduling"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, ASchedulerThatKnowsNoGroupsIsNamed) {
  gang_plugin_ = knows_groups_ = false;
  Probe();
  EXPECT_EQ(finding_.state, State::kDoesNotGate);
  EXPECT_THAT(finding_.message, HasSubstr("GenericWorkload"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, TheOneGateOf137IsNamedThere) {
  gang_plugin_ = false;
  Probe(seconds(120), GangApi::kV1Beta1);
  EXPECT_EQ(finding_.state, State::kDoesNotGate);
  EXPECT_THAT(finding_.message, HasSubstr("GenericWorkload"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, AControllerManagerThatKeepsGroupsIsNamedAndTheGroupFreed) {
  manager_ = false;
  Probe();
  EXPECT_EQ(finding_.state, State::kGates) << "gangs hold all the same";
  EXPECT_THAT(kept_, HasSubstr("kube-controller-manager"));
  EXPECT_THAT(kept_, HasSubstr("GenericWorkload"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, NoSchedulerProvesNothing) {
  scheduler_ = false;
  Probe();
  EXPECT_EQ(finding_.state, State::kUnproven);
  EXPECT_THAT(finding_.message, HasSubstr("kube-scheduler"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, AServerThatDropsTheGroupIsNamed) {
  joins_ = false;
  Probe();
  EXPECT_EQ(finding_.state, State::kDoesNotGate);
  EXPECT_THAT(finding_.message, HasSubstr("kube-apiserver"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, AMissingJoinPolicyIsNamedWhereNothingGuards) {
  joins_ = guards_ = false;
  Probe();
  EXPECT_EQ(finding_.state, State::kDoesNotGate);
  EXPECT_THAT(finding_.message, HasSubstr("tutti-pod-joins-group"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, APolicyThatActsAMomentLaterIsWaitedFor) {
  joins_ = false;
  loop_.PostAt(loop_.Now() + seconds(2), [this] { joins_ = true; });
  Probe();
  EXPECT_EQ(finding_.state, State::kGates) << finding_.message;
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, PodsThatAreRefusedProveNothing) {
  refusal_ = "exceeded quota: none";
  Probe();
  EXPECT_EQ(finding_.state, State::kUnproven);
  EXPECT_THAT(finding_.message, HasSubstr("exceeded quota"));
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, WhatAnEarlierLifeLeftIsRemovedFirst) {
  GangProbe dead("own", GangApi::kV1Alpha2, {&loop_, &client_, [this] { return leader_; }});
  dead.Start([](const GangFinding&) {}, {});
  loop_.Advance(milliseconds(50));
  while (server_.List(Pods()).size() < 2) {
    loop_.Advance(milliseconds(100));
  }
  leader_ = false;  // it dies here
  loop_.Advance(seconds(1));
  EXPECT_EQ(server_.List(Pods()).size(), 2U);
  leader_ = true;
  Probe();
  EXPECT_EQ(finding_.state, State::kGates) << finding_.message;
  ExpectNothingLeft();
}

TEST_F(GangProbeTest, NothingIsWrittenWithoutTheLease) {
  leader_ = false;
  Probe(seconds(5));
  EXPECT_TRUE(ended_);
  EXPECT_TRUE(server_.WriteCounts().empty());
}

TEST_F(GangProbeTest, ItsPodsFitNoNodeAtAll) {
  GangProbe probe("own", GangApi::kV1Alpha2, {&loop_, &client_, [] { return true; }});
  probe.Start([](const GangFinding&) {}, {});
  while (server_.List(Pods()).size() < 2) {
    loop_.Advance(milliseconds(100));
  }
  for (const Json& json : server_.List(Pods())) {
    const auto pod = api::PodFromJson(json);
    ASSERT_TRUE(pod);
    ASSERT_EQ(pod->shape->required_affinity.size(), 1U);
    for (const api::StringMap& labels :
         {api::StringMap{}, api::StringMap{{"kubernetes.io/hostname", "n1"}}}) {
      EXPECT_FALSE(pod->shape->required_affinity[0].Matches(labels, "n1"));
    }
  }
}

}  // namespace
}  // namespace tutti
