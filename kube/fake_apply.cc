// SPDX-License-Identifier: Apache-2.0
// The fake API server's patches: server-side apply with ownership of leaves (lists with keys are
// merged element by element, other lists are one value), JSON Patch, and selectors.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "kube/fake_api_server.h"

namespace tutti::kube {
namespace {

using Path = std::vector<std::string>;

// Members that are lists with keys in the kinds that are applied to.
const std::vector<std::string>* ListKeys(const std::string& member) {
  static const std::map<std::string, std::vector<std::string>> kKeys = {
      {"conditions", {"type"}},        {"podSets", {"name"}},
      {"podSetAssignments", {"name"}}, {"admissionChecks", {"name"}},
      {"reclaimablePods", {"name"}},   {"resourceRequests", {"name"}},
      {"podSetUpdates", {"name"}},     {"evictions", {"reason", "underlyingCause"}},
      {"ownerReferences", {"uid"}},
  };
  const auto it = kKeys.find(member);
  return it == kKeys.end() ? nullptr : &it->second;
}

bool IsKeyedList(const std::string& member, const Json& value) {
  return value.IsArray() && ListKeys(member) != nullptr;
}

std::string ElementStep(const std::string& member, const Json& element) {
  std::string step = "[";
  for (const std::string& key : *ListKeys(member)) {
    step += key + "=" + element[key].AsString() + ";";
  }
  return step + "]";
}

Json* FindElement(Json& list, const std::string& member, const std::string& step) {
  for (Json& element : list.MutableArray()) {
    if (ElementStep(member, element) == step) {
      return &element;
    }
  }
  return nullptr;
}

// Values that identify or are set by the server belong to nobody.
bool Owned(const Path& path) {
  if (path.size() == 1) {
    return path[0] != "apiVersion" && path[0] != "kind";
  }
  return path[0] != "metadata" || (path[1] == "labels" || path[1] == "annotations" ||
                                   path[1] == "finalizers" || path[1] == "ownerReferences");
}

void CollectLeaves(const Json& value, Path& path, std::map<Path, Json>& out) {
  const bool keyed = !path.empty() && IsKeyedList(path.back(), value);
  if (value.IsObject() && !value.AsObject().empty()) {
    for (const auto& [name, child] : value.AsObject()) {
      path.push_back(name);
      CollectLeaves(child, path, out);
      path.pop_back();
    }
  } else if (keyed) {
    const std::string member = path.back();
    for (const Json& element : value.AsArray()) {
      path.push_back(ElementStep(member, element));
      CollectLeaves(element, path, out);
      path.pop_back();
    }
  } else if (!path.empty() && Owned(path)) {
    out.emplace(path, value);
  }
}

std::map<Path, Json> Leaves(const Json& object) {
  std::map<Path, Json> out;
  Path path;
  CollectLeaves(object, path, out);
  return out;
}

void Merge(Json& target, const Json& applied, const std::string& member) {
  if (applied.IsObject() && !applied.AsObject().empty()) {
    if (!target.IsObject()) {
      target = Json::Obj();
    }
    for (const auto& [name, value] : applied.AsObject()) {
      Merge(target.At(name), value, name);
    }
  } else if (IsKeyedList(member, applied)) {
    if (!target.IsArray()) {
      target = Json::Arr();
    }
    for (const Json& element : applied.AsArray()) {
      Json* found = FindElement(target, member, ElementStep(member, element));
      if (found == nullptr) {
        target.Push(element);
      } else {
        Merge(*found, element, "");
      }
    }
  } else if (!(applied.IsObject() && target.IsObject())) {
    target = applied;
  }
}

// Removes one leaf and what becomes empty by that.
void RemoveLeaf(Json& value, const Path& path, size_t at) {
  const std::string& step = path[at];
  if (value.IsArray()) {
    Json::Array& list = value.MutableArray();
    const std::string& member = path[at - 1];
    for (size_t i = 0; i < list.size(); ++i) {
      if (ElementStep(member, list[i]) != step) {
        continue;
      }
      if (at + 1 < path.size()) {
        RemoveLeaf(list[i], path, at + 1);
      }
      if (at + 1 == path.size() || list[i].AsObject().empty()) {
        list.erase(list.begin() + static_cast<ptrdiff_t>(i));
      }
      return;
    }
    return;
  }
  if (!value.Has(step)) {
    return;
  }
  if (at + 1 == path.size()) {
    value.Erase(step);
    return;
  }
  Json& child = value.At(step);
  RemoveLeaf(child, path, at + 1);
  if ((child.IsObject() && child.AsObject().empty()) ||
      (child.IsArray() && child.AsArray().empty())) {
    value.Erase(step);
  }
}

// The keys of an element go last: while they stay, the element can be found.
bool IsElementKey(const Path& path) {
  if (path.size() < 3 || path[path.size() - 2].front() != '[') {
    return false;
  }
  const std::vector<std::string>* keys = ListKeys(path[path.size() - 3]);
  return keys != nullptr && std::find(keys->begin(), keys->end(), path.back()) != keys->end();
}

}  // namespace

std::string FakeApiServer::OwnerName(const api::WriteRequest& request) {
  return (request.verb == api::Verb::kApply ? "apply " : "update ") + request.field_manager + " " +
         request.subresource;
}

Json FakeApiServer::Apply(Object& object, const api::WriteRequest& request) {
  Json next = *object.json;
  Json applied = request.body;
  if (request.subresource.empty()) {
    applied.Erase("status");
  }
  if (Json& meta = applied.At("metadata"); meta.IsObject()) {
    for (const char* name : {"name", "namespace", "uid", "resourceVersion"}) {
      meta.Erase(name);
    }
  }
  std::map<Path, Json> leaves = Leaves(applied);
  const std::map<Path, Json> before = Leaves(next);
  Merge(next, applied, "");

  // What this manager set before and doesn't mention now goes, unless somebody else holds it too.
  const std::string owner = OwnerName(request);
  std::vector<Path> removed;
  for (const Path& path : object.owners[owner]) {
    if (leaves.count(path) != 0) {
      continue;
    }
    const bool shared = std::any_of(
        object.owners.begin(), object.owners.end(),
        [&](const auto& other) { return other.first != owner && other.second.count(path) != 0; });
    if (!shared) {
      removed.push_back(path);
    }
  }
  std::stable_sort(removed.begin(), removed.end(),
                   [](const Path& a, const Path& b) { return IsElementKey(a) < IsElementKey(b); });
  for (const Path& path : removed) {
    if (!IsElementKey(path)) {
      RemoveLeaf(next, path, 0);
    }
  }
  for (const Path& path : removed) {
    if (IsElementKey(path)) {
      // The element itself, once nothing of it is held by anybody.
      Path element(path.begin(), path.end() - 1);
      RemoveLeaf(next, element, 0);
    }
  }
  // Force: what changes value is taken from the others.
  PathSet& mine = object.owners[owner];
  mine.clear();
  for (const auto& [path, value] : leaves) {
    const auto old = before.find(path);
    if (old != before.end() && !(old->second == value)) {
      for (auto& [name, paths] : object.owners) {
        paths.erase(path);
      }
    }
  }
  for (const auto& [path, value] : leaves) {
    mine.insert(path);
  }
  return next;
}

void FakeApiServer::TakeOwnership(Object& object, const std::string& owner, const Json& before,
                                  const Json& after) {
  const std::map<Path, Json> old_leaves = Leaves(before);
  const std::map<Path, Json> new_leaves = Leaves(after);
  for (const auto& [path, value] : old_leaves) {
    if (new_leaves.count(path) == 0) {
      for (auto& [name, paths] : object.owners) {
        paths.erase(path);
      }
    }
  }
  for (const auto& [path, value] : new_leaves) {
    const auto old = old_leaves.find(path);
    if (old != old_leaves.end() && old->second == value) {
      continue;
    }
    for (auto& [name, paths] : object.owners) {
      paths.erase(path);
    }
    object.owners[owner].insert(path);
  }
}

// --- JSON Patch ---------------------------------------------------------------------------------

namespace {

std::vector<std::string> SplitPointer(const std::string& pointer) {
  std::vector<std::string> out;
  size_t at = 1;
  while (at <= pointer.size() && !pointer.empty()) {
    const size_t end = std::min(pointer.find('/', at), pointer.size());
    std::string step;
    for (size_t i = at; i < end; ++i) {
      if (pointer[i] == '~' && i + 1 < end) {
        step += pointer[++i] == '1' ? '/' : '~';
      } else {
        step += pointer[i];
      }
    }
    out.push_back(std::move(step));
    at = end + 1;
  }
  return out;
}

std::optional<size_t> Index(const std::string& step, size_t size, bool append) {
  if (append && step == "-") {
    return size;
  }
  size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (error != std::errc() || end != step.data() + step.size() || index > size ||
      (!append && index == size)) {
    return std::nullopt;
  }
  return index;
}

Status ApplyOperation(Json& target, const Json& operation) {
  const std::string& op = operation["op"].AsString();
  const std::string& pointer = operation["path"].AsString();
  const std::string where = "json patch " + op + " " + pointer;
  const auto missing = [&] {
    return Fail(Error{ErrorCode::kInvalid, where + ": the path doesn't exist", 422, std::nullopt});
  };
  const std::vector<std::string> steps = SplitPointer(pointer);
  if (steps.empty()) {
    return Fail(Error{ErrorCode::kInvalid, where + ": the whole document", 422, std::nullopt});
  }
  Json* parent = &target;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (parent->IsArray()) {
      const auto index = Index(steps[i], parent->AsArray().size(), /*append=*/false);
      if (!index.has_value()) {
        return missing();
      }
      parent = &parent->MutableArray()[*index];
    } else if (parent->Has(steps[i])) {
      parent = &parent->At(steps[i]);
    } else {
      return missing();
    }
  }
  const std::string& last = steps.back();
  if (parent->IsArray()) {
    Json::Array& list = parent->MutableArray();
    const auto index = Index(last, list.size(), op == "add");
    if (!index.has_value()) {
      return missing();
    }
    const auto at = list.begin() + static_cast<ptrdiff_t>(*index);
    if (op == "add") {
      list.insert(at, operation["value"]);
    } else if (op == "remove") {
      list.erase(at);
    } else if (op == "replace") {
      *at = operation["value"];
    } else if (op != "test" || !(*at == operation["value"])) {
      return Fail(Error{ErrorCode::kInvalid, where + ": test failed", 422, std::nullopt});
    }
    return {};
  }
  if (!parent->IsObject() || (op != "add" && !parent->Has(last))) {
    return missing();
  }
  if (op == "add" || op == "replace") {
    parent->Set(last, operation["value"]);
  } else if (op == "remove") {
    parent->Erase(last);
  } else if (op != "test" || !((*parent)[last] == operation["value"])) {
    return Fail(Error{ErrorCode::kInvalid, where + ": test failed", 422, std::nullopt});
  }
  return {};
}

}  // namespace

