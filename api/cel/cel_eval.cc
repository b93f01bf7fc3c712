// SPDX-License-Identifier: Apache-2.0
// cel_eval: evaluates selectors for the differential test e2e/celdiff. Reads one JSON object a
// line,
//   {"expression": "…", "lists": false, "devices": [{"driver": "d", "multi": false,
//    "attributes": [{"domain": "d", "id": "a", "type": "int|bool|string|version|ints|bools|strings|
//    versions", "value": …}], "capacity": [{"domain": "d", "id": "m", "value": "1Gi"}]}]}
// and writes one, in the same order:
//   {"compile": "" or the error, "results": [{"value": "true|false|error", "message": "…", "cost":
//   7}]}
#include <iostream>
#include <string>
#include <utility>

#include "api/cel/device_selector.h"
#include "base/json.h"

namespace tutti::api::cel {
namespace {

template <typename T, typename Read>
std::vector<T> ReadList(const Json& json, Read read) {
  std::vector<T> out;
  for (const Json& item : json.AsArray()) {
    out.push_back(read(item));
  }
  return out;
}

AttributeValue ReadAttribute(const std::string& type, const Json& value) {
  const auto to_int = [](const Json& json) { return json.AsInt(); };
  const auto to_bool = [](const Json& json) { return json.AsBool(); };
  const auto to_text = [](const Json& json) { return json.AsString(); };
  const auto to_version = [](const Json& json) { return Version{json.AsString()}; };
  if (type == "int") {
    return to_int(value);
  }
  if (type == "bool") {
    return to_bool(value);
  }
  if (type == "version") {
    return to_version(value);
  }
  if (type == "ints") {
    return ReadList<int64_t>(value, to_int);
  }
  if (type == "bools") {
    return ReadList<bool>(value, to_bool);
  }
  if (type == "strings") {
    return ReadList<std::string>(value, to_text);
  }
  if (type == "versions") {
    return ReadList<Version>(value, to_version);
  }
  return to_text(value);
}

// False: a capacity that is no quantity.
bool ReadDevice(const Json& json, SelectorDevice& out) {
  out.driver = json["driver"].AsString();
  out.allow_multiple_allocations = json["multi"].AsBool();
  for (const Json& item : json["attributes"].AsArray()) {
    out.attributes[item["domain"].AsString()][item["id"].AsString()] =
        ReadAttribute(item["type"].AsString(), item["value"]);
  }
  for (const Json& item : json["capacity"].AsArray()) {
    Result<Quantity> quantity = Quantity::Parse(item["value"].AsString());
    if (!quantity) {
      return false;
    }
    out.capacity[item["domain"].AsString()][item["id"].AsString()] = std::move(*quantity);
  }
  return true;
}

// Empty: the line is not what is expected.
std::string Answer(const std::string& line) {
  const Result<Json> request = Json::Parse(line);
  if (!request) {
    return {};
  }
  Features features;
  features.list_type_attributes = (*request)["lists"].AsBool();
  const auto selector = DeviceSelector::Compile((*request)["expression"].AsString(), features);
  Json::Array results;
  if (selector) {
    for (const Json& item : (*request)["devices"].AsArray()) {
      SelectorDevice device;
      if (!ReadDevice(item, device)) {
        return {};
      }
      const Result<bool> matches = (*selector)->Matches(device);
      Json result = Json::Obj();
      result.Set("value", matches ? (*matches ? "true" : "false") : "error");
      result.Set("message", matches ? std::string() : matches.error().message);
      result.Set("cost", static_cast<int64_t>((*selector)->CostForTest(device)));
      results.push_back(std::move(result));
    }
  }
  Json answer = Json::Obj();
  answer.Set("compile", selector ? std::string() : selector.error().message);
  answer.Set("results", Json(std::move(results)));
  return answer.Dump();
}

}  // namespace
}  // namespace tutti::api::cel

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::string answer = tutti::api::cel::Answer(line);
    if (answer.empty()) {
      std::cerr << "cel_eval: not a request: " << line.substr(0, 200) << "\n";
      return 1;
    }
    std::cout << answer << "\n" << std::flush;
  }
  return 0;
}
