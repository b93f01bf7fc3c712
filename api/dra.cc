// SPDX-License-Identifier: Apache-2.0
#include "api/dra.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "api/decode.h"
#include "api/strict_reader.h"

namespace tutti::api {
namespace {

using Reader = StrictReader;

// Which of the value fields is set decides the type; validation allows only one.
std::optional<cel::AttributeValue> ReadAttribute(const Reader& json) {
  if (const Reader value = json.At("int"); !value.Absent())
    return value.Int();
  if (const Reader value = json.At("bool"); !value.Absent())
    return value.Bool();
  if (const Reader value = json.At("string"); !value.Absent())
    return value.Text();
  if (const Reader value = json.At("version"); !value.Absent())
    return cel::Version{value.Text()};
  if (const Reader values = json.At("ints"); !values.Absent()) {
    std::vector<int64_t> out;
    values.ForEach([&](const Reader& item) { out.push_back(item.Int()); });
    return out;
  }
  if (const Reader values = json.At("bools"); !values.Absent()) {
    std::vector<bool> out;
    values.ForEach([&](const Reader& item) { out.push_back(item.Bool()); });
    return out;
  }
  if (const Reader values = json.At("strings"); !values.Absent())
    return values.Texts();
  if (const Reader values = json.At("versions"); !values.Absent()) {
    std::vector<cel::Version> out;
    values.ForEach([&](const Reader& item) { out.push_back({item.Text()}); });
    return out;
  }
  return std::nullopt;
}

// A name without a domain is filed under the driver.
std::pair<std::string, std::string> SplitName(const std::string& name, const std::string& driver) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos)
    return {driver, name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

std::optional<Quantity> OptionalAmount(const Reader& json) {
  return json.Absent() ? std::nullopt : std::optional<Quantity>(json.Amount());
}

DeviceCapacity ReadCapacity(const Reader& json) {
  DeviceCapacity out;
  out.value = json.At("value").Amount();
  const Reader policy = json.At("requestPolicy");
  if (policy.Absent())
    return out;
  out.policy.emplace();
  out.policy->default_value = OptionalAmount(policy.At("default"));
  policy.At("validValues").ForEach([&](const Reader& item) {
    out.policy->valid_values.push_back(item.Amount());
  });
  const Reader range = policy.At("validRange");
  out.policy->has_range = !range.Absent();
  out.policy->min = OptionalAmount(range.At("min"));
  out.policy->max = OptionalAmount(range.At("max"));
  out.policy->step = OptionalAmount(range.At("step"));
  return out;
}

std::vector<Taint> ReadTaints(const Reader& list) {
  std::vector<Taint> out;
  list.ForEach([&](const Reader& item) {
    out.push_back({item.At("key").Text(), item.At("value").Text(), item.At("effect").Text()});
  });
  return out;
}

Device ReadDevice(const Reader& json, const std::string& driver) {
  Device out;
  out.name = json.At("name").Text();
  out.facts.driver = driver;
  json.At("attributes").ForEachMember([&](const std::string& name, const Reader& value) {
    if (std::optional<cel::AttributeValue> attribute = ReadAttribute(value)) {
      const auto [domain, id] = SplitName(name, driver);
      out.facts.attributes[domain][id] = std::move(*attribute);
    }
  });
  json.At("capacity").ForEachMember([&](const std::string& name, const Reader& value) {
    DeviceCapacity capacity = ReadCapacity(value);
    const auto [domain, id] = SplitName(name, driver);
    out.facts.capacity[domain][id] = capacity.value;
    out.capacity[name] = std::move(capacity);
  });
  json.At("consumesCounters").ForEach([&](const Reader& item) {
    out.consumes.push_back({item.At("counterSet").Text(), {}});
    item.At("counters").ForEachMember([&](const std::string& name, const Reader& counter) {
      out.consumes.back().counters[name] = counter.At("value").Amount();
    });
  });
  out.taints = ReadTaints(json.At("taints"));
  out.node_name = json.At("nodeName").Text();
  out.node_selector = ReadNodeSelector(json.At("nodeSelector"));
  out.all_nodes = json.At("allNodes").Bool();
  out.binds_to_node = json.At("bindsToNode").Bool();
  out.binding_conditions = json.At("bindingConditions").Texts();
  out.binding_failure_conditions = json.At("bindingFailureConditions").Texts();
  out.facts.allow_multiple_allocations = json.At("allowMultipleAllocations").Bool();
  return out;
}

std::vector<std::string> ReadSelectors(const Reader& list) {
  std::vector<std::string> out;
  list.ForEach([&](const Reader& item) { out.push_back(item.At("cel").At("expression").Text()); });
  return out;
}

ExactRequest ReadExact(const Reader& json, std::string name, bool subrequest) {
  ExactRequest out;
  out.name = std::move(name);
  out.device_class = json.At("deviceClassName").Text();
  out.selectors = ReadSelectors(json.At("selectors"));
  out.mode = json.At("allocationMode").Text();
  if (out.mode.empty())
    out.mode = "ExactCount";
  // The API server defaults an absent count; a stored 0 is one that only All may have.
  out.count = json.At("count").Int(1);
  if (out.count == 0 && out.mode == "ExactCount")
    out.count = 1;
  out.admin_access = !subrequest && json.At("adminAccess").Bool();
  json.At("tolerations").ForEach([&](const Reader& item) {
    Toleration toleration{item.At("key").Text(), item.At("operator").Text(),
                          item.At("value").Text(), item.At("effect").Text(), std::nullopt};
    if (const Reader seconds = item.At("tolerationSeconds"); !seconds.Absent())
      toleration.seconds = seconds.Int();
    out.tolerations.push_back(std::move(toleration));
  });
  out.capacity = json.At("capacity").At("requests").Amounts();
  return out;
}

ClaimSpec ReadClaimSpec(const Reader& spec) {
  ClaimSpec out;
  const Reader devices = spec.At("devices");
  devices.At("requests").ForEach([&](const Reader& item) {
    DeviceRequest request;
    request.name = item.At("name").Text();
    if (const Reader exactly = item.At("exactly"); !exactly.Absent())
      request.exactly = ReadExact(exactly, request.name, /*subrequest=*/false);
    item.At("firstAvailable").ForEach([&](const Reader& alternative) {
      request.first_available.push_back(
          ReadExact(alternative, alternative.At("name").Text(), /*subrequest=*/true));
    });
    out.requests.push_back(std::move(request));
  });
  devices.At("constraints").ForEach([&](const Reader& item) {
    out.constraints.push_back({item.At("requests").Texts(), item.At("matchAttribute").Text(),
                               item.At("distinctAttribute").Text()});
  });
  return out;
}

ClaimAllocation ReadAllocation(const Reader& json) {
  ClaimAllocation out;
  json.At("devices").At("results").ForEach([&](const Reader& item) {
    DeviceResult result;
    result.request = item.At("request").Text();
    result.driver = item.At("driver").Text();
    result.pool = item.At("pool").Text();
    result.device = item.At("device").Text();
    result.admin_access = item.At("adminAccess").Bool();
    result.share_id = item.At("shareID").Text();
    result.consumed = item.At("consumedCapacity").Amounts();
    out.results.push_back(std::move(result));
  });
  out.node_selector = ReadNodeSelector(json.At("nodeSelector"));
  return out;
}

tl::unexpected<Error> Problem(std::string_view kind, const ObjectMeta& meta,
                              const std::string& problem) {
  return Fail(ErrorCode::kInvalid,
              std::string(kind) + " " + meta.Key().ToString() + ": " + problem);
}

}  // namespace

bool IsListAttribute(const cel::AttributeValue& value) {
  return std::visit(
      [](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        return !std::is_same_v<T, int64_t> && !std::is_same_v<T, bool> &&
               !std::is_same_v<T, std::string> && !std::is_same_v<T, cel::Version>;
      },
      value);
}

bool SameAttribute(const cel::AttributeValue& a, const cel::AttributeValue& b) {
  if (a.index() != b.index())
    return false;
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        const T& other = std::get<T>(b);
        if constexpr (std::is_same_v<T, cel::Version>) {
          return value.text == other.text;
        } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, bool> ||
                             std::is_same_v<T, std::string>) {
          return value == other;
        } else {
          return false;
        }
      },
      a);
}

