// SPDX-License-Identifier: Apache-2.0
// Matching of labels, taints and host ports, with the rules of kube-scheduler's filters.
#include <algorithm>
#include <charconv>

#include "api/core.h"
#include "api/decode.h"

namespace tutti::api {
namespace {

bool ReadNumber(std::string_view text, int64_t& out) {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (text.empty() || text.front() < '0' || text.front() > '9') {
      return false;
    }
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool Contains(const std::vector<std::string>& values, std::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool AnyAddress(std::string_view ip) {
  return ip.empty() || ip == "0.0.0.0";
}

std::string_view ProtocolOf(const HostPort& port) {
  return port.protocol.empty() ? std::string_view("TCP") : std::string_view(port.protocol);
}

}  // namespace

bool Toleration::Tolerates(const Taint& taint) const {
  if ((!effect.empty() && effect != taint.effect) || (!key.empty() && key != taint.key)) {
    return false;
  }
  if (op.empty() || op == "Equal") {
    return value == taint.value;
  }
  return op == "Exists";
}

bool Requirement::Matches(const StringMap& labels) const {
  const std::string* label = FindIn(labels, key);
  if (op == "In") {
    return label != nullptr && Contains(values, *label);
  }
  if (op == "NotIn") {
    return label == nullptr || !Contains(values, *label);
  }
  if (op == "Exists") {
    return label != nullptr;
  }
  if (op == "DoesNotExist") {
    return label == nullptr;
  }
  if (op == "Gt" || op == "Lt") {
    int64_t have = 0;
    int64_t bound = 0;
    if (label == nullptr || values.size() != 1 || !ReadNumber(*label, have) ||
        !ReadNumber(values.front(), bound)) {
      return false;
    }
    return op == "Gt" ? have > bound : have < bound;
  }
  return false;
}

bool NodeSelectorTerm::Matches(const StringMap& labels, std::string_view node_name) const {
  if (expressions.empty() && fields.empty()) {
    return false;
  }
  const bool labels_match =
      std::all_of(expressions.begin(), expressions.end(),
                  [&](const Requirement& requirement) { return requirement.Matches(labels); });
  return labels_match &&
         std::all_of(fields.begin(), fields.end(), [&](const Requirement& requirement) {
           if (requirement.key != "metadata.name" || requirement.values.size() != 1) {
             return false;
           }
           const bool same = requirement.values.front() == node_name;
           return (requirement.op == "In" && same) || (requirement.op == "NotIn" && !same);
         });
}

bool NodeSelector::Matches(const StringMap& labels, std::string_view node_name) const {
  return std::any_of(terms.begin(), terms.end(),
                     [&](const NodeSelectorTerm& term) { return term.Matches(labels, node_name); });
}

bool LabelSelector::Matches(const StringMap& labels) const {
  return present &&
         std::all_of(requirements.begin(), requirements.end(),
                     [&](const Requirement& requirement) { return requirement.Matches(labels); });
}

Result<LabelSelector> LabelSelectorFromJson(const Json& json) {
  LabelSelector out;
  if (json.IsNull()) {
    return out;
  }
  if (!json.IsObject()) {
    return Fail(ErrorCode::kInvalid, "must be an object with matchLabels or matchExpressions");
  }
  out.present = true;
  for (const auto& [key, value] : StringMapFromJson(json["matchLabels"])) {
    out.requirements.push_back({key, "In", {value}});
  }
  size_t index = 0;
  for (const Json& item : json["matchExpressions"].AsArray()) {
    Requirement requirement{item["key"].AsString(), item["operator"].AsString(),
                            ReadStrings(item["values"])};
    const std::string path = "matchExpressions[" + std::to_string(index++) + "]";
    const bool wants_values = requirement.op == "In" || requirement.op == "NotIn";
    if (requirement.key.empty()) {
      return Fail(ErrorCode::kInvalid, path + ".key: must name a label");
    }
    if (!wants_values && requirement.op != "Exists" && requirement.op != "DoesNotExist") {
      return Fail(ErrorCode::kInvalid, path + ".operator: \"" + requirement.op +
                                           "\" must be In, NotIn, Exists or DoesNotExist");
    }
    if (wants_values == requirement.values.empty()) {
      return Fail(ErrorCode::kInvalid, path + ".values: must " +
                                           (wants_values ? "have an entry" : "be empty") +
                                           " with operator " + requirement.op);
    }
    out.requirements.push_back(std::move(requirement));
  }
  return out;
}

bool Clash(const HostPort& a, const HostPort& b) {
  return a.port > 0 && a.port == b.port && ProtocolOf(a) == ProtocolOf(b) &&
         (a.ip == b.ip || AnyAddress(a.ip) || AnyAddress(b.ip));
}

Result<std::vector<Toleration>> TolerationsFromJson(const Json& json) {
  std::vector<Toleration> out;
  if (!json.IsNull() && !json.IsArray()) {
    return Fail(ErrorCode::kInvalid, "tolerations: must be a list");
  }
  for (const Json& item : json.AsArray()) {
    if (!item.IsObject()) {
      return Fail(ErrorCode::kInvalid,
                  "tolerations[" + std::to_string(out.size()) + "]: must be an object");
    }
    Toleration toleration{item["key"].AsString(), item["operator"].AsString(),
                          item["value"].AsString(), item["effect"].AsString(), std::nullopt};
    if (item["tolerationSeconds"].IsNumber()) {
      toleration.seconds = ReadInt64(item["tolerationSeconds"]);
    }
    out.push_back(std::move(toleration));
  }
  return out;
}

Result<std::vector<Taint>> TaintsFromJson(const Json& json) {
  std::vector<Taint> out;
  if (!json.IsNull() && !json.IsArray()) {
    return Fail(ErrorCode::kInvalid, "taints: must be a list");
  }
  for (const Json& item : json.AsArray()) {
    if (!item.IsObject()) {
      return Fail(ErrorCode::kInvalid,
                  "taints[" + std::to_string(out.size()) + "]: must be an object");
    }
    out.push_back({item["key"].AsString(), item["value"].AsString(), item["effect"].AsString()});
  }
  return out;
}

Json ToJson(const std::vector<Toleration>& tolerations) {
  Json::Array out;
  for (const Toleration& toleration : tolerations) {
    Json item = Json::Obj();
    const auto set = [&](const char* field, const std::string& value) {
      if (!value.empty()) {
        item.Set(field, value);
      }
    };
    set("key", toleration.key);
    set("operator", toleration.op);
    set("value", toleration.value);
    set("effect", toleration.effect);
    if (toleration.seconds) {
      item.Set("tolerationSeconds", *toleration.seconds);
    }
    out.push_back(std::move(item));
  }
  return Json(std::move(out));
}

}  // namespace tutti::api
