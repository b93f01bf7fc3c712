// SPDX-License-Identifier: Apache-2.0
// Random devices and claims: the allocator against a naive one that tries every tuple of devices.
// More seeds with TUTTI_TWIN_SEEDS.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "engine/device_allocator.h"
#include "engine/device_share.h"
#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

uint64_t Seeds() {
  const char* text = std::getenv("TUTTI_TWIN_SEEDS");
  return text == nullptr ? 3000 : std::strtoull(text, nullptr, 10);
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int Below(int limit) { return static_cast<int>(engine_() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

// One tuple of devices: per claim, per request the alternative and the places.
struct Choice {
  size_t claim, request, alternative;
  int32_t place;
};

// Tries everything, checks complete tuples only by the rules as they are written down, and keeps
// the first in the order of the search.
class Naive {
 public:
  Naive(const DeviceInventory& inventory, const DeviceBook& book, const std::string& node,
        const std::vector<const CompiledClaim*>& claims)
      : inventory_(inventory), book_(book), node_(node), claims_(claims) {
    for (const PoolView& pool : inventory.ViewOf(node).pools) {
      if (pool.incomplete || !pool.invalid.empty())
        continue;
      for (const PoolView::Device& device : pool.devices) {
        if (device.here)
          devices_.push_back(device.place);
      }
    }
  }
  bool Find() { return Request(0, 0); }
  std::vector<Choice> choices;
  // The rules for a complete tuple.
  bool Valid(const std::vector<Choice>& tuple) const {
    std::map<int32_t, int> whole;
    std::map<int32_t, Capacities> shares;
    std::map<size_t, int> per_claim;
    std::set<std::pair<size_t, int32_t>> in_claim;
    std::map<std::string, api::Quantity> counters;  // pool, set, counter -> used
    std::set<int32_t> charged;
    for (const Choice& choice : tuple) {
      const PublishedDevice& published = inventory_.At(choice.place);
      const api::Device& device = *published.device;
      const api::ExactRequest& request = *Of(choice).request;
      if (++per_claim[choice.claim] > 32 || !Selectable(choice) || TaintBlocks(device, request))
        return false;
      const auto consumed = ConsumedBy(request.capacity, device);
      if (!consumed)
        return false;
      if (device.facts.allow_multiple_allocations) {
        Capacities& sum = shares[published.id];
        for (const auto& [name, amount] : *consumed)
          sum[name] = sum[name] + amount;
        if (!request.admin_access && book_.Whole(published.id) > 0)
          return false;
      } else {
        if (!CapacityLeft(device, *consumed, nullptr, nullptr))
          return false;
        if (!in_claim.emplace(choice.claim, published.id).second)
          return false;
        if (!request.admin_access && (whole[published.id] > 0 || book_.Whole(published.id) > 0))
          return false;  // see below for an admin that comes later
        ++whole[published.id];
      }
      if (!device.facts.allow_multiple_allocations || charged.insert(published.id).second) {
        if (!(device.facts.allow_multiple_allocations && book_.Shares(published.id) > 0))
          Charge(device, counters);
      }
    }
    for (const auto& [id, sum] : shares) {
      for (const int32_t place : devices_) {
        if (inventory_.At(place).id == id &&
            !CapacityLeft(*inventory_.At(place).device, sum, book_.Consumed(id), nullptr))
          return false;
      }
    }
    return CountersHold(tuple, counters) && ConstraintsHold(tuple);
  }

 private:
  const DeviceAlternative& Of(const Choice& choice) const {
    return claims_[choice.claim]->requests[choice.request].alternatives[choice.alternative];
  }
  bool Selectable(const Choice& choice) const {
    for (const int32_t selector : Of(choice).selectors) {
      if (inventory_.Select(selector, choice.place) != Selection::kMatches)
        return false;
    }
    return true;
  }
  static void Charge(const api::Device& device, std::map<std::string, api::Quantity>& counters) {
    for (const api::CounterConsumption& part : device.consumes) {
      for (const auto& [name, amount] : part.counters) {
        api::Quantity& sum = counters[device.facts.driver + "/" + part.counter_set + "/" + name];
        sum = sum + amount;
      }
    }
  }
  // There is one pool of each driver with counters here.
  bool CountersHold(const std::vector<Choice>& tuple,
                    const std::map<std::string, api::Quantity>& used) const {
    for (const PoolView& pool : inventory_.ViewOf(node_).pools) {
      if (pool.generation == nullptr || pool.generation->counters.empty())
        continue;
      const bool charges = std::any_of(tuple.begin(), tuple.end(), [&](const Choice& choice) {
        const PublishedDevice& published = inventory_.At(choice.place);
        return published.slice->driver == pool.driver && !published.charges.empty() &&
               !(published.device->facts.allow_multiple_allocations &&
                 book_.Shares(published.id) > 0);
      });
      if (!charges)
        continue;
      std::map<std::string, api::Quantity> sum = used;
      for (const int32_t place : pool.generation->devices) {
        if (book_.Taken(inventory_.At(place).id))
          Charge(*inventory_.At(place).device, sum);
      }
      for (const SharedCounter& counter : pool.generation->counters) {
        if (sum[pool.driver + "/" + counter.set + "/" + counter.name] > counter.total)
          return false;
      }
    }
    return true;
  }
  bool ConstraintsHold(const std::vector<Choice>& tuple) const {
    for (size_t c = 0; c < claims_.size(); ++c) {
      for (size_t i = 0; i < claims_[c]->spec->constraints.size(); ++i) {
        const api::DeviceConstraint& constraint = claims_[c]->spec->constraints[i];
        const bool match = !constraint.match_attribute.empty();
        std::vector<const api::cel::AttributeValue*> values;
        for (const Choice& choice : tuple) {
          const auto& covered = Of(choice).constraints;
          if (choice.claim != c || std::find(covered.begin(), covered.end(), i) == covered.end())
            continue;
          values.push_back(api::FindAttribute(
              *inventory_.At(choice.place).device,
              match ? constraint.match_attribute : constraint.distinct_attribute));
          if (values.back() == nullptr)
            return false;
        }
        for (size_t a = 0; a < values.size(); ++a) {
          for (size_t b = 0; b < a; ++b) {
            if (api::SameAttribute(*values[a], *values[b]) != match)
              return false;
          }
        }
      }
    }
    return true;
  }

  bool Request(size_t claim, size_t request) {
    if (claim == claims_.size())
      return Valid(choices);
    if (request == claims_[claim]->requests.size())
      return Request(claim + 1, 0);
    for (size_t a = 0; a < claims_[claim]->requests[request].alternatives.size(); ++a) {
      if (Device({claim, request, a, -1}, 0, 0))
        return true;
    }
    return false;
  }
  bool Device(Choice at, int64_t number, size_t first) {
    const DeviceAlternative& alternative = Of(at);
    if (alternative.all) {
      const size_t before = choices.size();
      for (const int32_t place : devices_) {
        at.place = place;
        const auto consumed =
            ConsumedBy(alternative.request->capacity, *inventory_.At(place).device);
        // With what earlier requests have picked, a shared device may drop out of "all"; the worlds
        // here have no shared devices together with "all".
        if (Selectable(at) && consumed &&
            CapacityLeft(*inventory_.At(place).device, *consumed,
                         book_.Consumed(inventory_.At(place).id), nullptr))
          choices.push_back(at);
      }
      const bool found = choices.size() > before && Request(at.claim, at.request + 1);
      if (!found)
        choices.resize(before);
      return found;
    }
    if (number == alternative.count)
      return Request(at.claim, at.request + 1);
    for (size_t d = first; d < devices_.size(); ++d) {
      at.place = devices_[d];
      choices.push_back(at);
      if (Device(at, number + 1, d + 1))
        return true;
      choices.pop_back();
    }
    return false;
  }

  const DeviceInventory& inventory_;
  const DeviceBook& book_;
  const std::string& node_;
  const std::vector<const CompiledClaim*>& claims_;
  std::vector<int32_t> devices_;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    nodes_.labels["n1"]["rack"] = "a";
    inventory_.SetClass(MakeClass("gpu"));
    inventory_.SetClass(MakeClass("red", {R"(device.attributes["a.example.com"].color == "red")"}));
    const bool shared = random_.OneIn(3);
    Pool("a.example.com", 1 + random_.Below(4), shared);
    if (random_.OneIn(2))
      Pool("b.example.com", 1 + random_.Below(2), shared);
    const int claims = 1 + random_.Below(2);
    for (int c = 0; c < claims; ++c)
      specs_.push_back(std::make_shared<api::ClaimSpec>(Claim(!shared)));
    for (size_t c = 0; c < specs_.size(); ++c)
      compiled_.push_back(
          CompileClaim(specs_[c], "claim " + std::to_string(c), inventory_).value());
    for (const CompiledClaim& claim : compiled_)
      claims_.push_back(&claim);
  }

  void Check() {
    Naive naive(inventory_, book_, node_, claims_);
    const bool exists = naive.Find();
    int64_t steps = kStepsPerPod;
    const Allocation found = AllocateDevices(inventory_, book_, node_, claims_, steps);
    ASSERT_EQ(inventory_.SanityCheck(), "");
    if (found.end == AllocationEnd::kInvalid) {
      // Selectors of a class on devices that lack the attribute, and all devices with a constraint.
      EXPECT_TRUE(may_be_invalid_) << found.message;
      return;
    }
    ASSERT_NE(found.end, AllocationEnd::kGaveUp);
    ASSERT_EQ(found.end == AllocationEnd::kDone, exists);
    if (!exists)
      return;
    ++placed;
    std::vector<Choice> tuple;
    for (size_t c = 0; c < found.claims.size(); ++c) {
      for (const PickedDevice& device : found.claims[c].devices)
        tuple.push_back({c, device.request, device.alternative, device.place});
    }
    EXPECT_TRUE(naive.Valid(tuple));
    ASSERT_EQ(tuple.size(), naive.choices.size());
    for (size_t i = 0; i < tuple.size(); ++i) {
      EXPECT_EQ(tuple[i].place, naive.choices[i].place) << "not the first solution";
      EXPECT_EQ(tuple[i].alternative, naive.choices[i].alternative);
    }
    Promise(found);
  }

  static inline int64_t placed = 0;

 private:
  void Pool(const std::string& driver, int count, bool shared) {
    const bool counters = random_.OneIn(3);
    api::ResourceSlice slice = MakeSlice(driver, "n1", {}, driver);
    for (int i = 0; i < count; ++i) {
      api::Device device = MakeDevice(std::to_string(i), {}, driver);
      device.facts.attributes["a.example.com"]["color"] =
          std::string(random_.OneIn(2) ? "red" : "blue");
      if (!random_.OneIn(4))
        device.facts.attributes["a.example.com"]["root"] = int64_t{random_.Below(2)};
      if (random_.OneIn(5))
        device = WithTaint(device, "sick", random_.OneIn(2) ? "NoSchedule" : "NoExecute");
      if (shared || random_.OneIn(3)) {
        device = WithCapacity(device, "m", std::to_string(1 + random_.Below(4)));
        if (random_.OneIn(2)) {
          api::CapacityPolicy policy;
          policy.default_value = Amount("1");
          policy.valid_values = {Amount("1"), Amount("3")};
          device.capacity["m"].policy = policy;
        }
        device.facts.allow_multiple_allocations = shared && !random_.OneIn(3);
      }
      if (counters && !random_.OneIn(3))
        device = WithCounters(device, "chip", "slots", std::to_string(1 + random_.Below(2)));
      slice.devices.push_back(std::move(device));
    }
    if (counters) {
      api::ResourceSlice sets = MakeSlice(driver + "-counters", "n1", {}, driver);
      sets.shared_counters = {{"chip", {{"slots", Amount(std::to_string(random_.Below(5)))}}}};
      sets.slice_count = slice.slice_count = 2;
      inventory_.SetSlice(Shared(sets));
    }
    inventory_.SetSlice(Shared(slice));
    for (const api::Device& device : slice.devices) {
      if (!random_.OneIn(4))
        continue;
      const int32_t id = inventory_.AcquireId(driver, "n1", device.name);
      if (device.facts.allow_multiple_allocations)
        book_.Take({id, true, {{"m", Amount("1")}}});
      else
        book_.Take({id, false, {}});
    }
  }

  api::ExactRequest Request(const std::string& name, bool may_be_all) {
    api::ExactRequest request = Exact(name, 1 + random_.Below(2), random_.OneIn(3) ? "red" : "gpu");
    if (may_be_all && random_.OneIn(6))
      request.mode = "All";
    if (random_.OneIn(5))
      request.selectors = {R"(device.driver == "a.example.com")"};
    if (random_.OneIn(4))
      request.tolerations = {{"sick", "Exists", "", random_.OneIn(2) ? "" : "NoSchedule", {}}};
    if (random_.OneIn(4))
      request.capacity = {{"m", Amount(std::to_string(1 + random_.Below(3)))}};
    return request;
  }

  api::ClaimSpec Claim(bool may_be_all) {
    api::ClaimSpec spec;
    const int requests = 1 + random_.Below(2);
    for (int r = 0; r < requests; ++r) {
      const std::string name = "r" + std::to_string(r);
      if (random_.OneIn(4)) {
        spec.requests.push_back(
            FirstAvailable(name, {Request("x", false), Request("y", may_be_all)}));
      } else {
        spec.requests.push_back(MakeClaim({Request(name, may_be_all)}).requests[0]);
      }
    }
    if (random_.OneIn(3)) {
      api::DeviceConstraint constraint;
      (random_.OneIn(2) ? constraint.match_attribute : constraint.distinct_attribute) =
          random_.OneIn(2) ? "a.example.com/root" : "a.example.com/color";
      if (random_.OneIn(2))
        constraint.requests = {random_.OneIn(2) ? "r0" : "r0/x"};
      spec.constraints.push_back(constraint);
      may_be_invalid_ = true;
    }
    return spec;
  }

  // What was found fits into the book; undone, the book is what it was.
  void Promise(const Allocation& found) {
    for (const AllocatedClaim& claim : found.claims) {
      for (const DeviceUse& use : claim.Uses())
        EXPECT_TRUE(use.shared || book_.Whole(use.id) == 0) << "promised twice";
    }
    std::map<int32_t, int32_t> whole;
    for (size_t id = 0; id < inventory_.IdLimit(); ++id)
      whole[static_cast<int32_t>(id)] = book_.Whole(static_cast<int32_t>(id));
    {
      DeviceTrial trial(book_);
      for (const AllocatedClaim& claim : found.claims)
        trial.Take(claim.Uses());
      for (const auto& [id, before] : whole)
        EXPECT_LE(book_.Whole(id), 1);
      for (const PoolView& pool : inventory_.ViewOf(node_).pools) {
        if (pool.generation == nullptr)
          continue;
        // A pool that was within its counters stays so.
        const auto left = CountersLeft(inventory_, book_, *pool.generation);
        const bool touched =
            std::any_of(found.claims.begin(), found.claims.end(), [&](const AllocatedClaim& claim) {
              return std::any_of(
                  claim.devices.begin(), claim.devices.end(), [&](const PickedDevice& device) {
                    const PublishedDevice& published = inventory_.At(device.place);
                    return published.slice->driver == pool.driver && !published.charges.empty() &&
                           !published.device->facts.allow_multiple_allocations;
                  });
            });
        for (const api::Quantity& amount : left)
          EXPECT_TRUE(!touched || amount.Sign() >= 0);
      }
    }
    for (const auto& [id, before] : whole)
      EXPECT_EQ(book_.Whole(id), before);
  }

  Random random_;
  FakeNodes nodes_;
  DeviceInventory inventory_{nodes_};
  DeviceBook book_;
  const std::string node_ = "n1";
  std::vector<std::shared_ptr<api::ClaimSpec>> specs_;
  std::vector<CompiledClaim> compiled_;
  std::vector<const CompiledClaim*> claims_;
  bool may_be_invalid_ = false;
};

TEST(DeviceTwin, FindsTheFirstSolutionWheneverThereIsOne) {
  World::placed = 0;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.Check();
    if (testing::Test::HasFailure())
      break;
  }
  EXPECT_GT(World::placed, static_cast<int64_t>(Seeds() / 5)) << "the worlds are too hard to tell";
}

}  // namespace
}  // namespace tutti::engine
