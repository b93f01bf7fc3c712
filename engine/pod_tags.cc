// SPDX-License-Identifier: Apache-2.0
// See pod_tags.h.
#include "engine/pod_tags.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tutti::engine {

// Everything of the tag, with lengths, so that no two tags have the same key.
std::string TagPool::KeyOf(const PodTag& tag) {
  std::string key;
  const auto put = [&](std::string_view text) {
    key += std::to_string(text.size()) + ":" + std::string(text);
  };
  const auto put_selector = [&](const api::LabelSelector& selector) {
    put(selector.present ? "+" : "-");
    put(std::to_string(selector.requirements.size()));
    for (const api::Requirement& requirement : selector.requirements) {
      put(requirement.key);
      put(requirement.op);
      put(std::to_string(requirement.values.size()));
      for (const std::string& value : requirement.values)
        put(value);
    }
  };
  put(tag.ns);
  put(std::to_string(tag.labels.size()));
  for (const auto& [label, value] : tag.labels) {
    put(label);
    put(value);
  }
  for (const api::PodAffinityTerm& term : tag.anti_affinity) {
    put(term.topology_key);
    put_selector(term.selector);
    put(std::to_string(term.namespaces.size()));
    for (const std::string& ns : term.namespaces)
      put(ns);
    put_selector(term.namespace_selector);
  }
  return key;
}

const PodTag* TagPool::Acquire(const PodIdentity& who, const api::PodShape& shape) {
  if (who.ns.empty())
    return nullptr;
  PodTag tag{who.ns, who.labels, {}};
  if (shape.rules)
    tag.anti_affinity = shape.rules->anti_affinity;
  std::string key = KeyOf(tag);
  Entry& entry = tags_[std::move(key)];
  if (++entry.refs == 1)
    entry.tag = std::move(tag);
  return &entry.tag;
}

void TagPool::Release(const PodTag* tag) {
  if (tag == nullptr)
    return;
  auto it = tags_.find(KeyOf(*tag));
  if (--it->second.refs == 0)
    tags_.erase(it);
}

PodIdentity IdentityOf(const api::PodShape& shape) {
  return shape.rules ? PodIdentity{shape.rules->ns, shape.rules->labels, false} : PodIdentity{};
}

void CountTag(std::vector<TagUse>& uses, const PodTag* tag, int32_t bound, int32_t promised,
              int32_t leaving) {
  if (tag == nullptr)
    return;
  auto it =
      std::find_if(uses.begin(), uses.end(), [&](const TagUse& use) { return use.tag == tag; });
  if (it == uses.end())
    it = uses.insert(it, TagUse{tag, 0, 0, 0});
  it->bound += bound;
  it->promised += promised;
  it->leaving += leaving;
  if (it->bound == 0 && it->promised == 0)
    uses.erase(it);
}

}  // namespace tutti::engine
