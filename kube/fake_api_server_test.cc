// SPDX-License-Identifier: Apache-2.0
#include "kube/fake_api_server.h"

#include <gtest/gtest.h>

namespace tutti::kube {
namespace {

const api::Resource kWorkloads = api::ResourceOf(api::Kind::kWorkload);
const api::Resource kJobs = api::ResourceOf(api::Kind::kJob);
const api::ObjectKey kKey{"ns", "w"};

Json J(std::string_view text) {
  Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

class FakeApiServerTest : public ::testing::Test {
 protected:
  Result<Json> Do(api::Verb verb, std::string_view body, const std::string& subresource = "",
                  const std::string& manager = "tester") {
    return server_.Do({verb, kWorkloads, kKey, subresource, manager, J(body)});
  }
  Json Stored() { return server_.Get(kWorkloads, kKey).value_or(Json()); }
  std::string ApplyStatus(std::string_view status, const std::string& manager = "kueue-admission") {
    const auto result =
        Do(api::Verb::kApply, std::string("{\"status\":") + std::string(status) + "}", "status",
           manager);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return Stored()["status"].DumpSorted();
  }

  FakeApiServer server_;
};

TEST_F(FakeApiServerTest, CreateFillsInWhatTheServerSets) {
  const auto created = Do(api::Verb::kCreate, R"({"spec":{"a":1},"status":{"x":1}})");
  ASSERT_TRUE(created.has_value());
  const Json& meta = (*created)["metadata"];
  EXPECT_EQ(meta["name"].AsString(), "w");
  EXPECT_EQ(meta["generation"].AsInt(), 1);
  EXPECT_FALSE(meta["uid"].AsString().empty());
  EXPECT_FALSE(created->Has("status")) << "a create can't set the status";
  const auto again = Do(api::Verb::kCreate, "{}");
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(again.error().http_status, 409);
}

TEST_F(FakeApiServerTest, SpecAndStatusAreWrittenApart) {
  Do(api::Verb::kCreate, R"({"spec":{"a":1}})");
  Do(api::Verb::kMergePatch, R"({"spec":{"a":2},"status":{"s":1}})");
  EXPECT_EQ(Stored()["spec"]["a"].AsInt(), 2);
  EXPECT_FALSE(Stored().Has("status"));
  EXPECT_EQ(Stored()["metadata"]["generation"].AsInt(), 2);
  Do(api::Verb::kMergePatch, R"({"spec":{"a":3},"status":{"s":1}})", "status");
  EXPECT_EQ(Stored()["spec"]["a"].AsInt(), 2);
  EXPECT_EQ(Stored()["status"]["s"].AsInt(), 1);
  EXPECT_EQ(Stored()["metadata"]["generation"].AsInt(), 2);
}

TEST_F(FakeApiServerTest, AWriteWithoutAnEffectChangesNothing) {
  Do(api::Verb::kCreate, R"({"spec":{"a":1}})");
  const int64_t version = server_.Version();
  EXPECT_TRUE(Do(api::Verb::kMergePatch, R"({"spec":{"a":1}})").has_value());
  EXPECT_EQ(server_.Version(), version);
}

TEST_F(FakeApiServerTest, PreconditionsAreChecked) {
  Do(api::Verb::kCreate, R"({"spec":{"a":1}})");
  const auto stale =
      Do(api::Verb::kMergePatch, R"({"metadata":{"resourceVersion":"1"},"spec":{"a":2}})");
  ASSERT_FALSE(stale.has_value());
  EXPECT_EQ(stale.error().code, ErrorCode::kConflict);
  EXPECT_EQ(Do(api::Verb::kUpdate, R"({"spec":{}})").error().code, ErrorCode::kInvalid);
  Json body = Stored();
  body.At("spec").Set("a", 5);
  EXPECT_TRUE(server_.Do({api::Verb::kUpdate, kWorkloads, kKey, "", "", body}).has_value());
  EXPECT_EQ(server_.Do({api::Verb::kUpdate, kWorkloads, kKey, "", "", body}).error().code,
            ErrorCode::kConflict);
  EXPECT_EQ(Do(api::Verb::kDelete, R"({"uid":"other"})").error().code, ErrorCode::kConflict);
  EXPECT_EQ(Do(api::Verb::kApply, R"({"metadata":{"uid":"other"}})").error().code,
            ErrorCode::kConflict);
}

TEST_F(FakeApiServerTest, MissingObjectsAreNotFoundExceptForApply) {
  EXPECT_EQ(Do(api::Verb::kMergePatch, "{}").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Do(api::Verb::kDelete, "{}").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Do(api::Verb::kApply, "{}", "status").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Do(api::Verb::kApply, R"({"metadata":{"uid":"gone"}})").error().code,
            ErrorCode::kConflict);
  EXPECT_TRUE(Do(api::Verb::kApply, R"({"spec":{"a":1}})").has_value());
}

TEST_F(FakeApiServerTest, FinalizersHoldADeletedObject) {
  std::string types;
  server_.Subscribe([&](const FakeApiServer::Event& event) { types += event.type + " "; });
  Do(api::Verb::kCreate, R"({"metadata":{"finalizers":["f"]},"spec":{}})");
  EXPECT_TRUE(Do(api::Verb::kDelete, "{}").has_value());
  EXPECT_TRUE(Stored()["metadata"].Has("deletionTimestamp"));
  EXPECT_TRUE(Do(api::Verb::kDelete, "{}").has_value());
  Do(api::Verb::kMergePatch, R"({"metadata":{"finalizers":null}})");
  EXPECT_TRUE(Stored().IsNull());
  EXPECT_EQ(types, "ADDED MODIFIED DELETED ");
}

TEST_F(FakeApiServerTest, AnApplierRemovesWhatItNoLongerMentions) {
  Do(api::Verb::kCreate, R"({"spec":{}})");
  ApplyStatus(R"({"admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"main","count":2}]},
      "conditions":[{"type":"QuotaReserved","status":"True"},{"type":"Admitted","status":"True"}]})");
  EXPECT_EQ(ApplyStatus(R"({"conditions":[{"type":"QuotaReserved","status":"False"}]})"),
            R"({"conditions":[{"status":"False","type":"QuotaReserved"}]})");
}

