// SPDX-License-Identifier: Apache-2.0
// Random operations on the engine beside a naive twin that recomputes the quota formulas
// recursively from names. After each pass: every admission was legal in its turn, usage reports are
// the sums, nothing that fits was left waiting, StrictFIFO was kept, a fresh engine finds nothing
// more (no lost wake-up), a second pass does nothing.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"

namespace tutti::engine {
namespace {

using Pair = std::pair<std::string, std::string>;  // flavor, resource

struct NaiveLimits {
  int64_t nominal = 0;
  std::optional<int64_t> borrowing;
  std::optional<int64_t> lending;
};

struct NaiveNode {
  std::string parent;  // "cohort:x"
  std::map<Pair, NaiveLimits> limits;
};

// The formulas of docs/engine.md, as written there.
class NaiveTree {
 public:
  std::map<std::string, NaiveNode> nodes;               // "queue:a", "cohort:x"
  std::map<std::string, std::map<Pair, int64_t>> used;  // by queue node

  [[nodiscard]] bool InCycle(const std::string& node) const {
    std::string at = node;
    for (size_t steps = 0; steps <= nodes.size() + 1; ++steps) {
      at = Parent(at);
      if (at.empty()) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] std::string Parent(const std::string& node) const {
    auto found = nodes.find(node);
    return found == nodes.end() ? "" : found->second.parent;
  }
  [[nodiscard]] NaiveLimits Limits(const std::string& node, const Pair& pair) const {
    auto found = nodes.find(node);
    if (found == nodes.end() || !found->second.limits.contains(pair)) {
      return {};
    }
    return found->second.limits.at(pair);
  }
  [[nodiscard]] int64_t Subtree(const std::string& node, const Pair& pair) const {
    int64_t sum = Limits(node, pair).nominal;
    for (const std::string& child : Children(node)) {
      sum += Subtree(child, pair) - Local(child, pair);
    }
    return sum;
  }
  [[nodiscard]] int64_t Local(const std::string& node, const Pair& pair) const {
    const auto lending = Limits(node, pair).lending;
    return lending ? std::max<int64_t>(0, Subtree(node, pair) - *lending) : 0;
  }
  [[nodiscard]] int64_t Usage(const std::string& node, const Pair& pair) const {
    int64_t sum = 0;
    if (auto found = used.find(node); found != used.end() && found->second.contains(pair)) {
      sum = found->second.at(pair);
    }
    for (const std::string& child : Children(node)) {
      sum += std::max<int64_t>(0, Usage(child, pair) - Local(child, pair));
    }
    return sum;
  }
  [[nodiscard]] int64_t Raw(const std::string& node, const Pair& pair) const {
    const std::string parent = Parent(node);
    if (parent.empty()) {
      return Subtree(node, pair) - Usage(node, pair);
    }
    int64_t rest = Raw(parent, pair);
    if (const auto borrowing = Limits(node, pair).borrowing) {
      rest = std::min(rest, Subtree(node, pair) - Local(node, pair) -
                                std::max<int64_t>(0, Usage(node, pair) - Local(node, pair)) +
                                *borrowing);
    }
    return std::max<int64_t>(0, Local(node, pair) - Usage(node, pair)) + rest;
  }
  [[nodiscard]] int64_t Available(const std::string& queue, const Pair& pair) const {
    return std::max<int64_t>(0, Raw(queue, pair));
  }

 private:
  [[nodiscard]] std::vector<std::string> Children(const std::string& node) const {
    std::vector<std::string> out;
    for (const auto& [name, other] : nodes) {
      if (other.parent == node) {
        out.push_back(name);
      }
    }
    return out;
  }
};

class Twin {
 public:
  Twin(uint32_t seed, bool with_nodes) : random_(seed), with_nodes_(with_nodes) {}

