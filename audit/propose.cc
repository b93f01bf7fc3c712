// SPDX-License-Identifier: Apache-2.0
#include "audit/propose.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "audit/yaml_text.h"
#include "base/names.h"

namespace tutti::audit {
namespace {

constexpr size_t kMostJobs = 20;
constexpr std::string_view kQueue = "main";
constexpr std::string_view kCohort = "all";
constexpr std::string_view kPlainFlavor = "default-flavor";
// Labels that tell kinds of accelerators apart, the most telling first.
constexpr std::array<std::string_view, 4> kKinds = {
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
    "amd.com/gpu.product-name"};

// A name that Kubernetes takes.
std::string NameFrom(std::string_view text) {
  constexpr size_t kLongest = 50;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const char lower = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    const bool good = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (good || (!out.empty() && out.back() != '-')) {
      out += good ? lower : '-';
    }
  }
  while (!out.empty() && out.back() == '-') {
    out.pop_back();
  }
  return out.empty() ? std::string(kPlainFlavor) : out;
}

struct Flavor {
  std::string name;
  api::StringMap labels;
};

Flavor FlavorOf(const NodeFacts& node) {
  for (const std::string_view key : kKinds) {
    if (const std::string* value = api::FindIn(node.labels, key)) {
      return {NameFrom(*value), {{std::string(key), *value}}};
    }
  }
  return {std::string(kPlainFlavor), {}};
}

bool Counted(const std::string& resource) {
  return resource == "cpu" || resource == "memory" || IsAccelerator(resource);
}

// The most that a namespace's gangs held of a flavor at once.
using Peaks = std::map<std::string, std::map<std::string, api::Amounts>>;  // namespace, flavor

Peaks PeaksOf(const Audit& audit) {
  struct Step {
    Time at;
    const api::Amounts* amounts;
    int sign;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Step>> steps;
  for (const Gang& gang : audit.facts.gangs) {
    for (const PodTimes& pod : gang.pods) {
      if (pod.bound == kNoTime) {
        continue;
      }
      auto& list = steps[{gang.ns, FlavorOf(audit.facts.nodes[pod.node]).name}];
      list.push_back({pod.bound, &pod.shape->requests, 1});
      if (pod.ended) {
        list.push_back({*pod.ended, &pod.shape->requests, -1});
      }
    }
  }
  Peaks out;
  for (auto& [key, list] : steps) {
    // At the same time first what goes, then what comes.
    std::stable_sort(list.begin(), list.end(), [](const Step& a, const Step& b) {
      return std::pair(a.at, a.sign) < std::pair(b.at, b.sign);
    });
    api::Amounts now;
    api::Amounts& peak = out[key.first][key.second];
    for (const Step& step : list) {
      api::AddTo(now, *step.amounts, step.sign);
      api::MaxInto(peak, now);
    }
  }
  return out;
}

Json Object(std::string_view kind, const std::string& name, const std::string& ns, Json spec) {
  Json metadata = Json::Obj({{"name", name}});
  if (!ns.empty()) {
    metadata.Set("namespace", ns);
  }
  return Json::Obj({{"apiVersion", names::kKueueVersion},
                    {"kind", kind},
                    {"metadata", std::move(metadata)},
                    {"spec", std::move(spec)}});
}

class Proposer {
 public:
  explicit Proposer(const Audit& audit) : audit_(audit), peaks_(PeaksOf(audit)) {}

  std::vector<ProposedFile> Run() {
    Flavors();
    for (const auto& [ns, flavors] : peaks_) {
      Queue(ns, flavors);
    }
    size_t jobs = 0;
    for (const size_t index : audit_.worst) {
      if (jobs == kMostJobs) {
        break;
      }
      jobs += Job(audit_.facts.gangs[audit_.histories.gangs[index].gang]) ? 1 : 0;
    }
    std::sort(out_.begin(), out_.end(),
              [](const ProposedFile& a, const ProposedFile& b) { return a.path < b.path; });
    return std::move(out_);
  }

 private:
  void Flavors() {
    std::set<std::string> used;
    for (const auto& [ns, flavors] : peaks_) {
      for (const auto& [flavor, peak] : flavors) {
        used.insert(flavor);
        for (const auto& [resource, amount] : peak) {
          if (Counted(resource) && amount > 0) {
            resources_.insert(resource);
          }
        }
      }
    }
    for (const NodeFacts& node : audit_.facts.nodes) {
      const Flavor flavor = FlavorOf(node);
      if (used.erase(flavor.name) > 0) {
        flavors_.push_back(flavor.name);
        Json spec = Json::Obj();
        if (!flavor.labels.empty()) {
          spec.Set("nodeLabels", api::ToJson(flavor.labels));
        }
        New("queues/flavor-" + flavor.name,
            Object("ResourceFlavor", flavor.name, "", std::move(spec)));
      }
    }
    std::sort(flavors_.begin(), flavors_.end());
  }

  // What it held at most, of each flavor; unused parts are lent to the other queues.
  void Queue(const std::string& ns, const std::map<std::string, api::Amounts>& peaks) {
    Json flavors = Json::Arr();
    for (const std::string& flavor : flavors_) {
      const auto found = peaks.find(flavor);
      Json resources = Json::Arr();
      for (const std::string& resource : resources_) {
        int64_t quota = 0;
        if (found != peaks.end()) {
          if (const auto amount = found->second.find(resource); amount != found->second.end()) {
            quota = amount->second;
          }
        }
        resources.Push(
            Json::Obj({{"name", resource}, {"nominalQuota", api::FormatAmount(resource, quota)}}));
      }
      flavors.Push(Json::Obj({{"name", flavor}, {"resources", std::move(resources)}}));
    }
    Json covered = Json::Arr();
    for (const std::string& resource : resources_) {
      covered.Push(resource);
    }
    Json spec = Json::Obj(
        {{"cohortName", kCohort},
         {"namespaceSelector",
          Json::Obj({{"matchLabels", Json::Obj({{"kubernetes.io/metadata.name", ns}})}})},
         {"resourceGroups", Json::Arr({Json::Obj({{"coveredResources", std::move(covered)},
                                                  {"flavors", std::move(flavors)}})})}});
    New("queues/cluster-queue-" + ns, Object("ClusterQueue", ns, "", std::move(spec)));
    New("queues/local-queue-" + ns,
        Object("LocalQueue", std::string(kQueue), ns, Json::Obj({{"clusterQueue", ns}})));
  }

  bool Job(const Gang& gang) {
    if (gang.manifest.empty() || !gang.queue.empty()) {
      return false;  // not a Job or JobSet, or in a queue already
    }
    const Result<Json> before = Json::Parse(gang.manifest);
    if (!before) {
      return false;
    }
    Json after = *before;
    after.At("metadata").At("labels").Set(names::kQueueNameLabel, kQueue);
    out_.push_back({"jobs/" + gang.ns + "/" + gang.name + ".yaml", ToYaml(*before), ToYaml(after)});
    return true;
  }

  void New(const std::string& path, const Json& object) {
    out_.push_back({path + ".yaml", "", ToYaml(object)});
  }

  const Audit& audit_;
  const Peaks peaks_;
  std::vector<std::string> flavors_;
  std::set<std::string> resources_;
  std::vector<ProposedFile> out_;
};

}  // namespace

std::vector<ProposedFile> Propose(const Audit& audit) {
  return Proposer(audit).Run();
}

}  // namespace tutti::audit
