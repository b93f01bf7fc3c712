// SPDX-License-Identifier: Apache-2.0
// Other jobs end, or this one asks less of its nodes.
#include <algorithm>
#include <set>

#include "cli/objects.h"
#include "why/search.h"

namespace tutti::why {
namespace {

using reconciler::Unit;

constexpr size_t kMostSingles = 24;
constexpr size_t kMostTogether = 12;
constexpr size_t kEnoughSingles = 3;
constexpr size_t kMostTaints = 6;

// "a", "a and b", "a, b and c".
std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text;
}

}  // namespace

std::vector<Edit> Search::EndOf(const Unit& unit) const {
  std::vector<Edit> edits = {{"Workload", unit.key, std::nullopt}};
  const auto job = base_.world().JobOf(unit.job_uid);
  if (job != nullptr && !job->kind.MadeOfPods()) {
    edits.push_back({job->kind.Resource().kind, job->meta.Key(), std::nullopt});
  }
  const auto pods = base_.world().pods_by_job.find(unit.job_uid);
  if (!unit.job_uid.empty() && pods != base_.world().pods_by_job.end()) {
    for (const api::ObjectKey& pod : pods->second) {
      edits.push_back({"Pod", pod, std::nullopt});
    }
  }
  return edits;
}

void Search::TryEnds() {
  struct Holder {
    const Unit* unit = nullptr;
    int64_t amount = 0;
    std::string words;
  };
  std::vector<Holder> holders;
  for (const auto& [key, unit] : base_.units()) {
    if (unit.in_engine != Unit::InEngine::kReserved || key == key_) {
      continue;
    }
    const api::Amounts held = HeldBy(base_, unit, "");
    Holder holder{&unit, 0, TitleOf(base_, unit)};
    if (const auto amount = held.find(short_of_); amount != held.end()) {
      holder.amount = amount->second;
      holder.words += " (" + api::FormatAmount(short_of_, amount->second) + " " + short_of_ + ")";
    }
    holders.push_back(std::move(holder));
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Holder& a, const Holder& b) { return a.amount < b.amount; });
  const auto found = [&](const std::vector<Holder>& who) {
    std::vector<Edit> edits;
    std::vector<std::string> words;
    std::vector<std::string> jobs;
    for (const Holder& holder : who) {
      words.push_back(holder.words);
      jobs.push_back(TitleOf(base_, *holder.unit));
      for (Edit& edit : EndOf(*holder.unit)) {
        edits.push_back(std::move(edit));
      }
    }
    Found(RemedyKind::kEnds,
          (who.size() == 1 ? "when it has ended: " : "when these have ended: ") + Joined(words),
          std::move(edits));
    out_.found.back().jobs = std::move(jobs);
  };
  size_t singles = 0;
  const size_t first = holders.size() > kMostSingles ? holders.size() - kMostSingles : 0;
  out_.cut_short = out_.cut_short || first > 0;
  for (size_t i = first; i < holders.size() && singles < kEnoughSingles; ++i) {
    if (Starts(EndOf(*holders[i].unit))) {
      found({holders[i]});
      ++singles;
    }
  }
  if (singles > 0 || holders.size() < 2) {
    if (singles == 0 && holders.size() == 1) {
      NotEnough("the end of " + holders.front().words, Try(EndOf(*holders.front().unit)));
    }
    return;
  }
  // The biggest first, until it is enough; then without each that isn't needed.
  std::vector<Holder> together;
  std::vector<Edit> edits;
  const auto edits_of = [&](const std::vector<Holder>& who) {
    std::vector<Edit> all;
    for (const Holder& holder : who) {
      for (Edit& edit : EndOf(*holder.unit)) {
        all.push_back(std::move(edit));
      }
    }
    return all;
  };
  Verdict verdict;
  for (size_t i = holders.size(); i-- > 0 && together.size() < kMostTogether;) {
    together.push_back(holders[i]);
    verdict = together.size() > 1 ? Try(edits_of(together)) : Verdict{};
    if (verdict.kind == Verdict::Kind::kStarts) {
      break;
    }
  }
  if (verdict.kind != Verdict::Kind::kStarts) {
    NotEnough(together.size() == holders.size()
                  ? "the end of all jobs that have quota (" + std::to_string(holders.size()) + ")"
                  : "the end of the " + std::to_string(together.size()) + " largest jobs",
              verdict);
    return;
  }
  for (size_t i = 0; i < together.size() && together.size() > 1;) {
    std::vector<Holder> fewer = together;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (Starts(edits_of(fewer))) {
      together = std::move(fewer);
    } else {
      ++i;
    }
  }
  found(together);
}

// In a StrictFIFO queue those that are before it are in its way though they hold nothing.
void Search::TryAhead() {
  if (before_.reason != engine::PendingReason::kBehindHead) {
    return;
  }
  std::vector<std::vector<Edit>> ahead;
  std::vector<std::string> jobs;
  for (const std::string& id : base_.engine().PendingOrder(queue_)) {
    const size_t slash = id.find('/');
    const auto unit = base_.units().find({id.substr(0, slash), id.substr(slash + 1)});
    if (id == key_.ToString() || unit == base_.units().end()) {
      break;
    }
    ahead.push_back(EndOf(unit->second));
    jobs.push_back(TitleOf(base_, unit->second));
  }
  const auto without = [&](int64_t count) {
    std::vector<Edit> edits;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      edits.insert(edits.end(), ahead[i].begin(), ahead[i].end());
    }
    return edits;
  };
  const auto all = static_cast<int64_t>(ahead.size());
  if (const auto least = Least(all, 1, without)) {
    jobs.resize(static_cast<size_t>(*least));
    Found(RemedyKind::kAhead,
          "when what is before it in the queue is gone, or waits elsewhere: " + Joined(jobs),
          without(*least));
    out_.found.back().jobs = std::move(jobs);
  } else if (all > 0) {
    NotEnough("without all that are before it in the queue (" + std::to_string(all) + ")",
              Try(without(all)));
  }
}