  void Run(int steps) {
    for (int index = 0; index < 3; ++index) {
      SetFlavor(index);
      SetQueue(index);
    }
    if (with_nodes_) {
      for (int index = 0; index < 3; ++index) {
        SetNode(index);
      }
    }
    for (int step = 0; step < steps; ++step) {
      Step();
      const std::string wrong = engine_->SanityCheck();
      ASSERT_EQ(wrong, "") << "step " << step << "\n" << log_;
      if (Roll(4) == 0) {
        Pass();
        if (testing::Test::HasFailure()) {
          FAIL() << "step " << step << "\n" << log_;
        }
      }
    }
  }
  [[nodiscard]] const std::string& log() const { return log_; }

 private:
  int Roll(int sides) { return static_cast<int>(random_() % static_cast<uint32_t>(sides)); }

  void Step() {
    switch (Roll(18)) {
      case 0:
        SetQueue(Roll(4));
        break;
      case 1:
        SetCohort(Roll(3));
        break;
      case 2:
        if (Roll(4) == 0) {
          const std::string name = "c" + std::to_string(Roll(3));
          engine_->RemoveCohort(name);
          cohorts_.erase(name);
          log_ += "remove cohort " + name + "\n";
        }
        break;
      case 3:
        if (Roll(3) == 0) {
          const std::string name = "q" + std::to_string(Roll(4));
          engine_->RemoveClusterQueue(name);
          queues_.erase(name);
          log_ += "remove queue " + name + "\n";
        }
        break;
      case 4: {
        const int flavor = Roll(3);
        if (Roll(3) == 0) {
          engine_->RemoveFlavor("f" + std::to_string(flavor));
          flavors_.erase("f" + std::to_string(flavor));
          log_ += "remove flavor " + std::to_string(flavor) + "\n";
        } else {
          SetFlavor(flavor);
        }
        break;
      }
      case 5:
      case 6:
      case 7:
        Finish();
        break;
      case 8:
        Reserve();
        break;
      case 9:
        if (with_nodes_) {
          if (Roll(3) == 0) {
            engine_->capacity().RemoveNode("n" + std::to_string(Roll(4)));
          } else {
            SetNode(Roll(4));
          }
        }
        break;
      case 10:
        Back();
        break;
      case 11:
        Forget();
        break;
      case 12:
        for (int index = 0; index < 6; ++index) {
          SetPending();
        }
        break;
      default:
        SetPending();
        break;
    }
  }

  void SetFlavor(int index) {
    api::ResourceFlavor flavor;
    flavor.meta.name = "f" + std::to_string(index);
    flavor.node_labels["z"] = std::to_string(index);
    engine_->SetFlavor(flavor);
    engine_->SetFlavorCapacityMode(flavor.meta.name,
                                   with_nodes_ ? CapacityMode::kRequire : CapacityMode::kOff);
    flavors_.insert(flavor.meta.name);
  }

  void SetNode(int index) {
    api::Node node;
    node.meta.name = "n" + std::to_string(index);
    node.meta.labels["z"] = std::to_string(index % 3);
    node.allocatable = {{"cpu", Roll(8)}, {"gpu", Roll(5)}, {"pods", 5 + Roll(5)}};
    engine_->capacity().SetNode(node);
  }

  std::vector<api::ResourceGroup> Groups(bool limits, bool lending_above) {
    auto quota = [&](const std::string& resource) {
      api::ResourceQuota out;
      out.name = resource;
      const int64_t nominal = Roll(10);
      out.nominal = api::FromAmount(resource, nominal);
      if (limits && Roll(3) == 0) {
        out.borrowing_limit = api::FromAmount(resource, Roll(6));
      }
      if (limits && Roll(3) == 0) {
        out.lending_limit = api::FromAmount(
            resource, Roll(static_cast<int>(nominal) + 1 + (lending_above ? 5 : 0)));
      }
      return out;
    };
    std::vector<api::ResourceGroup> groups;
    if (Roll(2) == 0) {
      api::ResourceGroup group;
      group.covered_resources = {"cpu", "gpu"};
      const int first = Roll(3);
      const int count = 1 + Roll(3);
      for (int index = 0; index < count; ++index) {
        group.flavors.push_back(
            {"f" + std::to_string((first + index) % 3), {quota("cpu"), quota("gpu")}});
      }
      groups.push_back(group);
    } else {
      const int first = Roll(3);
      groups.push_back({{"cpu"},
                        {{"f" + std::to_string(first), {quota("cpu")}},
                         {"f" + std::to_string((first + 1) % 3), {quota("cpu")}}}});
      groups.push_back({{"gpu"}, {{"f" + std::to_string((first + 2) % 3), {quota("gpu")}}}});
    }
    return groups;
  }

