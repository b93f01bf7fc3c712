// SPDX-License-Identifier: Apache-2.0
// Asks the API server what it can do: the version, the list of groups, then the resources of the
// five groups that matter, also of versions that the list doesn't name. One request after the
// other; runs once at start.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/names.h"
#include "kube/client.h"

namespace tutti::kube {
namespace {

constexpr std::string_view kScheduling = "scheduling.k8s.io";
constexpr std::string_view kAdmission = "admissionregistration.k8s.io";
constexpr std::string_view kDevices = "resource.k8s.io";
constexpr std::string_view kAutoscaling = "autoscaling.x-k8s.io";
constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
    {kScheduling, "v1beta1"}, {kScheduling, "v1alpha2"},       {kAdmission, "v1"},
    {kDevices, "v1"},         {names::kKueueGroup, "v1beta2"}, {names::kKueueGroup, "v1beta1"},
};

struct Search : std::enable_shared_from_this<Search> {
  Client* client = nullptr;
  std::function<void(Result<Discovery>)> done;
  Discovery found;
  std::vector<std::pair<std::string, std::string>> to_ask;  // group, version; last first

  void Start() {
    client->GetPath("/version", [self = shared_from_this()](Result<Json> answer) {
      if (!answer) {
        self->done(Fail(answer.error().With("/version")));
        return;
      }
      self->found.git_version = (*answer)["gitVersion"].AsString();
      // "36+" on some distributions
      self->found.major = std::atoi((*answer)["major"].AsString().c_str());
      self->found.minor = std::atoi((*answer)["minor"].AsString().c_str());
      self->AskGroups();
    });
  }

  void AskGroups() {
    client->GetPath("/apis", [self = shared_from_this()](Result<Json> answer) {
      if (!answer) {
        self->done(Fail(answer.error().With("/apis")));
        return;
      }
      for (const Json& group : (*answer)["groups"].AsArray()) {
        const std::string& name = group["name"].AsString();
        if (name != kScheduling && name != kAdmission && name != kDevices && name != kAutoscaling &&
            name != names::kKueueGroup) {
          continue;
        }
        for (const Json& version : group["versions"].AsArray()) {
          self->to_ask.emplace_back(name, version["version"].AsString());
        }
      }
      // A server that has just started lists its groups late, but serves them.
      for (const auto& [group, version] : kKnown) {
        const std::pair<std::string, std::string> known(group, version);
        if (std::find(self->to_ask.begin(), self->to_ask.end(), known) == self->to_ask.end()) {
          self->to_ask.push_back(known);
        }
      }
      std::reverse(self->to_ask.begin(), self->to_ask.end());
      self->AskNext();
    });
  }

  void AskNext() {
    if (to_ask.empty()) {
      done(std::move(found));
      return;
    }
    const auto [group, version] = to_ask.back();
    to_ask.pop_back();
    const std::string target = "/apis/" + group + "/" + version;
    client->GetPath(target, [self = shared_from_this(), group = group, version = version,
                             target](Result<Json> answer) {
      // A version can vanish between the two requests, and a CRD's is served a moment late.
      if (!answer && answer.error().code != ErrorCode::kNotFound) {
        self->done(Fail(answer.error().With(target)));
        return;
      }
      if (answer) {
        self->Take(group, version, (*answer)["resources"]);
      }
      self->AskNext();
    });
  }

  void Take(const std::string& group, const std::string& version, const Json& resources) {
    std::vector<std::string> plurals;
    for (const Json& resource : resources.AsArray()) {
      const std::string& name = resource["name"].AsString();
      if (name.find('/') == std::string::npos) {
        plurals.push_back(name);
      }
    }
    std::sort(plurals.begin(), plurals.end());
    const auto has = [&](std::string_view name) {
      return std::find(plurals.begin(), plurals.end(), name) != plurals.end();
    };
    if (group == kScheduling && has("podgroups")) {
      found.podgroup_versions.push_back(version);
    }
    if (group == kAdmission && version == "v1") {
      found.mutating_admission_policies = has("mutatingadmissionpolicies");
      found.validating_admission_policies = has("validatingadmissionpolicies");
    }
    if (group == kDevices && version == "v1") {
      found.devices = has("resourceslices") && has("deviceclasses") && has("resourceclaims") &&
                      has("resourceclaimtemplates");
    }
    if (group == kAutoscaling && version == "v1") {
      found.provisioning_requests = has("provisioningrequests");
    }
    if (group == names::kKueueGroup) {
      found.kueue_versions.push_back(version);
      found.kueue_resources[version] = std::move(plurals);
    }
  }
};

}  // namespace

void Client::Discover(std::function<void(Result<Discovery>)> done) {
  auto search = std::make_shared<Search>();
  search->client = this;
  search->done = std::move(done);
  search->Start();
}

}  // namespace tutti::kube
