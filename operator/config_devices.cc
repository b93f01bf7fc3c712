// SPDX-License-Identifier: Apache-2.0
#include "operator/config_devices.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "api/cel/device_selector.h"
#include "operator/syntax.h"

namespace tutti {
namespace {

using Source = engine::DeviceQuotaSource;

constexpr size_t kMaxMappings = 16;
constexpr size_t kMaxClasses = 8;
constexpr size_t kMaxName = 253;
constexpr size_t kMaxDriver = 63;

void CheckName(Section* section, const std::string& field, const std::string& name) {
  if (const std::string problem = syntax::CheckQualifiedName(name); !problem.empty()) {
    section->Report(field, problem);
  } else if (name.size() > kMaxName) {
    section->Report(field, "must be at most 253 characters");
  }
}

Source ReadSource(Section* source, Source::Kind kind) {
  Source out;
  out.kind = kind;
  source->Text("name", &out.name);
  source->Text("driver", &out.driver);
  if (out.name.empty()) {
    source->Report("name", "is required");
  } else {
    CheckName(source, "name", out.name);
  }
  if (out.driver.empty()) {
    source->Report("driver", "is required");
  } else if (const std::string problem = syntax::CheckSubdomain(out.driver); !problem.empty()) {
    source->Report("driver", problem);
  } else if (out.driver.size() > kMaxDriver) {
    source->Report("driver", "must be at most 63 characters");
  }
  Section selector = source->Sub("deviceSelector");
  Section cel = selector.Sub("cel");
  cel.Text("expression", &out.selector);
  if (out.selector.empty()) {
    cel.Report("expression", "is required; \"true\" matches every device of the driver");
  } else if (const auto compiled = api::cel::DeviceSelector::Compile(out.selector); !compiled) {
    cel.Report("expression", compiled.error().message);
  }
  cel.Finish();
  selector.Finish();
  source->Finish();
  return out;
}

void ReadSources(Section* mapping, const FeatureGates& gates, std::vector<Source>* out) {
  bool counters = false;
  bool capacities = false;
  size_t at = 0;
  for (const Json& item : mapping->Items("sources")) {
    Section entry = mapping->Item("sources", at++, item);
    const bool counter = entry.Present("counter");
    const bool capacity = entry.Present("capacity");
    counters = counters || counter;
    capacities = capacities || capacity;
    if (counter == capacity) {
      entry.Report(counter ? "capacity" : "counter",
                   "exactly one of counter and capacity must be set");
      continue;
    }
    if (counter && !gates.Enabled("KueueDRAIntegrationPartitionableDevices")) {
      entry.Report("counter", "needs the feature gate KueueDRAIntegrationPartitionableDevices");
    }
    if (capacity && !gates.Enabled("KueueDRAIntegrationConsumableCapacity")) {
      entry.Report("capacity", "needs the feature gate KueueDRAIntegrationConsumableCapacity");
    }
    Section source = entry.Sub(counter ? "counter" : "capacity");
    out->push_back(ReadSource(&source, counter ? Source::Kind::kCounter : Source::Kind::kCapacity));
    entry.Finish();
  }
  if (counters && capacities) {
    mapping->Report("sources", "counters and capacities can't be mixed in one mapping");
  }
}

}  // namespace

std::vector<engine::DeviceClassMapping> ReadDeviceClassMappings(Section* resources,
                                                                const FeatureGates& gates) {
  std::vector<engine::DeviceClassMapping> out;
  const Json::Array& items = resources->Items("deviceClassMappings");
  if (items.size() > kMaxMappings) {
    resources->Report("deviceClassMappings", "at most 16 mappings");
  }
  std::set<std::string> names;
  // Of each class its first resource, and the counters that it is charged by.
  std::map<std::string, std::pair<std::string, std::set<std::string>>> classes;
  size_t at = 0;
  for (const Json& item : items) {
    Section section = resources->Item("deviceClassMappings", at++, item);
    engine::DeviceClassMapping mapping;
    section.Text("name", &mapping.resource);
    CheckName(&section, "name", mapping.resource);
    if (!names.insert(mapping.resource).second) {
      section.Report("name", "'" + mapping.resource + "' is there twice");
    }
    section.Texts("deviceClassNames", &mapping.classes);
    ReadSources(&section, gates, &mapping.sources);
    if (mapping.classes.empty()) {
      section.Report("deviceClassNames", "at least one name is required");
    } else if (mapping.classes.size() > kMaxClasses) {
      section.Report("deviceClassNames", "at most 8 names");
    }
    const bool counted =
        !mapping.sources.empty() && mapping.sources[0].kind == Source::Kind::kCounter;
    const std::string counter = counted ? mapping.sources[0].name : "";
    std::set<std::string> here;
    for (size_t i = 0; i < mapping.classes.size(); ++i) {
      const std::string& name = mapping.classes[i];
      const std::string field = "deviceClassNames[" + std::to_string(i) + "]";
      CheckName(&section, field, name);
      if (!here.insert(name).second) {
        section.Report(field, "'" + name + "' is there twice");
        continue;
      }
      const auto [known, is_new] =
          classes.try_emplace(name, mapping.resource, std::set<std::string>{});
      std::set<std::string>& counters = known->second.second;
      if (!is_new && (counter.empty() || counters.empty())) {
        section.Report(field, "'" + name + "' is mapped to " + known->second.first +
                                  " already; only mappings by different counters may share a "
                                  "class");
      } else if (!counter.empty() && !counters.insert(counter).second) {
        section.Report(field, "'" + name + "' is charged by counter " + counter + " already");
      }
    }
    section.Finish();
    out.push_back(std::move(mapping));
  }
  return out;
}

}  // namespace tutti
