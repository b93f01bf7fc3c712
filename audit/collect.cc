// SPDX-License-Identifier: Apache-2.0
#include "audit/collect.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "api/batch.h"
#include "api/pod_requests.h"
#include "base/names.h"

namespace tutti::audit {
namespace {

constexpr std::string_view kJobSetName = "jobset.sigs.k8s.io/jobset-name";
constexpr std::string_view kPluginsGroup = "scheduling.x-k8s.io/pod-group";
constexpr std::string_view kVolcanoGroup = "scheduling.k8s.io/group-name";
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";
// A node's clock that is this far behind the scheduler's is said.
constexpr Duration kSkewSaid = std::chrono::seconds(5);
const Json kNone;

// Controllers whose pods serve: each works alone.
bool OfServices(std::string_view kind) {
  constexpr std::array<std::string_view, 5> kKinds = {"ReplicaSet", "StatefulSet", "DaemonSet",
                                                      "Node", "ReplicationController"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

// Kinds that say nothing here and are expected in a dump.
bool Silent(std::string_view kind) {
  constexpr std::array<std::string_view, 7> kKinds = {
      "Event",  "CronJob",       "StatefulSet",          "AdmissionCheck",
      "Cohort", "PriorityClass", "WorkloadPriorityClass"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

Time TimeOf(const Json& text) {
  if (!text.IsString()) {
    return kNoTime;
  }
  const Result<Time> time = ParseTime(text.AsString());
  return time ? *time : kNoTime;
}

const Json* TrueCondition(const Json& status, std::string_view type) {
  for (const Json& condition : status["conditions"].AsArray()) {
    if (condition["type"].AsString() == type && condition["status"].AsString() == "True") {
      return &condition;
    }
  }
  return nullptr;
}

const Json* ControllerOf(const Json& object) {
  for (const Json& owner : object["metadata"]["ownerReferences"].AsArray()) {
    if (owner["controller"].AsBool()) {
      return &owner;
    }
  }
  return nullptr;
}

std::string Key(std::string_view kind, std::string_view ns, std::string_view name) {
  std::string out(kind);
  out += ' ';
  out += ns;
  out += '/';
  out += name;
  return out;
}

// When the containers of a pod that has ended did so.
Time EndOf(const Json& status) {
  Time end = kNoTime;
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    for (const Json& container : status[list].AsArray()) {
      end = std::max(end, TimeOf(container["state"]["terminated"]["finishedAt"]));
    }
  }
  if (end == kNoTime) {  // evicted by the kubelet, or its node is gone
    for (const Json& condition : status["conditions"].AsArray()) {
      const std::string& type = condition["type"].AsString();
      if ((type == "Ready" && condition["status"].AsString() == "False") ||
          (type == "DisruptionTarget" && condition["status"].AsString() == "True")) {
        end = std::max(end, TimeOf(condition["lastTransitionTime"]));
      }
    }
  }
  return end;
}

Time StartOf(const Json& status) {
  Time start = kNoTime;
  for (const Json& container : status["containerStatuses"].AsArray()) {
    const Json& state = container["state"];
    for (const char* kind : {"running", "terminated"}) {
      const Time at = TimeOf(state[kind]["startedAt"]);
      if (at != kNoTime && (start == kNoTime || at < start)) {
        start = at;
      }
    }
  }
  return start;
}

// A manifest as somebody would keep it in Git.
std::string Submitted(const Json& object) {
  Json metadata = Json::Obj(
      {{"name", object["metadata"]["name"]}, {"namespace", object["metadata"]["namespace"]}});
  for (const char* field : {"labels", "annotations"}) {
    Json kept = Json::Obj();
    for (const auto& [key, value] : object["metadata"][field].AsObject()) {
      if (key != kLastApplied && key.find("batch.kubernetes.io/") == std::string::npos) {
        kept.Set(key, value);
      }
    }
    if (!kept.AsObject().empty()) {
      metadata.Set(field, std::move(kept));
    }
  }
  Json spec = object["spec"];
  spec.Erase("suspend");
  if (!spec["manualSelector"].AsBool()) {
    spec.Erase("selector");
    if (spec["template"]["metadata"]["labels"].IsObject()) {
      Json& labels = spec.At("template").At("metadata").At("labels");
      for (const char* label : {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid",
                                "batch.kubernetes.io/job-name"}) {
        labels.Erase(label);
      }
      if (labels.AsObject().empty()) {
        spec.At("template").At("metadata").Erase("labels");
      }
    }
    if (spec["template"]["metadata"].IsObject()) {
      spec.At("template").At("metadata").Erase("creationTimestamp");
      if (spec["template"]["metadata"].AsObject().empty()) {
        spec.At("template").Erase("metadata");
      }
    }
  }
  return Json::Obj({{"apiVersion", object["apiVersion"]},
                    {"kind", object["kind"]},
                    {"metadata", std::move(metadata)},
                    {"spec", std::move(spec)}})
      .Dump();
}

void Count(const api::ClaimSpec& spec, api::Amounts& out) {
  for (const api::DeviceRequest& request : spec.requests) {
    const api::ExactRequest* exact =
        request.exactly
            ? &*request.exactly
            : (request.first_available.empty() ? nullptr : &request.first_available.front());
    if (exact != nullptr && !exact->admin_access) {
      out[exact->device_class] += std::max<int64_t>(exact->count, 1);
    }
  }
}

}  // namespace

api::Amounts Facts::DevicesOf(const std::string& ns, const api::PodShape& shape,
                              std::set<std::string>* shared_seen) const {
  api::Amounts out;
  for (const auto& [resource, amount] : shape.requests) {
    if (amount > 0 && IsAccelerator(resource)) {
      out[resource] += amount;
    }
  }
  for (const api::PodClaim& claim : shape.claims) {
    if (!claim.claim_template.empty()) {
      if (const auto found = claim_templates.find({ns, claim.claim_template});
          found != claim_templates.end()) {
        Count(found->second, out);
      }
    } else if (const auto found = claims.find({ns, claim.claim}); found != claims.end()) {
      if (shared_seen == nullptr || shared_seen->insert(claim.claim).second) {
        Count(found->second, out);
      }
    }
  }
  return out;
}

Collector::Collector(CollectOptions options) : options_(options) {
  facts_.capacity = engine::MakeCapacity();
  facts_.cluster = std::make_unique<cli::ClusterInput>(*facts_.capacity);
  facts_.nodes.emplace_back();
  pods_.reserve(1024);
}

Collector::~Collector() = default;

void Collector::Problem(const std::string& kind, const std::string& text) {
  Problems& problems = problems_[kind];
  if (problems.count++ == 0) {
    problems.first = text;
  }
}

void Collector::SeeTime(const Json& text) {
  newest_ = std::max(newest_, TimeOf(text));
}

uint32_t Collector::NodeIndex(const std::string& name) {
  const auto [found, fresh] =
      node_index_.try_emplace(name, static_cast<uint32_t>(facts_.nodes.size()));
  if (fresh) {
    facts_.nodes.emplace_back();
    facts_.nodes.back().name = name;
  }
  return found->second;
}

Gang& Collector::GangOf(const std::string& unit, const std::string& kind, const std::string& ns,
                        const std::string& name) {
  const auto [found, fresh] = units_.try_emplace(unit, facts_.gangs.size());
  if (fresh) {
    Gang gang;
    gang.kind = kind;
    gang.ns = ns;
    gang.name = name;
    facts_.gangs.push_back(std::move(gang));
  }
  return facts_.gangs[found->second];
}

std::shared_ptr<const std::string> Collector::KeepTemplate(const Json& pod_template) {
  std::string text = pod_template.Dump();
  auto& kept = templates_[text];
  if (kept == nullptr) {
    kept = std::make_shared<const std::string>(std::move(text));
  }
  return kept;
}

void Collector::Take(const Json& object, const std::string& where) {
  const std::string& kind = object["kind"].AsString();
  const std::string& version = object["apiVersion"].AsString();
  const std::string& name = object["metadata"]["name"].AsString();
  std::string ns = object["metadata"]["namespace"].AsString();
  const std::string& group =
      version.substr(0, version.find('/') == std::string::npos ? 0 : version.find('/'));
  // What is watched may come again under the same name as another object.
  const std::string uid = options_.for_ledger ? object["metadata"]["uid"].AsString() : "";
  if (!seen_.insert(kind + group + ' ' + ns + '/' + name + ' ' + uid).second) {
    ++twice_;
    return;
  }
  SeeTime(object["metadata"]["creationTimestamp"]);
  const bool core = group.empty();
  const auto add_to_cluster = [&](const std::string& holder = "") {
    if (const Status added = facts_.cluster->Add({where, kind, ns, name, object}, holder); !added) {
      Problem(kind, where + ": " + added.error().message);
    }
  };
  ++facts_.kinds[kind];
  if (kind == "Pod" && core) {
    add_to_cluster(TakePod(object, ns));
  } else if (kind == "Node" && core) {
    TakeNode(object);
    add_to_cluster();
  } else if (kind == "Job" && (group == "batch" || core)) {
    TakeJob(object, ns);
  } else if (kind == "Job" && group == "batch.volcano.sh") {
    TakeVolcanoJob(object, ns);
  } else if (kind == "JobSet") {
    TakeJobSet(object, ns);
  } else if (kind == "PodGroup") {
    TakeGroup(object, ns);
  } else if (kind == "Workload" && group == names::kKueueGroup) {
    TakeWorkload(object);
  } else if (kind == "ClusterQueue") {
    if (Result<api::ClusterQueue> queue = api::ClusterQueueFromJson(object)) {
      facts_.cluster_queues[name] = std::move(*queue);
    }
  } else if (kind == "LocalQueue") {
    if (Result<api::LocalQueue> queue = api::LocalQueueFromJson(object)) {
      facts_.local_queues[{ns, name}] = std::move(*queue);
    }
  } else if (kind == "ResourceFlavor") {
    if (Result<api::ResourceFlavor> flavor = api::ResourceFlavorFromJson(object)) {
      facts_.flavors[name] = std::move(*flavor);
    }
  } else if (kind == "Lease") {
    if (ns == "kube-node-lease") {
      const Time renewed = TimeOf(object["spec"]["renewTime"]);
      if (renewed != kNoTime) {
        renewed_.push_back(renewed);
      }
    }
  } else if (cli::ClusterInput::Knows(kind)) {
    if (kind == "ResourceClaim") {
      if (const Result<api::ResourceClaim> claim = api::ResourceClaimFromJson(object)) {
        facts_.claims[{ns, name}] = claim->spec;
      }
    } else if (kind == "ResourceClaimTemplate") {
      if (const Result<api::ResourceClaimTemplate> made =
              api::ResourceClaimTemplateFromJson(object)) {
        facts_.claim_templates[{ns, name}] = made->spec;
      }
    } else if (kind == "ResourceSlice") {
      facts_.device_drivers.insert(object["spec"]["driver"].AsString());
    }
    add_to_cluster();
  } else if (!Silent(kind) && !(kind == "Workload")) {
    ++others_[kind];
  }
  if (group == names::kKueueGroup && version != names::kKueueVersion) {
    Problem(kind, kind + " " + name + " is of " + version + ", read as " +
                      std::string(names::kKueueVersion) + ": fields that differ are not seen");
  }
}

void Collector::TakeNode(const Json& object) {
  const Result<api::Node> node = api::NodeFromJson(object);
  if (!node) {
    return;  // said by ClusterInput
  }
  NodeFacts& facts = facts_.nodes[NodeIndex(node->meta.name)];
  facts.labels = node->meta.labels;
  facts.allocatable = node->allocatable;
  facts.unschedulable = node->unschedulable;
  facts.known = true;
  for (const Json& condition : object["status"]["conditions"].AsArray()) {
    if (condition["type"].AsString() == "Ready") {
      facts.ready = condition["status"].AsString() == "True";
    }
  }
}

std::string Collector::TakePod(const Json& object, const std::string& ns) {
  const Json& metadata = object["metadata"];
  const Json& spec = object["spec"];
  const Json& status = object["status"];
  LoosePod pod;
  pod.ns = ns;
  pod.times.name = metadata["name"].AsString();
  pod.times.uid = metadata["uid"].AsString();
  pod.group = spec["schedulingGroup"]["podGroupName"].AsString();
  const Json* owner = ControllerOf(object);
  const Json& controller = owner == nullptr ? kNone : *owner;
  const std::string& owner_kind = controller["kind"].AsString();
  const std::string& owner_name = controller["name"].AsString();
  const Json& labels = metadata["labels"];
  const std::string& kueue_group = labels[names::kPodGroupName].AsString();
  const std::string& plugins_group = labels[kPluginsGroup].AsString();
  const std::string& volcano_group = metadata["annotations"][kVolcanoGroup].AsString();
  if (const std::string& job_set = labels[kJobSetName].AsString(); !job_set.empty()) {
    pod.unit = Key("JobSet", ns, job_set);
  } else if (owner_kind == "Job") {
    pod.unit = Key(
        controller["apiVersion"].AsString().starts_with("batch.volcano.sh") ? "Volcano Job" : "Job",
        ns, owner_name);
  } else if (!volcano_group.empty()) {
    pod.unit = Key("Volcano PodGroup", ns, volcano_group);
  } else if (!kueue_group.empty()) {
    pod.unit = Key("pod group", ns, kueue_group);
    pod.total = std::atoi(metadata["annotations"][names::kPodGroupTotalCount].AsString().c_str());
  } else if (!plugins_group.empty()) {
    pod.unit = Key("PodGroup", ns, plugins_group);
  } else if (!pod.group.empty()) {
    pod.unit = Key("PodGroup", ns, pod.group);
  } else if (owner != nullptr && !OfServices(owner_kind)) {
    pod.unit = Key(owner_kind, ns, owner_name);
  }
  const std::string holder =
      !pod.unit.empty()
          ? pod.unit
          : (owner != nullptr ? Key(owner_kind, ns, owner_name) : Key("Pod", ns, pod.times.name));
  const std::string& node = spec["nodeName"].AsString();
  PodTimes& times = pod.times;
  times.created = TimeOf(metadata["creationTimestamp"]);
  if (!node.empty()) {
    ++facts_.pods_on_nodes;
    times.node = NodeIndex(node);
    const Json* scheduled = TrueCondition(status, "PodScheduled");
    times.bound = scheduled == nullptr ? kNoTime : TimeOf((*scheduled)["lastTransitionTime"]);
    newest_ = std::max(newest_, times.bound);
    const Time started = StartOf(status);
    if (times.bound == kNoTime) {
      times.guessed = true;
      times.bound = TimeOf(status["startTime"]);
      if (times.bound == kNoTime) {
        times.bound = started != kNoTime ? started : times.created;
      }
    } else if (started != kNoTime && times.bound - started > kSkewSaid) {
      ++skewed_;
      if (times.bound - started > skew_) {
        skew_ = times.bound - started;
        skewed_node_ = node;
      }
    }
  }
  const std::string& phase = status["phase"].AsString();
  const bool ended = phase == "Succeeded" || phase == "Failed";
  if (ended) {
    times.succeeded = phase == "Succeeded";
    times.ended = EndOf(status);
    if (*times.ended == kNoTime) {
      times.ended = times.bound;  // nothing says when: it counts as never held
    }
  }
  if (const Time deleted = TimeOf(metadata["deletionTimestamp"]); deleted != kNoTime) {
    const Time begun =
        deleted - std::chrono::seconds(metadata["deletionGracePeriodSeconds"].AsInt());
    newest_ = std::max(newest_, begun);
    if (!times.ended || begun < *times.ended) {
      times.ended = begun;
    }
  }
  if (times.ended && *times.ended < times.bound) {
    times.ended = times.bound;  // clocks that differ
  }
  if (const Json* taken = TrueCondition(status, "DisruptionTarget")) {
    times.taken_for = (*taken)["reason"].AsString();
  }
  Result<api::PodShape> shape = api::ShapeOfRunning(object);
  if (!shape) {
    return holder;  // said by ClusterInput
  }
  if (!node.empty() && !ended) {
    api::AddTo(facts_.nodes[times.node].used, shape->requests);
  }
  if (!pod.unit.empty()) {
    times.shape = api::InternShape(std::move(*shape));
    pods_.push_back(std::move(pod));
  } else if (options_.for_ledger && times.bound != kNoTime) {
    times.shape = api::InternShape(std::move(*shape));
    facts_.others.push_back({ns, std::move(times)});
  }
  return holder;
}

void Collector::TakeJob(const Json& object, const std::string& ns) {
  const Json* owner = ControllerOf(object);
  if (owner != nullptr && (*owner)["kind"].AsString() == "JobSet") {
    return;  // a part of it
  }
  const Result<api::Job> job = api::JobFromJson(object);
  if (!job) {
    Problem("Job", job.error().message);
    return;
  }
  Gang& gang = GangOf(Key("Job", ns, job->meta.name), "Job", ns, job->meta.name);
  gang.known = true;
  gang.uid = job->meta.uid;
  gang.size = job->PodCount();
  gang.sure = job->completions && *job->completions == job->parallelism ? GangKind::kAssumed
                                                                        : GangKind::kLoose;
  gang.created = job->meta.created;
  gang.queue = job->meta.Label(names::kQueueNameLabel);
  gang.suspended = job->suspend;
  gang.active = job->active;
  gang.succeeded = job->succeeded;
  const Json& status = object["status"];
  for (const char* type :
       {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended"}) {
    if (const Json* condition = TrueCondition(status, type)) {
      const Time at = TimeOf((*condition)["lastTransitionTime"]);
      newest_ = std::max(newest_, at);
      gang.finished = gang.finished || std::strcmp(type, "Suspended") != 0;
      if (at != kNoTime && (!gang.ended || at < *gang.ended)) {
        gang.ended = at;
      }
    }
  }
  if (gang.size > 1) {
    const Json pod_template = cli::TemplateOfJob(object, object["spec"]["template"]);
    gang.parts.push_back({"main", gang.size, gang.finished ? nullptr : KeepTemplate(pod_template)});
    if (options_.keep_manifests) {
      gang.manifest = Submitted(object);
    }
  }
}

void Collector::TakeJobSet(const Json& object, const std::string& ns) {
  const std::string& name = object["metadata"]["name"].AsString();
  const bool in_order =
      object["spec"]["startupPolicy"]["startupPolicyOrder"].AsString() == "InOrder";
  Gang& gang = GangOf(Key("JobSet", ns, name), "JobSet", ns, name);
  gang.known = true;
  gang.uid = object["metadata"]["uid"].AsString();
  gang.sure = GangKind::kDeclared;
  gang.created = TimeOf(object["metadata"]["creationTimestamp"]);
  gang.queue = object["metadata"]["labels"][names::kQueueNameLabel].AsString();
  gang.suspended = object["spec"]["suspend"].AsBool();
  for (const char* type : {"Completed", "Failed", "Suspended"}) {
    if (const Json* condition = TrueCondition(object["status"], type)) {
      gang.finished = gang.finished || std::strcmp(type, "Suspended") != 0;
      gang.ended = TimeOf((*condition)["lastTransitionTime"]);
      newest_ = std::max(newest_, *gang.ended);
    }
  }
  int64_t size = 0;
  for (const Json& replicated : object["spec"]["replicatedJobs"].AsArray()) {
    const Json& spec = replicated["template"]["spec"];
    const int64_t parallelism = spec["parallelism"].AsInt(1);
    const int64_t pods =
        std::max<int64_t>(replicated["replicas"].AsInt(1) *
                              std::min(parallelism, spec["completions"].AsInt(parallelism)),
                          0);
    size += pods;
    gang.parts.push_back({replicated["name"].AsString(),
                          static_cast<int32_t>(std::min<int64_t>(pods, INT32_MAX)),
                          gang.finished ? nullptr : KeepTemplate(spec["template"])});
  }
  gang.size = static_cast<int32_t>(std::min<int64_t>(size, INT32_MAX));
  if (in_order && gang.parts.size() > 1) {
    gang.unjudged = "its parts start one after the other (startupPolicy InOrder)";
  }
  if (options_.keep_manifests) {
    gang.manifest = Submitted(object);
  }
}

void Collector::TakeVolcanoJob(const Json& object, const std::string& ns) {
  const std::string& name = object["metadata"]["name"].AsString();
  Gang& gang = GangOf(Key("Volcano Job", ns, name), "Volcano Job", ns, name);
  gang.known = true;
  gang.uid = object["metadata"]["uid"].AsString();
  gang.sure = GangKind::kDeclared;
  gang.created = TimeOf(object["metadata"]["creationTimestamp"]);
  gang.queue = object["spec"]["queue"].AsString();
  int64_t sum = 0;
  for (const Json& task : object["spec"]["tasks"].AsArray()) {
    sum += task["replicas"].AsInt(1);
    gang.parts.push_back({task["name"].AsString(), static_cast<int32_t>(task["replicas"].AsInt(1)),
                          KeepTemplate(task["template"])});
  }
  gang.size =
      static_cast<int32_t>(std::min<int64_t>(object["spec"]["minAvailable"].AsInt(sum), INT32_MAX));
  const std::string& phase = object["status"]["state"]["phase"].AsString();
  gang.finished =
      phase == "Completed" || phase == "Failed" || phase == "Terminated" || phase == "Aborted";
  if (gang.finished) {
    gang.ended = TimeOf(object["status"]["state"]["lastTransitionTime"]);
  }
}

void Collector::TakeGroup(const Json& object, const std::string& ns) {
  const std::string& name = object["metadata"]["name"].AsString();
  const std::string& version = object["apiVersion"].AsString();
  const bool volcano = version.starts_with("scheduling.volcano.sh/");
  const bool native = version.starts_with("scheduling.k8s.io/");
  const int64_t quorum = native ? object["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt()
                                : object["spec"]["minMember"].AsInt();
  if (native) {
    quorums_[ns + "/" + name] = static_cast<int32_t>(std::min<int64_t>(quorum, INT32_MAX));
  }
  if (quorum <= 1 || ControllerOf(object) != nullptr ||
      !object["metadata"]["ownerReferences"].AsArray().empty()) {
    return;  // of a job, which is the gang
  }
  const std::string kind = volcano ? "Volcano PodGroup" : "PodGroup";
  Gang& gang = GangOf(Key(kind, ns, name), kind, ns, name);
  gang.known = true;
  gang.uid = object["metadata"]["uid"].AsString();
  gang.sure = GangKind::kDeclared;
  gang.size = static_cast<int32_t>(std::min<int64_t>(quorum, INT32_MAX));
  gang.created = TimeOf(object["metadata"]["creationTimestamp"]);
}

void Collector::TakeWorkload(const Json& object) {
  Result<api::Workload> workload = api::WorkloadFromJson(object);
  if (workload) {
    for (api::PodSet& pod_set : workload->pod_sets) {  // text that equals is kept once
      if (workload->Finished()) {
        pod_set.template_json.clear();
      }
    }
    workloads_.push_back(std::move(*workload));
  }
}

}  // namespace tutti::audit