TEST_F(FakeApiServerTest, ConditionsOfOthersStay) {
  Do(api::Verb::kCreate, R"({"spec":{}})");
  ApplyStatus(R"({"conditions":[{"type":"PodsReady","status":"True"}]})", "pods-ready");
  ApplyStatus(R"({"conditions":[{"type":"Admitted","status":"True"}]})");
  EXPECT_EQ(ApplyStatus("{}"), R"({"conditions":[{"status":"True","type":"PodsReady"}]})");
}

TEST_F(FakeApiServerTest, AFieldThatTwoHoldIsKeptUntilBothLetGo) {
  Do(api::Verb::kCreate, R"({"spec":{}})");
  ApplyStatus(R"({"a":1})", "one");
  ApplyStatus(R"({"a":1,"b":1})", "two");
  EXPECT_EQ(ApplyStatus(R"({"c":1})", "one"), R"({"a":1,"b":1,"c":1})");
  EXPECT_EQ(ApplyStatus(R"({"b":1})", "two"), R"({"b":1,"c":1})");
}

TEST_F(FakeApiServerTest, AForcedApplyTakesAField) {
  Do(api::Verb::kCreate, R"({"spec":{}})");
  ApplyStatus(R"({"a":1})", "one");
  ApplyStatus(R"({"a":2})", "two");
  EXPECT_EQ(ApplyStatus(R"({"b":1})", "one"), R"({"a":2,"b":1})") << "it isn't one's any more";
}

TEST_F(FakeApiServerTest, APatchTakesAFieldFromItsApplier) {
  Do(api::Verb::kCreate, R"({"spec":{}})");
  ApplyStatus(R"({"a":1,"b":1})", "one");
  Do(api::Verb::kMergePatch, R"({"status":{"a":7}})", "status", "human");
  EXPECT_EQ(ApplyStatus("{}", "one"), R"({"a":7})");
}

TEST_F(FakeApiServerTest, ApplyReplacesListsWithoutKeysWhole) {
  Do(api::Verb::kApply,
     R"({"spec":{"list":[1,2,3],"podSets":[{"name":"a","count":1},{"name":"b"}]}})");
  Do(api::Verb::kApply, R"({"spec":{"list":[4],"podSets":[{"name":"b","count":2}]}})");
  EXPECT_EQ(Stored()["spec"].DumpSorted(), R"({"list":[4],"podSets":[{"count":2,"name":"b"}]})");
}

