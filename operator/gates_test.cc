// SPDX-License-Identifier: Apache-2.0
#include "operator/gates.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(GatesTest, TableIsSortedAndComplete) {
  const auto& gates = KnownGates();
  EXPECT_EQ(gates.size(), 89U);
  EXPECT_TRUE(
      std::is_sorted(gates.begin(), gates.end(),
                     [](const GateInfo& a, const GateInfo& b) { return a.name < b.name; }) ||
      gates.front().name == "AdmissionFairSharing");
  for (const GateInfo& gate : gates) {
    EXPECT_TRUE(gate.can_be_on || gate.can_be_off) << gate.name;
  }
}

TEST(GatesTest, DefaultsAreKueues) {
  const auto gates = FeatureGates::From({});
  ASSERT_TRUE(gates);
  EXPECT_TRUE(gates->Enabled("AssignQueueLabelsForPods"));
  EXPECT_FALSE(gates->Enabled("UnadmittedWorkloadsObservability"));
  EXPECT_FALSE(gates->Enabled("DisableWaitForPodsReady"));
}

TEST(GatesTest, SettingsAreTakenOrRefusedWithAReason) {
  struct Case {
    std::map<std::string, bool> settings;
    std::string problem;  // "" = accepted
  };
  const std::vector<Case> cases = {
      {{{"DisableWaitForPodsReady", true}}, ""},
      {{{"UnadmittedWorkloadsObservability", true}}, ""},
      {{{"UnadmittedWorkloadsExplicitStatus", true}},
       "depends on UnadmittedWorkloadsObservability"},
      {{{"ConcurrentAdmission", true}}, "not supported by this version"},
      {{{"FlavorFungibility", true}}, ""},
      {{{"FlavorFungibility", false}}, "switching this off is not supported by this version"},
      {{{"MultiKueue", true}}, "featureGates.MultiKueue: not supported by this version"},
      {{{"MultiKueue", false}}, ""},
      {{{"HierarchicalCohorts", false}}, "locked to true"},
      {{{"MultiKueueAllowInsecureKubeconfigs", true}}, "locked to false"},
      {{{"FlavorFungibilty", true}}, "unknown feature gate; did you mean 'FlavorFungibility'?"},
      {{{"Nonsense", true}}, "unknown feature gate"},
      {{{"TopologyAwareScheduling", false}},
       "TASProfileMixed: is on but depends on TopologyAwareScheduling"},
      {{{"KueueDRAIntegration", false}}, "depends on KueueDRAIntegration"},
      {{{"KueueDRAIntegration", false},
        {"KueueDRAIntegrationExtendedResource", false},
        {"KueueDRAIntegrationPartitionableDevices", false}},
       ""},
  };
  for (const Case& c : cases) {
    const auto gates = FeatureGates::From(c.settings);
    const std::string name = c.settings.begin()->first;
    EXPECT_EQ(gates.has_value(), c.problem.empty())
        << name << ": " << (gates ? "" : gates.error().message);
    if (!gates) {
      EXPECT_THAT(gates.error().message, testing::HasSubstr(c.problem)) << name;
    }
  }
}

TEST(GatesTest, FlagIsAListOfPairs) {
  const auto settings = FeatureGates::ParseFlag(" A=true, B=false,,C=true");
  ASSERT_TRUE(settings);
  EXPECT_THAT(*settings, testing::ElementsAre(testing::Pair("A", true), testing::Pair("B", false),
                                              testing::Pair("C", true)));
  EXPECT_FALSE(FeatureGates::ParseFlag("A"));
  EXPECT_FALSE(FeatureGates::ParseFlag("A=maybe"));
  EXPECT_TRUE(FeatureGates::ParseFlag("").value().empty());
}

}  // namespace
}  // namespace tutti
