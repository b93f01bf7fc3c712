// SPDX-License-Identifier: Apache-2.0
// Runs engine/testdata/scenarios/*.scn: a cluster, queues and workloads in a compact notation,
// steps, and what must come out. The notation is described in testdata/scenarios/README.md.
// SanityCheck runs after every line.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"

namespace tutti::engine {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, separator)) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  return parts;
}

// "key=value" -> {key, value}; no "=" -> {text, ""}.
std::pair<std::string, std::string> KeyValue(const std::string& text) {
  const size_t at = text.find('=');
  return at == std::string::npos
             ? std::pair<std::string, std::string>{text, ""}
             : std::pair<std::string, std::string>{text.substr(0, at), text.substr(at + 1)};
}

bool TakePrefix(std::string& text, const std::string& prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.erase(0, prefix.size());
  return true;
}

api::Quantity Number(const std::string& text) {
  auto parsed = api::Quantity::Parse(text);
  EXPECT_TRUE(parsed.has_value()) << "bad quantity " << text;
  return parsed ? *parsed : api::Quantity();
}

// "k=v:Effect" or "k:Effect"
api::Taint ParseTaint(const std::string& text) {
  const auto parts = Split(text, ':');
  const auto [key, value] = KeyValue(parts[0]);
  return {key, value, parts.size() > 1 ? parts[1] : "NoSchedule"};
}

api::Toleration ParseToleration(const std::string& text) {
  const auto parts = Split(text, ':');
  const auto [key, value] = KeyValue(parts[0]);
  api::Toleration toleration;
  toleration.key = key;
  toleration.op = value.empty() ? "Exists" : "Equal";
  toleration.value = value;
  toleration.effect = parts.size() > 1 ? parts[1] : "";
  return toleration;
}

// Words like "default/cpu=10,b=5,l=2"; groups are separated by "|".
std::vector<api::ResourceGroup> ParseGroups(const std::vector<std::string>& words) {
  std::vector<api::ResourceGroup> groups(1);
  for (const std::string& word : words) {
    if (word == "|") {
      groups.emplace_back();
      continue;
    }
    api::ResourceGroup& group = groups.back();
    const auto fields = Split(word, ',');
    const auto [path, nominal] = KeyValue(fields[0]);
    // Resource names may have a slash themselves: the flavor ends at the first one.
    const std::string flavor = path.substr(0, path.find('/'));
    const std::string resource = path.substr(path.find('/') + 1);
    api::ResourceQuota quota;
    quota.name = resource;
    quota.nominal = Number(nominal);
    for (size_t index = 1; index < fields.size(); ++index) {
      const auto [key, value] = KeyValue(fields[index]);
      (key == "b" ? quota.borrowing_limit : quota.lending_limit) = Number(value);
    }
    auto& covered = group.covered_resources;
    if (std::find(covered.begin(), covered.end(), resource) == covered.end()) {
      covered.push_back(resource);
    }
    auto found = std::find_if(group.flavors.begin(), group.flavors.end(),
                              [&](const auto& known) { return known.name == flavor; });
    if (found == group.flavors.end()) {
      group.flavors.push_back({flavor, {}});
      found = group.flavors.end() - 1;
    }
    found->resources.push_back(std::move(quota));
  }
  if (groups.size() == 1 && groups[0].flavors.empty()) {
    groups.clear();
  }
  return groups;
}

