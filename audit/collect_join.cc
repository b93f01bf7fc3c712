// SPDX-License-Identifier: Apache-2.0
// The end of collecting: pods to their gangs, Workloads to their jobs, and what is missing.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "api/pod_requests.h"
#include "audit/collect.h"
#include "audit/text.h"
#include "base/names.h"

namespace tutti::audit {
namespace {

struct Wanted {
  const char* kind;
  const char* what;
};
// Without these something can't be said.
constexpr std::array kWanted = {
    Wanted{"Pod", "no Pod in the input: who started partially can't be seen"},
    Wanted{"Node", "no Node in the input: free capacity, fragments and quotas can't be judged"},
    Wanted{"Job", "no Job in the input: only pod groups and other kinds of jobs are judged"},
};

std::pair<std::string, std::string> NameOf(const std::string& unit, const std::string& kind) {
  const size_t slash = unit.find('/', kind.size());
  return {unit.substr(kind.size() + 1, slash - kind.size() - 1), unit.substr(slash + 1)};
}

// "Job" of "Job ns/name"; kinds may have a space in them.
std::string KindOf(const std::string& unit) {
  return unit.substr(0, unit.rfind(' '));
}

}  // namespace

void Collector::JoinWorkloads() {
  for (api::Workload& workload : workloads_) {
    const std::string& ns = workload.meta.ns;
    const api::OwnerReference* owner = workload.meta.Controller();
    if (owner == nullptr && !workload.meta.owners.empty()) {
      owner = &workload.meta.owners.front();  // a pod group's
    }
    std::string kind = owner == nullptr ? "Workload" : owner->kind;
    std::string name = owner == nullptr ? workload.meta.name : owner->name;
    if (kind == "Pod") {
      kind = "pod group";
      name = workload.meta.name;
    }
    int64_t size = 0;
    for (const api::PodSet& pod_set : workload.pod_sets) {
      size += pod_set.count;
    }
    const std::string unit = kind + " " + ns + "/" + name;
    if (!units_.contains(unit) && (size <= 1 || kind == "Job")) {
      continue;  // one pod, or of a Job that the input lacks
    }
    Gang& gang = GangOf(unit, kind, ns, name);
    if (!gang.known) {
      gang.known = true;
      gang.sure = kind == "pod group" ? GangKind::kDeclared : GangKind::kAssumed;
      gang.size = static_cast<int32_t>(std::min<int64_t>(size, INT32_MAX));
      gang.created = workload.meta.created;
      for (const api::PodSet& pod_set : workload.pod_sets) {
        gang.parts.push_back({pod_set.name, pod_set.count,
                              pod_set.template_json.empty()
                                  ? nullptr
                                  : std::make_shared<const std::string>(pod_set.template_json)});
      }
      gang.finished = workload.Finished();
      if (const api::Condition* end = api::FindCondition(workload.status.conditions, "Finished");
          end != nullptr && end->status == "True") {
        gang.ended = end->last_transition;
      }
      gang.suspended = !workload.Admitted();
    }
    if (gang.queue.empty()) {
      gang.queue = workload.queue_name;
    }
    if (gang.uid.empty() && kind != "pod group") {
      gang.uid = owner == nullptr ? workload.meta.uid : owner->uid;
    }
    if (const api::Condition* evicted = api::FindCondition(workload.status.conditions, "Evicted");
        evicted != nullptr && evicted->status == "True") {
      gang.evicted = evicted->last_transition;
      gang.evicted_for = evicted->reason;
    }
    if (!workload.Finished() && !workload.QuotaReserved()) {
      gang.waits_for_quota = true;
      if (const api::Condition* condition =
              api::FindCondition(workload.status.conditions, "QuotaReserved")) {
        gang.quota_message = condition->message;
      }
    }
  }
  workloads_.clear();
}

void Collector::JoinPods() {
  std::map<std::string, size_t> homeless;  // pods of jobs that are not in the input, by kind
  for (LoosePod& pod : pods_) {
    const std::string kind = KindOf(pod.unit);
    if (!units_.contains(pod.unit)) {
      if (pod.total <= 1) {
        ++homeless[kind];
        if (options_.for_ledger && pod.times.bound != kNoTime) {
          facts_.others.push_back({pod.ns, std::move(pod.times)});
        }
        continue;
      }
      const auto [ns, name] = NameOf(pod.unit, kind);
      Gang& fresh = GangOf(pod.unit, kind, ns, name);
      fresh.known = true;
      fresh.sure = GangKind::kDeclared;
      fresh.size = pod.total;
      fresh.created = pod.times.created;
    }
    Gang& gang = facts_.gangs[units_[pod.unit]];
    if (!pod.group.empty()) {
      if (const auto quorum = quorums_.find(pod.ns + "/" + pod.group);
          quorum != quorums_.end() && quorum->second > 1 && kind == "Job") {
        gang.sure = GangKind::kDeclared;
        gang.size = std::min(gang.size, quorum->second);
      }
    }
    if (gang.created == kNoTime || (kind == "pod group" && pod.times.created < gang.created)) {
      gang.created = pod.times.created;
    }
    gang.pods.push_back(std::move(pod.times));
  }
  pods_.clear();
  pods_.shrink_to_fit();
  for (const auto& [kind, count] : homeless) {
    Note(cli::Count(count, "Pod") + " of the kind of job " + kind +
         " whose job is not in the input, or whose size nothing says: not judged");
  }
}

void Collector::CountDevices() {
  // Templates are shared by many jobs.
  std::map<std::pair<std::string, const std::string*>, api::Amounts> of_template;
  for (Gang& gang : facts_.gangs) {
    std::set<std::string> shared;
    for (PodTimes& pod : gang.pods) {
      pod.devices = facts_.DevicesOf(gang.ns, *pod.shape, &shared);
    }
    if (!options_.for_ledger) {
      continue;
    }
    int32_t left = gang.size;
    for (const PartOfGang& part : gang.parts) {
      const int32_t count = std::min(part.count, left);
      if (part.pod_template == nullptr || count <= 0) {
        continue;
      }
      const auto [known, fresh] = of_template.try_emplace({gang.ns, part.pod_template.get()});
      if (fresh) {
        if (const Result<Json> json = Json::Parse(*part.pod_template)) {
          if (const auto shape = facts_.cluster->Shape(gang.ns, "spec.template", *json)) {
            known->second = facts_.DevicesOf(gang.ns, **shape);
          }
        }
      }
      for (const auto& [resource, amount] : known->second) {
        gang.devices[resource] += amount * count;
      }
      left -= count;
    }
    if (gang.devices.empty() && !gang.pods.empty()) {  // a pod group, or ended: as its pods
      for (const auto& [resource, amount] : gang.pods.front().devices) {
        gang.devices[resource] = amount * gang.size;
      }
    }
  }
  for (OtherPod& pod : facts_.others) {
    pod.times.devices = facts_.DevicesOf(pod.ns, *pod.times.shape);
  }
  std::erase_if(facts_.others, [](const OtherPod& pod) { return pod.times.devices.empty(); });
}

void Collector::Demand() {
  std::map<std::shared_ptr<const api::PodShape>, size_t> whole;
  for (const Gang& gang : facts_.gangs) {
    for (const PodTimes& pod : gang.pods) {
      ++whole[pod.shape];
    }
  }
  std::map<std::shared_ptr<const api::PodShape>, size_t> plain;
  for (const auto& [shape, count] : whole) {
    if (facts_.DevicesOf("", *shape).empty()) {
      continue;
    }
    api::PodShape out;
    out.requests = shape->requests;
    out.node_selector = shape->node_selector;
    out.required_affinity = shape->required_affinity;
    out.has_required_affinity = shape->has_required_affinity;
    out.tolerations = shape->tolerations;
    plain[api::InternShape(std::move(out))] += count;
  }
  std::vector<std::pair<size_t, std::shared_ptr<const api::PodShape>>> order;
  for (const auto& [shape, count] : plain) {
    order.emplace_back(count, shape);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(b.first, a.second->requests, a.second->node_selector) <
           std::tie(a.first, b.second->requests, b.second->node_selector);
  });
  for (auto& [count, shape] : order) {
    facts_.demand.push_back(std::move(shape));
  }
}