  void SetQueue(int index) {
    api::ClusterQueue queue;
    queue.meta.name = "q" + std::to_string(index);
    if (Roll(5) != 0) {
      queue.cohort = "c" + std::to_string(Roll(3));
    }
    queue.strict_fifo = Roll(3) == 0;
    queue.fungibility.borrow_try_next = Roll(2) == 0;
    queue.preemption.reclaim_within_cohort =
        Roll(3) == 0 ? api::PreemptionPolicy::kAny : api::PreemptionPolicy::kNever;
    queue.stop_policy = Roll(8) == 0 ? api::StopPolicy::kHold : api::StopPolicy::kNone;
    queue.namespace_selector.present = true;
    queue.groups = Groups(!queue.cohort.empty(), false);
    engine_->SetClusterQueue(queue);
    api::LocalQueue local;
    local.meta.ns = "ns";
    local.meta.name = queue.meta.name;
    local.cluster_queue = queue.meta.name;
    engine_->SetLocalQueue(local);
    queues_[queue.meta.name] = queue;
    log_ += "set queue " + queue.meta.name + "\n";
  }

  void SetCohort(int index) {
    api::Cohort cohort;
    cohort.meta.name = "c" + std::to_string(index);
    if (Roll(2) == 0) {
      // Now and then a cycle.
      const int parent = Roll(6) == 0 ? Roll(3) : index + 1;
      cohort.parent = "c" + std::to_string(parent);
    }
    cohort.groups = Groups(!cohort.parent.empty(), true);
    engine_->SetCohort(cohort);
    cohorts_[cohort.meta.name] = cohort;
    log_ += "set cohort " + cohort.meta.name + "\n";
  }

  WorkloadInput Input(int number) {
    WorkloadInput input;
    input.id = "ns/w" + std::to_string(number);
    input.uid = std::to_string(Roll(1000)) + "-" + std::to_string(number);
    input.ns = "ns";
    input.local_queue = "q" + std::to_string(Roll(4));
    input.preemption_gated = true;  // nobody gives way here; see preemption_test.cc
    input.priority = Roll(3);
    input.queue_time = kNoTime + std::chrono::seconds(Roll(20));
    const int pod_sets = 1 + (Roll(4) == 0 ? 1 : 0);
    for (int index = 0; index < pod_sets; ++index) {
      PodSetInput pod_set;
      pod_set.name = "p" + std::to_string(index);
      pod_set.count = Roll(4);
      pod_set.requests["cpu"] = Roll(4);
      if (Roll(2) == 0) {
        pod_set.requests["gpu"] = Roll(3);
      }
      auto shape = std::make_shared<api::PodShape>();
      shape->requests = pod_set.requests;
      if (Roll(3) == 0) {
        shape->node_selector["z"] = std::to_string(Roll(3));
      }
      pod_set.shape = std::move(shape);
      input.pod_sets.push_back(std::move(pod_set));
    }
    return input;
  }

  void SetPending() {
    const WorkloadInput input = Input(Roll(30));
    reserved_.erase(input.id);
    pending_[input.id] = input;
    engine_->SetPending(input);
    log_ += "pending " + input.id + " in " + input.local_queue + "\n";
  }