class Runner {
 public:
  void Run(const std::filesystem::path& file) {
    std::ifstream in(file);
    ASSERT_TRUE(in.good()) << file;
    std::string line;
    int number = 0;
    while (std::getline(in, line)) {
      ++number;
      const size_t comment = line.find('#');
      if (comment != std::string::npos) {
        line.erase(comment);
      }
      std::istringstream words_in(line);
      std::vector<std::string> words;
      for (std::string word; words_in >> word;) {
        words.push_back(word);
      }
      if (words.empty()) {
        continue;
      }
      SCOPED_TRACE(file.filename().string() + ":" + std::to_string(number) + ": " + line);
      Line(words);
      ASSERT_EQ(engine_->SanityCheck(), "");
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }

 private:
  using Words = std::vector<std::string>;

  void Line(Words words) {
    const std::string verb = words[0];
    words.erase(words.begin());
    if (verb == "flavor") {
      Flavor(words);
    } else if (verb == "cohort") {
      Cohort(words);
    } else if (verb == "queue") {
      Queue(words);
    } else if (verb == "local") {
      Local(words);
    } else if (verb == "namespace") {
      api::StringMap labels;
      for (size_t index = 1; index < words.size(); ++index) {
        labels.insert(KeyValue(words[index]));
      }
      engine_->SetNamespace(words[0], labels);
    } else if (verb == "node") {
      Node(words);
    } else if (verb == "pod") {
      Pod(words);
    } else if (verb == "pending") {
      const WorkloadInput input = Workload(words);
      inputs_[input.id] = input;
      engine_->SetPending(input);
    } else if (verb == "reserved") {
      Reserved(words);
    } else if (verb == "rules") {
      Rules rules;
      for (const std::string& word : words) {
        rules.priority_within_cohort &= word != "by-age";
        rules.ignore_undeclared |= word == "ignore-undeclared";
        rules.tell_bypassed |= word == "tell-bypassed";
      }
      engine_->SetRules(rules);
    } else if (verb == "fair") {
      FairSharing fair;
      for (const std::string& word : words) {
        fair.strategies.push_back(word == "final" ? FairStrategy::kLessThanOrEqualToFinalShare
                                                  : FairStrategy::kLessThanInitialShare);
      }
      engine_->SetFairSharing(fair);
    } else if (verb == "past") {
      AdmissionFairSharing past;
      for (const std::string& word : words) {
        const auto [key, value] = KeyValue(word);
        if (key == "half-life") {
          past.usage_half_life = std::chrono::minutes(std::stoi(value));
        } else if (key == "sampling") {
          past.usage_sampling_interval = std::chrono::minutes(std::stoi(value));
        } else {
          past.resource_weights[key] = std::stod(value);
        }
      }
      engine_->SetAdmissionFairSharing(past);
    } else if (verb == "clock") {
      now_ = kNoTime + std::chrono::minutes(std::stoi(words[0]));
    } else if (verb == "consumed") {
      Consumption consumed;
      for (size_t index = 1; index < words.size(); ++index) {
        const auto [resource, amount] = KeyValue(words[index]);
        consumed[resource] = std::stod(amount);
      }
      engine_->RestoreConsumption(LocalKey(words[0]), consumed, now_);
    } else if (verb == "sample") {
      engine_->SampleConsumption(LocalKey(words[0]), now_);
    } else if (verb == "admit") {
      engine_->MarkAdmitted(words[0]);
    } else if (verb == "finish") {
      engine_->Remove(words[0]);
    } else if (verb == "partial") {
      engine_->SetPartialAdmission(words[0] == "on");
    } else if (verb == "evicting") {
      engine_->MarkEvicting(words[0], words.size() < 2 || words[1] != "no");
    } else if (verb == "evicted") {
      engine_->SetPending(inputs_.at(words[0]));  // its pods are gone
    } else if (verb == "remove") {
      RemoveObject(words);
    } else if (verb == "problem") {
      engine_->SetQueueProblem(words[0], words.size() > 1 ? words[1] : "", "is blocked outside");
    } else if (verb == "pass") {
      last_ = engine_->RunPass(Tick());
      // Who was admitted just now is spared; whoever has to give way does so in the next pass.
      for (int more = 0; more < 8 && engine_->NeedsPass(); ++more) {
        PassResult next = engine_->RunPass(Tick());
        last_.admitted.insert(last_.admitted.end(), next.admitted.begin(), next.admitted.end());
        last_.preempted.insert(last_.preempted.end(), next.preempted.begin(), next.preempted.end());
        last_.pending.insert(last_.pending.end(), next.pending.begin(), next.pending.end());
      }
      EXPECT_FALSE(engine_->NeedsPass());
      for (const PreemptDecision& decision : last_.preempted) {
        ++evictions_[decision.id];
      }
      for (const AdmitDecision& decision : last_.admitted) {
        decisions_[decision.id] = decision;
        api::Admission& admission = admissions_[decision.id];
        admission = {decision.cluster_queue, {}};
        for (const PodSetDecision& pod_set : decision.pod_sets) {
          api::PodSetAssignment assignment;
          assignment.name = pod_set.name;
          assignment.flavors = pod_set.flavors;
          assignment.count = pod_set.count;
          for (const auto& [resource, amount] : pod_set.usage) {
            assignment.resource_usage[resource] = api::FromAmount(resource, amount);
          }
          admission.assignments.push_back(std::move(assignment));
        }
      }
      for (const PendingDecision& decision : last_.pending) {
        told_[decision.id] = decision;
      }
    } else if (verb == "usage") {
      CheckUsage(words, [](const FlavorUsage& usage) { return usage.reserved; });
    } else if (verb == "admitted-usage") {
      CheckUsage(words, [](const FlavorUsage& usage) { return usage.admitted; });
    } else if (verb == "borrowed") {
      CheckUsage(words, [](const FlavorUsage& usage) { return usage.borrowed; });
    } else if (verb == "expect") {
      Expect(words);
    } else {
      FAIL() << "unknown verb " << verb;
    }
  }

  void Flavor(const Words& words) {
    api::ResourceFlavor flavor;
    flavor.meta.name = words[0];
    CapacityMode mode = CapacityMode::kOff;
    for (size_t index = 1; index < words.size(); ++index) {
      std::string word = words[index];
      if (TakePrefix(word, "taint:")) {
        flavor.node_taints.push_back(ParseTaint(word));
      } else if (TakePrefix(word, "tolerate:")) {
        flavor.tolerations.push_back(ParseToleration(word));
      } else if (TakePrefix(word, "mode:")) {
        mode = word == "require"   ? CapacityMode::kRequire
               : word == "observe" ? CapacityMode::kObserve
               : word == "release" ? CapacityMode::kRelease
                                   : CapacityMode::kOff;
      } else {
        flavor.node_labels.insert(KeyValue(word));
      }
    }
    engine_->SetFlavor(flavor);
    engine_->SetFlavorCapacityMode(words[0], mode);
  }

  void Cohort(const Words& words) {
    api::Cohort cohort;
    cohort.meta.name = words[0];
    Words groups;
    for (size_t index = 1; index < words.size(); ++index) {
      std::string word = words[index];
      if (TakePrefix(word, "parent=")) {
        cohort.parent = word;
      } else if (TakePrefix(word, "problem=")) {
        cohort.problem = word;
      } else if (TakePrefix(word, "weight=")) {
        cohort.fair_weight = Number(word);
      } else {
        groups.push_back(word);
      }
    }
    cohort.groups = ParseGroups(groups);
    engine_->SetCohort(cohort);
  }

  void Queue(const Words& words) {
    api::ClusterQueue queue;
    queue.meta.name = words[0];
    queue.namespace_selector.present = true;
    Words groups;
    for (size_t index = 1; index < words.size(); ++index) {
      std::string word = words[index];
      if (TakePrefix(word, "cohort=")) {
        queue.cohort = word;
      } else if (TakePrefix(word, "weight=")) {
        queue.fair_weight = Number(word);
      } else if (word == "usage-based") {
        queue.usage_based_admission = true;
      } else if (word == "strict") {
        queue.strict_fifo = true;
      } else if (word == "borrow-next") {
        queue.fungibility.borrow_try_next = true;
      } else if (word == "preempt-stop") {
        queue.fungibility.preempt_try_next = false;
      } else if (word == "prefer-preemption") {
        queue.fungibility.prefer_preemption_over_borrowing = true;
      } else if (TakePrefix(word, "within=")) {
        queue.preemption.within_cluster_queue = Policy(word);
      } else if (TakePrefix(word, "reclaim=")) {
        queue.preemption.reclaim_within_cohort = Policy(word);
      } else if (word == "borrow-within" || TakePrefix(word, "borrow-within=")) {
        queue.preemption.borrow_within_cohort = true;
        if (word != "borrow-within") {
          queue.preemption.max_priority_threshold = std::stoi(word);
        }
      } else if (word == "stop") {
        queue.stop_policy = api::StopPolicy::kHold;
      } else if (word == "terminating") {
        queue.meta.deleted = kNoTime;
      } else if (word == "selector=none") {
        queue.namespace_selector.present = false;
      } else if (TakePrefix(word, "selector=")) {
        const auto [key, value] = KeyValue(word);
        queue.namespace_selector.requirements.push_back({key, "In", {value}});
      } else if (TakePrefix(word, "problem=")) {
        queue.problem = word;
      } else {
        groups.push_back(word);
      }
    }
    queue.groups = ParseGroups(groups);
    engine_->SetClusterQueue(queue);
    Local({"default/" + words[0], words[0]});
  }

  // Each pass has a time of its own, unless `clock` has set one.
  Time Tick() { return now_ != kNoTime ? now_ : kNoTime + std::chrono::seconds(++clock_); }

  static api::PreemptionPolicy Policy(const std::string& word) {
    return word == "any"     ? api::PreemptionPolicy::kAny
           : word == "lower" ? api::PreemptionPolicy::kLowerPriority
           : word == "newer" ? api::PreemptionPolicy::kLowerOrNewerEqualPriority
                             : api::PreemptionPolicy::kNever;
  }

  static api::ObjectKey LocalKey(const std::string& text) {
    const size_t slash = text.find('/');
    return {text.substr(0, slash), text.substr(slash + 1)};
  }

  void Local(const Words& words) {
    api::LocalQueue local;
    local.meta.ns = LocalKey(words[0]).ns;
    local.meta.name = LocalKey(words[0]).name;
    local.cluster_queue = words[1];
    for (size_t index = 2; index < words.size(); ++index) {
      std::string word = words[index];
      if (word == "stop") {
        local.stop_policy = api::StopPolicy::kHold;
      } else if (TakePrefix(word, "weight=")) {
        local.fair_weight = Number(word);
      }
    }
    engine_->SetLocalQueue(local);
  }

  void Node(const Words& words) {
    api::Node node;
    node.meta.name = words[0];
    node.allocatable["pods"] = 110;
    for (size_t index = 1; index < words.size(); ++index) {
      std::string word = words[index];
      if (word == "cordoned") {
        node.unschedulable = true;
      } else if (TakePrefix(word, "taint:")) {
        node.taints.push_back(ParseTaint(word));
      } else if (TakePrefix(word, "@")) {
        node.meta.labels.insert(KeyValue(word));
      } else {
        const auto [resource, amount] = KeyValue(word);
        node.allocatable[resource] = api::ToAmount(resource, Number(amount));
      }
    }
    engine_->capacity().SetNode(node);
  }

  // pod UID NODE cpu=1 [gang=ID/podset]
  void Pod(const Words& words) {
    auto shape = std::make_shared<api::PodShape>();
    std::string gang;
    std::string pod_set;
    for (size_t index = 2; index < words.size(); ++index) {
      std::string word = words[index];
      if (TakePrefix(word, "gang=")) {
        gang = word.substr(0, word.find('/'));
        pod_set = word.substr(word.find('/') + 1);
      } else {
        const auto [resource, amount] = KeyValue(word);
        shape->requests[resource] = api::ToAmount(resource, Number(amount));
      }
    }
    engine_->capacity().SetPod(words[0], words[1], shape, gang, pod_set);
  }

  // main=3x(cpu=1,memory=1Gi)[/sel:k=v][/tol:k=v][/aff:k=v1+v2][/spread]
  static PodSetInput PodSet(const std::string& text) {
    PodSetInput pod_set;
    const auto [name, rest] = KeyValue(text);
    pod_set.name = name;
    auto shape = std::make_shared<api::PodShape>();
    const size_t times = rest.find('x');
    pod_set.count = std::stoi(rest.substr(0, times));
    const size_t open = rest.find('(');
    const size_t close = rest.find(')');
    for (const std::string& request : Split(rest.substr(open + 1, close - open - 1), ',')) {
      const auto [resource, amount] = KeyValue(request);
      pod_set.requests[resource] = api::ToAmount(resource, Number(amount));
      if (pod_set.requests[resource] > 0) {
        shape->requests[resource] = pod_set.requests[resource];
      }
    }
    for (std::string option : Split(rest.substr(close + 1), '/')) {
      if (TakePrefix(option, "min:")) {
        pod_set.min_count = std::stoi(option);
      } else if (TakePrefix(option, "sel:")) {
        shape->node_selector.insert(KeyValue(option));
      } else if (TakePrefix(option, "tol:")) {
        shape->tolerations.push_back(ParseToleration(option));
      } else if (TakePrefix(option, "aff:")) {
        shape->has_required_affinity = true;
        api::NodeSelectorTerm term;
        for (const std::string& requirement : Split(option, '&')) {
          const auto [key, values] = KeyValue(requirement);
          term.expressions.push_back({key, "In", Split(values, '+')});
        }
        shape->required_affinity.push_back(std::move(term));
      } else if (option == "spread") {
        shape->has_topology_spread = true;
      } else {
        ADD_FAILURE() << "unknown pod set option " << option;
      }
    }
    pod_set.shape = std::move(shape);
    return pod_set;
  }

  WorkloadInput Workload(const Words& words) {
    WorkloadInput input;
    input.id = words[0];
    input.uid = "uid-" + words[0];
    input.workload_uid = "w-" + words[0];
    input.job_uid = "j-" + words[0];
    input.ns = "default";
    input.queue_time = kNoTime + std::chrono::seconds(++clock_);
    for (size_t index = 1; index < words.size(); ++index) {
      std::string word = words[index];
      if (TakePrefix(word, "queue=")) {
        input.local_queue = word;
      } else if (TakePrefix(word, "ns=")) {
        input.ns = word;
      } else if (TakePrefix(word, "prio=")) {
        input.priority = std::stoll(word);
      } else if (TakePrefix(word, "t=")) {
        input.queue_time = kNoTime + std::chrono::seconds(std::stoll(word));
      } else if (TakePrefix(word, "uid=")) {
        input.uid = word;
      } else if (TakePrefix(word, "replaces=")) {
        input.replaces = word;
        if (const auto known = admissions_.find(word); known != admissions_.end()) {
          input.replaced = known->second;
        }
      } else if (word == "gated") {
        input.preemption_gated = true;
      } else if (TakePrefix(word, "bad=")) {
        input.misconfigured = word;
      } else if (word != "admitted" && word != "plan" && !word.starts_with("@")) {
        input.pod_sets.push_back(PodSet(word));
      }
    }
    return input;
  }

  // reserved ID queue=Q [cq=..] [admitted] [plan] main=2x(cpu=1) @FLAVOR [reclaimed=n]
  void Reserved(Words words) {
    std::string flavor;
    bool admitted = false;
    bool plan = false;
    std::optional<int32_t> effective;
    Time at_time = kNoTime;
    for (auto at = words.begin(); at != words.end();) {
      std::string word = *at;
      if (TakePrefix(word, "left=")) {
        effective = std::stoi(word);
        at = words.erase(at);
        continue;
      }
      if (TakePrefix(word, "at=")) {
        at_time = kNoTime + std::chrono::seconds(std::stoll(word));
        at = words.erase(at);
        continue;
      }
      admitted = admitted || word == "admitted";
      plan = plan || word == "plan";
      if (TakePrefix(word, "@")) {
        flavor = word;
      }
      ++at;
    }
    WorkloadInput input = Workload(words);
    inputs_[input.id] = input;
    api::Admission admission;
    admission.cluster_queue = input.local_queue;
    for (PodSetInput& pod_set : input.pod_sets) {
      api::PodSetAssignment assignment;
      assignment.name = pod_set.name;
      assignment.count = pod_set.count;
      for (const auto& [resource, amount] : pod_set.requests) {
        assignment.flavors[resource] = flavor;
        assignment.resource_usage[resource] =
            api::FromAmount(resource, api::SaturatingMul(amount, pod_set.count));
      }
      admission.assignments.push_back(std::move(assignment));
      pod_set.count = effective.value_or(pod_set.count);
    }
    admissions_[input.id] = admission;
    planned_ = engine_->SetReserved(input, admission, admitted, plan, at_time);
  }

  void RemoveObject(const Words& words) {
    const std::string& name = words[1];
    if (words[0] == "flavor") {
      engine_->RemoveFlavor(name);
    } else if (words[0] == "cohort") {
      engine_->RemoveCohort(name);
    } else if (words[0] == "queue") {
      engine_->RemoveClusterQueue(name);
    } else if (words[0] == "local") {
      const size_t slash = name.find('/');
      engine_->RemoveLocalQueue({name.substr(0, slash), name.substr(slash + 1)});
    } else if (words[0] == "node") {
      engine_->capacity().RemoveNode(name);
    } else if (words[0] == "pod") {
      engine_->capacity().RemovePod(name);
    } else if (words[0] == "namespace") {
      engine_->RemoveNamespace(name);
    } else {
      FAIL() << "what is " << words[0];
    }
  }

  template <typename Member>
  void CheckUsage(const Words& words, Member member) {
    const QueueReport report =
        words[0].find('/') == std::string::npos
            ? engine_->Report(words[0])
            : engine_->ReportLocal({words[0].substr(0, words[0].find('/')),
                                    words[0].substr(words[0].find('/') + 1)});
    for (const FlavorUsage& usage : report.usage) {
      if (usage.flavor == words[1] && usage.resource == words[2]) {
        EXPECT_EQ(member(usage), api::ToAmount(words[2], Number(words[3])));
        return;
      }
    }
    FAIL() << "not reported";
  }

  void Expect(Words words) {
    const std::string what = words[0];
    words.erase(words.begin());
    if (what == "admitted") {
      Words ids;
      for (const AdmitDecision& decision : last_.admitted) {
        ids.push_back(decision.id);
      }
      EXPECT_EQ(ids, words[0] == "none" ? Words{} : words);
    } else if (what == "preempted") {  // VICTIM<PREEMPTOR[:Reason]
      Words decisions;
      for (const PreemptDecision& decision : last_.preempted) {
        decisions.push_back(decision.id + "<" + decision.by);
        if (decisions.size() <= words.size() &&
            words[decisions.size() - 1].find(':') != std::string::npos) {
          decisions.back() += ":" + std::string(ToString(decision.reason));
        }
      }
      EXPECT_EQ(decisions, words[0] == "none" ? Words{} : words);
    } else if (what == "evictions") {  // ID COUNT, of all passes
      EXPECT_EQ(evictions_[words[0]], std::stoi(words[1]));
    } else if (what == "preempted-message") {
      for (const PreemptDecision& decision : last_.preempted) {
        if (decision.id == words[0]) {
          ExpectText(Describe(decision), Words(words.begin() + 1, words.end()));
          return;
        }
      }
      FAIL() << "was not preempted";
    } else if (what == "pending") {
      const auto why = engine_->WhyPending(words[0]);
      ASSERT_TRUE(why.has_value());
      EXPECT_EQ(ToString(why->reason), words[1]) << why->message;
      EXPECT_NE(why->message, "");
      ExpectText(why->message, Words(words.begin() + 2, words.end()));
    } else if (what == "told") {
      // Of the pass: how many, or ID REASON [text].
      if (words.size() == 1) {
        EXPECT_EQ(last_.pending.size(), std::stoul(words[0])) << Told();
        return;
      }
      ASSERT_TRUE(told_.contains(words[0]));
      EXPECT_EQ(ToString(told_[words[0]].reason), words[1]);
      ExpectText(told_[words[0]].message, Words(words.begin() + 2, words.end()));
    } else if (what == "flavor") {  // ID PODSET RESOURCE FLAVOR
      ASSERT_TRUE(decisions_.contains(words[0]));
      for (const PodSetDecision& pod_set : decisions_[words[0]].pod_sets) {
        if (pod_set.name == words[1]) {
          EXPECT_EQ(pod_set.flavors.at(words[2]), words[3]);
          return;
        }
      }
      FAIL() << "no such pod set";
    } else if (what == "count") {  // ID PODSET PODS
      for (const PodSetDecision& pod_set : decisions_.at(words[0]).pod_sets) {
        if (pod_set.name == words[1]) {
          EXPECT_EQ(pod_set.count, std::stoi(words[2]));
          return;
        }
      }
      FAIL() << "no such pod set";
    } else if (what == "borrows") {
      EXPECT_EQ(decisions_.at(words[0]).borrows, words[1] == "yes");
    } else if (what == "placed") {
      EXPECT_EQ(decisions_.at(words[0]).placed, words[1] == "yes");
    } else if (what == "node") {  // ID PODSET-INDEX NODE COUNT
      int32_t count = 0;
      for (const PlacementSlot& slot : decisions_.at(words[0]).placement) {
        if (slot.pod_set == std::stoul(words[1]) && slot.node == words[2]) {
          count += slot.count;
        }
      }
      EXPECT_EQ(count, std::stoi(words[3]));
    } else if (what == "note") {
      ExpectText(decisions_.at(words[0]).note, Words(words.begin() + 1, words.end()));
    } else if (what == "needs-pass") {
      EXPECT_EQ(engine_->NeedsPass(), words[0] == "yes");
    } else if (what == "health") {
      const QueueHealth health = engine_->Health(words[0]);
      EXPECT_EQ(health.reason, words[1]);
      EXPECT_EQ(health.active, words[1] == "Ready");
      ExpectText(health.message, Words(words.begin() + 2, words.end()));
    } else if (what == "order") {
      EXPECT_EQ(engine_->PendingOrder(words[0]), Words(words.begin() + 1, words.end()));
    } else if (what == "counts") {  // QUEUE pending reserving admitted
      const QueueReport report =
          words[0].find('/') == std::string::npos
              ? engine_->Report(words[0])
              : engine_->ReportLocal({words[0].substr(0, words[0].find('/')),
                                      words[0].substr(words[0].find('/') + 1)});
      EXPECT_EQ(report.pending, std::stoi(words[1]));
      EXPECT_EQ(report.reserving, std::stoi(words[2]));
      EXPECT_EQ(report.admitted, std::stoi(words[3]));
    } else if (what == "parked") {  // QUEUE n
      const QueueReport report = words[0].find('/') == std::string::npos
                                     ? engine_->Report(words[0])
                                     : engine_->ReportLocal(LocalKey(words[0]));
      EXPECT_EQ(report.parked, std::stoi(words[1]));
    } else if (what == "wanted") {  // QUEUE RESOURCE AMOUNT
      EXPECT_EQ(engine_->PendingRequests(words[0]).at(words[1]),
                api::ToAmount(words[1], Number(words[2])));
    } else if (what == "subtree") {  // COHORT FLAVOR RESOURCE QUOTA RESERVED
      for (const FlavorUsage& usage : engine_->ReportCohort(words[0]).usage) {
        if (usage.flavor == words[1] && usage.resource == words[2]) {
          EXPECT_EQ(usage.nominal, api::ToAmount(words[2], Number(words[3])));
          EXPECT_EQ(usage.reserved, api::ToAmount(words[2], Number(words[4])));
          return;
        }
      }
      FAIL() << "not reported";
    } else if (what == "share") {  // QUEUE|cohort:NAME SHARE|max|none
      std::string name = words[0];
      const std::optional<double> share = TakePrefix(name, "cohort:")
                                              ? engine_->CohortShare(name)
                                              : engine_->Report(name).weighted_share;
      EXPECT_EQ(share ? std::to_string(RoundShare(*share)) : "none",
                words[1] == "max" ? std::to_string(std::numeric_limits<int64_t>::max()) : words[1]);
    } else if (what == "past") {  // NS/L USAGE|none
      const std::optional<PastUsage> past = engine_->PastUsageOf(LocalKey(words[0]));
      ASSERT_EQ(past.has_value(), words[1] != "none");
      if (past) {
        EXPECT_NEAR(past->usage, std::stod(words[1]), 1e-9);
      }
    } else if (what == "planned") {
      EXPECT_EQ(planned_, words[0] == "yes");
    } else {
      FAIL() << "unknown expectation " << what;
    }
  }

  // The words must occur as one text.
  static void ExpectText(const std::string& text, const Words& words) {
    std::string wanted;
    for (const std::string& word : words) {
      wanted += (wanted.empty() ? "" : " ") + word;
    }
    EXPECT_NE(text.find(wanted), std::string::npos) << "text: " << text << "\nwanted: " << wanted;
  }

  [[nodiscard]] std::string Told() const {
    std::string text;
    for (const PendingDecision& decision : last_.pending) {
      text += decision.id + ": " + std::string(ToString(decision.reason)) + ": " +
              decision.message + "\n";
    }
    return text;
  }

  std::unique_ptr<Engine> engine_ = MakeEngine();
  PassResult last_;
  Time now_ = kNoTime;  // as `clock` says
  std::map<std::string, AdmitDecision> decisions_;
  std::map<std::string, PendingDecision> told_;
  std::map<std::string, WorkloadInput> inputs_;
  std::map<std::string, api::Admission> admissions_;
  std::map<std::string, int> evictions_;
  bool planned_ = false;
  int64_t clock_ = 1000;
};

std::vector<std::string> ScenarioFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TUTTI_SOURCE_DIR) +
                                                               "/engine/testdata/scenarios")) {
    if (entry.path().extension() == ".scn") {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ScenarioTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, EndsAsWritten) {
  Runner().Run(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, ScenarioTest, testing::ValuesIn(ScenarioFiles()), [](const auto& parameter) {
      std::string name = std::filesystem::path(parameter.param).stem().string();
      std::replace_if(
          name.begin(), name.end(),
          [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return name;
    });

}  // namespace
}  // namespace tutti::engine
