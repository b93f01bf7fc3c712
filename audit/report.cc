// SPDX-License-Identifier: Apache-2.0
#include "audit/report.h"

#include <algorithm>
#include <utility>

namespace tutti::audit {
namespace {

Summary SumUp(const Facts& facts, const Histories& histories) {
  Summary out;
  out.gangs = facts.gangs.size();
  for (const GangHistory& history : histories.gangs) {
    if (!facts.gangs[history.gang].unjudged.empty()) {
      continue;
    }
    ++out.judged;
    out.partial += history.partial_start ? 1 : 0;
    out.not_started += history.first_bound ? 0 : 1;
    out.whole += history.first_bound && !history.partial_start ? 1 : 0;
    bool lost = false;
    for (const Spell& spell : history.spells) {
      lost = lost || !spell.start;
      out.partial_now += spell.start && spell.ongoing ? 1 : 0;
    }
    out.lost += lost ? 1 : 0;
    out.partial_time += history.PartialAtStart();
    out.longest = std::max(out.longest, history.PartialAtStart());
    out.device_seconds += history.device_seconds;
    out.idle_seconds += history.IdleDeviceSeconds(true);
    out.idle_lost_seconds += history.IdleDeviceSeconds(false);
    out.cost += history.cost;
    out.idle_cost += history.IdleCost(true);
    out.idle_lost_cost += history.IdleCost(false);
    if (history.first_bound && (out.first == kNoTime || *history.first_bound < out.first)) {
      out.first = *history.first_bound;
    }
  }
  return out;
}

Json TimeOrNull(const std::optional<Time>& time) {
  return time && *time != kNoTime ? Json(FormatTime(*time)) : Json();
}

int64_t Seconds(Duration duration) {
  return std::chrono::floor<std::chrono::seconds>(duration).count();
}

Json ToJson(const Spell& spell) {
  return Json::Obj({{"kind", spell.start ? "start" : "lost"},
                    {"begin", FormatTime(spell.begin)},
                    {"end", spell.ongoing ? Json() : Json(FormatTime(spell.end))},
                    {"seconds", Seconds(spell.end - spell.begin)},
                    {"pods", static_cast<int64_t>(spell.held)},
                    {"missing", static_cast<int64_t>(spell.missing)},
                    {"deviceSeconds", spell.device_seconds},
                    {"cost", FormatCents(spell.cost.Cents())}});
}

std::string_view ToString(GangKind kind) {
  switch (kind) {
    case GangKind::kDeclared:
      return "declared";
    case GangKind::kAssumed:
      return "assumed";
    case GangKind::kLoose:
      return "work queue";
  }
  return "";
}

Json GangJson(const Audit& audit, const GangHistory& history) {
  const Gang& gang = audit.facts.gangs[history.gang];
  Json spells = Json::Arr();
  for (const Spell& spell : history.spells) {
    spells.Push(ToJson(spell));
  }
  return Json::Obj({{"kind", gang.kind},
                    {"namespace", gang.ns},
                    {"name", gang.name},
                    {"gang", ToString(gang.sure)},
                    {"pods", static_cast<int64_t>(gang.size)},
                    {"queue", gang.queue},
                    {"notJudged", gang.unjudged.empty() ? Json() : Json(gang.unjudged)},
                    {"startedPartially", history.partial_start},
                    {"created", TimeOrNull(gang.created)},
                    {"firstPodPlaced", TimeOrNull(history.first_bound)},
                    {"whole", TimeOrNull(history.whole)},
                    {"ended", TimeOrNull(gang.ended)},
                    {"devices", history.devices},
                    {"deviceSeconds", history.device_seconds},
                    {"partialSeconds", Seconds(history.PartialAtStart())},
                    {"idleDeviceSeconds", history.IdleDeviceSeconds(true)},
                    {"idleCost", FormatCents(history.IdleCost(true).Cents())},
                    {"spells", std::move(spells)}});
}

Json ClusterJson(const Audit& audit) {
  Json waiting = Json::Arr();
  for (const WaitingGang& one : audit.cluster.waiting) {
    const Gang& gang = audit.facts.gangs[one.gang];
    waiting.Push(Json::Obj({{"job", gang.Title()},
                            {"pods", static_cast<int64_t>(gang.size)},
                            {"placed", static_cast<int64_t>(one.bound)},
                            {"since", TimeOrNull(one.since)},
                            {"suspended", gang.suspended},
                            {"verdict", one.verdict},
                            {"message", one.why},
                            {"quota", gang.waits_for_quota ? Json(gang.quota_message) : Json()}}));
  }
  Json quotas = Json::Arr();
  for (const QuotaFinding& one : audit.cluster.quotas) {
    quotas.Push(Json::Obj({{"clusterQueue", one.queue.empty() ? Json() : Json(one.queue)},
                           {"flavor", one.flavor},
                           {"resource", one.resource},
                           {"quota", api::FormatAmount(one.resource, one.quota)},
                           {"capacity", api::FormatAmount(one.resource, one.capacity)},
                           {"nodes", static_cast<int64_t>(one.nodes)}}));
  }
  Json fragments = Json::Arr();
  for (const Fragment& one : audit.cluster.fragments) {
    fragments.Push(Json::Obj({{"node", one.node},
                              {"resource", one.resource},
                              {"stranded", one.stranded},
                              {"free", one.free},
                              {"why", one.why}}));
  }
  Json claims = Json::Arr();
  for (const ClaimHint& one : audit.cluster.claims) {
    claims.Push(Json::Obj({{"resource", one.resource},
                           {"labels", api::ToJson(one.wanted)},
                           {"jobs", static_cast<int64_t>(one.gangs)},
                           {"example", one.example},
                           {"deviceClass", one.device_class},
                           {"selector", one.selector}}));
  }
  Json devices = Json::Arr();
  for (const auto& [resource, total] : audit.cluster.totals) {
    devices.Push(Json::Obj({{"resource", resource},
                            {"allocatable", total.allocatable},
                            {"used", total.used},
                            {"stranded", total.stranded}}));
  }
  return Json::Obj({{"waiting", std::move(waiting)},
                    {"quotas", std::move(quotas)},
                    {"fragments", std::move(fragments)},
                    {"claims", std::move(claims)},
                    {"devices", std::move(devices)}});
}

}  // namespace

Audit MakeAudit(std::string source, Facts facts, Prices prices, const HistoryOptions& options) {
  Audit out;
  out.source = std::move(source);
  out.facts = std::move(facts);
  out.prices = std::move(prices);
  out.tolerance = options.tolerance;
  out.histories = Follow(out.facts, out.prices, options);
  out.cluster = LookAtCluster(out.facts, out.facts.notes);
  for (const std::string& note : out.facts.cluster->Notes()) {
    out.facts.notes.push_back(note);
  }
  for (const auto& [resource, pods] : out.histories.unpriced) {
    out.facts.notes.push_back("no price for " + resource + " (" + cli::Count(pods, "pod") +
                              "): it costs nothing here; give one with --prices");
  }
  out.summary = SumUp(out.facts, out.histories);
  for (size_t i = 0; i < out.histories.gangs.size(); ++i) {
    if (out.histories.gangs[i].partial_start) {
      out.worst.push_back(i);
    }
  }
  std::stable_sort(out.worst.begin(), out.worst.end(), [&](size_t a, size_t b) {
    const GangHistory& left = out.histories.gangs[a];
    const GangHistory& right = out.histories.gangs[b];
    return std::pair(left.IdleCost(true), left.PartialAtStart()) >
           std::pair(right.IdleCost(true), right.PartialAtStart());
  });
  return out;
}

Json ToJson(const Audit& audit) {
  const Summary& sum = audit.summary;
  Json gangs = Json::Arr();
  for (const GangHistory& history : audit.histories.gangs) {
    gangs.Push(GangJson(audit, history));
  }
  Json unjudged = Json::Arr();
  for (const auto& [reason, count] : audit.histories.unjudged) {
    unjudged.Push(Json::Obj({{"reason", reason}, {"jobs", static_cast<int64_t>(count)}}));
  }
  Json prices = Json::Arr();
  for (const Price& price : audit.prices.All()) {
    prices.Push(Json::Obj({{"resource", price.resource},
                           {"nodeLabels", api::ToJson(price.node_labels)},
                           {"perHour", FormatPrice(price.per_hour)}}));
  }
  Json notes = Json::Arr();
  for (const std::string& note : audit.facts.notes) {
    notes.Push(note);
  }
  const auto number = [](size_t value) { return static_cast<int64_t>(value); };
  return Json::Obj(
      {{"source", audit.source},
       {"at", FormatTime(audit.facts.now)},
       {"toleranceSeconds", Seconds(audit.tolerance)},
       {"currency", audit.prices.Currency()},
       {"pricesAreExamples", audit.prices.AreExamples()},
       {"prices", std::move(prices)},
       {"summary", Json::Obj({{"jobs", number(sum.gangs)},
                              {"judged", number(sum.judged)},
                              {"startedPartially", number(sum.partial)},
                              {"partialNow", number(sum.partial_now)},
                              {"startedWhole", number(sum.whole)},
                              {"notStarted", number(sum.not_started)},
                              {"lostMembers", number(sum.lost)},
                              {"partialSeconds", Seconds(sum.partial_time)},
                              {"deviceSeconds", sum.device_seconds},
                              {"idleDeviceSeconds", sum.idle_seconds},
                              {"idleDeviceSecondsAfterLosses", sum.idle_lost_seconds},
                              {"cost", FormatCents(sum.cost.Cents())},
                              {"idleCost", FormatCents(sum.idle_cost.Cents())},
                              {"idleCostAfterLosses", FormatCents(sum.idle_lost_cost.Cents())}})},
       {"notJudged", std::move(unjudged)},
       {"jobs", std::move(gangs)},
       {"cluster", ClusterJson(audit)},
       {"notes", std::move(notes)}});
}

}  // namespace tutti::audit
