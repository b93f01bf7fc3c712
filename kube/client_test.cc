// SPDX-License-Identifier: Apache-2.0
#include "kube/client.h"

#include <gtest/gtest.h>

#include "kube/fake_loop.h"
#include "kube/fake_transport.h"

namespace tutti::kube {
namespace {

const api::Resource kThings{"", "v1", "configmaps", "ConfigMap", true};

api::WriteRequest Write(api::Verb verb, Json body, const std::string& subresource = "") {
  return {verb, kThings, {"ns", "x"}, subresource, "me too", std::move(body)};
}

TEST(ToHttpTest, EachVerbHasItsMethodPathAndType) {
  const HttpRequest create = ToHttp(Write(api::Verb::kCreate, Json::Obj({{"a", 1}})));
  EXPECT_EQ(create.method, "POST");
  EXPECT_EQ(create.target, "/api/v1/namespaces/ns/configmaps?fieldManager=me%20too");
  EXPECT_EQ(create.body, R"({"a":1})");
  const HttpRequest apply = ToHttp(Write(api::Verb::kApply, Json::Obj(), "status"));
  EXPECT_EQ(apply.method, "PATCH");
  EXPECT_EQ(apply.target,
            "/api/v1/namespaces/ns/configmaps/x/status?force=true&fieldManager=me%20too");
  EXPECT_EQ(apply.content_type, "application/apply-patch+yaml");
  EXPECT_EQ(ToHttp(Write(api::Verb::kMergePatch, Json::Obj())).content_type,
            "application/merge-patch+json");
  EXPECT_EQ(ToHttp(Write(api::Verb::kJsonPatch, Json::Arr())).content_type,
            "application/json-patch+json");
  EXPECT_EQ(ToHttp(Write(api::Verb::kUpdate, Json::Obj())).method, "PUT");
}

TEST(ToHttpTest, DeleteIsInTheBackgroundAndKeepsPreconditions) {
  const HttpRequest request =
      ToHttp(Write(api::Verb::kDelete, Json::Obj({{"uid", "u"}, {"gracePeriodSeconds", 0}})));
  EXPECT_EQ(request.method, "DELETE");
  EXPECT_EQ(request.target, "/api/v1/namespaces/ns/configmaps/x");
  const Json body = Json::Parse(request.body).value();
  EXPECT_EQ(body["propagationPolicy"].AsString(), "Background");
  EXPECT_EQ(body["preconditions"]["uid"].AsString(), "u");
  EXPECT_EQ(body["gracePeriodSeconds"].AsInt(), 0);
}

TEST(TargetTest, SelectorsAndTokensAreEncoded) {
  ListOptions options;
  options.label_selector = "a in (b,c)";
  options.continue_token = "x/y+z=";
  EXPECT_EQ(
      ListTarget(kThings, options),
      "/api/v1/configmaps?limit=500&continue=x%2Fy%2Bz%3D&labelSelector=a%20in%20%28b%2Cc%29");
  WatchRequest watch;
  watch.send_initial_events = true;
  EXPECT_EQ(WatchTarget(kThings, watch),
            "/api/v1/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=300"
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
}

Error Decoded(int status, std::string body, std::optional<std::chrono::milliseconds> after = {}) {
  const Result<Json> result = DecodeAnswer(HttpResponse{status, std::move(body), after});
  EXPECT_FALSE(result.has_value());
  return result ? Error{} : result.error();
}

TEST(DecodeAnswerTest, TheReasonTellsTheTwoConflictsApart) {
  EXPECT_EQ(Decoded(409, R"({"kind":"Status","reason":"AlreadyExists","code":409})").code,
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(Decoded(409, R"({"kind":"Status","reason":"Conflict","code":409})").code,
            ErrorCode::kConflict);
}

TEST(DecodeAnswerTest, EveryStatusHasItsPolicy) {
  const std::pair<int, ErrorCode> kTable[] = {
      {400, ErrorCode::kInvalid},     {401, ErrorCode::kForbidden}, {403, ErrorCode::kForbidden},
      {404, ErrorCode::kNotFound},    {410, ErrorCode::kExpired},   {415, ErrorCode::kInvalid},
      {422, ErrorCode::kInvalid},     {429, ErrorCode::kThrottled}, {500, ErrorCode::kUnavailable},
      {503, ErrorCode::kUnavailable}, {504, ErrorCode::kTimeout}};
  for (const auto& [status, code] : kTable) {
    const Error error = Decoded(status, "");
    EXPECT_EQ(error.code, code) << status;
    EXPECT_EQ(error.http_status, status);
    EXPECT_NE(error.message.find(std::to_string(status)), std::string::npos);
  }
}

TEST(DecodeAnswerTest, MessageCausesAndRetryAfterAreKept) {
  const Error error =
      Decoded(422, R"({"kind":"Status","reason":"Invalid","message":"Job is invalid",
      "details":{"retryAfterSeconds":3,"causes":[{"field":"spec.x","message":"must be positive"}]}})");
  EXPECT_EQ(error.message, "Job is invalid; spec.x: must be positive");
  EXPECT_EQ(error.retry_after, std::chrono::seconds(3));
  EXPECT_EQ(Decoded(429, "too many", std::chrono::seconds(7)).retry_after, std::chrono::seconds(7));
  EXPECT_EQ(Decoded(502, "<html>bad gateway</html>\n").message,
            "HTTP 502: <html>bad gateway</html>");
}

TEST(DecodeAnswerTest, AnAnswerThatIsNoJsonIsADecodeError) {
  EXPECT_EQ(Decoded(200, "<html>").code, ErrorCode::kDecode);
}

class ClientTest : public ::testing::Test {
 protected:
  FakeLoop loop_;
  FakeApiServer server_;
  FakeTransport transport_{loop_, server_};
  Client client_{transport_};
};

TEST_F(ClientTest, ListAllFollowsPagesAndStartsOverWhenTheyExpire) {
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(
        server_
            .Create(kThings, Json::Obj({{"metadata", Json::Obj({{"name", "n" + std::to_string(i)},
                                                                {"namespace", "ns"}})}}))
            .has_value());
  }
  int pages = 0;
  transport_.SetIntercept([&](const HttpRequest&) -> std::optional<Result<HttpResponse>> {
    if (++pages == 2) {
      return HttpResponse{410, R"({"kind":"Status","reason":"Expired"})", {}};
    }
    return std::nullopt;
  });
  ListOptions options;
  options.limit = 3;
  size_t count = 0;
  client_.ListAll(kThings, options, [&](Result<Json> all) {
    ASSERT_TRUE(all.has_value());
    count = (*all)["items"].AsArray().size();
  });
  loop_.RunPosted();
  EXPECT_EQ(count, 7U);
  EXPECT_EQ(pages, 5);
}

TEST_F(ClientTest, DiscoveryFindsGangsPoliciesAndKueue) {
  Result<Discovery> found = Fail(ErrorCode::kInternal, "no answer");
  client_.Discover([&](Result<Discovery> answer) { found = std::move(answer); });
  loop_.RunPosted();
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->git_version, "v1.36.3");
  EXPECT_EQ(found->minor, 36);
  EXPECT_EQ(found->podgroup_versions, std::vector<std::string>{"v1alpha2"});
  EXPECT_TRUE(found->mutating_admission_policies);
  EXPECT_FALSE(found->devices);
  EXPECT_EQ(found->kueue_versions, std::vector<std::string>{"v1beta2"});
  EXPECT_EQ(found->kueue_resources["v1beta2"].size(), 8U);
}

TEST_F(ClientTest, DiscoveryOfABareServerFindsNothing) {
  transport_.SetApis({{"apps/v1", {"deployments"}},
                      {"admissionregistration.k8s.io/v1", {"validatingadmissionpolicies"}}});
  Result<Discovery> found = Fail(ErrorCode::kInternal, "no answer");
  client_.Discover([&](Result<Discovery> answer) { found = std::move(answer); });
  loop_.RunPosted();
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->podgroup_versions.empty());
  EXPECT_FALSE(found->mutating_admission_policies);
  EXPECT_TRUE(found->validating_admission_policies);
  EXPECT_TRUE(found->kueue_versions.empty());
}

