// SPDX-License-Identifier: Apache-2.0
// An API server in memory for tests and the simulator: same requests, same errors, same watch events
// as far as controllers can tell (versions, uids, generations, finalizers, patches, server-side
// apply with ownership, status subresource, 404/409/410/422). Deterministic, one thread, no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
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
    Json object;
  };

  explicit FakeApiServer(Time now = kNoTime);

  // Time of creationTimestamp and deletionTimestamp.
  void SetNow(Time now) { now_ = now; }

  // `who` is the requester, "" = the controller under test; hooks see it.
  Result<Json> Do(const api::WriteRequest& request, std::string_view who = {});
  [[nodiscard]] Result<Json> Get(const api::Resource& resource, const api::ObjectKey& key) const;
  // In key order; ns "" = all. Selectors: equality and set-based label selectors.
  [[nodiscard]] std::vector<Json> List(const api::Resource& resource, std::string_view ns = {},
                                       std::string_view label_selector = {}) const;
  [[nodiscard]] int64_t Version() const { return version_; }

  // Shorthands for test set-up: creates from a manifest (apiVersion, kind, metadata.name …).
  Result<Json> Create(const api::Resource& resource, Json object);
  Result<Json> MergePatch(const api::Resource& resource, const api::ObjectKey& key, Json patch,
                          std::string_view subresource = {});
  Status Delete(const api::Resource& resource, const api::ObjectKey& key);

  // Events after `version`; kExpired when compacted away.
  Result<std::vector<Event>> EventsAfter(const api::Resource& resource, int64_t version) const;
  void Compact();  // forgets all events: watches from older versions get 410
  // Called after each change, in order.
  void Subscribe(std::function<void(const Event&)> on_event);

  // Runs before a request; an error is returned instead of executing it.
  using BeforeHook = std::function<Status(const api::WriteRequest&, std::string_view who)>;
  void SetBefore(BeforeHook hook) { before_ = std::move(hook); }
  // Runs after a request was executed; an error replaces the answer (outcome unknown to the caller).
  void SetAfter(BeforeHook hook) { after_ = std::move(hook); }
  // Admission: may change the object that is about to be stored (null old = create), or refuse.
  using AdmitHook = std::function<Status(const api::WriteRequest&, std::string_view who,
                                         const Json& old_object, Json& object)>;
  void AddAdmission(AdmitHook hook) { admission_.push_back(std::move(hook)); }

  [[nodiscard]] const std::map<std::string, uint64_t>& WriteCounts() const { return counts_; }

 private:
  struct Object;
  using Collection = std::map<api::ObjectKey, std::shared_ptr<Object>>;

  Result<Json> Execute(const api::WriteRequest& request, std::string_view who);
  Result<Json> DoCreate(const api::WriteRequest& request, std::string_view who);
  Result<Json> DoApply(const api::WriteRequest& request, std::string_view who);
  Result<Json> DoChange(const api::WriteRequest& request, std::string_view who);
  Result<Json> DoDelete(const api::WriteRequest& request, std::string_view who);
  Result<Json> Store(const api::WriteRequest& request, std::string_view who, Object& object,
                     Json next);
  void Emit(const char* type, const api::Resource& resource, const api::ObjectKey& key,
            const Json& object);
  [[nodiscard]] const Object* Find(const api::Resource& resource, const api::ObjectKey& key) const;

  Time now_;
  int64_t version_ = 1000;
  uint64_t next_uid_ = 1;
  std::map<std::string, Collection> collections_;  // by group/plural
  std::deque<Event> log_;
  int64_t compacted_ = 0;
  std::vector<std::function<void(const Event&)>> subscribers_;
  BeforeHook before_;
  BeforeHook after_;
  std::vector<AdmitHook> admission_;
  std::map<std::string, uint64_t> counts_;  // "create jobs", "apply workloads/status"
};

}  // namespace tutti::kube
