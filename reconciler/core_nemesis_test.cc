// SPDX-License-Identifier: Apache-2.0
// Random trouble from a seed: failed and half-failed writes, restarts between any two steps, killed
// pods, nodes that come and go, quota that changes. After each step the invariants hold; when the
// trouble ends every job finishes, none started twice at a time, nothing is left behind.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/gang.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

// `rival`: the Job controller makes groups of its own for the Indexed ones among the jobs, and
// deleted pods take their time to go.
void Ordeal(uint64_t seed, GangApi gang_api, bool rival = false) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Options options;
  options.gang_api = gang_api;
  options.managed_namespaces.present = true;
  options.landing_timeout = 20s;
  Cluster cluster(options, seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  cluster.AddFlavor("default");
  int nodes = 5;
  for (int i = 0; i < nodes; ++i) {
    cluster.AddNode("n" + std::to_string(i), 8);
  }
  for (const char* team : {"team-a", "team-b"}) {
    cluster.AddNamespace(team);
    cluster.AddQueue(std::string("cq-") + team, team, {{"cpu", "20"}}, "all");
  }
  cluster.SetFaults(0.1);
  cluster.SetJobControllerGroups(rival);
  cluster.SetGrace(rival ? 3s : 0s);
  int submitted = 0;
  for (int step = 0; step < 150; ++step) {
    if (submitted < 25 && pick(0, 3) == 0) {
      cluster.Submit({.name = "job-" + std::to_string(submitted++),
                      .ns = pick(0, 1) == 0 ? "team-a" : "team-b",
                      .pods = pick(0, 1) == 0 ? 1 : pick(2, 8),
                      .cpu_milli = pick(1, 4) * 1000,
                      .runs_for = std::chrono::seconds(pick(1, 10)),
                      .indexed = rival && submitted % 2 == 0});
    }
    switch (pick(0, 40)) {
      case 0:
        cluster.Restart();
        break;
      case 1: {
        const auto pods = cluster.server().List(api::ResourceOf(api::Kind::kPod));
        if (!pods.empty()) {
          const Json& pod = pods[static_cast<size_t>(pick(0, static_cast<int>(pods.size()) - 1))];
          if (pod["status"]["phase"].AsString() != "Succeeded") {
            cluster.KillPod(
                {pod["metadata"]["namespace"].AsString(), pod["metadata"]["name"].AsString()});
          }
        }
        break;
      }
      case 2:
        cluster.Cordon("n" + std::to_string(pick(0, 4)), pick(0, 1) == 0);
        break;
      case 3:
        cluster.AddNode("n" + std::to_string(nodes++), 8);
        break;
      default:
        break;
    }
    cluster.Tick(std::chrono::milliseconds(pick(50, 800)));
    ASSERT_EQ(cluster.Check(), "");
  }
  cluster.SetFaults(0);
  for (int i = 0; i < 5; ++i) {
    cluster.Cordon("n" + std::to_string(i), false);
  }
  if (!cluster.RunUntilDone(20min)) {
    for (const Json& job : cluster.server().List(api::ResourceOf(api::Kind::kJob))) {
      const std::string name = job["metadata"]["name"].AsString();
      const std::string ns = job["metadata"]["namespace"].AsString();
      if (!cluster.Finished(ns, name)) {
        ADD_FAILURE() << ns << "/" << name << " is stuck: " << job.Dump() << "\n"
                      << cluster.WorkloadOf(ns, name)["status"].Dump();
      }
    }
    return;
  }
  cluster.Run(5s);
  for (const Json& group : cluster.server().List(PodGroupResource(GangApi::kV1Alpha2))) {
    EXPECT_TRUE(group["metadata"]["name"].AsString().ends_with("-by-controller"))
        << "groups are left behind";
  }
  for (const Json& workload : cluster.server().List(api::ResourceOf(api::Kind::kWorkload))) {
    EXPECT_EQ(cluster.Condition(workload, "Finished"), "True");
    EXPECT_TRUE(workload["metadata"]["finalizers"].AsArray().empty());
  }
  EXPECT_EQ(cluster.Check(), "");
}

