// SPDX-License-Identifier: Apache-2.0
#include "kube/lease.h"

#include <gtest/gtest.h>

#include "kube/fake_api_server.h"
#include "kube/fake_loop.h"

namespace tutti::kube {
namespace {

using namespace std::chrono_literals;

const api::Resource kLeases = api::ResourceOf(api::Kind::kLease);
const api::ObjectKey kKey{"sys", "leader"};

class LeaseTest : public ::testing::Test {
 protected:
  struct Candidate {
    bool cut = false;   // no connection: requests fail
    bool hang = false;  // requests are never answered
    int acquired = 0;
    int lost = 0;
    std::string holder;
    std::unique_ptr<LeaderElector> elector;
  };

  std::unique_ptr<Candidate> Make(const std::string& identity, uint64_t seed = 1) {
    auto candidate = std::make_unique<Candidate>();
    Candidate* c = candidate.get();
    LeaseOptions options;
    options.key = kKey;
    options.identity = identity;
    options.seed = seed;
    c->elector = std::make_unique<LeaderElector>(
        loop_,
        [this, c](const api::ObjectKey& key, const std::function<void(Result<Json>)>& done) {
          if (!c->hang) {
            done(c->cut ? Cut() : server_.Get(kLeases, key));
          }
        },
        [this, c](const api::WriteRequest& request, const std::function<void(Result<Json>)>& done) {
          if (!c->hang) {
            done(c->cut ? Cut() : server_.Do(request));
          }
        },
        options,
        LeaderElector::Callbacks{[c] { ++c->acquired; }, [c] { ++c->lost; },
                                 [c](const std::string& holder) { c->holder = holder; }});
    return candidate;
  }
  static Result<Json> Cut() { return Fail(ErrorCode::kUnavailable, "cut"); }
  Json Spec() { return (*server_.Get(kLeases, kKey))["spec"]; }