  void Finish() {
    if (reserved_.empty()) {
      return;
    }
    auto at = reserved_.begin();
    std::advance(at, Roll(static_cast<int>(reserved_.size())));
    log_ += "finish " + at->first + "\n";
    engine_->Remove(at->first);
    reserved_.erase(at);
  }

  // A waiting workload is deleted.
  void Forget() {
    if (pending_.empty()) {
      return;
    }
    auto at = pending_.begin();
    std::advance(at, Roll(static_cast<int>(pending_.size())));
    log_ += "forget " + at->first + "\n";
    engine_->Remove(at->first);
    pending_.erase(at);
  }

  // An admission that fell through.
  void Back() {
    if (reserved_.empty()) {
      return;
    }
    auto at = reserved_.begin();
    std::advance(at, Roll(static_cast<int>(reserved_.size())));
    const WorkloadInput input = at->second.input;
    reserved_.erase(at);
    pending_[input.id] = input;
    engine_->SetPending(input);
    log_ += "back " + input.id + "\n";
  }

  // A reservation that the API has, whoever made it.
  void Reserve() {
    const WorkloadInput input = Input(30 + Roll(5));
    api::Admission admission;
    admission.cluster_queue = "q" + std::to_string(Roll(4));
    Held held{input, admission.cluster_queue, {}, {}};
    const std::string flavor = "f" + std::to_string(Roll(3));
    for (const PodSetInput& pod_set : input.pod_sets) {
      api::PodSetAssignment assignment;
      assignment.name = pod_set.name;
      assignment.count = pod_set.count;
      for (const auto& [resource, amount] : pod_set.requests) {
        assignment.flavors[resource] = flavor;
        assignment.resource_usage[resource] = api::FromAmount(resource, amount * pod_set.count);
        held.usage[{flavor, resource}] += amount * pod_set.count;
      }
      admission.assignments.push_back(std::move(assignment));
    }
    held.admission = admission;
    pending_.erase(input.id);
    reserved_[input.id] = held;
    engine_->SetReserved(input, admission, Roll(2) == 0, with_nodes_, kNoTime);
    log_ += "reserved " + input.id + " in " + admission.cluster_queue + "\n";
  }

  [[nodiscard]] NaiveTree Tree() const {
    NaiveTree tree;
    auto limits = [](NaiveNode& node, const std::vector<api::ResourceGroup>& groups) {
      for (const api::ResourceGroup& group : groups) {
        for (const api::FlavorQuotas& flavor : group.flavors) {
          for (const api::ResourceQuota& quota : flavor.resources) {
            NaiveLimits out;
            out.nominal = api::ToAmount(quota.name, quota.nominal);
            if (quota.borrowing_limit) {
              out.borrowing = api::ToAmount(quota.name, *quota.borrowing_limit);
            }
            if (quota.lending_limit) {
              out.lending = api::ToAmount(quota.name, *quota.lending_limit);
            }
            node.limits[{flavor.name, quota.name}] = out;
          }
        }
      }
    };
    for (const auto& [name, cohort] : cohorts_) {
      NaiveNode node;
      node.parent = cohort.parent.empty() ? "" : "cohort:" + cohort.parent;
      limits(node, cohort.groups);
      tree.nodes["cohort:" + name] = node;
      if (!cohort.parent.empty()) {
        tree.nodes.try_emplace("cohort:" + cohort.parent);
      }
    }
    for (const auto& [name, queue] : queues_) {
      NaiveNode node;
      node.parent = queue.cohort.empty() ? "" : "cohort:" + queue.cohort;
      limits(node, queue.groups);
      tree.nodes["queue:" + name] = node;
      if (!queue.cohort.empty()) {
        tree.nodes.try_emplace("cohort:" + queue.cohort);
      }
    }
    for (const auto& [id, held] : reserved_) {
      if (queues_.contains(held.queue)) {
        for (const auto& [pair, amount] : held.usage) {
          tree.used["queue:" + held.queue][pair] += amount;
        }
      }
    }
    return tree;
  }