// Every way in which a workload loses its quota, preemption among them, at random and in the middle
// of failing writes and restarts: stopped queues, deactivation, checks that want another try or
// reject, readiness that comes and goes. Nothing is lost, nothing evicted twice, and all jobs end.
class Losses {
 public:
  explicit Losses(uint64_t seed) : cluster_(TestOptions(), seed), random_(seed) {
    cluster_.server().Subscribe([this](const kube::FakeApiServer::Event& event) { Watch(event); });
    cluster_.AddFlavor("default");
    for (int i = 0; i < 4; ++i) {
      cluster_.AddNode("n" + std::to_string(i), 8);
    }
    cluster_.AddCheck("check");
    for (const char* team : {"team-a", "team-b"}) {
      cluster_.AddNamespace(team);
      cluster_.AddQueue(std::string("cq-") + team, team, {{"cpu", "16"}}, "all");
    }
    for (const char* name : {"low", "high"}) {
      EXPECT_TRUE(
          cluster_.server().Create(api::ResourceOf(api::Kind::kWorkloadPriorityClass),
                                   Json::Obj({{"metadata", Json::Obj({{"name", name}})},
                                              {"value", name == std::string("high") ? 100 : 1}})));
    }
    for (const char* queue : {"cq-team-a", "cq-team-b"}) {
      cluster_.PatchSpec(
          api::Kind::kClusterQueue, {"", queue},
          Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"},
                                               {"reclaimWithinCohort", "Any"}})}}));
    }
    cluster_.PatchSpec(
        api::Kind::kClusterQueue, {"", "cq-team-b"},
        Json::Obj(
            {{"admissionChecksStrategy",
              Json::Obj({{"admissionChecks", Json::Arr({Json::Obj({{"name", "check"}})})}})}}));
  }

  void Run() {
    cluster_.SetFaults(0.1);
    int submitted = 0;
    for (int step = 0; step < 150; ++step) {
      if (submitted < 16 && Pick(0, 3) == 0) {
        cluster_.Submit({.name = "job-" + std::to_string(submitted++),
                         .ns = Pick(0, 1) == 0 ? "team-a" : "team-b",
                         .pods = Pick(1, 6),
                         .cpu_milli = Pick(1, 3) * 1000,
                         .runs_for = std::chrono::seconds(Pick(1, 8)),
                         .priority_class = Pick(0, 1) == 0 ? "low" : "high"});
      }
      Trouble();
      CheckController(/*kind=*/false);
      cluster_.Tick(std::chrono::milliseconds(Pick(50, 800)));
      ASSERT_EQ(cluster_.Check(), "");
    }
    cluster_.SetFaults(0);
    cluster_.SetReadiness(true);
    for (const char* team : {"team-a", "team-b"}) {
      Stop(api::Kind::kClusterQueue, {"", std::string("cq-") + team}, "None");
      Stop(api::Kind::kLocalQueue, {team, "main"}, "None");
    }
    for (int turn = 0; turn < 3000 && !Done(); ++turn) {
      for (const Json& workload : Workloads()) {
        if (!workload["spec"]["active"].AsBool(true)) {
          SetActive(workload, true);
        }
      }
      CheckController(/*kind=*/true);
      cluster_.Tick();
    }
    cluster_.Run(std::chrono::seconds(5));
    for (const Json& workload : Workloads()) {
      const std::string name = workload["metadata"]["name"].AsString();
      EXPECT_EQ(cluster_.Condition(workload, "Finished"), "True")
          << name << " is stuck: " << workload.Dump();
      int64_t counted = 0;
      for (const Json& entry : workload["status"]["schedulingStats"]["evictions"].AsArray()) {
        counted += entry["count"].AsInt();
      }
      EXPECT_EQ(counted, evictions_[workload["metadata"]["uid"].AsString()]) << name;
    }
    EXPECT_TRUE(cluster_.server().List(PodGroupResource(GangApi::kV1Alpha2)).empty());
    EXPECT_EQ(cluster_.Check(), "");
  }

 private:
  static Options TestOptions() {
    Options options;
    options.gang_api = GangApi::kV1Alpha2;
    options.managed_namespaces.present = true;
    options.landing_timeout = 20s;
    options.place_hold = 3s;
    options.wait_for_pods_ready.timeout = 10s;
    options.wait_for_pods_ready.recovery_timeout = 5s;
    options.wait_for_pods_ready.backoff_base = 1s;
    options.wait_for_pods_ready.backoff_max = 5s;
    return options;
  }
  int Pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  std::vector<Json> Workloads() {
    return cluster_.server().List(api::ResourceOf(api::Kind::kWorkload));
  }
  bool Done() {
    const auto workloads = Workloads();
    return std::all_of(workloads.begin(), workloads.end(), [&](const Json& workload) {
      return cluster_.Condition(workload, "Finished") == "True";
    });
  }
  void Stop(api::Kind kind, const api::ObjectKey& key, const std::string& policy) {
    cluster_.PatchSpec(kind, key, Json::Obj({{"stopPolicy", policy}}));
  }
  void SetActive(const Json& workload, bool active) {
    cluster_.PatchSpec(
        api::Kind::kWorkload,
        {workload["metadata"]["namespace"].AsString(), workload["metadata"]["name"].AsString()},
        Json::Obj({{"active", active}}));
  }

  void Trouble() {
    const char* const policies[] = {"None", "None", "Hold", "HoldAndDrain"};
    const std::string team = Pick(0, 1) == 0 ? "team-a" : "team-b";
    switch (Pick(0, 30)) {
      case 0:
        cluster_.Restart();
        break;
      case 1:
        Stop(api::Kind::kClusterQueue, {"", "cq-" + team}, policies[Pick(0, 3)]);
        break;
      case 2:
        Stop(api::Kind::kLocalQueue, {team, "main"}, policies[Pick(0, 3)]);
        break;
      case 3:
      case 4: {
        const auto workloads = Workloads();
        if (!workloads.empty()) {
          SetActive(workloads[static_cast<size_t>(Pick(0, static_cast<int>(workloads.size()) - 1))],
                    Pick(0, 2) != 0);
        }
        break;
      }
      case 5:
        cluster_.SetReadiness(Pick(0, 1) == 0);
        break;
      default:
        break;
    }
  }

  // The controller of the check; kind: it always says yes.
  void CheckController(bool kind) {
    for (const Json& workload : Workloads()) {
      if (cluster_.Condition(workload, "QuotaReserved") != "True" ||
          cluster_.Condition(workload, "Finished") == "True" ||
          cluster_.Condition(workload, "Evicted") == "True") {
        continue;
      }
      for (const Json& check : workload["status"]["admissionChecks"].AsArray()) {
        const int dice = Pick(0, 99);
        const bool pending = check["state"].AsString() == "Pending";
        if (pending && (kind || dice < 30)) {
          Answer(workload, "Ready", Json());
        } else if (!kind && dice < 36) {
          Answer(workload, "Retry", Json::Obj({{"requeueAfterSeconds", Pick(0, 3)}}));
        } else if (!kind && dice < 37) {
          Answer(workload, "Rejected", Json());
        }
      }
    }
  }
  void Answer(const Json& workload, const std::string& state, const Json& more) {
    for (const Json& owner : workload["metadata"]["ownerReferences"].AsArray()) {
      cluster_.SetCheck(workload["metadata"]["namespace"].AsString(), owner["name"].AsString(),
                        "check", state, "", more);
    }
  }

  void Watch(const kube::FakeApiServer::Event& event) {
    if (event.resource.kind != "Workload" || event.resource.group != names::kKueueGroup) {
      return;
    }
    const std::string& uid = (*event.object)["metadata"]["uid"].AsString();
    const bool evicted = cluster_.Condition(*event.object, "Evicted") == "True";
    if (evicted && !evicted_[uid]) {
      ++evictions_[uid];
    }
    evicted_[uid] = evicted;
  }

  Cluster cluster_;
  std::mt19937_64 random_;
  std::map<std::string, bool> evicted_;
  std::map<std::string, int64_t> evictions_;
};

