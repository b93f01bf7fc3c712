// SPDX-License-Identifier: Apache-2.0
#include "net/certs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::net {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

const Time kNow(seconds(1'800'000'000));

CertificateSpec Spec(const std::string& name, Time from, Time until) {
  CertificateSpec spec;
  spec.common_name = name;
  spec.not_before = from;
  spec.not_after = until;
  return spec;
}

CertificateSpec LeafSpec(Time from, Time until) {
  CertificateSpec spec = Spec("hook", from, until);
  spec.dns_names = {"hook.ns.svc", "hook.ns.svc.cluster.local"};
  spec.ip_addresses = {"127.0.0.1", "::1"};
  return spec;
}

class CertsTest : public testing::Test {
 protected:
  const KeyPair ca_ = MakeCa(Spec("ca", kNow, kNow + hours(24 * 90))).value();
  const KeyPair leaf_ = MakeLeaf(ca_, LeafSpec(kNow, kNow + hours(24 * 30))).value();
  const std::vector<std::string> names_{"hook.ns.svc"};
};

TEST_F(CertsTest, SaysWhatWasAskedFor) {
  const auto ca = Inspect(ca_.certificate_pem);
  ASSERT_TRUE(ca) << ca.error().message;
  EXPECT_TRUE(ca->is_ca);
  EXPECT_EQ(ca->common_name, "ca");
  const auto leaf = Inspect(leaf_.certificate_pem);
  ASSERT_TRUE(leaf) << leaf.error().message;
  EXPECT_FALSE(leaf->is_ca);
  EXPECT_EQ(leaf->not_before, kNow);
  EXPECT_EQ(leaf->not_after, kNow + hours(24 * 30));
  EXPECT_THAT(leaf->dns_names, testing::ElementsAre("hook.ns.svc", "hook.ns.svc.cluster.local"));
  EXPECT_THAT(leaf->ip_addresses, testing::ElementsAre("127.0.0.1", "::1"));
  EXPECT_EQ(leaf->fingerprint.size(), 64U);
  EXPECT_NE(leaf->fingerprint, ca->fingerprint);
}

TEST_F(CertsTest, KnowsWhoseKeyAndWhoseSignature) {
  const KeyPair other = MakeCa(Spec("ca", kNow, kNow + hours(1))).value();
  EXPECT_TRUE(KeyMatches(leaf_.certificate_pem, leaf_.key_pem));
  EXPECT_FALSE(KeyMatches(leaf_.certificate_pem, ca_.key_pem));
  EXPECT_TRUE(IsSignedBy(leaf_.certificate_pem, ca_.certificate_pem));
  EXPECT_FALSE(IsSignedBy(leaf_.certificate_pem, other.certificate_pem));  // same name, other key
  EXPECT_TRUE(IsSignedBy(ca_.certificate_pem, ca_.certificate_pem));
}

TEST_F(CertsTest, RefusesNamesThatWouldChangeTheMeaning) {
  CertificateSpec spec = LeafSpec(kNow, kNow + hours(1));
  spec.dns_names = {"a,DNS:evil.example"};
  EXPECT_FALSE(MakeLeaf(ca_, spec));
  spec = LeafSpec(kNow, kNow + hours(1));
  spec.ip_addresses = {"300.0.0.1"};
  EXPECT_FALSE(MakeLeaf(ca_, spec));
}

TEST_F(CertsTest, SplitsBundlesAndLeavesBrokenBlocksOut) {
  const std::string broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_THAT(SplitBundle("text\n" + ca_.certificate_pem + broken + leaf_.certificate_pem),
              testing::ElementsAre(ca_.certificate_pem, leaf_.certificate_pem));
  EXPECT_TRUE(SplitBundle("").empty());
}

TEST_F(CertsTest, RotatesAtTwoThirdsOfTheLife) {
  EXPECT_EQ(DecideRotation(ca_, leaf_, names_, kNow), Rotation::kKeep);
  EXPECT_EQ(DecideRotation(ca_, leaf_, names_, kNow + hours(24 * 20) - seconds(1)),
            Rotation::kKeep);
  EXPECT_EQ(DecideRotation(ca_, leaf_, names_, kNow + hours(24 * 20)), Rotation::kNewLeaf);
  EXPECT_EQ(DecideRotation(ca_, leaf_, names_, kNow + hours(24 * 60)), Rotation::kNewCa);
}

TEST_F(CertsTest, ReplacesWhatIsMissingBrokenForeignOrFromTheFuture) {
  struct Case {
    std::string name;
    KeyPair ca;
    KeyPair leaf;
    std::vector<std::string> names;
    Rotation expected;
  };
  const KeyPair other = MakeCa(Spec("ca", kNow, kNow + hours(24 * 90))).value();
  const KeyPair future = MakeCa(Spec("ca", kNow + hours(1), kNow + hours(24 * 90))).value();
  const std::vector<Case> cases = {
      {"nothing", {}, {}, names_, Rotation::kNewCa},
      {"no leaf", ca_, {}, names_, Rotation::kNewLeaf},
      {"garbage", {"x", "y"}, leaf_, names_, Rotation::kNewCa},
      {"CA without its key", {ca_.certificate_pem, leaf_.key_pem}, leaf_, names_, Rotation::kNewCa},
      {"leaf as CA", leaf_, leaf_, names_, Rotation::kNewCa},
      {"leaf of another CA", other, leaf_, names_, Rotation::kNewLeaf},
      {"leaf without its key",
       ca_,
       {leaf_.certificate_pem, ca_.key_pem},
       names_,
       Rotation::kNewLeaf},
      {"another name", ca_, leaf_, {"other.ns.svc"}, Rotation::kNewLeaf},
      {"not valid yet", future, leaf_, names_, Rotation::kNewCa},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(DecideRotation(c.ca, c.leaf, c.names, kNow), c.expected) << c.name;
  }
}

}  // namespace
}  // namespace tutti::net