  [[nodiscard]] bool Active(const NaiveTree& tree, const std::string& name) const {
    auto found = queues_.find(name);
    if (found == queues_.end() || found->second.stop_policy != api::StopPolicy::kNone ||
        tree.InCycle("queue:" + name)) {
      return false;
    }
    for (const api::ResourceGroup& group : found->second.groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        if (!flavors_.contains(flavor.name)) {
          return false;
        }
      }
    }
    return true;
  }

  static bool Matches(const PodSetInput& pod_set, const std::string& flavor) {
    auto selector = pod_set.shape->node_selector.find("z");
    return selector == pod_set.shape->node_selector.end() || "f" + selector->second == flavor;
  }

  // A workload of one pod set: is there a flavor for each group with enough quota (and a place)?
  [[nodiscard]] bool CouldRun(const NaiveTree& tree, const WorkloadInput& input) const {
    const PodSetInput& pod_set = input.pod_sets[0];
    const api::ClusterQueue& queue = queues_.at(input.local_queue);
    std::vector<std::string> chosen;
    return CouldRunFrom(tree, input, pod_set, queue, 0, chosen);
  }
  [[nodiscard]] bool CouldRunFrom(const NaiveTree& tree, const WorkloadInput& input,
                                  const PodSetInput& pod_set, const api::ClusterQueue& queue,
                                  size_t group, std::vector<std::string>& chosen) const {
    if (group == queue.groups.size()) {
      if (!with_nodes_ || chosen.empty()) {
        return true;
      }
      Gang gang{input.id, {GangPodSet{pod_set.name, pod_set.count, pod_set.shape, {}, {}}}};
      for (const std::string& flavor : chosen) {
        // Same key in every flavor: two different ones can't be met; first wins as in the engine.
        gang.pod_sets[0].node_selector.emplace("z", flavor.substr(1));
      }
      return engine_->capacity().Check(gang).kind == FitKind::kFits &&
             engine_->capacity().CheckFlights(gang).clear;
    }
    bool wanted = false;
    for (const std::string& resource : queue.groups[group].covered_resources) {
      wanted = wanted || pod_set.requests.contains(resource);
    }
    if (!wanted) {
      return CouldRunFrom(tree, input, pod_set, queue, group + 1, chosen);
    }
    for (const api::FlavorQuotas& flavor : queue.groups[group].flavors) {
      bool fits = Matches(pod_set, flavor.name);
      for (const auto& [resource, amount] : pod_set.requests) {
        const auto& covered = queue.groups[group].covered_resources;
        if (std::find(covered.begin(), covered.end(), resource) != covered.end()) {
          fits = fits && amount * pod_set.count <=
                             tree.Available("queue:" + queue.meta.name, {flavor.name, resource});
        }
      }
      if (fits) {
        chosen.push_back(flavor.name);
        if (CouldRunFrom(tree, input, pod_set, queue, group + 1, chosen)) {
          return true;
        }
        chosen.pop_back();
      }
    }
    return false;
  }

