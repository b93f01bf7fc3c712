// SPDX-License-Identifier: Apache-2.0
// See device_request.h.
#include "engine/device_request.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace tutti::engine {
namespace {

bool Covers(const api::DeviceConstraint& constraint, const std::string& request,
            const std::string& label) {
  const std::vector<std::string>& names = constraint.requests;
  return names.empty() || std::find(names.begin(), names.end(), request) != names.end() ||
         std::find(names.begin(), names.end(), label) != names.end();
}

Result<DeviceAlternative> CompileAlternative(const api::ClaimSpec& spec, const std::string& parent,
                                             const api::ExactRequest& request, bool in_list,
                                             const DeviceInventory& inventory) {
  DeviceAlternative out;
  out.request = &request;
  out.label = in_list ? parent + "/" + request.name : request.name;
  const auto fail = [&](ErrorCode code, const std::string& what) {
    return Fail(code, "request " + out.label + ": " + what);
  };
  if (request.device_class.empty())
    return fail(ErrorCode::kInvalid, "no device class (a kind of request that is not known)");
  const api::DeviceClass* device_class = inventory.FindClass(request.device_class);
  if (device_class == nullptr)
    return fail(ErrorCode::kNotFound, "device class " + request.device_class + " does not exist");
  for (const std::string& expression : device_class->selectors) {
    if (expression.empty()) {
      return fail(ErrorCode::kInvalid, "device class " + request.device_class +
                                           " has a kind of selector that is not known");
    }
    out.selectors.push_back(inventory.Selector(expression));
  }
  out.class_selectors = out.selectors.size();
  for (const std::string& expression : request.selectors) {
    if (expression.empty())
      return fail(ErrorCode::kInvalid, "it has a kind of selector that is not known");
    out.selectors.push_back(inventory.Selector(expression));
  }
  out.all = request.mode == "All";
  if (!out.all && request.mode != "ExactCount")
    return fail(ErrorCode::kInvalid, "allocation mode " + request.mode + " is not known");
  out.count = std::max<int64_t>(0, request.count);
  for (size_t i = 0; i < spec.constraints.size(); ++i) {
    if (Covers(spec.constraints[i], parent, out.label))
      out.constraints.push_back(i);
  }
  return out;
}

// What one container must be given beyond what it may reuse; at most one request.
std::optional<api::DeviceRequest> RequestOf(const api::ContainerResource& container,
                                            const std::string& device_class, int64_t reusable) {
  if (container.amount <= reusable)
    return std::nullopt;
  api::DeviceRequest request;
  request.name = "container-" + std::to_string(container.container) + "-request-" +
                 std::to_string(container.index);
  request.exactly.emplace();
  request.exactly->name = request.name;
  request.exactly->device_class = device_class;
  request.exactly->mode = "ExactCount";
  request.exactly->count = container.amount - reusable;
  return request;
}

}  // namespace

Result<CompiledClaim> CompileClaim(std::shared_ptr<const api::ClaimSpec> spec, std::string label,
                                   const DeviceInventory& inventory) {
  CompiledClaim out;
  out.label = std::move(label);
  for (const api::DeviceConstraint& constraint : spec->constraints) {
    if (constraint.match_attribute.empty() && constraint.distinct_attribute.empty())
      return Fail(ErrorCode::kInvalid, out.label + ": a kind of constraint that is not known");
  }
  for (const api::DeviceRequest& request : spec->requests) {
    CompiledRequest compiled;
    const auto add = [&](const api::ExactRequest& exact) -> Status {
      Result<DeviceAlternative> alternative =
          CompileAlternative(*spec, request.name, exact, compiled.is_list, inventory);
      if (!alternative)
        return Fail(alternative.error().With(out.label));
      compiled.alternatives.push_back(std::move(*alternative));
      return {};
    };
    if (!request.first_available.empty()) {
      compiled.is_list = true;
      for (const api::ExactRequest& exact : request.first_available)
        TRY(add(exact));
    } else if (request.exactly) {
      TRY(add(*request.exactly));
    } else {
      return Fail(ErrorCode::kInvalid,
                  out.label + ": request " + request.name + ": a kind that is not known");
    }
    out.requests.push_back(std::move(compiled));
  }
  out.spec = std::move(spec);
  return out;
}

std::shared_ptr<const api::ClaimSpec> ExtendedResourceClaim(
    const std::vector<api::ContainerResource>& containers, const std::set<std::string>& resources,
    const DeviceInventory& inventory) {
  auto spec = std::make_shared<api::ClaimSpec>();
  for (const std::string& resource : resources) {
    const api::DeviceClass* device_class = inventory.ClassOfResource(resource);
    if (device_class == nullptr)
      continue;
    std::map<int32_t, api::DeviceRequest> long_lived;  // by container
    for (const api::ContainerResource& container : containers) {
      if (container.resource != resource || container.short_lived)
        continue;
      if (auto request = RequestOf(container, device_class->meta.name, 0))
        long_lived.emplace(container.container, std::move(*request));
    }
    std::optional<api::DeviceRequest> largest;  // of the init containers
    for (const api::ContainerResource& container : containers) {
      if (container.resource != resource || !container.short_lived)
        continue;
      int64_t reusable = 0;
      for (auto it = long_lived.lower_bound(container.container); it != long_lived.end(); ++it)
        reusable = api::SaturatingAdd(reusable, it->second.exactly->count);
      auto request = RequestOf(container, device_class->meta.name, reusable);
      if (request && (!largest || largest->exactly->count < request->exactly->count))
        largest = std::move(request);
    }
    if (largest)
      spec->requests.push_back(std::move(*largest));
    for (auto& [container, request] : long_lived)
      spec->requests.push_back(std::move(request));
  }
  std::stable_sort(
      spec->requests.begin(), spec->requests.end(),
      [](const api::DeviceRequest& a, const api::DeviceRequest& b) { return a.name < b.name; });
  return spec->requests.empty() ? nullptr : spec;
}

}  // namespace tutti::engine
