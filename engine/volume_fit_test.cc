// SPDX-License-Identifier: Apache-2.0
// Gangs whose pods have volumes, asked of the capacity check.
#include "engine/volume_fit.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/capacity.h"
#include "engine/capacity_test_util.h"
#include "engine/volume_book.h"

namespace tutti::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kHost = "kubernetes.io/hostname";
constexpr const char* kZone = "topology.kubernetes.io/zone";

api::NodeSelector Where(const std::string& key, const std::vector<std::string>& values) {
  return {{{{{key, "In", values}}, {}}}};
}

api::StorageClass MakeClass(const std::string& name, const std::string& provisioner, bool waits) {
  api::StorageClass out;
  out.meta.name = name;
  out.provisioner = provisioner;
  out.waits = waits;
  return out;
}

api::PersistentVolume MakeVolume(const std::string& name, const std::string& storage_class,
                                 int64_t size, std::optional<api::NodeSelector> where) {
  api::PersistentVolume out;
  out.meta.name = name;
  out.storage_class = storage_class;
  out.capacity = api::Quantity::FromInt(size);
  out.access_modes = {"ReadWriteOnce"};
  out.phase = "Available";
  out.affinity = std::move(where);
  return out;
}

api::VolumeClaimSpec Ask(const std::string& storage_class, int64_t size = 1) {
  api::VolumeClaimSpec spec;
  spec.storage_class = storage_class;
  spec.access_modes = {"ReadWriteOnce"};
  spec.storage = api::Quantity::FromInt(size);
  return spec;
}

api::PersistentVolumeClaim MakeClaim(const std::string& name, api::VolumeClaimSpec spec) {
  api::PersistentVolumeClaim out;
  out.meta.ns = "ns";
  out.meta.name = name;
  out.spec = std::move(spec);
  out.phase = "Pending";
  return out;
}

// Both sides of a binding.
void Bind(api::PersistentVolumeClaim& claim, api::PersistentVolume& volume) {
  claim.spec.volume_name = volume.meta.name;
  claim.bind_complete = true;
  claim.phase = volume.phase = "Bound";
  volume.claim = api::ClaimReference{claim.meta.ns, claim.meta.name, claim.meta.uid};
}

std::shared_ptr<api::PodShape> With(std::vector<api::PodVolume> volumes, int64_t cpu = 1) {
  auto shape = MakeShape({{"cpu", cpu}});
  shape->volumes = api::PodVolumes{"ns", std::move(volumes)};
  return shape;
}
api::PodVolume Named(const std::string& claim) {
  return {"v-" + claim, claim, std::nullopt};
}
api::PodVolume Made(api::VolumeClaimSpec spec, const std::string& name = "scratch") {
  return {name, "", std::move(spec)};
}

class VolumeFitTest : public ::testing::Test {
 protected:
  VolumeFitTest() {
    book_.SetKnown(true);
    for (const char* name : {"a", "b", "c"})
      capacity_->SetNode(MakeNode(name, {{"cpu", 4}}, {{kZone, name[0] == 'c' ? "z2" : "z1"}}));
    book_.SetClass(MakeClass("local", std::string(api::kNoProvisioner), true));
    book_.SetClass(MakeClass("made", "csi.example.com", true));
    book_.SetClass(MakeClass("now", "csi.example.com", false));
  }
  FitResult Check(int32_t count, std::shared_ptr<const api::PodShape> shape) {
    return capacity_->Check(MakeGang("ns/x", count, std::move(shape)));
  }
  std::string Text(int32_t count, std::shared_ptr<const api::PodShape> shape) {
    const FitResult result = Check(count, std::move(shape));
    if (result.kind == FitKind::kFits) {
      std::string nodes = "fits:";
      for (const PlacementSlot& slot : result.placement)
        nodes += " " + slot.node + "x" + std::to_string(slot.count);
      return nodes;
    }
    return result.message;
  }
  void AddBound(const std::string& claim_name, std::optional<api::NodeSelector> where) {
    auto volume = MakeVolume("pv-" + claim_name, "local", 1, std::move(where));
    auto claim = MakeClaim(claim_name, Ask("local"));
    Bind(claim, volume);
    book_.SetVolume(volume);
    book_.SetClaim(claim);
  }

  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
  VolumeBook& book_ = capacity_->Volumes();
};

// --- claims that pods name

