// SPDX-License-Identifier: Apache-2.0
// Victims against brute force, and whole schedules at random: who gives way may do so by policy,
// evictions end by themselves, and nobody waits for nothing.
#include "engine/preemption.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

int Seeds(int usual) {
  const char* wanted = std::getenv("TUTTI_TWIN_SEEDS");
  return wanted != nullptr ? std::max(usual, std::atoi(wanted) / 10) : usual;
}

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  int operator()(int sides) {
    return static_cast<int>(random_() % static_cast<unsigned>(std::max(1, sides)));
  }

 private:
  std::mt19937 random_;
};

constexpr FlavorResourceId kCpu{0};
constexpr FlavorResourceId kGpu{1};

// --- the search ---

struct Running {
  NodeId queue;
  int64_t priority = 0;
  Time queue_time = kNoTime;
  Time reserved_at = kNoTime;
  std::string uid;
  Usage usage;
};

class SearchWorld {
 public:
  explicit SearchWorld(Dice& dice) : dice_(dice) {
    const NodeId root = tree_.AddNode();
    const NodeId child = tree_.AddNode();
    tree_.SetParent(child, root);
    SetLimits(child, false);
    for (int index = 0; index < 4; ++index) {
      const NodeId queue = tree_.AddNode();
      if (index > 0 || dice_(4) > 0) {
        tree_.SetParent(queue, index == 3 ? root : (dice_(2) == 0 ? child : root));
      }
      SetLimits(queue, true);
      queues_.push_back(queue);
    }
    tree_.Finish();
    policy_.within_cluster_queue = Policy(3);
    policy_.reclaim_within_cohort = Policy(4);
    policy_.borrow_within_cohort = dice_(3) == 0;
    if (dice_(2) == 0) {
      policy_.max_priority_threshold = dice_(4);
    }
    for (int index = 0; index < 8; ++index) {
      Running running;
      running.queue = queues_[static_cast<size_t>(dice_(4))];
      running.priority = dice_(4);
      running.queue_time = kNoTime + std::chrono::seconds(dice_(20));
      running.reserved_at = kNoTime + std::chrono::seconds(dice_(5));
      running.uid = std::to_string(index);
      AddUsage(running.usage, kCpu, dice_(4));
      AddUsage(running.usage, kGpu, dice_(3));
      if (Fits(running.queue, running.usage)) {
        Change(running, +1);
        running_.push_back(running);
      }
    }
    AddUsage(wanted_, kCpu, 1 + dice_(6));
    AddUsage(wanted_, kGpu, dice_(4));
    priority_ = dice_(4);
    queue_time_ = kNoTime + std::chrono::seconds(dice_(20));
  }

  std::vector<Victim> Find() {
    VictimQuestion question{tree_,       queues_[0],  policy_, priority_,
                            queue_time_, Contested(), wanted_, Holders()};
    return FindVictims(question);
  }

  [[nodiscard]] std::set<FlavorResourceId> Contested() const {
    std::set<FlavorResourceId> contested;
    for (const auto& [pair, amount] : wanted_) {
      if (amount > tree_.Available(queues_[0], pair)) {
        contested.insert(pair);
      }
    }
    return contested;
  }

  [[nodiscard]] bool Fits(NodeId queue, const Usage& usage) const {
    return std::all_of(usage.begin(), usage.end(), [&](const auto& entry) {
      return entry.second <= tree_.Available(queue, entry.first);
    });
  }

  void Change(const Running& running, int sign) {
    for (const auto& [pair, amount] : running.usage) {
      if (sign > 0) {
        tree_.AddUsage(running.queue, pair, amount);
      } else {
        tree_.RemoveUsage(running.queue, pair, amount);
      }
    }
  }

  [[nodiscard]] bool MayGiveWay(const Running& running) const {
    const bool own = running.queue == queues_[0];
    const api::PreemptionPolicy policy =
        own ? policy_.within_cluster_queue : policy_.reclaim_within_cohort;
    const bool lower = running.priority < priority_;
    const bool newer = running.priority == priority_ && queue_time_ < running.queue_time;
    const std::set<FlavorResourceId> contested = Contested();
    return std::any_of(running.usage.begin(), running.usage.end(),
                       [&](const auto& entry) { return contested.contains(entry.first); }) &&
           (policy == api::PreemptionPolicy::kAny ||
            (policy != api::PreemptionPolicy::kNever && lower) ||
            (policy == api::PreemptionPolicy::kLowerOrNewerEqualPriority && newer));
  }