namespace {

// Unlike SameAttribute, lists are compared.
bool SameValue(const cel::AttributeValue& a, const cel::AttributeValue& b) {
  if (a.index() != b.index() || !IsListAttribute(a))
    return SameAttribute(a, b);
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        const T& other = std::get<T>(b);
        if constexpr (std::is_same_v<T, std::vector<cel::Version>>) {
          return std::equal(
              value.begin(), value.end(), other.begin(), other.end(),
              [](const cel::Version& x, const cel::Version& y) { return x.text == y.text; });
        } else if constexpr (std::is_same_v<T, cel::Version>) {
          return value.text == other.text;
        } else {
          return value == other;
        }
      },
      a);
}

bool SameFacts(const cel::SelectorDevice& a, const cel::SelectorDevice& b) {
  const auto same_ids = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& p, const auto& q) {
      return p.first == q.first && SameValue(p.second, q.second);
    });
  };
  return a.driver == b.driver && a.allow_multiple_allocations == b.allow_multiple_allocations &&
         std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(),
                    b.attributes.end(),
                    [&](const auto& p, const auto& q) {
                      return p.first == q.first && same_ids(p.second, q.second);
                    }) &&
         a.capacity == b.capacity;
}

}  // namespace

bool operator==(const Device& a, const Device& b) {
  return a.name == b.name && a.capacity == b.capacity && a.consumes == b.consumes &&
         a.taints == b.taints && a.node_name == b.node_name && a.node_selector == b.node_selector &&
         a.all_nodes == b.all_nodes && a.binds_to_node == b.binds_to_node &&
         a.binding_conditions == b.binding_conditions &&
         a.binding_failure_conditions == b.binding_failure_conditions &&
         SameFacts(a.facts, b.facts);
}