TEST_F(VolumeFitTest, UntilVolumesAreKnownTheyAreLeftToTheScheduler) {
  book_.SetKnown(false);
  EXPECT_EQ(Check(1, With({Named("x")})).kind, FitKind::kUndecided);
  EXPECT_EQ(Text(1, With({Named("x")})), "left to the scheduler: volume claims");
}

TEST_F(VolumeFitTest, AClaimThatCantBeUsedIsNamed) {
  EXPECT_EQ(Text(1, With({Named("x")})),
            "doesn't fit now: PersistentVolumeClaim ns/x doesn't exist");
  auto claim = MakeClaim("x", Ask("now"));
  book_.SetClaim(claim);
  EXPECT_THAT(Text(1, With({Named("x")})), HasSubstr("ns/x is not bound yet (StorageClass now"));
  claim.spec = Ask("none");
  book_.SetClaim(claim);
  EXPECT_THAT(Text(1, With({Named("x")})), HasSubstr("StorageClass none doesn't exist"));
  claim.spec.storage_class.reset();
  book_.SetClaim(claim);
  EXPECT_THAT(Text(1, With({Named("x")})), HasSubstr("has no StorageClass"));
  claim.spec.volume_name = "pv";
  book_.SetClaim(claim);
  EXPECT_THAT(Text(1, With({Named("x")})), HasSubstr("not bound yet to PersistentVolume pv"));
  claim.bind_complete = true;
  book_.SetClaim(claim);
  EXPECT_THAT(Text(1, With({Named("x")})), HasSubstr("PersistentVolume pv, which doesn't exist"));
  claim.meta.deleted = Time{};
  book_.SetClaim(claim);
  EXPECT_THAT(Text(1, With({Named("x")})), HasSubstr("is being deleted"));
  claim.meta.deleted.reset();
  claim.phase = "Lost";
  book_.SetClaim(claim);
  EXPECT_THAT(Text(1, With({Named("x")})), HasSubstr("has lost its PersistentVolume pv"));
  EXPECT_EQ(Check(1, With({Named("x")})).kind, FitKind::kNotNow);
}

TEST_F(VolumeFitTest, ABoundVolumeKeepsThePodsOnItsNodes) {
  AddBound("x", Where(kHost, {"b"}));
  EXPECT_EQ(Text(4, With({Named("x")})), "fits: bx4");
  const FitResult more = Check(5, With({Named("x")}));
  EXPECT_EQ(more.kind, FitKind::kNever);
  EXPECT_THAT(more.message, AllOf(HasSubstr("2 without the volumes"),
                                  HasSubstr("PersistentVolume pv-x of claim ns/x is reached by "
                                            "node b")));
  capacity_->SetPod("p", "b", MakeShape({{"cpu", 3}}), "", "");
  EXPECT_THAT(Text(2, With({Named("x")})),
              AllOf(HasSubstr("1 of 2 pods fit now"), HasSubstr("pv-x")));
  const uint64_t version = capacity_->Version();
  capacity_->RemovePod("p");
  EXPECT_GT(capacity_->Version(), version);
  EXPECT_EQ(Text(2, With({Named("x")})), "fits: bx2");
}

TEST_F(VolumeFitTest, AVolumeWithoutAffinityIsReachedByAll) {
  AddBound("x", std::nullopt);
  EXPECT_EQ(Check(12, With({Named("x")})).kind, FitKind::kFits);
}

TEST_F(VolumeFitTest, VolumesOnDifferentNodesExcludeEachOther) {
  AddBound("x", Where(kHost, {"a"}));
  AddBound("y", Where(kHost, {"b"}));
  EXPECT_THAT(Text(1, With({Named("x"), Named("y")})), HasSubstr("no usable node has the volumes"));
}

TEST_F(VolumeFitTest, ZoneLabelsOfAVolumeCount) {
  auto volume = MakeVolume("pv", "local", 1, std::nullopt);
  auto claim = MakeClaim("x", Ask("local"));
  volume.meta.labels["failure-domain.beta.kubernetes.io/zone"] = "z2__z9";
  Bind(claim, volume);
  book_.SetVolume(volume);
  book_.SetClaim(claim);
  EXPECT_EQ(Text(2, With({Named("x")})), "fits: cx2");
  // A node without any such label is in every zone.
  capacity_->SetNode(MakeNode("d", {{"cpu", 1}}));
  EXPECT_EQ(Text(5, With({Named("x")})), "fits: cx4 dx1");
  volume.meta.labels["failure-domain.beta.kubernetes.io/zone"] = "z2__";  // not valid
  book_.SetVolume(volume);
  EXPECT_EQ(Check(13, With({Named("x")})).kind, FitKind::kFits);
}

