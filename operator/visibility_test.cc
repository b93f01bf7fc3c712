// SPDX-License-Identifier: Apache-2.0
#include "operator/visibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace tutti::visibility {
namespace {

constexpr const char* kRoot = "/apis/visibility.kueue.x-k8s.io";

// ClusterQueue cq with LocalQueues a/lq and b/lq: a0 b0 a1 b1 … in this order.
Result<std::optional<std::vector<PendingWorkload>>> TwoTeams(const api::ObjectKey& queue) {
  const bool known = queue.ns.empty() ? queue.name == "cq" : queue.name == "lq";
  if (!known) {
    return std::optional<std::vector<PendingWorkload>>();
  }
  std::vector<PendingWorkload> all;
  for (int at = 0; at < 6; ++at) {
    PendingWorkload workload;
    const std::string ns = at % 2 == 0 ? "a" : "b";
    workload.key = {ns, ns + std::to_string(at / 2)};
    workload.priority = 10 - at;
    workload.local_queue = "lq";
    workload.created = ParseTime("2026-11-30T09:00:00Z").value();
    workload.owners = {{"batch/v1", "Job", "job-" + std::to_string(at), "u", true}};
    all.push_back(workload);
  }
  return std::optional(all);
}

net::Response Get(const std::string& path, const std::string& query = "",
                  const Lookup& lookup = TwoTeams) {
  net::Request request;
  request.method = "GET";
  request.path = path;
  request.query = query;
  return Answer(request, lookup);
}

Json Body(const net::Response& response) {
  auto body = Json::Parse(response.body);
  EXPECT_TRUE(body) << response.body;
  EXPECT_THAT(response.content_type, testing::HasSubstr("application/json"));
  return body ? *body : Json();
}

std::string Names(const net::Response& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  std::string names;
  const Json body = Body(response);
  for (const Json& item : body["items"].AsArray()) {
    names += (names.empty() ? "" : " ") + item["metadata"]["name"].AsString() + ":" +
             std::to_string(item["positionInClusterQueue"].AsInt()) + "/" +
             std::to_string(item["positionInLocalQueue"].AsInt());
  }
  return names;
}

TEST(VisibilityTest, QueuesAreShownInOrderWithBothPositions) {
  for (const std::string version : {"/v1beta1", "/v1beta2"}) {
    const std::string cq = kRoot + version + "/clusterqueues/cq/pendingworkloads";
    const std::string lq = kRoot + version + "/namespaces/b/localqueues/lq/pendingworkloads";
    EXPECT_EQ(Names(Get(cq)), "a0:0/0 b0:1/0 a1:2/1 b1:3/1 a2:4/2 b2:5/2");
    EXPECT_EQ(Names(Get(cq, "limit=2&offset=1")), "b0:1/0 a1:2/1");
    EXPECT_EQ(Names(Get(cq, "offset=9")), "");
    EXPECT_EQ(Names(Get(cq, "limit=-1")), "");
    EXPECT_EQ(Names(Get(cq, "limit=0&offset=-5")), "a0:0/0 b0:1/0 a1:2/1 b1:3/1 a2:4/2 b2:5/2");
    EXPECT_EQ(Names(Get(lq)), "b0:1/0 b1:3/1 b2:5/2");
    EXPECT_EQ(Names(Get(lq, "limit=1&offset=1")), "b1:3/1");
  }
}

TEST(VisibilityTest, AnItemHasTheFieldsOfTheApi) {
  const Json summary =
      Body(Get(std::string(kRoot) + "/v1beta2/clusterqueues/cq/pendingworkloads", "limit=1"));
  EXPECT_EQ(
      summary.Dump(),
      R"({"kind":"PendingWorkloadsSummary","apiVersion":"visibility.kueue.x-k8s.io/v1beta2","metadata":{},)"
      R"("items":[{"metadata":{"name":"a0","namespace":"a","creationTimestamp":"2026-11-30T09:00:00Z",)"
      R"("ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"job-0","uid":"u"}]},)"
      R"("priority":10,"localQueueName":"lq","positionInClusterQueue":0,"positionInLocalQueue":0}]})");
}

TEST(VisibilityTest, FailuresAreStatusObjects) {
  struct Case {
    std::string path;
    std::string query;
    int code;
    std::string message;
  };
  const std::string root = kRoot;
  const std::vector<Case> cases = {
      {root + "/v1beta2/clusterqueues/nope/pendingworkloads", "", 404,
       R"(clusterqueue.visibility.kueue.x-k8s.io "nope" not found)"},
      {root + "/v1beta2/namespaces/a/localqueues/nope/pendingworkloads", "", 404,
       R"(localqueue.visibility.kueue.x-k8s.io "nope" not found)"},
      {root + "/v1beta2/clusterqueues/cq/pendingworkloads", "limit=many", 400, "whole numbers"},
      {root + "/v1beta2/clusterqueues/cq", "", 404, "only the subresource"},
      {root + "/v1alpha1", "", 404, "could not find"},
      {"/apis/batch/v1", "", 404, "could not find"},
      {"/", "", 404, "could not find"},
  };
  for (const Case& c : cases) {
    const net::Response response = Get(c.path, c.query);
    EXPECT_EQ(response.status, c.code) << c.path;
    const Json body = Body(response);
    EXPECT_EQ(body["kind"].AsString(), "Status");
    EXPECT_EQ(body["code"].AsInt(), c.code);
    EXPECT_THAT(body["message"].AsString(), testing::HasSubstr(c.message));
  }
  const auto busy =
      [](const api::ObjectKey&) -> Result<std::optional<std::vector<PendingWorkload>>> {
    return Fail(ErrorCode::kTimeout, "busy");
  };
  EXPECT_EQ(Get(root + "/v1beta2/clusterqueues/cq/pendingworkloads", "", busy).status, 503);
  net::Request write;
  write.method = "POST";
  write.path = root + "/v1beta2/clusterqueues/cq/pendingworkloads";
  EXPECT_EQ(Answer(write, TwoTeams).status, 405);
}

TEST(VisibilityTest, TheApiServerLearnsWhatThereIs) {
  EXPECT_EQ(Body(Get("/apis"))["groups"].AsArray().at(0)["name"].AsString(),
            "visibility.kueue.x-k8s.io");
  EXPECT_EQ(Body(Get(kRoot))["preferredVersion"]["version"].AsString(), "v1beta2");
  for (const std::string version : {"v1beta1", "v1beta2"}) {
    const Json list = Body(Get(std::string(kRoot) + "/" + version));
    EXPECT_EQ(list["groupVersion"].AsString(), "visibility.kueue.x-k8s.io/" + version);
    std::vector<std::string> gettable;
    for (const Json& resource : list["resources"].AsArray()) {
      if (!resource["verbs"].AsArray().empty()) {
        gettable.push_back(resource["name"].AsString());
      }
    }
    EXPECT_THAT(gettable, testing::ElementsAre("clusterqueues/pendingworkloads",
                                               "localqueues/pendingworkloads"));
  }
  EXPECT_EQ(Body(Get("/openapi/v2"))["swagger"].AsString(), "2.0");
  const Json index = Body(Get("/openapi/v3"));
  for (const auto& [path, entry] : index["paths"].AsObject()) {
    EXPECT_EQ(Body(Get(entry["serverRelativeURL"].AsString()))["openapi"].AsString(), "3.0.0");
  }
  EXPECT_EQ(index["paths"].AsObject().size(), 2U);
}

}  // namespace
}  // namespace tutti::visibility