  [[nodiscard]] const QuotaTree& tree() const { return tree_; }
  [[nodiscard]] const std::vector<Running>& running() const { return running_; }
  [[nodiscard]] const Usage& wanted() const { return wanted_; }
  [[nodiscard]] NodeId own() const { return queues_[0]; }
  [[nodiscard]] const api::Preemption& policy() const { return policy_; }

 private:
  api::PreemptionPolicy Policy(int kinds) {
    return static_cast<api::PreemptionPolicy>(dice_(kinds));
  }

  void SetLimits(NodeId node, bool always) {
    for (const FlavorResourceId pair : {kCpu, kGpu}) {
      if (!always && dice_(2) == 0) {
        continue;
      }
      QuotaLimits limits;
      limits.nominal = dice_(6);
      if (dice_(4) == 0) {
        limits.borrowing = dice_(4);
      }
      if (dice_(4) == 0) {
        limits.lending = dice_(4);
      }
      tree_.SetLimits(node, pair, limits);
    }
  }

  std::function<void(NodeId, const std::function<void(const Holder&)>&)> Holders() {
    return [this](NodeId node, const std::function<void(const Holder&)>& visit) {
      for (uint32_t index = 0; index < running_.size(); ++index) {
        const Running& running = running_[index];
        if (running.queue == node) {
          visit({WorkloadId{index}, node, running.priority, running.queue_time, running.reserved_at,
                 false, &running.uid, &running.uid, &running.usage});
        }
      }
    };
  }

  Dice& dice_;
  QuotaTree tree_;
  std::vector<NodeId> queues_;
  api::Preemption policy_;
  std::vector<Running> running_;
  Usage wanted_;
  int64_t priority_ = 0;
  Time queue_time_ = kNoTime;
};

TEST(VictimSearchTest, VictimsAreAllowedEnoughAndNoneIsTooMany) {
  int found = 0;
  for (int seed = 0; seed < Seeds(20000); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(static_cast<unsigned>(seed));
    SearchWorld world(dice);
    if (world.Contested().empty()) {
      continue;
    }
    const std::vector<Victim> victims = world.Find();
    ASSERT_FALSE(world.Fits(world.own(), world.wanted())) << "the tree wasn't restored";
    if (victims.empty()) {
      continue;
    }
    ++found;
    std::set<WorkloadId> once;
    for (const Victim& victim : victims) {
      const Running& running = world.running()[victim.workload.value];
      ASSERT_TRUE(once.insert(victim.workload).second);
      ASSERT_TRUE(world.MayGiveWay(running));
      ASSERT_EQ(victim.queue, running.queue);
      ASSERT_EQ(victim.reason == PreemptReason::kInClusterQueue, running.queue == world.own());
    }
    for (const Victim& victim : victims) {
      world.Change(world.running()[victim.workload.value], -1);
    }
    ASSERT_TRUE(world.Fits(world.own(), world.wanted()));
    const bool borrows =
        std::any_of(world.wanted().begin(), world.wanted().end(), [&](const auto& entry) {
          return world.tree().Usage(world.own(), entry.first) + entry.second >
                 world.tree().Nominal(world.own(), entry.first);
        });
    for (const Victim& victim : victims) {
      const Running& running = world.running()[victim.workload.value];
      world.Change(running, +1);
      // Borrowing may be what the last one is needed against.
      if (borrows) {
        ASSERT_FALSE(world.Fits(world.own(), world.wanted())) << running.uid << " is too many";
      }
      world.Change(running, -1);
    }
  }
  EXPECT_GT(found, Seeds(20000) / 20);
}

TEST(VictimSearchTest, InOneQueueNobodyIsFoundOnlyIfAllTogetherAreNotEnough) {
  int refused = 0;
  for (int seed = 0; seed < Seeds(20000); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(static_cast<unsigned>(seed));
    SearchWorld world(dice);
    if (world.Contested().empty() || !world.Find().empty() ||
        world.policy().within_cluster_queue == api::PreemptionPolicy::kNever) {
      continue;
    }
    ++refused;
    std::vector<Running> gone;
    for (const Running& running : world.running()) {
      if (running.queue == world.own() && world.MayGiveWay(running)) {
        gone.push_back(running);
      }
    }
    for (const Running& running : gone) {
      world.Change(running, -1);
    }
    ASSERT_FALSE(world.Fits(world.own(), world.wanted()));
  }
  EXPECT_GT(refused, 100);
}

// --- places without some gangs ---

