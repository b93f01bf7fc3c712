// SPDX-License-Identifier: Apache-2.0
// Short forms of nodes, pod shapes and gangs for the tests of the capacity check.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/core.h"
#include "engine/capacity.h"

namespace tutti::engine {

inline api::Node MakeNode(const std::string& name, api::Amounts allocatable,
                          api::StringMap labels = {}, std::vector<api::Taint> taints = {}) {
  api::Node node;
  node.meta.name = name;
  node.meta.labels = std::move(labels);
  node.meta.labels.emplace("kubernetes.io/hostname", name);
  node.allocatable = std::move(allocatable);
  node.allocatable.emplace("pods", 110);
  node.taints = std::move(taints);
  return node;
}

inline std::shared_ptr<api::PodShape> MakeShape(api::Amounts requests) {
  auto shape = std::make_shared<api::PodShape>();
  shape->requests = std::move(requests);
  return shape;
}

inline GangPodSet MakeSet(const std::string& name, int32_t count,
                          std::shared_ptr<const api::PodShape> shape) {
  GangPodSet set;
  set.name = name;
  set.count = count;
  set.shape = std::move(shape);
  return set;
}

inline Gang MakeGang(const std::string& id, int32_t count,
                     std::shared_ptr<const api::PodShape> shape) {
  return Gang{id, {MakeSet("main", count, std::move(shape))}};
}

inline Gang MakeGang(const std::string& id, int32_t count, api::Amounts requests) {
  return MakeGang(id, count, MakeShape(std::move(requests)));
}

}  // namespace tutti::engine