void Collector::Missing() {
  for (const Wanted& wanted : kWanted) {
    if (!facts_.kinds.contains(wanted.kind)) {
      Note(wanted.what);
    }
  }
  for (const auto& [kind, problems] : problems_) {
    Note(cli::Count(problems.count, kind) +
         " can't be read as it should be, the first: " + problems.first);
  }
  if (twice_ > 0) {
    Note(cli::Count(twice_, "object") + " came twice; the first one counts");
  }
  if (skewed_ > 0) {
    Note("clocks differ: " + cli::Count(skewed_, "pod") +
         " ran before the scheduler placed it, by up to " + Span(skew_) + " (node " + skewed_node_ +
         "); times of starts are the scheduler's, times of ends the nodes'");
  }
  std::string others;
  for (const auto& [kind, count] : others_) {
    others += (others.empty() ? "" : ", ") + kind + " (" + std::to_string(count) + ")";
  }
  if (!others.empty()) {
    Note("not looked at: " + others);
  }
}

Facts Collector::Finish() {
  JoinWorkloads();
  JoinPods();
  // The middle one of the nodes' clocks: one wrong clock changes nothing.
  if (!renewed_.empty()) {
    const auto middle = renewed_.begin() + static_cast<std::ptrdiff_t>(renewed_.size() / 2);
    std::nth_element(renewed_.begin(), middle, renewed_.end());
    newest_ = std::max(newest_, *middle);
  }
  facts_.now_is_guess = !options_.now.has_value() && renewed_.empty();
  facts_.now = options_.now.value_or(std::chrono::floor<std::chrono::seconds>(newest_));
  if (options_.now && *options_.now < newest_) {
    Note("clocks differ: the newest time in the input, " + FormatTime(newest_) + ", is after " +
         FormatTime(*options_.now) + ", the time of the audit; the newer one is used");
    facts_.now = std::chrono::floor<std::chrono::seconds>(newest_);
  }
  Missing();
  facts_.cluster->Finish();
  Demand();
  // One pod makes no gang.
  for (Gang& gang : facts_.gangs) {
    std::sort(gang.pods.begin(), gang.pods.end(), [](const PodTimes& a, const PodTimes& b) {
      return std::tie(a.created, a.name) < std::tie(b.created, b.name);
    });
  }
  for (Gang& gang : facts_.gangs) {
    for (PodTimes& pod : gang.pods) {
      if (options_.for_ledger && gang.size < 2 && pod.bound != kNoTime) {
        facts_.others.push_back({gang.ns, std::move(pod)});
      }
    }
  }
  std::erase_if(facts_.gangs, [](const Gang& gang) { return gang.size < 2; });
  std::sort(facts_.gangs.begin(), facts_.gangs.end(), [](const Gang& a, const Gang& b) {
    return std::tie(a.ns, a.name, a.kind) < std::tie(b.ns, b.name, b.kind);
  });
  CountDevices();
  return std::move(facts_);
}

}  // namespace tutti::audit
