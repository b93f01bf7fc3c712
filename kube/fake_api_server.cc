// SPDX-License-Identifier: Apache-2.0
#include "kube/fake_api_server.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tutti::kube {
namespace {

constexpr size_t kMaxLog = 50'000;

std::string CollectionOf(const api::Resource& resource) {
  return resource.group.empty() ? resource.plural : resource.plural + "." + resource.group;
}

tl::unexpected<Error> Refuse(ErrorCode code, int http, std::string message) {
  return Fail(Error{code, std::move(message), http, std::nullopt});
}

std::string Name(const api::Resource& resource, const api::ObjectKey& key) {
  return CollectionOf(resource) + " \"" + key.name + "\"";
}

tl::unexpected<Error> NotFound(const api::Resource& resource, const api::ObjectKey& key) {
  return Refuse(ErrorCode::kNotFound, 404, Name(resource, key) + " not found");
}

tl::unexpected<Error> Conflict(const api::WriteRequest& request, const std::string& why) {
  return Refuse(
      ErrorCode::kConflict, 409,
      "Operation cannot be fulfilled on " + Name(request.resource, request.key) + ": " + why);
}

std::string_view VerbName(api::Verb verb) {
  switch (verb) {
    case api::Verb::kCreate:
      return "create";
    case api::Verb::kApply:
      return "apply";
    case api::Verb::kMergePatch:
      return "merge-patch";
    case api::Verb::kJsonPatch:
      return "json-patch";
    case api::Verb::kUpdate:
      return "update";
    case api::Verb::kDelete:
      return "delete";
  }
  return "";
}

// Everything that counts for metadata.generation.
Json WithoutMetaAndStatus(const Json& object) {
  Json out = object;
  out.Erase("metadata");
  out.Erase("status");
  return out;
}

}  // namespace

FakeApiServer::Object* FakeApiServer::Find(const api::Resource& resource,
                                           const api::ObjectKey& key) {
  const auto collection = collections_.find(CollectionOf(resource));
  if (collection == collections_.end()) {
    return nullptr;
  }
  const auto it = collection->second.find(key);
  return it == collection->second.end() ? nullptr : &it->second;
}

Result<Json> FakeApiServer::Get(const api::Resource& resource, const api::ObjectKey& key) const {
  const Object* object = const_cast<FakeApiServer*>(this)->Find(resource, key);  // NOLINT
  if (object == nullptr) {
    return NotFound(resource, key);
  }
  return *object->json;
}

std::vector<Json> FakeApiServer::List(const api::Resource& resource, std::string_view ns,
                                      std::string_view label_selector) const {
  std::vector<Json> out;
  const auto collection = collections_.find(CollectionOf(resource));
  if (collection == collections_.end()) {
    return out;
  }
  for (const auto& [key, object] : collection->second) {
    if ((ns.empty() || key.ns == ns) && MatchesLabelSelector(*object.json, label_selector)) {
      out.push_back(*object.json);
    }
  }
  return out;
}

Result<Json> FakeApiServer::Do(const api::WriteRequest& request, std::string_view who) {
  if (before_) {
    TRY(before_(request, who));
  }
  Result<Json> result = Execute(request, who, /*keep_status=*/false);
  if (after_) {
    TRY(after_(request, who));
  }
  return result;
}