TEST_F(VolumeFitTest, AClaimForOnePodIsForOnePod) {
  auto volume = MakeVolume("pv", "local", 1, std::nullopt);
  auto claim = MakeClaim("x", Ask("local"));
  claim.spec.access_modes = {"ReadWriteOncePod"};
  Bind(claim, volume);
  book_.SetVolume(volume);
  book_.SetClaim(claim);
  const auto shape = With({Named("x")});
  EXPECT_EQ(Check(1, shape).kind, FitKind::kFits);
  EXPECT_EQ(Check(2, shape).kind, FitKind::kNever);
  EXPECT_THAT(Text(2, shape), HasSubstr("ns/x is for one pod only"));
  capacity_->SetPod("p", "a", shape, "", "");
  EXPECT_EQ(Check(1, shape).kind, FitKind::kNotNow);
  EXPECT_THAT(Text(1, shape), HasSubstr("another pod uses it"));
  const uint64_t version = capacity_->Version();
  capacity_->RemovePod("p");
  EXPECT_GT(capacity_->Version(), version);
  const Gang first = MakeGang("ns/first", 1, shape);
  capacity_->Reserve(first, capacity_->Check(first).placement);
  EXPECT_THAT(Text(1, shape), HasSubstr("ns/first uses it"));
}

TEST_F(VolumeFitTest, DisksThatADriverHasTakenOverAreLeftToTheScheduler) {
  auto volume = MakeVolume("pv", "local", 1, std::nullopt);
  volume.migrated = true;
  volume.driver = "ebs.csi.aws.com";
  auto claim = MakeClaim("x", Ask("local"));
  Bind(claim, volume);
  book_.SetVolume(volume);
  book_.SetClaim(claim);
  EXPECT_EQ(Check(1, With({Named("x")})).kind, FitKind::kUndecided);
}

TEST_F(VolumeFitTest, AClaimToBeBoundKeepsAllPodsWhereTheFirstOneGoes) {
  book_.SetClaim(MakeClaim("x", Ask("made")));
  EXPECT_EQ(Text(4, With({Named("x")})), "fits: ax4");
  EXPECT_EQ(Check(5, With({Named("x")})).kind, FitKind::kNever);
  // Once it is chosen where, it is there.
  auto claim = MakeClaim("x", Ask("made"));
  claim.selected_node = "c";
  book_.SetClaim(claim);
  EXPECT_EQ(Text(4, With({Named("x")})), "fits: cx4");
  // A volume of the zone that exists serves the pods there.
  book_.SetClaim(MakeClaim("y", Ask("local")));
  book_.SetVolume(MakeVolume("zonal", "local", 5, Where(kZone, {"z1"})));
  EXPECT_EQ(Text(8, With({Named("y")})), "fits: ax4 bx4");
  EXPECT_EQ(Check(9, With({Named("y")})).kind, FitKind::kNever);
}

TEST_F(VolumeFitTest, AVolumeThatIsKeptForAClaimIsTaken) {
  auto kept = MakeVolume("kept", "local", 5, Where(kHost, {"c"}));
  kept.claim = api::ClaimReference{"ns", "x", ""};
  book_.SetVolume(kept);
  book_.SetVolume(MakeVolume("small", "local", 1, Where(kHost, {"a"})));
  book_.SetClaim(MakeClaim("x", Ask("local")));
  EXPECT_EQ(Text(1, With({Named("x")})), "fits: cx1");
  EXPECT_EQ(Text(2, With({Named("x")})), "fits: cx2");
}

// --- volumes of each pod