Status ApplyJsonPatch(Json& target, const Json& patch) {
  for (const Json& operation : patch.AsArray()) {
    TRY(ApplyOperation(target, operation));
  }
  return {};
}

// --- selectors ----------------------------------------------------------------------------------

namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  return text;
}

// At commas outside of parentheses.
std::vector<std::string_view> SplitTerms(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      if (const std::string_view term = Trim(text.substr(start, i - start)); !term.empty()) {
        out.push_back(term);
      }
      start = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return out;
}

bool MatchesLabelTerm(const Json& labels, std::string_view term) {
  if (const size_t open = term.find('('); open != std::string_view::npos && term.back() == ')') {
    std::string_view head = Trim(term.substr(0, open));
    const bool negated = head.size() > 6 && head.substr(head.size() - 6) == " notin";
    const size_t op = negated ? 6 : 3;
    if (!negated && (head.size() <= 3 || head.substr(head.size() - 3) != " in")) {
      return false;
    }
    const Json* value = labels.Find(Trim(head.substr(0, head.size() - op)));
    bool in = false;
    for (const std::string_view option :
         SplitTerms(term.substr(open + 1, term.size() - open - 2))) {
      in = in || (value != nullptr && value->AsString() == option);
    }
    return in != negated;
  }
  if (term.front() == '!') {
    return !labels.Has(Trim(term.substr(1)));
  }
  const size_t equals = term.find('=');
  if (equals == std::string_view::npos) {
    return labels.Has(term);
  }
  const bool negated = equals > 0 && term[equals - 1] == '!';
  const size_t begin = term.find_first_not_of('=', equals);
  const std::string_view wanted =
      begin == std::string_view::npos ? std::string_view() : Trim(term.substr(begin));
  const Json* value = labels.Find(Trim(term.substr(0, negated ? equals - 1 : equals)));
  return (value != nullptr && value->AsString() == wanted) != negated;
}

}  // namespace

bool MatchesLabelSelector(const Json& object, std::string_view selector) {
  const Json& labels = object["metadata"]["labels"];
  const std::vector<std::string_view> terms = SplitTerms(selector);
  return std::all_of(terms.begin(), terms.end(),
                     [&](std::string_view term) { return MatchesLabelTerm(labels, term); });
}

bool MatchesFieldSelector(const Json& object, std::string_view selector) {
  for (const std::string_view term : SplitTerms(selector)) {
    const size_t equals = term.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return false;
    }
    const bool negated = term[equals - 1] == '!';
    std::string_view path = term.substr(0, negated ? equals - 1 : equals);
    const size_t begin = term.find_first_not_of('=', equals);
    const std::string_view wanted =
        begin == std::string_view::npos ? std::string_view() : term.substr(begin);
    const Json* value = &object;
    while (!path.empty()) {
      const size_t dot = std::min(path.find('.'), path.size());
      value = &(*value)[path.substr(0, dot)];
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    if ((value->AsString() == wanted) == negated) {
      return false;
    }
  }
  return true;
}

}  // namespace tutti::kube
