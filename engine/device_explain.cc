// SPDX-License-Identifier: Apache-2.0
// Why a gang's devices aren't there (device_fit.h): which request is short, how many devices are
// missing, on which node most of them are, and who has the others.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/device_fit.h"

namespace tutti::engine {
namespace {

struct DeviceCounts {
  int64_t matching = 0;
  int64_t taken = 0;
  int64_t tainted = 0;  // of those that are not taken
  [[nodiscard]] int64_t Free() const { return matching - taken - tainted; }
  void Add(bool is_taken, bool is_tainted) {
    ++matching;
    taken += is_taken ? 1 : 0;
    tainted += is_tainted ? 1 : 0;
  }
};

// Devices of one request as the nodes see them that would take a pod.
struct RequestFacts {
  int64_t need = 1;   // of one pod
  DeviceCounts all;   // each device once, however many nodes see it
  int64_t nodes = 0;  // with a device that matches
  DeviceCounts best;  // on the node with most free ones
  size_t best_bin = 0;
  std::string best_pool;
  std::vector<int64_t> holders;  // devices by number of the holder
};

std::string HolderText(const std::vector<int64_t>& holders, const DeviceLedger& ledger) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (size_t holder = 0; holder < holders.size(); ++holder) {
    if (holders[holder] > 0)
      sorted.emplace_back(-holders[holder], ledger.HolderName(static_cast<int32_t>(holder)));
  }
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (size_t i = 0; i < sorted.size() && i < 3; ++i)
    text += (text.empty() ? "" : ", ") + sorted[i].second;
  return sorted.size() > 3 ? text + ", ..." : text;
}

std::string CountText(const DeviceCounts& counts) {
  std::string text =
      std::to_string(counts.matching) + (counts.matching == 1 ? " matches" : " match");
  if (counts.taken > 0)
    text += ", " + std::to_string(counts.taken) + " taken";
  if (counts.tainted > 0)
    text += ", " + std::to_string(counts.tainted) + " tainted";
  return text;
}

RequestFacts FactsOf(const DeviceAlternative& alternative, const DeviceLedger& ledger,
                     const DeviceBook& book, const std::vector<size_t>& nodes,
                     const DeviceBins& bins) {
  const DeviceInventory& inventory = ledger.inventory();
  RequestFacts facts;
  facts.need = alternative.all ? 1 : alternative.count;
  facts.holders.assign(ledger.HolderLimit(), 0);
  std::vector<bool> seen(inventory.Places(), false);
  for (const size_t bin : nodes) {
    DeviceCounts here;
    const PoolView* last = nullptr;
    for (const PoolView& pool : inventory.ViewOf(bins.Name(bin)).pools) {
      for (const PoolView::Device& device : pool.devices) {
        const auto selects = [&](int32_t selector) {
          return inventory.Select(selector, device.place) == Selection::kMatches;
        };
        if (!device.here ||
            !std::all_of(alternative.selectors.begin(), alternative.selectors.end(), selects)) {
          continue;
        }
        const PublishedDevice& published = inventory.At(device.place);
        const bool taken = !alternative.request->admin_access && book.Whole(published.id) > 0;
        const bool tainted = !taken && TaintBlocks(*published.device, *alternative.request);
        here.Add(taken, tainted);
        last = &pool;
        if (seen[static_cast<size_t>(device.place)])
          continue;
        seen[static_cast<size_t>(device.place)] = true;
        facts.all.Add(taken, tainted);
        if (!taken)
          continue;
        for (const int32_t holder : ledger.HoldersOf(published.id))
          ++facts.holders[static_cast<size_t>(holder)];
      }
    }
    if (here.matching == 0)
      continue;
    if (facts.nodes++ == 0 || here.Free() > facts.best.Free()) {
      facts.best = here;
      facts.best_bin = bin;
      facts.best_pool = last->Name();
    }
  }
  return facts;
}

// The best node has a smaller part of what a pod needs.
bool Scarcer(const RequestFacts& a, const RequestFacts& b) {
  return a.best.Free() * std::max<int64_t>(1, b.need) <
         b.best.Free() * std::max<int64_t>(1, a.need);
}

std::string TextOf(const RequestFacts& facts, const DeviceAlternative& alternative,
                   const CompiledClaim& claim, const DeviceLedger& ledger, const DeviceBins& bins,
                   int64_t count, int64_t missing) {
  std::string what = "of class " + alternative.request->device_class;
  if (!alternative.request->selectors.empty())
    what += " that match " + alternative.request->selectors.front();
  const std::string origin = " (" + claim.label + ", request " + alternative.label + ")";
  if (facts.all.matching == 0)
    return "no usable node has a device " + what + origin;
  const std::string best = "; pool " + facts.best_pool + " on " + bins.Name(facts.best_bin) + ": " +
                           CountText(facts.best);
  const std::string all = "; in all " + CountText(facts.all);
  const std::string holders = HolderText(facts.holders, ledger);
  const std::string held = holders.empty() ? "" : "; taken by " + holders;
  if (facts.best.Free() < facts.need) {
    return "short of devices: " + std::to_string(facts.need - facts.best.Free()) + " more " + what +
           " needed on one node" + origin + best + (facts.nodes == 1 ? "" : all) + held;
  }
  if (facts.all.Free() >= api::SaturatingMul(count, facts.need)) {
    return "short of devices that fit together: " + std::to_string(facts.need) + " " + what +
           " per pod, with all that the claims ask for" + origin + best + all + held;
  }
  return "short of devices: " + std::to_string(api::SaturatingMul(missing, facts.need)) + " more " +
         what + " needed, " + std::to_string(facts.need) + " per pod on one node" + origin + all +
         held;
}

}  // namespace

std::string GangDevices::Explain(const std::vector<int64_t>& caps, const DeviceBins& bins,
                                 size_t kind, int64_t count, int64_t missing, bool empty) const {
  std::vector<size_t> nodes;
  for (size_t bin = 0; bin * kinds_.size() < caps.size(); ++bin) {
    if (caps[bin * kinds_.size() + kind] > 0)
      nodes.push_back(bin);
  }
  std::vector<const CompiledClaim*> claims;
  std::string tied;
  for (const ClaimUse& use : kinds_[kind].uses) {
    const bool fixed = use.shared >= 0 && shared_[static_cast<size_t>(use.shared)].fixed;
    if (fixed)
      tied = shared_[static_cast<size_t>(use.shared)].key;
    else
      claims.push_back(use.claim);
  }
  for (const size_t bin : nodes) {
    if (const CompiledClaim* extended = ExtendedClaim(kind, bins, bin)) {
      claims.push_back(extended);
      break;
    }
  }
  const DeviceBook nothing;
  const DeviceBook& book = empty ? nothing : ledger_.book();
  const DeviceAlternative* scarce = nullptr;
  const CompiledClaim* of_claim = nullptr;
  RequestFacts facts;
  for (const CompiledClaim* claim : claims) {
    for (const CompiledRequest& request : claim->requests) {
      const DeviceAlternative& alternative = request.alternatives.front();
      RequestFacts now = FactsOf(alternative, ledger_, book, nodes, bins);
      if (scarce != nullptr && !Scarcer(now, facts))
        continue;
      scarce = &alternative;
      of_claim = claim;
      facts = std::move(now);
    }
  }
  if (scarce != nullptr)
    return TextOf(facts, *scarce, *of_claim, ledger_, bins, count, missing);
  return tied.empty() ? "" : tied + " is allocated and ties its pods to nodes without room";
}

}  // namespace tutti::engine
