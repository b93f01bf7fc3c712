// SPDX-License-Identifier: Apache-2.0
// More quota, more nodes, or both: how much of them is just enough.
#include <algorithm>
#include <map>
#include <tuple>

#include "api/quantity.h"
#include "cli/objects.h"
#include "why/search.h"

namespace tutti::why {
namespace {

constexpr size_t kMostChoices = 6;
constexpr size_t kMostNodeKinds = 3;
constexpr int64_t kMostNodes = 256;
constexpr std::string_view kHostname = "kubernetes.io/hostname";

std::string QuotaText(const std::vector<MoreQuota>& more) {
  std::string text;
  for (const MoreQuota& one : more) {
    text += (text.empty() ? "" : " and ") + api::FormatAmount(one.resource, one.amount) +
            " more quota of " + one.resource + " in flavor " + one.flavor;
  }
  return text + " in ClusterQueue " + more.front().cluster_queue;
}

}  // namespace

std::vector<Search::Amounts> Search::FlavorChoices() const {
  std::vector<Amounts> choices;
  const auto queue = base_.world().cluster_queues.Find({"", queue_});
  if (queue == nullptr) {
    return choices;
  }
  choices.emplace_back();
  for (const api::ResourceGroup& group : queue->groups) {
    std::vector<Amounts> longer;
    for (const Amounts& choice : choices) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        Amounts next = choice;
        for (const std::string& resource : group.covered_resources) {
          int64_t asked = 0;
          if (resource == "pods") {
            for (const PodsAsked& pods : pods_) {
              asked += pods.count;
            }
          } else if (const auto total = total_.find(resource); total != total_.end()) {
            asked = total->second;
          }
          if (asked <= 0) {
            continue;
          }
          // With so much more nobody's quota is in the way, however little there is now.
          for (const auto& [key, unit] : base_.units()) {
            if (unit.in_engine == reconciler::Unit::InEngine::kReserved) {
              const api::Amounts held = HeldBy(base_, unit, flavor.name);
              const auto amount = held.find(resource);
              asked = api::SaturatingAdd(asked, amount != held.end() ? amount->second : 0);
            }
          }
          next.push_back({queue_, flavor.name, resource, asked});
        }
        longer.push_back(std::move(next));
        if (longer.back().size() == choice.size()) {
          break;  // the job needs nothing of this group
        }
      }
    }
    if (!longer.empty()) {
      choices = std::move(longer);
    }
  }
  std::erase_if(choices, [](const Amounts& choice) { return choice.empty(); });
  return choices;
}

std::vector<Edit> Search::QuotaEdits(const Amounts& more) const {
  const Json* queue = state_.Find("ClusterQueue", {"", queue_});
  Json changed = *queue;
  for (Json& group : changed.At("spec").At("resourceGroups").MutableArray()) {
    for (Json& flavor : group.At("flavors").MutableArray()) {
      for (Json& quota : flavor.At("resources").MutableArray()) {
        for (const MoreQuota& one : more) {
          if (one.flavor != flavor["name"].AsString() || one.resource != quota["name"].AsString()) {
            continue;
          }
          const auto nominal = api::Quantity::FromJson(quota["nominalQuota"]);
          const int64_t now = nominal ? api::ToAmount(one.resource, *nominal) : 0;
          quota.Set("nominalQuota",
                    api::FromAmount(one.resource, api::SaturatingAdd(now, one.amount)).ToString());
        }
      }
    }
  }
  return {{"ClusterQueue", {"", queue_}, std::move(changed)}};
}

// What is free by the sums; limits of borrowing and lending may say otherwise.
int64_t Search::Guess(const MoreQuota& more, int64_t asked) const {
  int64_t free = 0;
  for (const auto& [key, queue] : base_.world().cluster_queues.All()) {
    if (RootOf(base_, key.name) != root_) {
      continue;
    }
    for (const engine::FlavorUsage& usage : base_.engine().Report(key.name).usage) {
      if (usage.flavor == more.flavor && usage.resource == more.resource) {
        free = api::SaturatingAdd(free, usage.nominal - usage.reserved);
      }
    }
  }
  return asked - free;
}

void Search::Shrink(Amounts& more, const std::vector<Edit>& others) {
  for (size_t i = 0; i < more.size(); ++i) {
    Amounts changed = more;
    const auto with = [&](int64_t amount) {
      changed[i].amount = amount;
      std::vector<Edit> edits = QuotaEdits(changed);
      edits.insert(edits.end(), others.begin(), others.end());
      return edits;
    };
    const auto asked = total_.find(more[i].resource);
    if (Starts(with(0))) {
      more[i].amount = 0;
    } else if (const auto least =
                   Least(more[i].amount, Guess(more[i], asked != total_.end() ? asked->second : 0),
                         with)) {
      more[i].amount = *least;
    }
  }
  std::erase_if(more, [](const MoreQuota& one) { return one.amount == 0; });
}