TEST(CapacityTrialTest, AnswersAsIfTheGangsWereGoneAndLeavesNothingBehind) {
  int placed = 0;
  for (int seed = 0; seed < Seeds(500); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(static_cast<unsigned>(seed));
    const std::unique_ptr<Capacity> with = MakeCapacity();
    const std::unique_ptr<Capacity> without = MakeCapacity();
    for (int index = 0; index < 4; ++index) {
      api::Node node;
      node.meta.name = "n" + std::to_string(index);
      node.allocatable = {{"cpu", 2 + dice(4)}, {"pods", 10}};
      with->SetNode(node);
      without->SetNode(node);
    }
    std::set<std::string> gone;
    for (int index = 0; index < 6; ++index) {
      const std::string id = "ns/g" + std::to_string(index);
      auto shape = std::make_shared<api::PodShape>();
      shape->requests["cpu"] = 1 + dice(2);
      if (dice(4) == 0) {
        shape->host_ports.push_back({"", "TCP", 80});
      }
      const bool leaves = dice(2) == 0;
      if (leaves) {
        gone.insert(id);
      }
      if (dice(2) == 0) {
        const std::string node = "n" + std::to_string(dice(4));
        with->SetPod(id, node, shape, id, "main");
        if (!leaves) {
          without->SetPod(id, node, shape, id, "main");
        }
      } else {
        const Gang gang{id, {{"main", 1 + dice(3), shape, {}, {}}}, {}};
        const FitResult fit = with->Check(gang);
        if (fit.kind == FitKind::kFits) {
          with->Reserve(gang, fit.placement);
          if (!leaves) {
            without->Reserve(gang, fit.placement);
          }
        }
      }
    }
    auto shape = std::make_shared<api::PodShape>();
    shape->requests["cpu"] = 1 + dice(3);
    const Gang gang{"ns/new", {{"main", 1 + dice(4), shape, {}, {}}}, {}};
    const FitResult before = with->Check(gang);
    const uint64_t version = with->Version();
    const uint64_t flights = with->FlightVersion();
    {
      const std::unique_ptr<CapacityTrial> trial = with->Try();
      trial->SetGone({"ns/g0", "ns/g1"});
      trial->SetGone(gone);
      const FitResult now = trial->Check(gang);
      const FitResult expected = without->Check(gang);
      ASSERT_EQ(now.kind, expected.kind);
      ASSERT_EQ(now.placement, expected.placement);
      if (now.kind == FitKind::kFits) {
        ++placed;
        trial->Promise(gang, now.placement);
        without->Reserve(gang, now.placement);
        Gang second = gang;
        second.id = "ns/second";
        ASSERT_EQ(trial->Check(second).kind, without->Check(second).kind);
      }
    }
    ASSERT_EQ(with->SanityCheck(), "");
    ASSERT_EQ(with->Version(), version);
    ASSERT_EQ(with->FlightVersion(), flights);
    const FitResult after = with->Check(gang);
    ASSERT_EQ(after.kind, before.kind);
    ASSERT_EQ(after.placement, before.placement);
  }
  EXPECT_GT(placed, Seeds(500) / 4);
}

// --- schedules ---

struct Job {
  WorkloadInput input;
  enum class State : uint8_t { kPending, kRunning, kEvicting } state = State::kPending;
  std::string queue;  // while it runs
  std::vector<std::string> pods;
};

class Schedule {
 public:
  explicit Schedule(unsigned seed) : dice_(seed), engine_(MakeEngine()) {
    places_ = dice_(2) == 0;
    for (const char* flavor : {"f1", "f2"}) {
      api::ResourceFlavor object;
      object.meta.name = flavor;
      object.node_labels["pool"] = flavor;
      engine_->SetFlavor(object);
      engine_->SetFlavorCapacityMode(flavor, places_ ? CapacityMode::kRequire : CapacityMode::kOff);
      for (int index = 0; places_ && index < 3; ++index) {
        api::Node node;
        node.meta.name = std::string(flavor) + "-" + std::to_string(index);
        node.meta.labels["pool"] = flavor;
        node.allocatable = {{"cpu", 4000}, {"pods", 20}};
        engine_->capacity().SetNode(node);
      }
    }
    for (const char* cohort : {"left", "right"}) {
      api::Cohort object;
      object.meta.name = cohort;
      object.parent = "root";
      engine_->SetCohort(object);
    }
    for (int index = 0; index < 4; ++index) {
      SetQueue(index);
    }
  }

  void Run() {
    for (int step = 0; step < 30 && !testing::Test::HasFatalFailure(); ++step) {
      FromOutside();
      edges_.clear();
      Settle();
    }
  }

  [[nodiscard]] int preemptions() const { return preemptions_; }