// Jobs, the Workloads of each and how many of its pods run.
std::string State(Cluster& cluster) {
  std::string out;
  for (const Json& job : cluster.server().List(api::ResourceOf(api::Kind::kJob))) {
    const std::string name = job["metadata"]["name"].AsString();
    int running = 0;
    int held = 0;
    for (const Json& pod : cluster.PodsOf("team-a", name)) {
      const bool gone = pod["status"]["phase"].AsString() == "Succeeded" ||
                        !pod["metadata"]["deletionTimestamp"].IsNull();
      (pod["spec"]["schedulingGates"].AsArray().empty() ? running : held) += gone ? 0 : 1;
    }
    out += name + " parallelism " + job["spec"]["parallelism"].Dump() + " suspend " +
           job["spec"]["suspend"].Dump() + " " + job["status"].Dump() + ": " +
           std::to_string(running) + " run, " + std::to_string(held) + " held\n";
    for (const Json& workload : cluster.server().List(api::ResourceOf(api::Kind::kWorkload))) {
      if (workload["metadata"]["labels"][names::kJobUidLabel] == job["metadata"]["uid"] &&
          cluster.Condition(workload, "Finished") != "True") {
        out += "  " + workload["metadata"]["name"].AsString() + " " +
               workload["spec"]["podSets"].AsArray()[0]["count"].Dump() + " reserved " +
               cluster.Condition(workload, "QuotaReserved") + " evicted " +
               cluster.Condition(workload, "Evicted") + " " +
               workload["status"]["reclaimablePods"].Dump() + "\n";
      }
    }
  }
  return out;
}