TEST_F(FakeApiServerTest, JsonPatchOperations) {
  Do(api::Verb::kCreate, R"({"spec":{"a":{"b/c":1},"l":[1,3]}})");
  EXPECT_TRUE(Do(api::Verb::kJsonPatch, R"([{"op":"test","path":"/spec/a/b~1c","value":1},
      {"op":"add","path":"/spec/l/1","value":2},{"op":"add","path":"/spec/l/-","value":4},
      {"op":"remove","path":"/spec/l/0"},{"op":"replace","path":"/spec/a","value":{}}])"));
  EXPECT_EQ(Stored()["spec"].Dump(), R"({"a":{},"l":[2,3,4]})");
  EXPECT_EQ(Do(api::Verb::kJsonPatch, R"([{"op":"test","path":"/spec/a","value":9}])").error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(Do(api::Verb::kJsonPatch, R"([{"op":"remove","path":"/spec/none"}])").error().code,
            ErrorCode::kInvalid);
}

TEST_F(FakeApiServerTest, HooksCanRefuseLoseAndChange) {
  server_.SetBefore([](const api::WriteRequest&, std::string_view) -> Status {
    return Fail(ErrorCode::kThrottled, "later");
  });
  EXPECT_EQ(Do(api::Verb::kCreate, "{}").error().code, ErrorCode::kThrottled);
  EXPECT_TRUE(Stored().IsNull());
  server_.SetBefore({});
  server_.SetAfter([](const api::WriteRequest&, std::string_view) -> Status {
    return Fail(ErrorCode::kUnavailable, "lost");
  });
  EXPECT_EQ(Do(api::Verb::kCreate, "{}").error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(Stored().IsNull());
  server_.SetAfter({});
  server_.AddAdmission([](const api::WriteRequest& request, std::string_view who, const Json& old,
                          Json& object) -> Status {
    if (request.resource.plural == "jobs" && old.IsNull() && who == "user") {
      object.At("spec").Set("suspend", true);
    }
    return {};
  });
  const auto job =
      server_.Do({api::Verb::kCreate, kJobs, {"ns", "j"}, "", "", J(R"({"spec":{}})")}, "user");
  ASSERT_TRUE(job.has_value());
  EXPECT_TRUE((*job)["spec"]["suspend"].AsBool());
}

TEST_F(FakeApiServerTest, EventsAreKeptUntilCompaction) {
  const int64_t start = server_.Version();
  Do(api::Verb::kCreate, R"({"spec":{"a":1}})");
  Do(api::Verb::kMergePatch, R"({"spec":{"a":2}})");
  const auto events = server_.EventsAfter(kWorkloads, start);
  ASSERT_TRUE(events.has_value());
  ASSERT_EQ(events->size(), 2U);
  EXPECT_EQ((*(*events)[1].previous)["spec"]["a"].AsInt(), 1);
  EXPECT_TRUE(server_.EventsAfter(kJobs, start)->empty());
  server_.Compact();
  EXPECT_EQ(server_.EventsAfter(kWorkloads, start).error().code, ErrorCode::kExpired);
  EXPECT_TRUE(server_.EventsAfter(kWorkloads, server_.Version()).has_value());
}

TEST_F(FakeApiServerTest, OrphansAreCollected) {
  const auto job = server_.Create(kJobs, J(R"({"metadata":{"name":"j","namespace":"ns"}})"));
  Json owned = J(R"({"metadata":{"ownerReferences":[{"kind":"Job","name":"j"}]}})");
  owned.At("metadata")
      .MutableObject()[0]
      .second.MutableArray()[0]
      .Set("uid", (*job)["metadata"]["uid"]);
  ASSERT_TRUE(server_.Do({api::Verb::kCreate, kWorkloads, kKey, "", "", owned}).has_value());
  EXPECT_FALSE(server_.CollectGarbage());
  ASSERT_TRUE(server_.Delete(kJobs, {"ns", "j"}).has_value());
  EXPECT_TRUE(server_.CollectGarbage());
  EXPECT_TRUE(Stored().IsNull());
}

TEST(SelectorTest, LabelsAndFields) {
  const Json object =
      J(R"({"metadata":{"name":"x","labels":{"a":"1","b":""}},"status":{"phase":"Running"}})");
  for (const char* yes : {"", "a", "a=1", "a==1", "a!=2", "c!=1", "!c", "a in (1,2)", "a notin (2)",
                          "c notin (1)", "b=", "a=1,b"}) {
    EXPECT_TRUE(MatchesLabelSelector(object, yes)) << yes;
  }
  for (const char* no : {"c", "a=2", "a!=1", "!a", "a in (2,3)", "a notin (1)", "a=1,c"}) {
    EXPECT_FALSE(MatchesLabelSelector(object, no)) << no;
  }
  EXPECT_TRUE(MatchesFieldSelector(object, "metadata.name=x,status.phase!=Failed"));
  EXPECT_FALSE(MatchesFieldSelector(object, "status.phase=Failed"));
}

}  // namespace
}  // namespace tutti::kube
