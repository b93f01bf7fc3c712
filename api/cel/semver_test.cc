// SPDX-License-Identifier: Apache-2.0
#include "api/cel/semver.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tutti::api::cel {
namespace {

TEST(CelSemver, OrdersAsTheStandardSays) {
  const std::vector<std::string> ascending = {
      "0.0.0",        "1.0.0-1",       "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
      "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",  "1.0.0",         "1.0.10",
      "1.2.0",        "2.0.0",
  };
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t k = 0; k < ascending.size(); ++k) {
      SemverObject left;
      SemverObject right;
      ASSERT_TRUE(ParseSemver(ascending[i], left)) << ascending[i];
      ASSERT_TRUE(ParseSemver(ascending[k], right)) << ascending[k];
      EXPECT_EQ(CompareSemver(left, right), i < k ? -1 : (i > k ? 1 : 0))
          << ascending[i] << " " << ascending[k];
    }
  }
}

TEST(CelSemver, RefusesWhatIsNoVersion) {
  SemverObject ignored;
  for (const char* text :
       {"", "1", "1.2", "01.2.3", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3-a..b", "v1.2.3", "1.2.3.4",
        "1.2.x", "1.2.3-a_b", "18446744073709551616.0.0", "-1.0.0", " 1.2.3"}) {
    EXPECT_FALSE(ParseSemver(text, ignored)) << text;
  }
  EXPECT_TRUE(ParseSemver("1.2.3-a+b.01", ignored));
}

TEST(CelSemver, NormalizesShortAndPaddedVersions) {
  std::string out;
  EXPECT_TRUE(NormalizeSemver("v01.2", out));
  EXPECT_EQ(out, "1.2.0");
  EXPECT_TRUE(NormalizeSemver("1", out));
  EXPECT_EQ(out, "1.0.0");
  EXPECT_TRUE(NormalizeSemver("1.00.003-rc", out));
  EXPECT_EQ(out, "1.0.3-rc");
  EXPECT_FALSE(NormalizeSemver("1.2-rc", out));
}

}  // namespace
}  // namespace tutti::api::cel