// Elastic jobs that change their size all the time, while they give way to one another, queues are
// drained, writes fail and the controller restarts.
void Growth(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Options options;
  options.gang_api = GangApi::kV1Alpha2;
  options.managed_namespaces.present = true;
  options.landing_timeout = 20s;
  Cluster cluster(options, seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  cluster.AddFlavor("default");
  for (int i = 0; i < 4; ++i) {
    cluster.AddNode("n" + std::to_string(i), 8);
  }
  cluster.AddNamespace("team-a");
  cluster.AddQueue("cq", "team-a", {{"cpu", "14"}});
  for (const auto& [name, value] : {std::pair("low", 1), std::pair("high", 100)}) {
    ASSERT_TRUE(cluster.server().Create(
        api::ResourceOf(api::Kind::kWorkloadPriorityClass),
        Json::Obj({{"metadata", Json::Obj({{"name", name}})}, {"value", value}})));
  }
  cluster.PatchSpec(
      api::Kind::kClusterQueue, {"", "cq"},
      Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}})}}));
  cluster.SetFaults(0.1);
  int submitted = 0;
  std::vector<std::string> elastic;
  for (int step = 0; step < 200; ++step) {
    if (submitted < 8 && pick(0, 5) == 0) {
      testing::JobSpec job{.name = "job-" + std::to_string(submitted++),
                           .pods = pick(1, 6),
                           .runs_for = std::chrono::seconds(pick(1, 6)),
                           .priority_class = pick(0, 2) == 0 ? "high" : "low",
                           .completions = pick(10, 40)};
      if (pick(0, 3) != 0) {
        job.annotations[std::string(names::kElasticJobAnnotation)] = "true";
        elastic.push_back(job.name);
      }
      cluster.Submit(job);
    }
    switch (pick(0, 20)) {
      case 0:
        cluster.Restart();
        break;
      case 1:
        cluster.PatchSpec(api::Kind::kClusterQueue, {"", "cq"},
                          Json::Obj({{"stopPolicy", pick(0, 2) == 0 ? "HoldAndDrain" : "None"}}));
        break;
      default:
        if (!elastic.empty() && pick(0, 2) == 0) {
          const auto which = static_cast<size_t>(pick(0, static_cast<int>(elastic.size()) - 1));
          cluster.PatchSpec(api::Kind::kJob, {"team-a", elastic[which]},
                            Json::Obj({{"parallelism", pick(1, 9)}}));
        }
    }
    cluster.Tick(std::chrono::milliseconds(pick(50, 800)));
    ASSERT_EQ(cluster.Check(), "") << "step " << step << "\n" << State(cluster);
  }
  cluster.SetFaults(0);
  cluster.PatchSpec(api::Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "None"}}));
  ASSERT_TRUE(cluster.RunUntilDone(10min)) << State(cluster);
  cluster.Run(5s);
  for (const Json& workload : cluster.server().List(api::ResourceOf(api::Kind::kWorkload))) {
    EXPECT_EQ(cluster.Condition(workload, "Finished"), "True") << workload.Dump();
    EXPECT_TRUE(workload["metadata"]["finalizers"].AsArray().empty()) << workload.Dump();
  }
  for (const engine::FlavorUsage& usage : cluster.core().engine().Report("cq").usage) {
    EXPECT_EQ(usage.reserved, 0);
  }
  EXPECT_EQ(cluster.Check(), "");
}

TEST(CoreNemesisTest, JobsThatGrowAndShrinkInTroubleAllEnd) {
  for (uint64_t seed = 501; seed <= 516 && !::testing::Test::HasFailure(); ++seed) {
    Growth(seed);
  }
}

TEST(CoreNemesisTest, QuotaIsLostInAllWaysAndNothingTwice) {
  for (uint64_t seed = 401; seed <= 420 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Losses(seed).Run();
  }
}

TEST(CoreNemesisTest, NativeGangsSurviveRandomTrouble) {
  for (uint64_t seed = 1; seed <= 40 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kV1Alpha2);
  }
}

TEST(CoreNemesisTest, SlowPodsAndGroupsOfTheJobControllerChangeNothing) {
  for (uint64_t seed = 201; seed <= 220 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kV1Alpha2, /*rival=*/true);
  }
}

TEST(CoreNemesisTest, TheApiOf137ChangesNothing) {
  for (uint64_t seed = 301; seed <= 310 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kV1Beta1, /*rival=*/seed % 2 == 0);
  }
}

TEST(CoreNemesisTest, WithoutTheNativeApiTheSameHolds) {
  for (uint64_t seed = 101; seed <= 120 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kNone);
  }
}

}  // namespace
}  // namespace tutti::reconciler