TEST_F(VolumeFitTest, EachPodTakesAVolumeOfItsNode) {
  book_.SetVolume(MakeVolume("a1", "local", 5, Where(kHost, {"a"})));
  book_.SetVolume(MakeVolume("a2", "local", 5, Where(kHost, {"a"})));
  book_.SetVolume(MakeVolume("b1", "local", 5, Where(kHost, {"b"})));
  const auto shape = With({Made(Ask("local", 5))});
  EXPECT_EQ(Text(3, shape), "fits: ax2 bx1");
  EXPECT_THAT(Text(4, shape), AllOf(HasSubstr("room for 3 of 4 pods when it is empty"),
                                    HasSubstr("is of StorageClass local")));
  EXPECT_EQ(Check(1, With({Made(Ask("local", 6))})).kind, FitKind::kNever);  // too small
  EXPECT_EQ(Check(1, With({Made(Ask("local", 2), "s"), Made(Ask("local", 2), "t")})).kind,
            FitKind::kFits);
  EXPECT_EQ(Check(2, With({Made(Ask("local", 2), "s"), Made(Ask("local", 2), "t")})).kind,
            FitKind::kNever);
  // A volume that somebody has may come back.
  auto taken = MakeVolume("b1", "local", 5, Where(kHost, {"b"}));
  taken.claim = api::ClaimReference{"ns", "other", "1"};
  taken.phase = "Bound";
  book_.SetVolume(taken);
  EXPECT_EQ(Check(3, shape).kind, FitKind::kNotNow);
  EXPECT_THAT(Text(3, shape), HasSubstr("2 without the volumes"));
}

TEST_F(VolumeFitTest, WhatAClaimAsksOfAVolumeMustHold) {
  auto volume = MakeVolume("v", "local", 5, std::nullopt);
  volume.meta.labels["tier"] = "1";
  book_.SetVolume(volume);
  const auto fits = [&](const auto& change) {
    api::VolumeClaimSpec spec = Ask("local");
    change(spec);
    return Check(1, With({Made(spec)})).kind == FitKind::kFits;
  };
  EXPECT_TRUE(fits([](auto&) {}));
  EXPECT_FALSE(fits([](auto& spec) { spec.block = true; }));
  EXPECT_FALSE(fits([](auto& spec) { spec.access_modes = {"ReadWriteMany"}; }));
  EXPECT_FALSE(fits([](auto& spec) { spec.attributes_class = "gold"; }));
  EXPECT_TRUE(fits([](auto& spec) { spec.selector = {true, {{"tier", "In", {"1"}}}}; }));
  EXPECT_FALSE(fits([](auto& spec) { spec.selector = {true, {{"tier", "In", {"2"}}}}; }));
  volume.phase = "Pending";
  book_.SetVolume(volume);
  EXPECT_FALSE(fits([](auto&) {}));
}

TEST_F(VolumeFitTest, NodesThatSeeTheSameVolumesShareThem) {
  book_.SetVolume(MakeVolume("z1", "local", 5, Where(kZone, {"z1"})));
  book_.SetVolume(MakeVolume("z2", "local", 5, Where(kZone, {"z1"})));
  book_.SetVolume(MakeVolume("z3", "local", 5, Where(kZone, {"z1"})));
  const auto shape = With({Made(Ask("local"))}, 2);
  EXPECT_EQ(Text(3, shape), "fits: ax2 bx1");
  EXPECT_EQ(Check(4, shape).kind, FitKind::kNever);
  // Beside volumes that only one of them sees it depends on what the scheduler takes.
  book_.SetVolume(MakeVolume("a", "local", 5, Where(kHost, {"a"})));
  EXPECT_EQ(Check(4, shape).kind, FitKind::kUndecided);
  EXPECT_EQ(Check(7, shape).kind, FitKind::kNever);
}

TEST_F(VolumeFitTest, AVolumeIsMadeWhereTheClassAllows) {
  auto made = MakeClass("made", "csi.example.com", true);
  made.allowed = {{{{kZone, {"z1"}}}}};
  book_.SetClass(made);
  const auto shape = With({Made(Ask("made", 10))});
  EXPECT_EQ(Text(8, shape), "fits: ax4 bx4");
  EXPECT_EQ(Check(9, shape).kind, FitKind::kNever);
  // The driver publishes how much there is.
  api::CsiDriver driver;
  driver.meta.name = "csi.example.com";
  driver.storage_capacity = true;
  book_.SetDriver(driver);
  EXPECT_EQ(Check(1, shape).kind, FitKind::kNotNow);  // there may be more some day
  api::CsiStorageCapacity capacity;
  capacity.meta.name = "c";
  capacity.storage_class = "made";
  capacity.nodes = {true, {{kHost, "In", {"b"}}}};
  capacity.size = api::Quantity::FromInt(9);
  book_.SetCapacity(capacity);
  EXPECT_EQ(Check(1, shape).kind, FitKind::kNotNow);
  capacity.size = api::Quantity::FromInt(10);
  const uint64_t version = capacity_->Version();
  book_.SetCapacity(capacity);
  EXPECT_GT(capacity_->Version(), version);
  EXPECT_EQ(Text(2, shape), "fits: bx2");
}

