// SPDX-License-Identifier: Apache-2.0
#include "api/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::api {
namespace {

using testing::HasSubstr;

Json Parse(std::string_view text) {
  return *Json::Parse(text);
}

TEST(PersistentVolumeClaim, IsBoundOnlyWhenTheBindingIsComplete) {
  const auto claim = [](std::string_view annotations, std::string_view volume) {
    return *PersistentVolumeClaimFromJson(Parse(
        R"({"metadata":{"name":"c","namespace":"ns","annotations":{)" + std::string(annotations) +
        R"(}},"spec":{"volumeName":")" + std::string(volume) + R"("}})"));
  };
  EXPECT_TRUE(claim(R"("pv.kubernetes.io/bind-completed":"")", "pv").Bound());
  EXPECT_FALSE(claim("", "pv").Bound());
  EXPECT_FALSE(claim(R"("pv.kubernetes.io/bind-completed":"yes")", "").Bound());
}

TEST(PersistentVolumeClaim, TakesTheClassOfTheOldAnnotationFirst) {
  const auto claim = *PersistentVolumeClaimFromJson(Parse(R"({"metadata":{"name":"c",
      "annotations":{"volume.beta.kubernetes.io/storage-class":"old",
                     "volume.kubernetes.io/selected-node":"n1"}},
      "spec":{"storageClassName":"new","accessModes":["ReadWriteOncePod"]},
      "status":{"phase":"Lost"}})"));
  EXPECT_EQ(claim.Class(), "old");
  EXPECT_EQ(claim.selected_node, "n1");
  EXPECT_TRUE(claim.OnePod());
  EXPECT_EQ(claim.phase, "Lost");
}

TEST(PersistentVolume, KeepsWhereItIsAndWhoseItIs) {
  const auto volume = *PersistentVolumeFromJson(Parse(R"({"metadata":{"name":"pv"},"spec":{
      "storageClassName":"local","capacity":{"storage":"10Gi"},"accessModes":["ReadWriteOnce"],
      "claimRef":{"namespace":"ns","name":"c","uid":"1"},
      "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[
        {"key":"kubernetes.io/hostname","operator":"In","values":["n1"]}]}]}},
      "local":{"path":"/d"}},"status":{"phase":"Bound"}})"));
  EXPECT_EQ(volume.capacity, *Quantity::Parse("10Gi"));
  ASSERT_TRUE(volume.affinity);
  EXPECT_TRUE(volume.affinity->Matches({{"kubernetes.io/hostname", "n1"}}, ""));
  PersistentVolumeClaim claim;
  claim.meta.ns = "ns";
  claim.meta.name = "c";
  claim.meta.uid = "1";
  EXPECT_TRUE(volume.claim->IsFor(claim));
  claim.meta.uid = "2";
  EXPECT_FALSE(volume.claim->IsFor(claim));
  EXPECT_EQ(volume.driver, "");
}

TEST(PersistentVolume, KnowsDisksThatACsiDriverHasTakenOver) {
  const auto disk = *PersistentVolumeFromJson(
      Parse(R"({"metadata":{"name":"pv"},"spec":{"gcePersistentDisk":{"pdName":"d"}}})"));
  EXPECT_TRUE(disk.migrated);
  EXPECT_EQ(disk.driver, "pd.csi.storage.gke.io");
  const auto csi = *PersistentVolumeFromJson(
      Parse(R"({"metadata":{"name":"pv"},"spec":{"csi":{"driver":"d","volumeHandle":"h"}}})"));
  EXPECT_FALSE(csi.migrated);
  EXPECT_EQ(csi.driver + "/" + csi.handle, "d/h");
}

TEST(StorageClass, BindsAtOnceUnlessItSaysOtherwise) {
  const auto late = *StorageClassFromJson(Parse(R"({"metadata":{"name":"s","annotations":{
      "storageclass.kubernetes.io/is-default-class":"true"}},
      "provisioner":"kubernetes.io/aws-ebs","volumeBindingMode":"WaitForFirstConsumer",
      "allowedTopologies":[{"matchLabelExpressions":[{"key":"zone","values":["a","b"]}]}]})"));
  EXPECT_TRUE(late.waits && late.IsDefault() && late.Migrated());
  EXPECT_EQ(late.Driver(), "ebs.csi.aws.com");
  ASSERT_EQ(late.allowed.size(), 1);
  EXPECT_EQ(late.allowed[0].values[0].second, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(StorageClassFromJson(Parse(R"({"metadata":{"name":"s"}})"))->waits);
}

TEST(CsiObjects, KeepLimitsAndCapacities) {
  const auto node = *CsiNodeFromJson(Parse(R"({"metadata":{"name":"n"},"spec":{"drivers":[
      {"name":"a","allocatable":{"count":3}},{"name":"b"}]}})"));
  EXPECT_EQ(node.limits, (std::map<std::string, int32_t>{{"a", 3}}));
  EXPECT_TRUE(
      CsiDriverFromJson(Parse(R"({"metadata":{"name":"d"},"spec":{"storageCapacity":true}})"))
          ->storage_capacity);
  const auto capacity = *CsiStorageCapacityFromJson(Parse(R"({"metadata":{"name":"c"},
      "storageClassName":"s","capacity":"100Gi","maximumVolumeSize":"10Gi","nodeTopology":{}})"));
  EXPECT_EQ(capacity.size, *Quantity::Parse("10Gi"));
  EXPECT_TRUE(capacity.nodes.Matches({}));
  const auto nowhere = *CsiStorageCapacityFromJson(Parse(R"({"metadata":{"name":"c"}})"));
  EXPECT_FALSE(nowhere.nodes.Matches({}) || nowhere.size);
  const auto attachment = *VolumeAttachmentFromJson(Parse(R"({"metadata":{"name":"x"},"spec":{
      "attacher":"d","nodeName":"n","source":{"persistentVolumeName":"pv"}}})"));
  EXPECT_EQ(attachment.attacher + attachment.node + attachment.volume, "dnpv");
}

TEST(StorageKinds, NameTheFieldThatHasTheWrongType) {
  const auto message = [](const auto& result) { return result ? "" : result.error().message; };
  EXPECT_THAT(message(PersistentVolumeClaimFromJson(Parse(
                  R"({"metadata":{"name":"c","namespace":"ns"},"spec":{"accessModes":"rw"}})"))),
              HasSubstr("PersistentVolumeClaim ns/c: spec.accessModes: must be a list"));
  EXPECT_THAT(message(PersistentVolumeFromJson(
                  Parse(R"({"metadata":{"name":"v"},"spec":{"capacity":{"storage":"big"}}})"))),
              HasSubstr("spec.capacity.storage"));
  EXPECT_THAT(
      message(CsiNodeFromJson(Parse(
          R"({"metadata":{"name":"n"},"spec":{"drivers":[{"allocatable":{"count":"3"}}]}})"))),
      HasSubstr("spec.drivers[0].allocatable.count"));
  EXPECT_THAT(message(StorageClassFromJson(Parse(R"({"provisioner":"p"})"))),
              HasSubstr("metadata.name is missing"));
}

}  // namespace
}  // namespace tutti::api
