// SPDX-License-Identifier: Apache-2.0
#include "operator/rights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/fake_api_server.h"
#include "kube/fake_loop.h"
#include "kube/fake_transport.h"

namespace tutti {
namespace {

class RightsTest : public testing::Test {
 protected:
  RightsTest() : transport_(loop_, server_), client_(transport_) {}

  // "" nothing is missing, "verb resource", or "error: …".
  std::string Ask() {
    transport_.SetIntercept([this](const kube::HttpRequest& request)
                                -> std::optional<Result<kube::HttpResponse>> {
      EXPECT_EQ(request.target.substr(0, request.target.find('?')),
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
      const Json review = *Json::Parse(request.body);
      const Json& asked = review["spec"]["resourceAttributes"];
      const std::string right = asked["verb"].AsString() + " " + asked["resource"].AsString();
      asked_.push_back(right);
      if (status_ != 201)
        return kube::HttpResponse{status_, R"({"kind":"Status","message":"no"})", {}};
      const bool allowed = right != refused_;
      return kube::HttpResponse{
          201, std::string(R"({"status":{"allowed":)") + (allowed ? "true" : "false") + "}}", {}};
    });
    std::string out = "no answer";
    FindMissingRight(client_, RightsForVolumes(), [&](Result<std::optional<Right>> missing) {
      if (!missing) {
        out = "error: " + missing.error().message;
      } else {
        out = *missing ? (*missing)->verb + " " + (*missing)->resource.plural : "";
      }
    });
    loop_.RunPosted();
    return out;
  }

  kube::FakeLoop loop_;
  kube::FakeApiServer server_;
  kube::FakeTransport transport_;
  kube::Client client_;
  std::vector<std::string> asked_;
  std::string refused_;
  int status_ = 201;
};

TEST_F(RightsTest, AsksToListAndWatchEachKind) {
  EXPECT_EQ(Ask(), "");
  EXPECT_EQ(asked_.size(), 14);
  EXPECT_THAT(asked_, testing::IsSupersetOf({"list persistentvolumeclaims", "watch csinodes",
                                             "watch volumeattachments"}));
}

TEST_F(RightsTest, NamesTheFirstRightThatIsMissing) {
  refused_ = "watch csinodes";
  EXPECT_EQ(Ask(), refused_);
  EXPECT_EQ(asked_.back(), refused_);
}

TEST_F(RightsTest, AServerThatRefusesTheQuestionCountsAsRefusing) {
  status_ = 403;
  EXPECT_EQ(Ask(), "list persistentvolumeclaims");
}

TEST_F(RightsTest, OtherErrorsArePassedOn) {
  status_ = 503;
  EXPECT_THAT(Ask(), testing::StartsWith("error: "));
}

}  // namespace
}  // namespace tutti