TEST_F(ClientTest, DiscoveryFindsDevicesOnlyWhenAllTheirKindsAreServed) {
  const std::vector<std::string> all{"deviceclasses", "resourceclaims", "resourceclaimtemplates",
                                     "resourceslices"};
  for (const size_t served : {all.size(), all.size() - 1}) {
    transport_.SetApis({{"resource.k8s.io/v1", {all.begin(), all.begin() + served}}});
    Result<Discovery> found = Fail(ErrorCode::kInternal, "no answer");
    client_.Discover([&](Result<Discovery> answer) { found = std::move(answer); });
    loop_.RunPosted();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->devices, served == all.size());
  }
}

TEST_F(ClientTest, DiscoveryFindsProvisioningRequestsInTheVersionThatIsUsed) {
  for (const std::string version : {"v1", "v1beta1"}) {
    transport_.SetApis(
        {{"autoscaling.x-k8s.io/" + version, {"provisioningrequests", "capacitybuffers"}}});
    Result<Discovery> found = Fail(ErrorCode::kInternal, "no answer");
    client_.Discover([&](Result<Discovery> answer) { found = std::move(answer); });
    loop_.RunPosted();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->provisioning_requests, version == "v1");
  }
}

TEST_F(ClientTest, DiscoveryFindsWhatAStartingServerServesButDoesNotListYet) {
  transport_.SetIntercept([](const HttpRequest& request) -> std::optional<Result<HttpResponse>> {
    if (request.target == "/apis") {
      return HttpResponse{200, R"({"kind":"APIGroupList","groups":[]})", {}};
    }
    return std::nullopt;
  });
  Result<Discovery> found = Fail(ErrorCode::kInternal, "no answer");
  client_.Discover([&](Result<Discovery> answer) { found = std::move(answer); });
  loop_.RunPosted();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->podgroup_versions, std::vector<std::string>{"v1alpha2"});
  EXPECT_TRUE(found->mutating_admission_policies);
  EXPECT_EQ(found->kueue_versions, std::vector<std::string>{"v1beta2"});
}

TEST_F(ClientTest, DiscoverySaysWhichRequestFailed) {
  transport_.SetIntercept([](const HttpRequest& request) -> std::optional<Result<HttpResponse>> {
    if (request.target == "/apis") {
      return HttpResponse{403, "", {}};
    }
    return std::nullopt;
  });
  std::string message;
  client_.Discover([&](Result<Discovery> answer) { message = answer.error().message; });
  loop_.RunPosted();
  EXPECT_EQ(message.rfind("/apis: ", 0), 0U);
}

}  // namespace
}  // namespace tutti::kube