Result<Json> FakeApiServer::Execute(const api::WriteRequest& request, std::string_view who,
                                    bool keep_status) {
  if (request.key.name.empty() || request.resource.namespaced == request.key.ns.empty()) {
    return Refuse(ErrorCode::kInvalid, 400,
                  "a request needs a name, and a namespace exactly when the kind is namespaced: " +
                      api::Describe(request));
  }
  const std::string& version = request.body["apiVersion"].AsString();
  const bool whole = request.verb == api::Verb::kCreate || request.verb == api::Verb::kUpdate ||
                     request.verb == api::Verb::kApply;
  if (whole && !version.empty() && version != request.resource.ApiVersion()) {
    return Refuse(ErrorCode::kInvalid, 400,
                  "the API version in the data (" + version +
                      ") does not match the expected API version (" +
                      request.resource.ApiVersion() + ")");
  }
  Result<Json> result = Json();
  switch (request.verb) {
    case api::Verb::kCreate:
      result = DoCreate(request, who, keep_status);
      break;
    case api::Verb::kDelete:
      result = DoDelete(request);
      break;
    default:
      result = DoChange(request, who);
      break;
  }
  if (result) {
    std::string name(VerbName(request.verb));
    name += " " + request.resource.plural;
    if (!request.subresource.empty()) {
      name += "/" + request.subresource;
    }
    ++counts_[name];
  }
  return result;
}

Result<Json> FakeApiServer::Admit(const api::WriteRequest& request, std::string_view who,
                                  const Json& old_object, Json next) const {
  for (const AdmitHook& hook : admission_) {
    TRY(hook(request, who, old_object, next));
  }
  return next;
}

Result<Json> FakeApiServer::DoCreate(const api::WriteRequest& request, std::string_view who,
                                     bool keep_status) {
  if (Find(request.resource, request.key) != nullptr) {
    return Refuse(ErrorCode::kAlreadyExists, 409,
                  Name(request.resource, request.key) + " already exists");
  }
  Json object = request.body;
  if (!keep_status && request.resource.plural != "nodes") {
    object.Erase("status");
  }
  object.Set("apiVersion", request.resource.ApiVersion());
  object.Set("kind", request.resource.kind);
  Json& meta = object.At("metadata");
  if (meta.Has("name") && meta["name"].AsString() != request.key.name) {
    return Refuse(ErrorCode::kInvalid, 400, "metadata.name differs from the name of the request");
  }
  meta.Set("name", request.key.name);
  if (request.resource.namespaced) {
    meta.Set("namespace", request.key.ns);
  }
  char uid[40];
  std::snprintf(uid, sizeof uid, "00000000-0000-4000-8000-%012llx",
                static_cast<unsigned long long>(next_uid_));
  meta.Set("uid", uid);
  meta.Set("creationTimestamp", FormatTime(now_));
  meta.Set("generation", 1);
  meta.Erase("resourceVersion");
  TRY_ASSIGN(object, Admit(request, who, Json(), std::move(object)));
  ++next_uid_;
  object.At("metadata").Set("resourceVersion", std::to_string(++version_));
  Object& stored = collections_[CollectionOf(request.resource)][request.key];
  stored.resource = request.resource;
  stored.json = std::make_shared<const Json>(object);
  TakeOwnership(stored, OwnerName(request), Json(), object);
  Emit("ADDED", stored, request.key, nullptr);
  return object;
}

Result<Json> FakeApiServer::DoChange(const api::WriteRequest& request, std::string_view who) {
  Object* object = Find(request.resource, request.key);
  if (object == nullptr) {
    if (request.verb == api::Verb::kApply && request.subresource.empty()) {
      if (!request.body["metadata"]["uid"].AsString().empty()) {
        return Conflict(request, "uid mismatch: the object doesn't exist");
      }
      return DoCreate(request, who, /*keep_status=*/false);
    }
    return NotFound(request.resource, request.key);
  }
  const Json& live = (*object->json)["metadata"];
  if (request.verb != api::Verb::kJsonPatch) {
    const Json& meta = request.body["metadata"];
    const std::string& uid = meta["uid"].AsString();
    if (!uid.empty() && uid != live["uid"].AsString()) {
      return Conflict(request, "uid mismatch");
    }
    const std::string& version = meta["resourceVersion"].AsString();
    if (!version.empty() && version != live["resourceVersion"].AsString()) {
      return Conflict(request,
                      "the object has been modified; apply your changes to the latest version");
    }
    if (version.empty() && request.verb == api::Verb::kUpdate) {
      return Refuse(ErrorCode::kInvalid, 422,
                    "metadata.resourceVersion: must be specified for an update");
    }
  }
  return Change(request, who, *object);
}