  void Pass() {
    std::map<std::string, std::vector<std::string>> order;
    for (const auto& [name, queue] : queues_) {
      order[name] = engine_->PendingOrder(name);
    }
    PassResult result = engine_->RunPass(kNoTime);
    while (engine_->NeedsPass()) {  // those who were admitted are looked at as victims, too
      const PassResult more = engine_->RunPass(kNoTime);
      result.admitted.insert(result.admitted.end(), more.admitted.begin(), more.admitted.end());
    }
    ASSERT_EQ(engine_->SanityCheck(), "");
    std::map<std::string, size_t> admitted_of_queue;
    for (const AdmitDecision& decision : result.admitted) {
      log_ += "admitted " + decision.id + "\n";
      NaiveTree tree = Tree();
      ASSERT_TRUE(pending_.contains(decision.id)) << decision.id;
      const WorkloadInput input = pending_.at(decision.id);
      ASSERT_EQ(decision.cluster_queue, input.local_queue);
      ASSERT_TRUE(Active(tree, decision.cluster_queue)) << decision.id;
      Held held{input, decision.cluster_queue, {}, {}};
      held.admission.cluster_queue = decision.cluster_queue;
      ASSERT_EQ(decision.pod_sets.size(), input.pod_sets.size());
      for (size_t index = 0; index < input.pod_sets.size(); ++index) {
        const PodSetInput& pod_set = input.pod_sets[index];
        api::PodSetAssignment assignment;
        assignment.name = pod_set.name;
        assignment.count = pod_set.count;
        for (const auto& [resource, amount] : pod_set.requests) {
          if (pod_set.count == 0) {
            continue;
          }
          ASSERT_TRUE(decision.pod_sets[index].flavors.contains(resource));
          const std::string flavor = decision.pod_sets[index].flavors.at(resource);
          ASSERT_TRUE(Matches(pod_set, flavor));
          ASSERT_EQ(decision.pod_sets[index].usage.at(resource), amount * pod_set.count);
          held.usage[{flavor, resource}] += amount * pod_set.count;
          assignment.flavors[resource] = flavor;
          assignment.resource_usage[resource] = api::FromAmount(resource, amount * pod_set.count);
        }
        held.admission.assignments.push_back(std::move(assignment));
      }
      for (const auto& [pair, amount] : held.usage) {
        ASSERT_LE(amount, tree.Available("queue:" + decision.cluster_queue, pair))
            << decision.id << " " << pair.first << "/" << pair.second;
      }
      if (queues_.at(decision.cluster_queue).strict_fifo) {
        const auto& expected = order[decision.cluster_queue];
        ASSERT_EQ(decision.id, expected[admitted_of_queue[decision.cluster_queue]++]);
      }
      pending_.erase(decision.id);
      reserved_[decision.id] = held;
    }
    const NaiveTree tree = Tree();
    CheckReports();
    CheckNothingLeftBehind(tree);
    const PassResult again = engine_->RunPass(kNoTime);
    ASSERT_TRUE(again.admitted.empty() && again.pending.empty() && again.cycles == 0);
    if (!with_nodes_) {
      CheckFreshEngine();
    }
  }

  void CheckReports() {
    for (const auto& [name, queue] : queues_) {
      std::map<Pair, int64_t> sums;
      int reserving = 0;
      for (const auto& [id, held] : reserved_) {
        if (held.queue == name) {
          ++reserving;
          for (const auto& [pair, amount] : held.usage) {
            sums[pair] += amount;
          }
        }
      }
      const QueueReport report = engine_->Report(name);
      ASSERT_EQ(report.reserving, reserving) << name;
      for (const FlavorUsage& usage : report.usage) {
        ASSERT_EQ(usage.reserved, (sums[{usage.flavor, usage.resource}])) << name;
      }
    }
  }

  void CheckNothingLeftBehind(const NaiveTree& tree) {
    for (const auto& [id, input] : pending_) {
      const auto why = engine_->WhyPending(id);
      ASSERT_TRUE(why.has_value()) << id;
      ASSERT_NE(why->message, "");
      ASSERT_NE(why->reason, PendingReason::kPendingEvaluation) << id;
      if (!Active(tree, input.local_queue)) {
        ASSERT_TRUE(why->reason == PendingReason::kSuspended ||
                    why->reason == PendingReason::kMisconfigured)
            << id;
        continue;
      }
      const bool behind = queues_.at(input.local_queue).strict_fifo &&
                          engine_->PendingOrder(input.local_queue).front() != id;
      ASSERT_EQ(why->reason == PendingReason::kBehindHead, behind) << id;
      const bool held_back = why->message.find("kept for another") != std::string::npos;
      const bool behind_flight = why->message.find("waits behind") != std::string::npos;
      if (!behind && !held_back && !behind_flight && input.pod_sets.size() == 1) {
        ASSERT_FALSE(CouldRun(tree, input)) << id << ": " << why->message;
      }
      if (held_back) {
        bool somebody_waits = false;
        for (const auto& [name, queue] : queues_) {
          somebody_waits =
              somebody_waits || (queue.strict_fifo && engine_->Report(name).pending > 0);
        }
        ASSERT_TRUE(somebody_waits) << id;
      }
    }
  }

