// SPDX-License-Identifier: Apache-2.0
// Short forms of slices, classes and claims for the tests of the devices.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/dra.h"
#include "engine/device_allocator.h"
#include "engine/device_inventory.h"

namespace tutti::engine {

inline const std::string kDriver = "gpu.example.com";

inline api::Quantity Amount(const std::string& text) {
  return api::Quantity::Parse(text).value();
}

class FakeNodes final : public NodeLabels {
 public:
  [[nodiscard]] bool Matches(const api::NodeSelector& selector,
                             const std::string& node) const override {
    const auto it = labels.find(node);
    return it != labels.end() && selector.Matches(it->second, node);
  }
  std::map<std::string, api::StringMap> labels;
};

inline api::NodeSelector SelectNodes(const std::string& key, const std::string& value) {
  api::NodeSelectorTerm term;
  term.expressions.push_back({key, "In", {value}});
  return {{term}};
}

// Attributes are strings of the driver's domain.
inline api::Device MakeDevice(const std::string& name, api::StringMap attributes = {},
                              const std::string& driver = kDriver) {
  api::Device device;
  device.name = name;
  device.facts.driver = driver;
  for (auto& [id, value] : attributes)
    device.facts.attributes[driver][id] = value;
  return device;
}

inline api::Device WithCapacity(api::Device device, const std::string& name,
                                const std::string& amount) {
  device.capacity[name].value = Amount(amount);
  device.facts.capacity[device.facts.driver][name] = Amount(amount);
  return device;
}

inline api::Device WithTaint(api::Device device, const std::string& key,
                             const std::string& effect) {
  device.taints.push_back({key, "", effect});
  return device;
}

inline api::Device WithCounters(api::Device device, const std::string& set,
                                const std::string& counter, const std::string& amount) {
  device.consumes.push_back({set, {{counter, Amount(amount)}}});
  return device;
}

// A pool of one slice on one node.
inline api::ResourceSlice MakeSlice(const std::string& name, const std::string& node,
                                    std::vector<api::Device> devices,
                                    const std::string& driver = kDriver) {
  api::ResourceSlice slice;
  slice.meta.name = name;
  slice.driver = driver;
  slice.pool = node.empty() ? name : node;
  slice.generation = 1;
  slice.slice_count = 1;
  slice.node_name = node;
  slice.devices = std::move(devices);
  return slice;
}

inline api::ResourceSlice Gpus(const std::string& node, int count) {
  std::vector<api::Device> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(MakeDevice("gpu-" + std::to_string(i)));
  return MakeSlice(node + "-gpus", node, std::move(devices));
}

inline std::shared_ptr<const api::ResourceSlice> Shared(api::ResourceSlice slice) {
  return std::make_shared<const api::ResourceSlice>(std::move(slice));
}

inline api::DeviceClass MakeClass(const std::string& name,
                                  std::vector<std::string> selectors = {}) {
  api::DeviceClass device_class;
  device_class.meta.name = name;
  device_class.selectors = std::move(selectors);
  return device_class;
}

inline api::ExactRequest Exact(const std::string& name, int64_t count = 1,
                               const std::string& device_class = "gpu",
                               std::vector<std::string> selectors = {}) {
  api::ExactRequest request;
  request.name = name;
  request.device_class = device_class;
  request.selectors = std::move(selectors);
  request.mode = "ExactCount";
  request.count = count;
  return request;
}

inline api::ExactRequest All(const std::string& name, const std::string& device_class = "gpu",
                             std::vector<std::string> selectors = {}) {
  api::ExactRequest request = Exact(name, 1, device_class, std::move(selectors));
  request.mode = "All";
  return request;
}

inline api::ClaimSpec MakeClaim(std::vector<api::ExactRequest> requests) {
  api::ClaimSpec spec;
  for (api::ExactRequest& request : requests) {
    api::DeviceRequest one;
    one.name = request.name;
    one.exactly = std::move(request);
    spec.requests.push_back(std::move(one));
  }
  return spec;
}

inline api::DeviceRequest FirstAvailable(const std::string& name,
                                         std::vector<api::ExactRequest> alternatives) {
  api::DeviceRequest request;
  request.name = name;
  request.first_available = std::move(alternatives);
  return request;
}

}  // namespace tutti::engine
