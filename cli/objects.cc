// SPDX-License-Identifier: Apache-2.0
#include "cli/objects.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace tutti::cli {
namespace {

constexpr std::string_view kDefaultNamespace = "default";

constexpr std::array kClusterScoped = {
    "CSIDriver",      "CSINode",          "ClusterQueue",
    "Cohort",         "DeviceClass",      "Namespace",
    "Node",           "PersistentVolume", "PriorityClass",
    "ResourceFlavor", "ResourceSlice",    "RuntimeClass",
    "StorageClass",   "VolumeAttachment", "WorkloadPriorityClass",
};

bool Namespaced(std::string_view kind) {
  return std::find(kClusterScoped.begin(), kClusterScoped.end(), kind) == kClusterScoped.end();
}

Status TakeOne(const std::string& where, const Json& object,
               const std::function<Status(const InputObject&)>& take) {
  if (!object.IsObject()) {
    return Fail(ErrorCode::kInvalid, where + ": must be an object");
  }
  const std::string& kind = object["kind"].AsString();
  if (kind.empty()) {
    return Fail(ErrorCode::kInvalid, where + ": kind is missing");
  }
  if (object.Has("items") && kind.ends_with("List")) {
    // The items of a typed list (NodeList) need not say their kind.
    const std::string item_kind = kind.substr(0, kind.size() - 4);
    const Json::Array& items = object["items"].AsArray();
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string item_where = where + ": items[" + std::to_string(i) + "]";
      Json item = items[i];
      if (item.IsObject() && !item_kind.empty() && item["kind"].AsString().empty()) {
        item.Set("kind", item_kind);
      }
      TRY(TakeOne(item_where, item, take));
    }
    return {};
  }
  InputObject out{where, kind, "", object["metadata"]["name"].AsString(), object};
  if (out.name.empty()) {
    return Fail(ErrorCode::kInvalid, where + ": " + kind + ": metadata.name is missing");
  }
  if (Namespaced(kind)) {
    out.ns = object["metadata"]["namespace"].AsString();
    if (out.ns.empty()) {
      out.ns = kDefaultNamespace;
    }
    Json metadata = object["metadata"];
    metadata.Set("namespace", out.ns);
    out.object.Set("metadata", std::move(metadata));
  }
  if (Status taken = take(out); !taken) {
    // The decoders name the object and the field.
    const std::string& message = taken.error().message;
    if (message.starts_with(where)) {
      return taken;
    }
    const bool named = message.find(out.name) != std::string::npos;
    return Fail(taken.error().With(named ? where : where + ": " + out.Title()));
  }
  return {};
}

}  // namespace

std::string InputObject::Title() const {
  return kind + " " + (ns.empty() ? "" : ns + "/") + name;
}

Status ForEachObject(const std::vector<Document>& documents,
                     const std::function<Status(const InputObject&)>& take) {
  for (const Document& document : documents) {
    TRY(TakeOne(document.where, document.object, take));
  }
  return {};
}

Status OnlyOnce::Check(const InputObject& object) {
  if (!seen_.insert(object.Title()).second) {
    return Fail(ErrorCode::kInvalid,
                object.where + ": " + object.Title() + " is in the input twice");
  }
  return {};
}

std::string Count(size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

}  // namespace tutti::cli
