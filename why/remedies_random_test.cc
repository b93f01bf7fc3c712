// SPDX-License-Identifier: Apache-2.0
// Random clusters in which jobs wait: each remedy, applied, starts the job, and less of it doesn't.
#include <algorithm>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "why/remedies.h"
#include "why/testing/world.h"

namespace tutti::why {
namespace {

using testing::JobSpec;
using testing::Quota;
using testing::World;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int Of(int low, int high) {
    return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int percent) { return Of(1, 100) <= percent; }

 private:
  std::mt19937_64 engine_;
};

// Adds more of a quota, by arithmetic of its own.
void AddQuota(State& state, const MoreQuota& more, int64_t amount) {
  Json queue = *state.Find("ClusterQueue", {"", more.cluster_queue});
  for (Json& group : queue.At("spec").At("resourceGroups").MutableArray()) {
    for (Json& flavor : group.At("flavors").MutableArray()) {
      for (Json& quota : flavor.At("resources").MutableArray()) {
        if (flavor["name"].AsString() == more.flavor && quota["name"].AsString() == more.resource) {
          const int64_t now =
              api::ToAmount(more.resource, *api::Quantity::FromJson(quota["nominalQuota"]));
          quota.Set("nominalQuota", api::FromAmount(more.resource, now + amount).ToString());
        }
      }
    }
  }
  state.Apply({{"ClusterQueue", {"", more.cluster_queue}, queue}});
}

struct Case {
  World world;
  std::vector<std::string> waiting;
};

void Fill(Random& random, Case& made) {
  World& world = made.world;
  const int flavors = random.Of(1, 2);
  const int nodes = random.Of(2, 5);
  std::vector<std::pair<std::string, std::string>> free_nodes;  // name, flavor
  std::map<std::string, int> free;
  for (int f = 0; f < flavors; ++f) {
    const std::string name = "f" + std::to_string(f);
    world.Flavor(name, Json::Obj({{"kind", name}}));
  }
  for (int n = 0; n < nodes; ++n) {
    const std::string name = "n" + std::to_string(n);
    const std::string flavor = "f" + std::to_string(n % flavors);
    const int cpu = random.Of(2, 8);
    world.Node(name, {{"cpu", std::to_string(cpu)}, {"memory", "64Gi"}},
               Json::Obj({{"kind", flavor}}),
               random.Chance(10) ? Json::Obj({{"unschedulable", true}}) : Json::Obj());
    free[name] = cpu;
    free_nodes.emplace_back(name, flavor);
  }
  const int queues = random.Of(1, 3);
  const bool cohort = random.Chance(60);
  std::map<std::string, int> quota_left;  // queue/flavor
  for (int q = 0; q < queues; ++q) {
    const std::string name = "q" + std::to_string(q);
    std::vector<Quota> quotas;
    for (int f = 0; f < flavors; ++f) {
      const int cpu = random.Of(1, 10);
      quotas.push_back(
          {"f" + std::to_string(f),
           {{"cpu", std::to_string(cpu)}, {"memory", random.Chance(30) ? "4Gi" : "100Gi"}}});
      quota_left[name + "/f" + std::to_string(f)] = cpu;
    }
    Json more = Json::Obj();
    if (cohort) {
      more.Set("cohortName", "all");
    }
    if (random.Chance(20)) {
      more.Set("queueingStrategy", "StrictFIFO");
    }
    if (random.Chance(30)) {
      more.Set("preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}}));
    }
    world.Queue(name, quotas, more);
    world.LocalQueue("main" + std::to_string(q), name);
  }
  world.PriorityClass("high", 1000);
  for (int j = random.Of(0, 5); j-- > 0;) {
    JobSpec spec;
    spec.name = "run" + std::to_string(j);
    const int queue = random.Of(0, queues - 1);
    spec.queue = "main" + std::to_string(queue);
    const int cpu = random.Of(1, 3);
    spec.each = {{"cpu", std::to_string(cpu)}, {"memory", "1Gi"}};
    const std::string flavor = "f" + std::to_string(random.Of(0, flavors - 1));
    std::vector<std::string> on;
    int& left = quota_left["q" + std::to_string(queue) + "/" + flavor];
    for (const auto& [node, of] : free_nodes) {
      while (of == flavor && free[node] >= cpu && left >= cpu && on.size() < 4) {
        free[node] -= cpu;
        left -= cpu;
        on.push_back(node);
      }
    }
    if (!on.empty()) {
      spec.pods = static_cast<int>(on.size());
      world.Running(spec, flavor, on);
    }
  }
  for (int j = random.Of(1, 3); j-- > 0;) {
    JobSpec spec;
    spec.name = "wait" + std::to_string(j);
    spec.queue = "main" + std::to_string(random.Of(0, queues - 1));
    spec.pods = random.Of(1, 6);
    spec.each = {{"cpu", std::to_string(random.Of(1, 5))}, {"memory", "1Gi"}};
    spec.created = "2026-12-01T12:0" + std::to_string(random.Of(0, 9)) + ":00Z";
    spec.workload = random.Chance(80);
    if (random.Chance(15)) {
      spec.pod_spec = Json::Obj({{"nodeSelector", Json::Obj({{"kind", "f0"}})}});
    }
    world.Waiting(spec);
    made.waiting.push_back(spec.name);
  }
  world.state.Finish();
}

TEST(RemediesRandomTest, EachRemedyStartsTheJobAndLessOfItDoesNot) {
  const char* wanted = std::getenv("TUTTI_WHY_SEEDS");
  const int states = wanted != nullptr ? std::atoi(wanted) : 200;  // in which a job waits
  std::map<std::string, int> kinds;
  int seen = 0;
  for (uint64_t seed = 1; seen < states; ++seed) {
    ASSERT_LT(seed, static_cast<uint64_t>(states) * 20) << "hardly any job waits";
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Case made;
    Fill(random, made);
    ASSERT_EQ(made.world.problem, "");
    const Time now = made.world.now();
    const State& state = made.world.state;
    const auto base = state.Decide(now);
    ASSERT_EQ(base->SanityCheck(), "");
    const auto starts = [&](const State& changed, const api::ObjectKey& key) {
      return Judge(*changed.Decide(now), key).kind == Verdict::Kind::kStarts;
    };
    for (const auto& [key, unit] : base->units()) {
      if (Judge(*base, key).kind != Verdict::Kind::kWaits) {
        continue;
      }
      ++seen;
      const Remedies remedies = FindRemedies(state, *base, key, now, {});
      for (const Remedy& remedy : remedies.found) {
        SCOPED_TRACE(key.ToString() + ": " + remedy.text);
        ++kinds[std::string(ToString(remedy.kind))];
        State changed = state;
        changed.Apply(remedy.edits);
        if (!remedy.jobs.empty() && remedy.kind == RemedyKind::kPriority) {
          const Verdict verdict = Judge(*changed.Decide(now), key);
          EXPECT_EQ(verdict.kind, Verdict::Kind::kPreempts);
          EXPECT_EQ(verdict.victims.size(), remedy.jobs.size());
          continue;
        }
        EXPECT_TRUE(starts(changed, key));
        if (remedy.kind == RemedyKind::kQuota) {
          for (const MoreQuota& short_one : remedy.quota) {
            State less = state;
            State same = state;
            for (const MoreQuota& more : remedy.quota) {
              AddQuota(same, more, more.amount);
              AddQuota(less, more, more.amount - (&more == &short_one ? 1 : 0));
            }
            EXPECT_TRUE(starts(same, key));
            EXPECT_FALSE(starts(less, key)) << "one unit less is enough";
          }
        }
        if (remedy.kind == RemedyKind::kNodes) {
          State less = state;
          std::vector<Edit> edits = remedy.edits;
          ASSERT_EQ(static_cast<int32_t>(edits.size()), remedy.nodes);
          edits.pop_back();
          less.Apply(edits);
          EXPECT_FALSE(starts(less, key)) << "one node less is enough";
        }
        if (remedy.kind == RemedyKind::kEnds && remedy.jobs.size() > 1) {
          for (const std::string& kept : remedy.jobs) {
            State less = state;
            const std::string name = kept.substr(kept.find('/') + 1);
            std::vector<Edit> edits;
            for (const Edit& edit : remedy.edits) {
              if (edit.key.name != name && edit.key.name != "job-" + name &&
                  !edit.key.name.starts_with(name + "-")) {
                edits.push_back(edit);
              }
            }
            less.Apply(edits);
            EXPECT_FALSE(starts(less, key)) << "without the end of " << kept;
          }
        }
      }
    }
  }
  // What the search is for was found at least now and then.
  for (const char* kind : {"ends", "quota", "nodes", "parallelism", "priority", "placement"}) {
    EXPECT_GT(kinds[kind], 0) << kind;
  }
  for (const auto& [kind, count] : kinds) {
    RecordProperty(kind, count);
    std::printf("%s: %d\n", kind.c_str(), count);
  }
}

}  // namespace
}  // namespace tutti::why