TEST_F(VolumeFitTest, AVolumeWithoutAnExplicitClassIsOfTheDefaultOne) {
  api::VolumeClaimSpec spec = Ask("");
  spec.storage_class.reset();
  EXPECT_EQ(Check(1, With({Made(spec)})).kind, FitKind::kUndecided);
  auto storage_class = MakeClass("local", std::string(api::kNoProvisioner), true);
  storage_class.meta.annotations["storageclass.kubernetes.io/is-default-class"] = "true";
  book_.SetClass(storage_class);
  EXPECT_EQ(Check(1, With({Made(spec)})).kind, FitKind::kNever);
  book_.SetVolume(MakeVolume("v", "local", 5, std::nullopt));
  EXPECT_EQ(Check(1, With({Made(spec)})).kind, FitKind::kFits);
}

TEST_F(VolumeFitTest, AVolumeOfAMissingClassIsNamedAndOneThatIsBoundAtOnceIsLeft) {
  EXPECT_EQ(Text(1, With({Made(Ask("none"))})),
            "doesn't fit now: volume scratch: StorageClass none doesn't exist");
  EXPECT_THAT(Text(1, With({Made(Ask("now"))})),
              HasSubstr("volume scratch of StorageClass now, which is bound before"));
}

TEST_F(VolumeFitTest, PodsOfSeveralKindsThatShareOutVolumesAreLeftToTheScheduler) {
  book_.SetVolume(MakeVolume("a1", "local", 5, Where(kHost, {"a"})));
  book_.SetVolume(MakeVolume("b1", "local", 5, Where(kHost, {"b"})));
  Gang gang{"ns/x",
            {MakeSet("one", 1, With({Made(Ask("local"))})),
             MakeSet("two", 1, With({Made(Ask("local"))}, 2))}};
  EXPECT_EQ(capacity_->Check(gang).kind, FitKind::kUndecided);
  gang.pod_sets[1].count = 3;
  EXPECT_EQ(capacity_->Check(gang).kind, FitKind::kNever);
}

// --- limits of attachment

TEST_F(VolumeFitTest, ANodeAttachesNoMoreThanItsDriverCan) {
  for (const char* name : {"a", "b", "c"}) {
    api::CsiNode node;
    node.meta.name = name;
    node.limits["csi.example.com"] = name[0] == 'c' ? 0 : 3;
    book_.SetNode(node);
  }
  const auto shape = With({Made(Ask("made"))});
  EXPECT_EQ(Text(6, shape), "fits: ax3 bx3");
  EXPECT_EQ(Check(7, shape).kind, FitKind::kNever);
  // A volume that all share is attached once.
  auto volume = MakeVolume("pv", "local", 1, std::nullopt);
  volume.driver = "csi.example.com";
  volume.handle = "h";
  auto claim = MakeClaim("x", Ask("local"));
  Bind(claim, volume);
  book_.SetVolume(volume);
  book_.SetClaim(claim);
  EXPECT_EQ(Text(8, With({Named("x")})), "fits: ax4 bx4");
  EXPECT_EQ(Text(4, With({Named("x"), Made(Ask("made"))})), "fits: ax2 bx2");
  // It is there already; what is attached without a pod counts, too.
  capacity_->SetPod("p", "a", With({Named("x")}), "", "");
  EXPECT_EQ(Text(4, With({Named("x"), Made(Ask("made"))})), "fits: ax2 bx2");
  api::VolumeAttachment attachment;
  attachment.meta.name = "att";
  attachment.attacher = "csi.example.com";
  attachment.node = "b";
  attachment.volume = "pv";
  book_.SetAttachment(attachment);
  EXPECT_EQ(Text(4, shape), "fits: ax2 bx2");
  EXPECT_EQ(Check(5, shape).kind, FitKind::kNotNow);
}

// --- in flight

