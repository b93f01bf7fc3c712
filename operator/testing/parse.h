// SPDX-License-Identifier: Apache-2.0
// JSON of the tests of webhooks.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "base/json.h"

namespace tutti::webhooks {

inline Json P(const std::string& text) {
  auto json = Json::Parse(text);
  EXPECT_TRUE(json) << text;
  return json ? *json : Json();
}

}  // namespace tutti::webhooks