void Search::TryQuota() {
  std::vector<Amounts> choices = FlavorChoices();
  if (choices.size() > kMostChoices) {
    choices.resize(kMostChoices);
    out_.cut_short = true;
  }
  const size_t before = out_.found.size();
  for (Amounts& more : choices) {
    const Verdict verdict = Try(QuotaEdits(more));
    if (verdict.kind != Verdict::Kind::kStarts) {
      NotEnough("more quota alone in flavor " + more.front().flavor, verdict);
      if (IsAboutPlaces(verdict) && !IsAboutPlaces(before_)) {
        TryWithNodes(more);
      }
      continue;
    }
    Shrink(more, {});
    if (more.empty()) {
      continue;
    }
    const bool known = std::any_of(out_.found.begin(), out_.found.end(), [&](const Remedy& other) {
      return other.kind == RemedyKind::kQuota && other.text == QuotaText(more);
    });
    if (!known) {
      short_of_ = more.front().resource;
      Found(RemedyKind::kQuota, QuotaText(more), QuotaEdits(more));
      out_.found.back().quota = more;
    }
  }
  // Of the flavors the one of which the job lacks least comes first.
  std::stable_sort(out_.found.begin() + static_cast<std::ptrdiff_t>(before), out_.found.end(),
                   [](const Remedy& a, const Remedy& b) {
                     const auto rank = [](const Remedy& of) {
                       return std::tuple(of.kind, of.quota.size(), of.quota.front().resource,
                                         of.quota.front().amount);
                     };
                     return rank(a) < rank(b);
                   });
}

std::vector<Search::NodeKind> Search::NodeKinds() const {
  std::map<std::string, NodeKind> kinds;
  for (const api::ObjectKey& key : state_.Names("Node")) {
    const Json* node = state_.Find("Node", key);
    Json labels = (*node)["metadata"]["labels"];
    if (labels.IsObject()) {
      labels.Erase(kHostname);
    }
    const Json& allocatable = (*node)["status"]["allocatable"];
    NodeKind& kind = kinds[labels.DumpSorted() + allocatable.DumpSorted() +
                           (*node)["spec"]["taints"].DumpSorted()];
    if (kind.like == nullptr && !(*node)["spec"]["unschedulable"].AsBool()) {
      kind.like = node;
      const std::string& type = labels["node.kubernetes.io/instance-type"].AsString();
      api::Amounts amounts;
      if (const auto list = api::ResourceListFromJson(allocatable)) {
        amounts = api::ToAmounts(*list);
        std::erase_if(amounts, [](const auto& entry) {
          return entry.first == "pods" || entry.first.starts_with("ephemeral-storage") ||
                 entry.first.starts_with("hugepages-");
        });
      }
      kind.words = (type.empty() ? "like " + key.name : "of type " + type) + " (" +
                   AmountsText(amounts) + " each)";
    }
    ++kind.count;
  }
  std::vector<NodeKind> out;
  for (auto& [text, kind] : kinds) {
    if (kind.like != nullptr) {
      out.push_back(std::move(kind));
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const NodeKind& a, const NodeKind& b) { return a.count > b.count; });
  return out;
}

std::vector<Edit> Search::NodeEdits(const NodeKind& kind, int64_t count) {
  std::vector<Edit> edits;
  const std::string base = (*kind.like)["metadata"]["name"].AsString() + "-more-";
  for (int64_t i = 1; i <= count; ++i) {
    const std::string name = base + std::to_string(i);
    Json node = *kind.like;
    Json& meta = node.At("metadata");
    meta.Set("name", name);
    meta.Set("uid", "Node/" + name);
    meta.At("labels").Set(kHostname, name);
    edits.push_back({"Node", {"", name}, std::move(node)});
  }
  return edits;
}

void Search::TryNodes() {
  if (!IsAboutPlaces(before_)) {
    return;
  }
  std::vector<NodeKind> kinds = NodeKinds();
  if (kinds.size() > kMostNodeKinds) {
    kinds.resize(kMostNodeKinds);
    out_.cut_short = true;
  }
  int64_t pods = 0;
  for (const PodsAsked& asked : pods_) {
    pods += asked.count;
  }
  for (const NodeKind& kind : kinds) {
    const auto with = [&](int64_t count) { return NodeEdits(kind, count); };
    const int64_t most = std::min(pods, kMostNodes);
    if (const auto least = Least(most, 0, with)) {
      Found(RemedyKind::kNodes,
            cli::Count(static_cast<size_t>(*least), "more node") + " " + kind.words, with(*least));
      out_.found.back().nodes = static_cast<int32_t>(*least);
    } else {
      NotEnough("even " + cli::Count(static_cast<size_t>(most), "more node") + " " + kind.words,
                Try(with(most)));
    }
  }
}

void Search::TryWithNodes(const Amounts& more) {
  int64_t pods = 0;
  for (const PodsAsked& asked : pods_) {
    pods += asked.count;
  }
  const std::vector<Edit> quota = QuotaEdits(more);
  std::vector<NodeKind> kinds = NodeKinds();
  kinds.resize(std::min(kinds.size(), kMostNodeKinds));
  for (const NodeKind& kind : kinds) {
    const auto with = [&](int64_t count) {
      std::vector<Edit> edits = NodeEdits(kind, count);
      edits.insert(edits.end(), quota.begin(), quota.end());
      return edits;
    };
    const auto least = Least(std::min(pods, kMostNodes), 0, with);
    if (!least) {
      continue;
    }
    Amounts enough = more;
    const std::vector<Edit> nodes = NodeEdits(kind, *least);
    Shrink(enough, nodes);
    if (enough.empty()) {
      continue;
    }
    std::vector<Edit> edits = QuotaEdits(enough);
    edits.insert(edits.end(), nodes.begin(), nodes.end());
    Found(RemedyKind::kQuotaAndNodes,
          QuotaText(enough) + ", and " + cli::Count(static_cast<size_t>(*least), "more node") +
              " " + kind.words,
          std::move(edits));
    out_.found.back().quota = std::move(enough);
    out_.found.back().nodes = static_cast<int32_t>(*least);
    return;
  }
}

}  // namespace tutti::why