TEST_F(VolumeFitTest, GangsThatChooseVolumesAreReleasedOneAfterTheOther) {
  for (const char* name : {"a1", "a2", "b1"})
    book_.SetVolume(MakeVolume(name, "local", 5, Where(kHost, {std::string(name, 1)})));
  const auto shape = With({Made(Ask("local"))});
  const Gang first = MakeGang("ns/first", 1, shape);
  const Gang second = MakeGang("ns/second", 2, shape);
  const Gang plain = MakeGang("ns/plain", 1, {{"cpu", 1}});
  capacity_->Reserve(first, capacity_->Check(first).placement);
  EXPECT_EQ(capacity_->Check(second).kind, FitKind::kFits);
  EXPECT_EQ(capacity_->Check(MakeGang("ns/x", 3, shape)).kind, FitKind::kNotNow);
  EXPECT_THAT(capacity_->CheckFlights(second).waits_for, testing::ElementsAre("ns/first"));
  EXPECT_TRUE(capacity_->CheckFlights(plain).clear);
  // It takes another one than was foreseen. Its claim is seen a moment later than its pod.
  capacity_->SetPod("uid-1", "b", shape, "ns/first", "main");
  EXPECT_EQ(Text(2, shape), "fits: ax2");
  EXPECT_TRUE(capacity_->CheckFlights(second).clear);
  auto volume = MakeVolume("b1", "local", 5, Where(kHost, {"b"}));
  auto claim = MakeClaim("first-scratch", Ask("local"));
  claim.meta.owners = {{"v1", "Pod", "first", "uid-1", true}};
  Bind(claim, volume);
  book_.SetClaim(claim);
  book_.SetVolume(volume);
  EXPECT_EQ(Text(2, shape), "fits: ax2");
  EXPECT_EQ(Check(3, shape).kind, FitKind::kNotNow);
  EXPECT_EQ(capacity_->SanityCheck(), "");
}

TEST_F(VolumeFitTest, PodsThatCantReachTheVolumesNodesDontMatter) {
  AddBound("x", Where(kHost, {"b"}));
  const Gang mine = MakeGang("ns/mine", 4, With({Named("x")}));
  const Gang other = MakeGang("ns/other", 2, {{"cpu", 1}});
  capacity_->Reserve(other, {{0, "a", 2}});
  EXPECT_FALSE(capacity_->CheckFlights(mine).clear);  // they may come to b
  capacity_->Release("ns/other");
  AddBound("y", Where(kHost, {"a"}));
  const Gang there = MakeGang("ns/there", 2, With({Named("y")}));
  capacity_->Reserve(there, capacity_->Check(there).placement);
  EXPECT_TRUE(capacity_->CheckFlights(mine).clear);
}

TEST_F(VolumeFitTest, EventsThatChangeNothingCostNothing) {
  AddBound("x", Where(kHost, {"b"}));
  const uint64_t version = capacity_->Version();
  AddBound("x", Where(kHost, {"b"}));
  EXPECT_EQ(capacity_->Version(), version);
  book_.RemoveClaim({"ns", "x"});
  EXPECT_GT(capacity_->Version(), version);
  book_.RemoveVolume("pv-x");
  EXPECT_EQ(capacity_->SanityCheck(), "");
}

// --- a scheduler that takes pods one after the other

// Follows the scheduler's filter word by word, for pods of one kind.
class NaiveScheduler {
 public:
  struct Node {
    std::string name;
    api::StringMap labels;
    int64_t pods = 0;  // for which it has room
  };
  std::vector<Node> nodes;
  std::map<std::string, api::StorageClass> classes;
  std::map<std::string, api::PersistentVolume> volumes;
  std::map<std::string, api::PersistentVolumeClaim> claims;
  std::map<std::string, int64_t> limits;  // by node, of the only driver