Result<Json> FakeApiServer::Change(const api::WriteRequest& request, std::string_view who,
                                   Object& object) {
  const std::shared_ptr<const Json> before = object.json;
  const std::map<std::string, PathSet> owners = object.owners;
  Json next = *before;
  switch (request.verb) {
    case api::Verb::kApply:
      next = Apply(object, request);
      break;
    case api::Verb::kMergePatch:
      ApplyMergePatch(next, request.body);
      break;
    case api::Verb::kJsonPatch:
      TRY(ApplyJsonPatch(next, request.body));
      if (next["metadata"]["resourceVersion"] != (*before)["metadata"]["resourceVersion"]) {
        return Conflict(request, "the object has been modified");
      }
      break;
    default:
      next = request.body;
      break;
  }
  // The main resource keeps `status`, the status subresource keeps everything else.
  Json result = request.subresource.empty() ? next : *before;
  const Json& status_source = request.subresource.empty() ? *before : next;
  if (status_source.Has("status")) {
    result.Set("status", status_source["status"]);
  } else {
    result.Erase("status");
  }
  Json& meta = result.At("metadata");
  for (const char* fixed : {"name", "namespace", "uid", "creationTimestamp", "generation",
                            "resourceVersion", "deletionTimestamp"}) {
    if ((*before)["metadata"].Has(fixed)) {
      meta.Set(fixed, (*before)["metadata"][fixed]);
    } else {
      meta.Erase(fixed);
    }
  }
  meta.Erase("managedFields");
  result.Set("apiVersion", (*before)["apiVersion"]);
  result.Set("kind", (*before)["kind"]);
  Result<Json> admitted = Admit(request, who, *before, std::move(result));
  if (!admitted) {
    object.owners = owners;
    return admitted;
  }
  result = std::move(*admitted);
  if (result == *before) {
    return result;
  }
  if (!(WithoutMetaAndStatus(result) == WithoutMetaAndStatus(*before))) {
    result.At("metadata").Set("generation", (*before)["metadata"]["generation"].AsInt() + 1);
  }
  if (request.verb != api::Verb::kApply) {
    TakeOwnership(object, OwnerName(request), *before, result);
  }
  result.At("metadata").Set("resourceVersion", std::to_string(++version_));
  object.json = std::make_shared<const Json>(result);
  if (result["metadata"].Has("deletionTimestamp") &&
      result["metadata"]["finalizers"].AsArray().empty()) {
    Remove(request.key, object);  // `object` is gone
    return result;
  }
  Emit("MODIFIED", object, request.key, before);
  return result;
}

Result<Json> FakeApiServer::DoDelete(const api::WriteRequest& request) {
  Object* object = Find(request.resource, request.key);
  if (object == nullptr) {
    return NotFound(request.resource, request.key);
  }
  const Json& meta = (*object->json)["metadata"];
  for (const char* field : {"uid", "resourceVersion"}) {
    const Json& wanted = request.body[field];
    if (wanted.IsString() && !(wanted == meta[field])) {
      return Conflict(request, std::string("precondition failed: ") + field + " is another");
    }
  }
  if (meta["finalizers"].AsArray().empty()) {
    Json last = *object->json;
    last.At("metadata").Set("resourceVersion", std::to_string(++version_));
    object->json = std::make_shared<const Json>(last);
    Remove(request.key, *object);
    return last;
  }
  if (!meta.Has("deletionTimestamp")) {
    const std::shared_ptr<const Json> before = object->json;
    Json next = *before;
    next.At("metadata").Set("deletionTimestamp", FormatTime(now_));
    next.At("metadata").Set("generation", meta["generation"].AsInt() + 1);
    next.At("metadata").Set("resourceVersion", std::to_string(++version_));
    object->json = std::make_shared<const Json>(std::move(next));
    Emit("MODIFIED", *object, request.key, before);
  }
  return *object->json;
}

