// SPDX-License-Identifier: Apache-2.0
#include "reconciler/store.h"

#include <gtest/gtest.h>

namespace tutti::reconciler {
namespace {

struct Thing {
  api::ObjectMeta meta;
};

Thing Make(const std::string& uid, int version) {
  Thing thing;
  thing.meta.ns = "team";
  thing.meta.name = "thing";
  thing.meta.uid = uid;
  thing.meta.resource_version = std::to_string(version);
  return thing;
}

class StoreTest : public ::testing::Test {
 protected:
  bool Put(const std::string& uid, int version) {
    return store_.Upsert(std::make_shared<const Thing>(Make(uid, version))).applied;
  }
  bool Drop(const std::string& uid, int version) {
    return store_.Remove(Make(uid, version)).applied;
  }
  std::string Known() {
    const auto found = store_.Find({"team", "thing"});
    return found == nullptr ? "" : found->meta.uid + "@" + found->meta.resource_version;
  }
  Store<Thing> store_;
};

TEST_F(StoreTest, ALateEventDoesNotTakeBackAnAnswer) {
  EXPECT_TRUE(Put("a", 5));
  EXPECT_TRUE(Put("a", 9));
  EXPECT_FALSE(Put("a", 7));
  EXPECT_EQ(Known(), "a@9");
}

TEST_F(StoreTest, ItCountsChangesAndNames) {
  Put("a", 5);
  Put("a", 9);
  Put("a", 7);  // late
  EXPECT_EQ(store_.Changes(), 2U);
  EXPECT_EQ(store_.Names(), 1U);
  Drop("a", 10);
  Drop("a", 10);
  EXPECT_EQ(store_.Changes(), 3U);
  EXPECT_EQ(store_.Names(), 2U);
}

TEST_F(StoreTest, ALateAnswerDoesNotBringBackWhatIsDeleted) {
  EXPECT_TRUE(Put("a", 5));
  EXPECT_TRUE(Drop("a", 8));
  EXPECT_FALSE(Put("a", 7));
  EXPECT_EQ(Known(), "");
  EXPECT_TRUE(Put("b", 9)) << "a new object of the same name";
  EXPECT_EQ(Known(), "b@9");
}

TEST_F(StoreTest, AnObjectThatAListNoLongerHasIsGoneThoughOurAnswerWasNewer) {
  EXPECT_TRUE(Put("a", 5));
  EXPECT_TRUE(Put("a", 9)) << "the answer to our own write, never seen by the watch";
  EXPECT_TRUE(Drop("a", 5)) << "the watch knows the object as it was before";
  EXPECT_EQ(Known(), "");
  EXPECT_FALSE(Put("a", 9)) << "nor does it come back";
}

TEST_F(StoreTest, TheEndOfAnOlderObjectOfTheSameNameDoesNotTouchTheNewOne) {
  EXPECT_TRUE(Put("a", 5));
  EXPECT_TRUE(Put("b", 9));
  EXPECT_FALSE(Drop("a", 6));
  EXPECT_EQ(Known(), "b@9");
}

TEST_F(StoreTest, VersionsAreComparedAsNumbers) {
  EXPECT_TRUE(Put("a", 99));
  EXPECT_TRUE(Put("a", 100));
  EXPECT_EQ(VersionNumber("no number"), 0U);
}

}  // namespace
}  // namespace tutti::reconciler