  // Puts a pod on a node and binds its claims; false: it is filtered.
  bool Place(const api::PodVolumes& pod, size_t n) {
    Node& node = nodes[n];
    if (node.pods == 0)
      return false;
    struct Wanted {
      api::PersistentVolumeClaim* claim;
      api::PersistentVolumeClaim made;
    };
    std::vector<Wanted> wanted;
    int64_t attach = 0;
    std::set<std::string> new_shared;
    for (const api::PodVolume& volume : pod.claims) {
      if (volume.made) {
        auto made = MakeClaim("made-" + std::to_string(++made_), *volume.made);
        attach += classes.at(made.Class()).provisioner == kDriver ? 1 : 0;
        wanted.push_back({nullptr, made});
        continue;
      }
      api::PersistentVolumeClaim& claim = claims.at(volume.claim);
      if (Attaches(claim) && !attached_[n].contains(volume.claim))
        new_shared.insert(volume.claim);
      if (claim.Bound()) {
        const api::PersistentVolume& bound = volumes.at(claim.spec.volume_name);
        if (bound.affinity && !bound.affinity->Matches(node.labels, ""))
          return false;
      } else {
        wanted.push_back({&claim, claim});
      }
    }
    if (const auto limit = limits.find(node.name);
        limit != limits.end() && attach + static_cast<int64_t>(new_shared.size()) > 0 &&
        count_[n] + static_cast<int64_t>(attached_[n].size() + new_shared.size()) + attach >
            limit->second)
      return false;
    std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
      return *a.made.spec.storage < *b.made.spec.storage;
    });
    std::map<std::string, std::string> binds;  // volume -> claim
    std::set<std::string> given;
    std::vector<api::PersistentVolumeClaim*> provisioned;
    for (Wanted& want : wanted) {
      api::PersistentVolumeClaim& claim = want.made;
      if (!claim.selected_node.empty() && claim.selected_node != node.name)
        return false;
      api::PersistentVolume* best = nullptr;
      bool kept = false;
      for (auto& [name, volume] : volumes) {
        const bool mine = volume.claim && volume.claim->IsFor(claim);
        if (!claim.selected_node.empty() || volume.storage_class != claim.Class() ||
            binds.contains(name) || (volume.claim && !mine) ||
            volume.capacity < *claim.spec.storage)
          continue;
        const bool reaches = !volume.affinity || volume.affinity->Matches(node.labels, "");
        if (mine) {
          kept = true;
          best = reaches ? &volume : nullptr;
          break;
        }
        if (reaches && (best == nullptr || volume.capacity < best->capacity))
          best = &volume;
      }
      if (best != nullptr) {
        if (!kept)
          binds[best->meta.name] = claim.meta.name;
        given.insert(claim.meta.name);
        continue;
      }
      // The real one would have one made here, and then fail to bind the pod: the claim has the
      // other.
      if (given_.contains(claim.meta.name))
        return false;
      const api::StorageClass& storage_class = classes.at(claim.Class());
      if (storage_class.provisioner == api::kNoProvisioner)
        return false;
      const bool allowed =
          storage_class.allowed.empty() ||
          std::any_of(storage_class.allowed.begin(), storage_class.allowed.end(),
                      [&](const auto& term) {
                        const auto& [key, values] = term.values.front();
                        const auto have = node.labels.find(key);
                        return have != node.labels.end() &&
                               std::count(values.begin(), values.end(), have->second) > 0;
                      });
      if (!allowed)
        return false;
      if (want.claim != nullptr)
        provisioned.push_back(want.claim);
    }
    for (const auto& [volume, claim] : binds)
      volumes.at(volume).claim = api::ClaimReference{"ns", claim, ""};
    given_.insert(given.begin(), given.end());
    for (api::PersistentVolumeClaim* claim : provisioned)
      claim->selected_node = node.name;
    attached_[n].insert(new_shared.begin(), new_shared.end());
    count_[n] += attach;
    --node.pods;
    return true;
  }

  static constexpr const char* kDriver = "csi.example.com";

 private:
  bool Attaches(const api::PersistentVolumeClaim& claim) const {
    if (claim.Bound())
      return volumes.at(claim.spec.volume_name).driver == kDriver;
    return classes.at(claim.Class()).provisioner == kDriver;
  }
  int made_ = 0;
  std::set<std::string> given_;  // claims that have got a volume that exists
  std::map<size_t, std::set<std::string>> attached_;
  std::map<size_t, int64_t> count_;
};