void FakeApiServer::Remove(const api::ObjectKey& key, Object& object) {
  const Object last = std::move(object);
  collections_.at(CollectionOf(last.resource)).erase(key);
  Emit("DELETED", last, key, last.json);
}

void FakeApiServer::Emit(const char* type, const Object& object, const api::ObjectKey& key,
                         std::shared_ptr<const Json> previous) {
  const Event event{version_, type, object.resource, key, object.json, std::move(previous)};
  log_.push_back(event);
  if (log_.size() > kMaxLog) {
    forgotten_ = log_.front().version;
    log_.pop_front();
  }
  // A subscriber may write, which emits again.
  for (size_t i = 0; i < subscribers_.size(); ++i) {
    subscribers_[i](event);
  }
}

Result<std::vector<FakeApiServer::Event>> FakeApiServer::EventsAfter(const api::Resource& resource,
                                                                     int64_t version) const {
  if (version < forgotten_) {
    return Refuse(ErrorCode::kExpired, 410,
                  "too old resource version: " + std::to_string(version) + " (" +
                      std::to_string(forgotten_) + ")");
  }
  std::vector<Event> out;
  const auto first = std::partition_point(
      log_.begin(), log_.end(), [&](const Event& event) { return event.version <= version; });
  for (auto it = first; it != log_.end(); ++it) {
    if (it->resource.plural == resource.plural && it->resource.group == resource.group) {
      out.push_back(*it);
    }
  }
  return out;
}

void FakeApiServer::Compact() {
  log_.clear();
  forgotten_ = version_;
}

Result<Json> FakeApiServer::Create(const api::Resource& resource, Json object) {
  const Json& meta = object["metadata"];
  api::WriteRequest request;
  request.verb = api::Verb::kCreate;
  request.resource = resource;
  request.key = {resource.namespaced ? meta["namespace"].AsString() : "", meta["name"].AsString()};
  if (resource.namespaced && request.key.ns.empty()) {
    request.key.ns = "default";
  }
  request.field_manager = "test";
  request.body = std::move(object);
  return Execute(request, "test", /*keep_status=*/true);
}

Result<Json> FakeApiServer::MergePatch(const api::Resource& resource, const api::ObjectKey& key,
                                       Json patch, std::string_view subresource) {
  return Execute(
      {api::Verb::kMergePatch, resource, key, std::string(subresource), "test", std::move(patch)},
      "test", /*keep_status=*/false);
}

Status FakeApiServer::Delete(const api::Resource& resource, const api::ObjectKey& key) {
  TRY(Execute({api::Verb::kDelete, resource, key, "", "test", Json()}, "test",
              /*keep_status=*/false));
  return {};
}

bool FakeApiServer::CollectGarbage() {
  std::set<std::string> uids;
  for (const auto& [name, collection] : collections_) {
    for (const auto& [key, object] : collection) {
      uids.insert((*object.json)["metadata"]["uid"].AsString());
    }
  }
  std::vector<std::pair<api::Resource, api::ObjectKey>> gone;
  for (const auto& [name, collection] : collections_) {
    for (const auto& [key, object] : collection) {
      const Json& meta = (*object.json)["metadata"];
      const Json::Array& owners = meta["ownerReferences"].AsArray();
      const bool orphan =
          !owners.empty() && std::none_of(owners.begin(), owners.end(), [&](const Json& owner) {
            return uids.count(owner["uid"].AsString()) != 0;
          });
      if (orphan && !meta.Has("deletionTimestamp")) {
        gone.emplace_back(object.resource, key);
      }
    }
  }
  for (const auto& [resource, key] : gone) {
    // It may have gone with another one, through a subscriber.
    static_cast<void>(Delete(resource, key));
  }
  return !gone.empty();
}

}  // namespace tutti::kube
