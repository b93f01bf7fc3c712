// SPDX-License-Identifier: Apache-2.0
#include "measure/recorder.h"

#include <array>
#include <utility>

#include "base/names.h"
#include "measure/ledger.h"

namespace tutti::measure {
namespace {

// So long what is gone is looked at: a job may be deleted before its pods are.
constexpr Duration kKeptAfterDeletion = std::chrono::minutes(10);
constexpr std::string_view kJobSetUid = "jobset.sigs.k8s.io/jobset-uid";

void EraseAll(Json& object, std::initializer_list<const char*> fields) {
  if (object.IsObject()) {
    for (const char* field : fields) {
      object.Erase(field);
    }
  }
}

void SlimPodSpec(Json& spec) {
  if (!spec.IsObject()) {
    return;
  }
  EraseAll(spec, {"volumes", "affinity", "topologySpreadConstraints", "tolerations",
                  "securityContext", "imagePullSecrets", "hostAliases", "dnsConfig"});
  for (const char* list : {"containers", "initContainers", "ephemeralContainers"}) {
    if (!spec[list].IsArray()) {
      continue;
    }
    for (Json& container : spec.At(list).MutableArray()) {
      EraseAll(container, {"env", "envFrom", "command", "args", "image", "imagePullPolicy",
                           "volumeMounts", "volumeDevices", "livenessProbe", "readinessProbe",
                           "startupProbe", "lifecycle", "securityContext", "ports",
                           "terminationMessagePath", "terminationMessagePolicy", "workingDir"});
    }
  }
}

// Templates of pods, wherever they are in a kind of job.
void SlimTemplates(Json& value) {
  if (value.IsArray()) {
    for (Json& item : value.MutableArray()) {
      SlimTemplates(item);
    }
  }
  if (!value.IsObject()) {
    return;
  }
  for (auto& [key, member] : value.MutableObject()) {
    if (key == "template" && member["spec"]["containers"].IsArray()) {
      SlimPodSpec(member.At("spec"));
    } else if (member.IsObject() || member.IsArray()) {
      SlimTemplates(member);
    }
  }
}

const Json* ControllerOf(const Json& object) {
  for (const Json& owner : object["metadata"]["ownerReferences"].AsArray()) {
    if (owner["controller"].AsBool()) {
      return &owner;
    }
  }
  return nullptr;
}

std::string UnitOf(const Json& object, const std::string& kind) {
  const Json& metadata = object["metadata"];
  const Json& labels = metadata["labels"];
  if (kind != "Pod") {
    return metadata["uid"].AsString();
  }
  if (const std::string& set = labels[kJobSetUid].AsString(); !set.empty()) {
    return set;
  }
  if (const std::string& group = labels[names::kPodGroupName].AsString(); !group.empty()) {
    return "group " + metadata["namespace"].AsString() + "/" + group;
  }
  if (const Json* owner = ControllerOf(object)) {
    return (*owner)["uid"].AsString();
  }
  return metadata["uid"].AsString();
}

}  // namespace

Slim MakeSlim(Json object, const std::string& kind, const std::string& version) {
  object.Set("kind", kind);
  object.Set("apiVersion", version);
  if (object["metadata"].IsObject()) {
    EraseAll(object.At("metadata"), {"managedFields"});
    if (object["metadata"]["annotations"].IsObject()) {
      EraseAll(object.At("metadata").At("annotations"),
               {"kubectl.kubernetes.io/last-applied-configuration"});
    }
  }
  Slim out;
  out.pod = kind == "Pod";
  out.unit = UnitOf(object, kind);
  out.name = kind + " " + version.substr(0, version.find('/')) + " " +
             object["metadata"]["namespace"].AsString() + "/" +
             object["metadata"]["name"].AsString();
  out.id = out.name + " " + object["metadata"]["uid"].AsString();
  if (out.pod) {
    SlimPodSpec(object.At("spec"));
    audit::PodTimes times;
    times.uid = object["metadata"]["uid"].AsString();
    times.name = object["metadata"]["name"].AsString();
    if (const Result<Time> created =
            ParseTime(object["metadata"]["creationTimestamp"].AsString())) {
      times.created = *created;
    }
    out.pod_id = PodId(object["metadata"]["namespace"].AsString(), times);
  } else if (kind == "Node") {
    if (object["status"].IsObject()) {
      EraseAll(object.At("status"), {"images", "nodeInfo", "volumesInUse", "volumesAttached"});
    }
  } else if (object["spec"].IsObject()) {
    SlimTemplates(object.At("spec"));
  }
  out.text = object.Dump();
  return out;
}

Recorder::Recorder() = default;

void Recorder::Take(std::shared_ptr<const Slim> object, bool deleted, Time now) {
  const std::string& id = object->id;
  Entry& entry = objects_[id];
  if (object->pod) {
    if (entry.object != nullptr && entry.object->unit != object->unit) {
      pods_of_[entry.object->unit].erase(id);
      dirty_.insert(entry.object->unit);
    }
    pods_of_[object->unit].insert(id);
  } else {
    others_.insert(id);
    others_changed_ = true;
  }
  dirty_.insert(object->unit);
  entry.object = std::move(object);
  if (deleted) {
    entry.gone = now;
    gone_[now].insert(id);
  } else {
    entry.gone = kNoTime;
  }
}

void Recorder::Forget(Time now) {
  while (!gone_.empty() && gone_.begin()->first + kKeptAfterDeletion < now) {
    for (const std::string& id : gone_.begin()->second) {
      const auto found = objects_.find(id);
      if (found == objects_.end() || found->second.gone != gone_.begin()->first) {
        continue;
      }
      const Slim& object = *found->second.object;
      if (const auto unit = pods_of_.find(object.unit); object.pod && unit != pods_of_.end()) {
        unit->second.erase(id);
        if (unit->second.empty()) {
          pods_of_.erase(unit);
        }
      }
      others_.erase(id);
      objects_.erase(found);
    }
    gone_.erase(gone_.begin());
  }
}

std::set<std::string> Recorder::Replaced() const {
  std::map<std::string, std::pair<Time, std::string>> newest;  // by name; what is there is newest
  std::set<std::string> out;
  for (const std::string& id : others_) {
    const Entry& entry = objects_.at(id);
    const Time gone = entry.gone == kNoTime ? Time::max() : entry.gone;
    const auto [known, fresh] = newest.try_emplace(entry.object->name, gone, id);
    if (fresh) {
      continue;
    }
    if (gone > known->second.first) {
      out.insert(std::exchange(known->second, {gone, id}).second);
    } else {
      out.insert(id);
    }
  }
  return out;
}

audit::Facts Recorder::CollectThose(Time now, const std::set<std::string>& replaced, bool earlier) {
  audit::CollectOptions options;
  options.for_ledger = true;
  options.now = now;
  audit::Collector collector(options);
  std::map<std::string, Time> gone_jobs;  // by UID
  const auto take = [&](const Entry& entry) {
    Result<Json> json = Json::Parse(entry.object->text);
    if (!json) {
      return;
    }
    if (entry.gone != kNoTime && entry.object->pod) {
      Json& metadata = json->At("metadata");
      if (!metadata.Has("deletionTimestamp")) {
        metadata.Set("deletionTimestamp", FormatTime(entry.gone));
        metadata.Set("deletionGracePeriodSeconds", 0);
      }
    } else if (entry.gone != kNoTime) {
      gone_jobs[(*json)["metadata"]["uid"].AsString()] = entry.gone;
    }
    collector.Take(*json, "the cluster");
  };
  std::set<std::string> replaced_units;
  for (const std::string& id : others_) {
    const Entry& entry = objects_.at(id);
    const bool is_replaced = replaced.contains(id);
    if (is_replaced) {
      replaced_units.insert(entry.object->unit);
    }
    const bool node = entry.object->name.starts_with("Node ");
    if (node ? entry.gone == kNoTime : is_replaced == earlier) {
      take(entry);
    }
  }
  for (const std::string& unit : dirty_) {
    const auto pods = pods_of_.find(unit);
    if (pods != pods_of_.end() && replaced_units.contains(unit) == earlier) {
      for (const std::string& id : pods->second) {
        take(objects_.at(id));
      }
    }
  }
  audit::Facts facts = collector.Finish();
  for (audit::Gang& gang : facts.gangs) {
    if (const auto gone = gone_jobs.find(gang.uid); gone != gone_jobs.end() && !gang.finished) {
      gang.finished = true;
      gang.active = 0;
      gang.ended = gang.ended ? std::min(*gang.ended, gone->second) : gone->second;
    }
  }
  return facts;
}

audit::Facts Recorder::Collect(Time now) {
  Forget(now);
  const std::set<std::string> replaced = Replaced();
  audit::Facts facts = CollectThose(now, replaced, /*earlier=*/false);
  if (!replaced.empty()) {
    audit::Facts before = CollectThose(now, replaced, /*earlier=*/true);
    std::map<std::string, uint32_t> index;
    for (size_t i = 0; i < facts.nodes.size(); ++i) {
      index[facts.nodes[i].name] = static_cast<uint32_t>(i);
    }
    const auto move_to = [&](audit::PodTimes& pod) {
      const audit::NodeFacts& node = before.nodes[pod.node];
      const auto [known, fresh] =
          index.try_emplace(node.name, static_cast<uint32_t>(facts.nodes.size()));
      if (fresh) {
        facts.nodes.push_back(node);
      }
      pod.node = known->second;
    };
    for (audit::Gang& gang : before.gangs) {
      for (audit::PodTimes& pod : gang.pods) {
        move_to(pod);
      }
      facts.gangs.push_back(std::move(gang));
    }
    for (audit::OtherPod& pod : before.others) {
      move_to(pod.times);
      facts.others.push_back(std::move(pod));
    }
  }
  dirty_.clear();
  others_changed_ = false;
  return facts;
}

void Recorder::TouchAll() {
  for (const auto& [unit, pods] : pods_of_) {
    dirty_.insert(unit);
  }
}

std::set<std::string> Recorder::Alive() const {
  std::set<std::string> out;
  for (const auto& [id, entry] : objects_) {
    if (entry.object->pod && entry.gone == kNoTime) {
      out.insert(entry.object->pod_id);
    }
  }
  return out;
}

}  // namespace tutti::measure