TEST(VolumeFitTwinTest, WhatIsSaidIsWhatASchedulerDoes) {
  std::map<FitKind, int> verdicts;
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<int>(random() % n); };
    const std::unique_ptr<Capacity> capacity = MakeCapacity();
    VolumeBook& book = capacity->Volumes();
    book.SetKnown(true);
    NaiveScheduler start;
    for (int n = 0; n < 2 + below(4); ++n) {
      const std::string name = "n" + std::to_string(n);
      const api::StringMap labels = {{kHost, name}, {kZone, "z" + std::to_string(below(2))}};
      const int room = 1 + below(3);
      capacity->SetNode(MakeNode(name, {{"cpu", room}}, labels));
      start.nodes.push_back({name, labels, room});
      if (below(3) == 0) {
        api::CsiNode csi;
        csi.meta.name = name;
        start.limits[name] = csi.limits[NaiveScheduler::kDriver] = below(4);
        book.SetNode(csi);
      }
    }
    for (const char* name : {"local", "made"}) {
      auto storage_class = MakeClass(
          name, name[0] == 'l' ? std::string(api::kNoProvisioner) : NaiveScheduler::kDriver, true);
      if (below(3) == 0)
        storage_class.allowed = {{{{kZone, {"z0"}}}}};
      start.classes[name] = storage_class;
      book.SetClass(storage_class);
    }
    const int style = below(3);  // of the volumes: on a node, in a zone, both
    for (int v = 0; v < below(9); ++v) {
      const bool local = style == 0 || (style == 2 && below(2) == 0);
      auto volume =
          MakeVolume("v" + std::to_string(v), below(4) == 0 ? "made" : "local", 1 + below(3),
                     local ? Where(kHost, {"n" + std::to_string(below(4))})
                           : Where(kZone, {"z" + std::to_string(below(2))}));
      if (below(8) == 0)
        volume.claim = api::ClaimReference{"ns", "c0", ""};
      start.volumes[volume.meta.name] = volume;
    }
    std::vector<api::PodVolume> entries;
    for (int c = 0; c < 1 + below(2); ++c) {
      const std::string storage_class = below(3) == 0 ? "made" : "local";
      if (below(2) == 0) {
        entries.push_back(Made(Ask(storage_class, 1 + below(3)), "m" + std::to_string(c)));
        continue;
      }
      auto claim = MakeClaim("c" + std::to_string(c), Ask(storage_class, 1 + below(3)));
      if (below(2) == 0) {
        auto volume = MakeVolume("b" + std::to_string(c), storage_class, 3,
                                 Where(kZone, {"z" + std::to_string(below(2))}));
        if (below(2) == 0)
          volume.driver = NaiveScheduler::kDriver, volume.handle = volume.meta.name;
        Bind(claim, volume);
        start.volumes[volume.meta.name] = volume;
      }
      start.claims[claim.meta.name] = claim;
      book.SetClaim(claim);
      entries.push_back(Named(claim.meta.name));
    }
    for (const auto& [name, volume] : start.volumes)
      book.SetVolume(volume);
    const auto shape = With(entries);
    const int count = 1 + below(7);
    const FitResult result = capacity->Check(MakeGang("ns/x", count, shape));
    ++verdicts[result.kind];
    if (result.kind == FitKind::kFits) {
      // The plan can be carried out. In which order its nodes come may matter for a claim that all
      // share, not more.
      bool placed = false;
      for (size_t first = 0; first < result.placement.size() && !placed; ++first) {
        NaiveScheduler scheduler = start;
        placed = true;
        Placement order = result.placement;
        std::swap(order[0], order[first]);
        for (const PlacementSlot& slot : order) {
          const auto n = static_cast<size_t>(std::stoi(slot.node.substr(1)));
          for (int i = 0; i < slot.count; ++i)
            placed = placed && scheduler.Place(*shape->volumes, n);
        }
      }
      EXPECT_TRUE(placed) << "seed " << seed << ": the plan can't be carried out";
    }
    for (int run = 0; run < 20; ++run) {
      NaiveScheduler scheduler = start;
      int pods = 0;
      for (; pods < count; ++pods) {
        std::vector<size_t> order(scheduler.nodes.size());
        for (size_t n = 0; n < order.size(); ++n)
          order[n] = n;
        std::shuffle(order.begin(), order.end(), random);
        if (std::none_of(order.begin(), order.end(),
                         [&](size_t n) { return scheduler.Place(*shape->volumes, n); }))
          break;
      }
      const bool no = result.kind == FitKind::kNotNow || result.kind == FitKind::kNever;
      ASSERT_FALSE(no && pods == count) << "seed " << seed << ": " << result.message;
      // Only a claim that all share makes the choice of the first pod matter.
      const bool shared = std::any_of(entries.begin(), entries.end(),
                                      [](const auto& entry) { return !entry.made; });
      if (result.kind == FitKind::kFits && !shared) {
        ASSERT_EQ(pods, count) << "seed " << seed << ": a greedy choice misses it";
      }
    }
    ASSERT_EQ(capacity->SanityCheck(), "") << "seed " << seed;
  }
  EXPECT_GT(verdicts[FitKind::kFits], 600);
  EXPECT_GT(verdicts[FitKind::kNever] + verdicts[FitKind::kNotNow], 600);
  EXPECT_LT(verdicts[FitKind::kUndecided], 900);
}

}  // namespace
}  // namespace tutti::engine
