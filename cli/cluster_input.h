// SPDX-License-Identifier: Apache-2.0
// What a command was told of a cluster's nodes, pods, devices and volumes, put into the engine's
// capacity check, and the shapes of pods that are still to come. What is not in the input does not
// exist.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/core.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/objects.h"
#include "engine/capacity.h"

namespace tutti::cli {

class ClusterInput {
 public:
  // `capacity` must outlive this.
  explicit ClusterInput(engine::Capacity& capacity);

  // Nodes, Namespaces, Pods, LimitRanges, RuntimeClasses, the kinds of resource.k8s.io/v1 and those
  // of volumes (api/storage.h). Pods count against their node as in kube-scheduler: bound and not
  // terminal, terminating ones included; devices by the allocations of claims.
  [[nodiscard]] static bool Knows(std::string_view kind);
  // REQUIRES: Knows(object.kind). `holder` is whom messages name as the holder of a Pod's place; ""
  // is somebody outside of the queues.
  Status Add(const InputObject& object, const std::string& holder = "");
  // A namespace that something to be placed lives in.
  void UseNamespace(const std::string& ns) { used_namespaces_.insert(ns); }
  // After the last Add, before the first question.
  void Finish();

  // The pods of a template. kInvalid names the field below `path`: malformed, or against a
  // LimitRange.
  Result<std::shared_ptr<const api::PodShape>> Shape(const std::string& ns, const std::string& path,
                                                     const Json& pod_template);

  // What in the input doesn't count, or is missing in it; a line each.
  [[nodiscard]] std::vector<std::string> Notes() const;
  [[nodiscard]] size_t Nodes() const { return nodes_; }

 private:
  Status AddOfDevices(const InputObject& object);
  Status AddOfVolumes(const InputObject& object);
  void AddPod(const InputObject& object, const api::Pod& pod, const std::string& holder);
  [[nodiscard]] size_t PodsWithoutClaims() const;

  struct User {
    std::string ns;
    std::string pod;
    std::shared_ptr<const api::PodShape> shape;
  };
  engine::Capacity& capacity_;
  std::map<std::string, std::map<std::string, api::LimitRange>> limit_ranges_;  // namespace, name
  std::map<std::string, api::RuntimeClass> runtime_classes_;
  std::vector<User> users_;  // pods on nodes with claims
  std::set<api::ObjectKey> claims_;
  std::set<std::pair<std::string, std::string>> generated_;  // pod (ns/name), its claim's name
  std::set<std::string> unknown_runtime_classes_;
  std::set<std::string> used_namespaces_;  // by pods and by what is to be placed
  std::set<std::string> namespaces_;       // in the input
  bool by_namespace_labels_ = false;       // some rule about other pods looks at them
  size_t nodes_ = 0;
  size_t unbound_pods_ = 0;
};

// A Job's template with the label that the API server gives its pods.
[[nodiscard]] Json TemplateOfJob(const Json& job, const Json& pod_template);

}  // namespace tutti::cli