 private:
  void SetQueue(int index) {
    api::ClusterQueue queue;
    queue.meta.name = "q" + std::to_string(index);
    queue.namespace_selector.present = true;
    queue.cohort = index == 3 ? (dice_(2) == 0 ? "" : "root") : (dice_(2) == 0 ? "left" : "right");
    queue.strict_fifo = dice_(4) == 0;
    queue.fungibility.borrow_try_next = dice_(2) == 0;
    queue.fungibility.preempt_try_next = dice_(2) == 0;
    queue.fungibility.prefer_preemption_over_borrowing = dice_(2) == 0;
    queue.preemption.within_cluster_queue = static_cast<api::PreemptionPolicy>(dice_(3));
    queue.preemption.reclaim_within_cohort = static_cast<api::PreemptionPolicy>(dice_(4));
    queue.preemption.borrow_within_cohort = dice_(2) == 0;
    if (dice_(2) == 0) {
      queue.preemption.max_priority_threshold = dice_(4);
    }
    api::ResourceGroup group;
    group.covered_resources = {"cpu", "memory"};
    for (const char* flavor : {"f1", "f2"}) {
      api::FlavorQuotas quotas{flavor, {}};
      for (const char* resource : {"cpu", "memory"}) {
        api::ResourceQuota quota;
        quota.name = resource;
        quota.nominal = *api::Quantity::Parse(std::to_string(dice_(6)));
        if (dice_(4) == 0) {
          quota.borrowing_limit = *api::Quantity::Parse(std::to_string(dice_(4)));
        }
        if (dice_(4) == 0) {
          quota.lending_limit = *api::Quantity::Parse(std::to_string(dice_(4)));
        }
        quotas.resources.push_back(quota);
      }
      group.flavors.push_back(quotas);
    }
    queue.groups = {group};
    policies_[queue.meta.name] = queue.preemption;
    engine_->SetClusterQueue(queue);
    api::LocalQueue local;
    local.meta.ns = "ns";
    local.meta.name = queue.meta.name;
    local.cluster_queue = queue.meta.name;
    engine_->SetLocalQueue(local);
  }

  void FromOutside() {
    const int what = dice_(10);
    if (what == 0) {
      SetQueue(dice_(4));
    } else if (what < 4 && !jobs_.empty()) {
      auto job = jobs_.begin();
      std::advance(job, dice_(static_cast<int>(jobs_.size())));
      engine_->Remove(job->first);
      lingering_.insert(lingering_.end(), job->second.pods.begin(), job->second.pods.end());
      jobs_.erase(job);
    } else {
      for (int more = 1 + dice_(3); more > 0; --more) {
        Arrive();
      }
    }
  }

  void Arrive() {
    Job job;
    job.input.id = "ns/" + std::to_string(++serial_);
    job.input.uid = std::to_string(serial_);
    job.input.ns = "ns";
    job.input.local_queue = "q" + std::to_string(dice_(4));
    job.input.priority = dice_(4);
    job.input.queue_time = kNoTime + std::chrono::seconds(serial_);
    for (int index = 1 + dice_(2); index > 0; --index) {
      PodSetInput pod_set;
      pod_set.name = "p" + std::to_string(index);
      pod_set.count = 1 + dice_(3);
      auto shape = std::make_shared<api::PodShape>();
      shape->requests["cpu"] = 1000 * (1 + dice_(2));
      pod_set.requests = shape->requests;
      pod_set.requests["memory"] = dice_(2);
      pod_set.shape = std::move(shape);
      job.input.pod_sets.push_back(std::move(pod_set));
    }
    engine_->SetPending(job.input);
    jobs_[job.input.id] = std::move(job);
  }

