// SPDX-License-Identifier: Apache-2.0
// An API server in memory for tests and the simulator: same requests, same errors, same watch
// events as far as controllers can tell (versions, uids, generations, finalizers, patches,
// server-side apply with ownership, status subresource, 404/409/410/422). Deterministic, one
// thread, no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta.h"
#include "api/request.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::kube {

class FakeApiServer {
 public:
  struct Event {
    int64_t version = 0;
    std::string type;  // ADDED, MODIFIED, DELETED
    api::Resource resource;
    api::ObjectKey key;
    std::shared_ptr<const Json> object;    // DELETED: the last state, with the new version
    std::shared_ptr<const Json> previous;  // null for ADDED
  };

  explicit FakeApiServer(Time now = Time{std::chrono::hours(24 * 365 * 56)}) : now_(now) {}

  // Time of creationTimestamp and deletionTimestamp.
  void SetNow(Time now) { now_ = now; }

  // `who` is the requester, "" = the controller under test; hooks see it. As on the real server a
  // create drops `status` (except for nodes), and a write without an effect changes nothing.
  Result<Json> Do(const api::WriteRequest& request, std::string_view who = {});
  [[nodiscard]] Result<Json> Get(const api::Resource& resource, const api::ObjectKey& key) const;
  // In key order; ns "" = all.
  [[nodiscard]] std::vector<Json> List(const api::Resource& resource, std::string_view ns = {},
                                       std::string_view label_selector = {}) const;
  [[nodiscard]] int64_t Version() const { return version_; }

  // Shorthands for test set-up, as requester "test". Create keeps `status`, needs metadata.name.
  Result<Json> Create(const api::Resource& resource, Json object);
  Result<Json> MergePatch(const api::Resource& resource, const api::ObjectKey& key, Json patch,
                          std::string_view subresource = {});
  Status Delete(const api::Resource& resource, const api::ObjectKey& key);
  // Deletes what has owner references and none of these owners left; true when something went.
  bool CollectGarbage();

  // Events after `version`; kExpired when some of them are forgotten.
  [[nodiscard]] Result<std::vector<Event>> EventsAfter(const api::Resource& resource,
                                                       int64_t version) const;
  void Compact();  // forgets all events: watches from older versions get 410
  // Called after each change, in order.
  void Subscribe(std::function<void(const Event&)> on_event) {
    subscribers_.push_back(std::move(on_event));
  }

  // Before a request: an error is returned instead of carrying it out. After: an error replaces the
  // answer of a request that was carried out (the caller doesn't know the outcome).
  using Hook = std::function<Status(const api::WriteRequest&, std::string_view who)>;
  void SetBefore(Hook hook) { before_ = std::move(hook); }
  void SetAfter(Hook hook) { after_ = std::move(hook); }
  // Admission: may change the object that is about to be stored (`old_object` null on create), or
  // refuse. In order of registration.
  using AdmitHook = std::function<Status(const api::WriteRequest&, std::string_view who,
                                         const Json& old_object, Json& object)>;
  void AddAdmission(AdmitHook hook) { admission_.push_back(std::move(hook)); }

  // Carried-out requests: "create jobs", "apply workloads/status" -> number.
  [[nodiscard]] const std::map<std::string, uint64_t>& WriteCounts() const { return counts_; }

 private:
  // A leaf of an object: member names, and "[type=Ready]" for an element of a keyed list.
  using Path = std::vector<std::string>;
  using PathSet = std::set<Path>;
  struct Object {
    api::Resource resource;
    std::shared_ptr<const Json> json;
    std::map<std::string, PathSet> owners;  // "apply manager subresource" -> what it set
  };

  Result<Json> Execute(const api::WriteRequest& request, std::string_view who, bool keep_status);
  Result<Json> DoCreate(const api::WriteRequest& request, std::string_view who, bool keep_status);
  Result<Json> DoChange(const api::WriteRequest& request, std::string_view who);
  Result<Json> DoDelete(const api::WriteRequest& request);
  Result<Json> Admit(const api::WriteRequest& request, std::string_view who, const Json& old_object,
                     Json next) const;
  Result<Json> Change(const api::WriteRequest& request, std::string_view who, Object& object);
  void Remove(const api::ObjectKey& key, Object& object);
  void Emit(const char* type, const Object& object, const api::ObjectKey& key,
            std::shared_ptr<const Json> previous);
  [[nodiscard]] Object* Find(const api::Resource& resource, const api::ObjectKey& key);

  // fake_apply.cc
  static Json Apply(Object& object, const api::WriteRequest& request);
  static void TakeOwnership(Object& object, const std::string& owner, const Json& before,
                            const Json& after);
  static std::string OwnerName(const api::WriteRequest& request);

  Time now_;
  int64_t version_ = 1000;
  uint64_t next_uid_ = 1;
  std::map<std::string, std::map<api::ObjectKey, Object>> collections_;  // by plural.group
  std::deque<Event> log_;
  int64_t forgotten_ = 0;  // events up to this version are gone
  std::vector<std::function<void(const Event&)>> subscribers_;
  Hook before_;
  Hook after_;
  std::vector<AdmitHook> admission_;
  std::map<std::string, uint64_t> counts_;
};

// RFC 6902: add, remove, replace, test; kInvalid names the operation.
Status ApplyJsonPatch(Json& target, const Json& patch);
// "a=b,c!=d,e in (x,y),!f,g"; a malformed selector matches nothing.
bool MatchesLabelSelector(const Json& object, std::string_view selector);
// "metadata.name=x,status.phase!=Failed"
bool MatchesFieldSelector(const Json& object, std::string_view selector);

}  // namespace tutti::kube