bool SameSpec(const ResourceSlice& a, const ResourceSlice& b) {
  return a.driver == b.driver && a.pool == b.pool && a.generation == b.generation &&
         a.slice_count == b.slice_count && a.node_name == b.node_name &&
         a.node_selector == b.node_selector && a.all_nodes == b.all_nodes &&
         a.per_device_nodes == b.per_device_nodes && a.devices == b.devices &&
         a.shared_counters == b.shared_counters;
}

const cel::AttributeValue* FindAttribute(const Device& device, std::string_view qualified_name) {
  const size_t slash = qualified_name.find('/');
  if (slash == std::string_view::npos)
    return nullptr;
  const auto domain = device.facts.attributes.find(std::string(qualified_name.substr(0, slash)));
  if (domain == device.facts.attributes.end())
    return nullptr;
  const auto id = domain->second.find(std::string(qualified_name.substr(slash + 1)));
  return id == domain->second.end() ? nullptr : &id->second;
}

Result<ResourceSlice> ResourceSliceFromJson(const Json& json) {
  ResourceSlice out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "ResourceSlice"));
  std::string problem;
  const Reader object(json, problem);
  const Reader spec = object.At("spec");
  out.driver = spec.At("driver").Text();
  const Reader pool = spec.At("pool");
  out.pool = pool.At("name").Text();
  out.generation = pool.At("generation").Int();
  out.slice_count = pool.At("resourceSliceCount").Int();
  out.node_name = spec.At("nodeName").Text();
  out.node_selector = ReadNodeSelector(spec.At("nodeSelector"));
  out.all_nodes = spec.At("allNodes").Bool();
  out.per_device_nodes = spec.At("perDeviceNodeSelection").Bool();
  spec.At("devices").ForEach(
      [&](const Reader& item) { out.devices.push_back(ReadDevice(item, out.driver)); });
  spec.At("sharedCounters").ForEach([&](const Reader& item) {
    out.shared_counters.push_back({item.At("name").Text(), {}});
    item.At("counters").ForEachMember([&](const std::string& name, const Reader& counter) {
      out.shared_counters.back().counters[name] = counter.At("value").Amount();
    });
  });
  if (!problem.empty())
    return Problem("ResourceSlice", out.meta, problem);
  return out;
}

Result<DeviceClass> DeviceClassFromJson(const Json& json) {
  DeviceClass out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "DeviceClass"));
  std::string problem;
  const Reader object(json, problem);
  const Reader spec = object.At("spec");
  out.selectors = ReadSelectors(spec.At("selectors"));
  out.extended_resource_name = spec.At("extendedResourceName").Text();
  if (!problem.empty())
    return Problem("DeviceClass", out.meta, problem);
  return out;
}

Result<ResourceClaim> ResourceClaimFromJson(const Json& json) {
  ResourceClaim out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "ResourceClaim"));
  std::string problem;
  const Reader object(json, problem);
  out.spec = ReadClaimSpec(object.At("spec"));
  const Reader status = object.At("status");
  if (const Reader allocation = status.At("allocation"); !allocation.Absent())
    out.allocation = ReadAllocation(allocation);
  status.At("reservedFor").ForEach([&](const Reader& item) {
    out.reserved_for.push_back({item.At("apiGroup").Text(), item.At("resource").Text(),
                                item.At("name").Text(), item.At("uid").Text()});
  });
  if (!problem.empty())
    return Problem("ResourceClaim", out.meta, problem);
  return out;
}

Result<ResourceClaimTemplate> ResourceClaimTemplateFromJson(const Json& json) {
  ResourceClaimTemplate out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "ResourceClaimTemplate"));
  std::string problem;
  const Reader object(json, problem);
  out.spec = ReadClaimSpec(object.At("spec").At("spec"));
  if (!problem.empty())
    return Problem("ResourceClaimTemplate", out.meta, problem);
  return out;
}

}  // namespace tutti::api