  // Passes and evictions, in any order, until nothing moves by itself any more.
  void Settle() {
    for (int moves = 0;; ++moves) {
      ASSERT_LT(moves, 2000) << "it doesn't end: " << last_moves_;
      ASSERT_EQ(engine_->SanityCheck(), "");
      std::vector<std::string> evicting;
      for (const auto& [id, job] : jobs_) {
        if (job.state == Job::State::kEvicting) {
          evicting.push_back(id);
        }
      }
      if (engine_->NeedsPass() && ((evicting.empty() && lingering_.empty()) || dice_(2) == 0)) {
        Pass();
      } else if (!lingering_.empty() && (evicting.empty() || dice_(2) == 0)) {
        engine_->capacity().RemovePod(lingering_.back());
        lingering_.pop_back();
      } else if (!evicting.empty()) {
        Job& job =
            jobs_.at(evicting[static_cast<size_t>(dice_(static_cast<int>(evicting.size())))]);
        job.state = Job::State::kPending;
        lingering_.insert(lingering_.end(), job.pods.begin(), job.pods.end());
        job.pods.clear();
        engine_->SetPending(job.input);
      } else if (!engine_->NeedsPass()) {
        break;
      }
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
    for (const auto& [id, job] : jobs_) {
      if (job.state == Job::State::kPending) {
        const std::optional<PendingDecision> why = engine_->WhyPending(id);
        ASSERT_TRUE(why.has_value());
        ASSERT_NE(why->reason, PendingReason::kWaitingForPreemptedWorkloads)
            << id << " waits though nobody leaves";
        ASSERT_NE(why->reason, PendingReason::kPendingEvaluation) << id;
      }
    }
  }

  void Pass() {
    const PassResult result = engine_->RunPass(kNoTime + std::chrono::seconds(++now_));
    last_moves_ = last_moves_.substr(last_moves_.size() > 500 ? last_moves_.size() - 500 : 0);
    last_moves_ += " |";
    for (const AdmitDecision& decision : result.admitted) {
      last_moves_ += " +" + decision.id;
      Job& job = jobs_.at(decision.id);
      ASSERT_EQ(job.state, Job::State::kPending);
      job.state = Job::State::kRunning;
      job.queue = decision.cluster_queue;
      for (const PlacementSlot& slot : decision.placement) {
        const PodSetInput& pod_set = job.input.pod_sets[slot.pod_set];
        for (int32_t pod = 0; pod < slot.count; ++pod) {
          job.pods.push_back("pod-" + std::to_string(++pods_));
          engine_->capacity().SetPod(job.pods.back(), slot.node, pod_set.shape, job.input.id,
                                     pod_set.name);
        }
      }
      ASSERT_EQ(decision.placed, places_);
      if (dice_(2) == 0) {
        engine_->MarkAdmitted(decision.id);
      }
    }
    for (const PreemptDecision& decision : result.preempted) {
      ++preemptions_;
      last_moves_ += " -" + decision.id + "<" + decision.by;
      Job& victim = jobs_.at(decision.id);
      const Job& by = jobs_.at(decision.by);
      ASSERT_EQ(victim.state, Job::State::kRunning) << decision.id << " was told twice";
      victim.state = Job::State::kEvicting;
      ASSERT_EQ(by.state, Job::State::kPending);
      CheckPolicy(victim, by, decision);
      ASSERT_TRUE(edges_[decision.id].insert(decision.by).second) << "twice for the same one";
      ASSERT_FALSE(Reaches(decision.by, decision.id)) << decision.id << " and " << decision.by;
    }
  }

  void CheckPolicy(const Job& victim, const Job& by, const PreemptDecision& decision) {
    const api::Preemption& policies = policies_.at(by.input.local_queue);
    const bool own = victim.queue == by.input.local_queue;
    const api::PreemptionPolicy policy =
        own ? policies.within_cluster_queue : policies.reclaim_within_cohort;
    ASSERT_EQ(own, decision.reason == PreemptReason::kInClusterQueue);
    ASSERT_NE(policy, api::PreemptionPolicy::kNever);
    if (policy != api::PreemptionPolicy::kAny) {
      const bool newer = policy == api::PreemptionPolicy::kLowerOrNewerEqualPriority &&
                         victim.input.priority == by.input.priority &&
                         by.input.queue_time < victim.input.queue_time;
      ASSERT_TRUE(newer || victim.input.priority < by.input.priority);
    }
  }

  // Whether `from` was evicted for `to`, for one that was, and so on.
  bool Reaches(const std::string& from, const std::string& to) {
    const auto found = edges_.find(from);
    return found != edges_.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](const std::string& next) { return next == to || Reaches(next, to); });
  }

  Dice dice_;
  std::unique_ptr<Engine> engine_;
  bool places_ = false;
  std::map<std::string, api::Preemption> policies_;
  std::map<std::string, Job> jobs_;
  std::map<std::string, std::set<std::string>> edges_;  // victim -> for whom
  std::vector<std::string> lingering_;                  // pods that terminate
  int serial_ = 0;
  int pods_ = 0;
  int now_ = 100000;
  int preemptions_ = 0;
  std::string last_moves_;  // "+admitted", "-victim<preemptor", by pass
};

TEST(PreemptionScheduleTest, EvictionsAreLegalEndAndNeverGoInCircles) {
  int preemptions = 0;
  for (int seed = 0; seed < Seeds(400); ++seed) {
    SCOPED_TRACE(seed);
    Schedule schedule(static_cast<unsigned>(seed));
    schedule.Run();
    preemptions += schedule.preemptions();
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
  EXPECT_GT(preemptions, Seeds(400));
}

}  // namespace
}  // namespace tutti::engine