std::optional<std::vector<Edit>> Search::PodEdits(
    const std::function<bool(Json& pod_template)>& change) const {
  std::vector<Edit> edits;
  bool changed = false;
  const auto job = base_.world().JobOf(unit_.job_uid);
  if (job != nullptr) {
    if (job->kind.Resource().kind != "Job" || job->kind.MadeOfPods()) {
      return std::nullopt;
    }
    Json object = *state_.Find("Job", job->meta.Key());
    changed |= change(object.At("spec").At("template"));
    edits.push_back({"Job", job->meta.Key(), std::move(object)});
  }
  if (const Json* workload = state_.Find("Workload", key_)) {
    Json object = *workload;
    for (Json& pod_set : object.At("spec").At("podSets").MutableArray()) {
      changed |= change(pod_set.At("template"));
    }
    edits.push_back({"Workload", key_, std::move(object)});
  }
  return changed ? std::optional<std::vector<Edit>>(std::move(edits)) : std::nullopt;
}

void Search::TryPlacement() {
  const auto attempt = [&](const std::string& text,
                           const std::function<bool(Json & pod_template)>& change) {
    std::optional<std::vector<Edit>> edits = PodEdits(change);
    if (!edits) {
      return true;
    }
    const Verdict verdict = Try(*edits);
    if (verdict.kind == Verdict::Kind::kStarts) {
      Found(RemedyKind::kPlacement, text, std::move(*edits));
      return true;
    }
    NotEnough(text, verdict);
    return false;
  };
  std::set<std::pair<std::string, std::string>> selectors;
  (void)PodEdits([&](Json& pod_template) {
    for (const auto& [key, value] : pod_template["spec"]["nodeSelector"].AsObject()) {
      selectors.emplace(key, value.AsString());
    }
    return false;
  });
  bool one_is_enough = selectors.empty();
  for (const auto& [key, value] : selectors) {
    one_is_enough |=
        attempt("without the node selector " + key + "=" + value, [&key = key](Json& pod_template) {
          Json& spec = pod_template.At("spec");
          return spec.Has("nodeSelector") && spec.At("nodeSelector").Erase(key);
        });
  }
  if (!one_is_enough && selectors.size() > 1) {
    attempt("without any node selector",
            [](Json& pod_template) { return pod_template.At("spec").Erase("nodeSelector"); });
  }
  struct Rule {
    const char* text;
    const char* member;
  };
  for (const Rule& rule : {Rule{"without the required node affinity", "nodeAffinity"},
                           Rule{"without the required pod affinity", "podAffinity"},
                           Rule{"without the required pod anti-affinity", "podAntiAffinity"}}) {
    attempt(rule.text, [&rule](Json& pod_template) {
      Json& spec = pod_template.At("spec");
      return spec["affinity"][rule.member].Has("requiredDuringSchedulingIgnoredDuringExecution") &&
             spec.At("affinity")
                 .At(rule.member)
                 .Erase("requiredDuringSchedulingIgnoredDuringExecution");
    });
  }
  attempt("without the required spread over topology domains", [](Json& pod_template) {
    Json& spec = pod_template.At("spec");
    Json kept = Json::Arr();
    bool any = false;
    for (const Json& constraint : spec["topologySpreadConstraints"].AsArray()) {
      if (constraint["whenUnsatisfiable"].AsString() == "DoNotSchedule") {
        any = true;
      } else {
        kept.Push(constraint);
      }
    }
    if (any) {
      spec.Set("topologySpreadConstraints", std::move(kept));
    }
    return any;
  });
  // Taints that keep the pods off nodes or out of flavors.
  std::set<std::pair<std::string, std::string>> taints;
  const auto see = [&](const Json& list) {
    for (const Json& taint : list.AsArray()) {
      const std::string& effect = taint["effect"].AsString();
      const std::string& key = taint["key"].AsString();
      if (effect != "PreferNoSchedule" && !key.starts_with("node.kubernetes.io/")) {
        taints.emplace(key, taint["value"].AsString());
      }
    }
  };
  for (const api::ObjectKey& key : state_.Names("ResourceFlavor")) {
    see((*state_.Find("ResourceFlavor", key))["spec"]["nodeTaints"]);
  }
  for (const api::ObjectKey& key : state_.Names("Node")) {
    see((*state_.Find("Node", key))["spec"]["taints"]);
  }
  size_t tried = 0;
  for (const auto& [key, value] : taints) {
    if (++tried > kMostTaints) {
      out_.cut_short = true;
      break;
    }
    attempt("tolerating the taint " + key + (value.empty() ? "" : "=" + value),
            [&key = key](Json& pod_template) {
              Json& spec = pod_template.At("spec");
              for (const Json& known : spec["tolerations"].AsArray()) {
                if (known["key"].AsString() == key || known["key"].AsString().empty()) {
                  return false;
                }
              }
              spec.At("tolerations").Push(Json::Obj({{"key", key}, {"operator", "Exists"}}));
              return true;
            });
  }
}

}  // namespace tutti::why
