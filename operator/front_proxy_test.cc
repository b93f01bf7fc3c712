// SPDX-License-Identifier: Apache-2.0
#include "operator/front_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

Json ConfigMap(const Json& data) {
  return Json::Obj({{"kind", "ConfigMap"}, {"data", data}});
}

TEST(FrontProxyTest, ConfigMapOfTheApiServerIsRead) {
  const auto proxy = ParseFrontProxy(
      ConfigMap(Json::Obj({{"client-ca-file", "another"},
                           {"requestheader-client-ca-file", "ca"},
                           {"requestheader-allowed-names", R"(["front-proxy-client"])"},
                           {"requestheader-username-headers", R"(["X-Remote-User"])"},
                           {"requestheader-group-headers", R"(["X-Remote-Group"])"}})));
  ASSERT_TRUE(proxy) << proxy.error().message;
  EXPECT_EQ(proxy->ca_pem, "ca");
  EXPECT_THAT(proxy->allowed_names, testing::ElementsAre("front-proxy-client"));
  EXPECT_THAT(proxy->username_headers, testing::ElementsAre("x-remote-user"));
}

TEST(FrontProxyTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(ParseFrontProxy(ConfigMap(Json::Obj({{"client-ca-file", "ca"}}))).error().message,
              testing::HasSubstr("requestheader-client-ca-file: is missing"));
  EXPECT_THAT(ParseFrontProxy(ConfigMap(Json::Obj({{"requestheader-client-ca-file", "ca"}})))
                  .error()
                  .message,
              testing::HasSubstr("requestheader-username-headers: is missing"));
  EXPECT_THAT(ParseFrontProxy(ConfigMap(Json::Obj({{"requestheader-client-ca-file", "ca"},
                                                   {"requestheader-allowed-names", "x"}})))
                  .error()
                  .message,
              testing::HasSubstr("requestheader-allowed-names: must be a JSON list"));
}

TEST(FrontProxyTest, OnlyTheApiServerSpeaksForUsers) {
  FrontProxy proxy{"ca", {"front-proxy-client"}, {"x-remote-user"}};
  net::Request request;
  request.headers["x-remote-user"] = "alice";
  EXPECT_THAT(UserOf(proxy, request).error().message, testing::HasSubstr("ask the API server"));
  request.client_name = "mallory";
  EXPECT_THAT(UserOf(proxy, request).error().message,
              testing::HasSubstr("\"mallory\", which is not in requestheader-allowed-names"));
  request.client_name = "front-proxy-client";
  EXPECT_EQ(UserOf(proxy, request).value(), "alice");
  request.headers.clear();
  EXPECT_THAT(UserOf(proxy, request).error().message, testing::HasSubstr("names no user"));
  proxy.allowed_names.clear();
  request.client_name = "anybody";
  request.headers["x-remote-user"] = "bob";
  EXPECT_EQ(UserOf(proxy, request).value(), "bob");
}

}  // namespace
}  // namespace tutti