  FakeLoop loop_;
  FakeApiServer server_;
};

TEST_F(LeaseTest, TheFirstCandidateCreatesTheLeaseAndKeepsIt) {
  const auto one = Make("host_1");
  one->elector->Start();
  loop_.RunPosted();
  EXPECT_TRUE(one->elector->IsLeader());
  EXPECT_EQ(Spec()["holderIdentity"].AsString(), "host_1");
  EXPECT_EQ(Spec()["leaseDurationSeconds"].AsInt(), 15);
  EXPECT_EQ(Spec()["leaseTransitions"].AsInt(), 0);
  EXPECT_EQ(Spec()["renewTime"].AsString().size(),
            std::string("2026-01-01T00:00:00.000000Z").size());
  const std::string acquired = Spec()["acquireTime"].AsString();
  loop_.Advance(10min);
  EXPECT_TRUE(one->elector->IsLeader());
  EXPECT_EQ(one->acquired, 1);
  EXPECT_EQ(one->lost, 0);
  EXPECT_EQ(Spec()["acquireTime"].AsString(), acquired);
  EXPECT_NE(Spec()["renewTime"].AsString(), acquired);
}

TEST_F(LeaseTest, AnotherHoldersLeaseIsTakenOnlyAfterItsTermWithoutAChange) {
  const auto one = Make("host_1");
  const auto two = Make("host_2", 2);
  one->elector->Start();
  loop_.RunPosted();
  two->elector->Start();
  loop_.Advance(1min);
  EXPECT_FALSE(two->elector->IsLeader());
  EXPECT_EQ(two->holder, "host_1");
  one->cut = true;
  loop_.Advance(11s);
  EXPECT_EQ(one->lost, 1);
  EXPECT_FALSE(two->elector->IsLeader());
  loop_.Advance(12s);
  EXPECT_TRUE(two->elector->IsLeader());
  EXPECT_EQ(Spec()["leaseTransitions"].AsInt(), 1);
  one->cut = false;
  loop_.Advance(1min);
  EXPECT_FALSE(one->elector->IsLeader());
  EXPECT_TRUE(two->elector->IsLeader());
  EXPECT_EQ(one->acquired, 1);
}

TEST_F(LeaseTest, TheTermEndsThoughAnAnswerNeverComes) {
  const auto one = Make("host_1");
  one->elector->Start();
  loop_.Advance(1s);
  one->hang = true;
  const Time before = loop_.Now();
  while (one->lost == 0) {
    ASSERT_TRUE(loop_.Step());
  }
  EXPECT_LE(loop_.Now() - before, 10s);
  EXPECT_FALSE(one->elector->IsLeader());
}

TEST_F(LeaseTest, ByTheClockLeadershipEndsBeforeAnyTimerRuns) {
  LeaseOptions options;
  options.key = kKey;
  options.identity = "me";
  LeaseMachine machine(options);
  const Time start = loop_.Now();
  machine.Start(start);
  const auto write = machine.OnGet(Fail(ErrorCode::kNotFound, ""), start + 1s);
  ASSERT_EQ(write.what, LeaseMachine::Next::Do::kWrite);
  EXPECT_EQ(write.write.verb, api::Verb::kCreate);
  machine.OnWritten(server_.Do(write.write), start + 4s);
  EXPECT_TRUE(machine.IsLeader(start + 4s));
  EXPECT_TRUE(machine.IsLeader(start + 10s + 999ms));
  EXPECT_FALSE(machine.IsLeader(start + 11s)) << "counted from the sending of the request";
}

TEST_F(LeaseTest, AShortCutIsSurvived) {
  const auto one = Make("host_1");
  one->elector->Start();
  loop_.Advance(1s);
  one->cut = true;
  loop_.Advance(5s);
  one->cut = false;
  loop_.Advance(1min);
  EXPECT_EQ(one->lost, 0);
  EXPECT_TRUE(one->elector->IsLeader());
}

TEST_F(LeaseTest, AStolenLeaseIsLostAtTheNextLook) {
  const auto one = Make("host_1");
  one->elector->Start();
  loop_.Advance(1s);
  ASSERT_TRUE(server_
                  .MergePatch(kLeases, kKey,
                              Json::Obj({{"spec", Json::Obj({{"holderIdentity", "thief"}})}}))
                  .has_value());
  loop_.Advance(5s);
  EXPECT_EQ(one->lost, 1);
  EXPECT_EQ(one->holder, "thief");
}

TEST_F(LeaseTest, StoppingTellsTheLossFirstAndFreesTheLeaseForTheNext) {
  const auto one = Make("host_1");
  one->elector->Start();
  loop_.RunPosted();
  bool stopped = false;
  one->elector->Stop([&] {
    EXPECT_EQ(one->lost, 1);
    stopped = true;
  });
  EXPECT_EQ(one->lost, 1);
  loop_.RunPosted();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(Spec()["holderIdentity"].AsString(), "");
  const auto two = Make("host_2");
  two->elector->Start();
  loop_.RunPosted();
  EXPECT_TRUE(two->elector->IsLeader());
  EXPECT_EQ(Spec()["leaseTransitions"].AsInt(), 1);
}

TEST_F(LeaseTest, StoppingWithoutTheLeaseLeavesItAlone) {
  const auto one = Make("host_1");
  const auto two = Make("host_2");
  one->elector->Start();
  loop_.RunPosted();
  two->elector->Start();
  loop_.Advance(5s);
  bool stopped = false;
  two->elector->Stop([&] { stopped = true; });
  loop_.RunPosted();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(Spec()["holderIdentity"].AsString(), "host_1");
  EXPECT_EQ(two->lost, 0);
}

TEST_F(LeaseTest, StoppingWhileARenewalIsUnderWayStillFreesIt) {
  const auto one = Make("host_1");
  one->elector->Start();
  loop_.RunPosted();
  // Somebody (our own late renewal) changes the object between our look and the release.
  ASSERT_TRUE(
      server_
          .MergePatch(
              kLeases, kKey,
              Json::Obj({{"spec", Json::Obj({{"renewTime", "2026-01-01T00:00:05.000000Z"}})}}))
          .has_value());
  bool stopped = false;
  one->elector->Stop([&] { stopped = true; });
  loop_.RunPosted();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(Spec()["holderIdentity"].AsString(), "");
}

TEST_F(LeaseTest, ManyCandidatesNeverLeadTogether) {
  std::vector<std::unique_ptr<Candidate>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(Make("host_" + std::to_string(i), static_cast<uint64_t>(i) + 10));
    all.back()->elector->Start();
  }
  uint64_t random = 42;
  int leaderless = 0;
  for (int step = 0; step < 2000; ++step) {
    loop_.Advance(500ms);
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    Candidate& some = *all[(random >> 33) % all.size()];
    some.cut = (random >> 40) % 4 == 0;
    int leaders = 0;
    for (const auto& candidate : all) {
      leaders += candidate->elector->IsLeader() ? 1 : 0;
    }
    ASSERT_LE(leaders, 1) << "step " << step;
    leaderless += leaders == 0 ? 1 : 0;
  }
  EXPECT_LT(leaderless, 1000);
}

TEST_F(LeaseTest, SettingsThatCantWorkAreNamed) {
  LeaseOptions options;
  options.key = kKey;
  options.identity = "x";
  EXPECT_TRUE(Check(options).has_value());
  options.renew_deadline = 20s;
  EXPECT_NE(Check(options).error().message.find("leaseDuration"), std::string::npos);
  options.renew_deadline = 2s;
  EXPECT_NE(Check(options).error().message.find("renewDeadline"), std::string::npos);
}

}  // namespace
}  // namespace tutti::kube