  // The same state built anew: it must come to the same end and the same reasons.
  void CheckFreshEngine() {
    std::unique_ptr<Engine> fresh = MakeEngine();
    for (int index = 0; index < 3; ++index) {
      api::ResourceFlavor flavor;
      flavor.meta.name = "f" + std::to_string(index);
      flavor.node_labels["z"] = std::to_string(index);
      if (flavors_.contains(flavor.meta.name)) {
        fresh->SetFlavor(flavor);
      }
      fresh->SetFlavorCapacityMode(flavor.meta.name, CapacityMode::kOff);
    }
    for (const auto& [name, cohort] : cohorts_) {
      fresh->SetCohort(cohort);
    }
    for (const auto& [id, held] : reserved_) {
      fresh->SetReserved(held.input, held.admission, false, false, kNoTime);
    }
    for (int index = 0; index < 4; ++index) {
      api::LocalQueue local;
      local.meta.ns = "ns";
      local.meta.name = "q" + std::to_string(index);
      local.cluster_queue = local.meta.name;
      if (engine_->ReportLocal(local.meta.Key()).pending > 0 || queues_.contains(local.meta.name)) {
        fresh->SetLocalQueue(local);
      }
    }
    for (const auto& [name, queue] : queues_) {
      fresh->SetClusterQueue(queue);
    }
    for (const auto& [id, input] : pending_) {
      fresh->SetPending(input);
    }
    const PassResult result = fresh->RunPass(kNoTime);
    ASSERT_EQ(fresh->SanityCheck(), "");
    for (const AdmitDecision& decision : result.admitted) {
      ADD_FAILURE() << "a fresh engine admits " << decision.id << " to " << decision.cluster_queue
                    << ", which waits because: " << engine_->WhyPending(decision.id)->message;
    }
    ASSERT_EQ(result.pending.size(), pending_.size());
  }

  struct Held {
    WorkloadInput input;
    std::string queue;
    std::map<Pair, int64_t> usage;
    api::Admission admission;
  };

  std::mt19937 random_;
  bool with_nodes_;
  std::unique_ptr<Engine> engine_ = MakeEngine();
  std::map<std::string, api::ClusterQueue> queues_;
  std::map<std::string, api::Cohort> cohorts_;
  std::set<std::string> flavors_;
  std::map<std::string, WorkloadInput> pending_;
  std::map<std::string, Held> reserved_;
  std::string log_;
};

// More seeds on request: TUTTI_TWIN_SEEDS=100000.
uint32_t Seeds(uint32_t usual) {
  const char* wanted = std::getenv("TUTTI_TWIN_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  return wanted == nullptr ? usual : static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10));
}

TEST(EngineTwinTest, QuotaDecisionsAreLegalAndComplete) {
  const uint32_t seeds = Seeds(300);
  for (uint32_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin(seed, /*with_nodes=*/false).Run(60);
  }
}

TEST(EngineTwinTest, PlacesAndQuotaGoTogether) {
  const uint32_t seeds = Seeds(100);
  for (uint32_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin(seed, /*with_nodes=*/true).Run(60);
  }
}

TEST(EngineTwinTest, SameCallsGiveTheSameDecisions) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    Twin one(seed, /*with_nodes=*/true);
    Twin two(seed, /*with_nodes=*/true);
    one.Run(60);
    two.Run(60);
    ASSERT_EQ(one.log(), two.log());
  }
}

}  // namespace
}  // namespace tutti::engine
