// SPDX-License-Identifier: Apache-2.0
#include "sim/simulator.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "api/pod_rules.h"
#include "base/names.h"
#include "reconciler/batch_job.h"

namespace tutti::sim {
namespace {

constexpr std::string_view kNamespaceName = "kubernetes.io/metadata.name";
// Simulated time 0. Any whole second will do that is not "not set".
constexpr Time kStart = kNoTime + std::chrono::hours(24);

constexpr std::array<std::string_view, 6> kOwnKinds = {
    "ResourceFlavor", "Cohort",        "ClusterQueue",
    "LocalQueue",     "PriorityClass", "WorkloadPriorityClass",
};

Result<std::optional<Duration>> SpanOf(const api::ObjectMeta& meta, std::string_view key) {
  const std::string_view text = meta.Annotation(key);
  if (text.empty()) {
    return std::optional<Duration>();
  }
  const Result<Duration> span = ParseDuration(text);
  if (!span || *span < Duration::zero()) {
    return Fail(ErrorCode::kInvalid, "metadata.annotations[" + std::string(key) +
                                         "]: must be a duration such as 1h30m, is \"" +
                                         std::string(text) + "\"");
  }
  return std::optional<Duration>(*span);
}

// How long a Job that has ended ran; such dumps can be played again under other rules.
std::optional<Duration> RunTimeOf(const Json& job) {
  const Json& status = job["status"];
  const Result<Time> begin = ParseTime(status["startTime"].AsString());
  Result<Time> end = ParseTime(status["completionTime"].AsString());
  for (const Json& condition : status["conditions"].AsArray()) {
    if (!end && condition["type"].AsString() == "Failed" &&
        condition["status"].AsString() == "True") {
      end = ParseTime(condition["lastTransitionTime"].AsString());
    }
  }
  if (!begin || !end || *end < *begin) {
    return std::nullopt;
  }
  return *end - *begin;
}

bool OfAJob(const Json& pod) {
  for (const Json& owner : pod["metadata"]["ownerReferences"].AsArray()) {
    if (owner["controller"].AsBool() && owner["kind"].AsString() == "Job") {
      return true;
    }
  }
  return false;
}

}  // namespace

Simulator::Simulator() : cluster_(engine_->capacity()) {
  engine_->SetPartialAdmission(true);
}

void Simulator::SpreadEvictions() {
  engine::Rules rules;
  rules.preemption_interval = std::chrono::seconds(1);
  engine_->SetRules(rules);
}

std::optional<Duration> Simulator::DueAt() const {
  const std::optional<Time> due = engine_->DueAt();
  return due ? std::optional<Duration>(*due - kStart) : std::nullopt;
}

bool Simulator::Knows(std::string_view kind) {
  return cli::ClusterInput::Knows(kind) ||
         std::find(kOwnKinds.begin(), kOwnKinds.end(), kind) != kOwnKinds.end();
}

Status Simulator::Apply(const cli::InputObject& object) {
  const Json& json = object.object;
  if (object.kind == "ResourceFlavor") {
    TRY_ASSIGN(const api::ResourceFlavor flavor, api::ResourceFlavorFromJson(json));
    engine_->SetFlavor(flavor);
    flavors_.insert(object.name);
    if (finished_ && !WithNodes()) {
      engine_->SetFlavorCapacityMode(object.name, engine::CapacityMode::kOff);
    }
  } else if (object.kind == "Cohort") {
    TRY_ASSIGN(const api::Cohort cohort, api::CohortFromJson(json));
    if (!cohort.problem.empty()) {
      return Fail(ErrorCode::kInvalid, cohort.problem);
    }
    engine_->SetCohort(cohort);
  } else if (object.kind == "ClusterQueue") {
    TRY_ASSIGN(const api::ClusterQueue queue, api::ClusterQueueFromJson(json));
    if (!queue.problem.empty()) {
      return Fail(ErrorCode::kInvalid, queue.problem);
    }
    engine_->SetClusterQueue(queue);
  } else if (object.kind == "LocalQueue") {
    TRY_ASSIGN(const api::LocalQueue queue, api::LocalQueueFromJson(json));
    UseNamespace(object.ns);
    engine_->SetLocalQueue(queue);
  } else if (object.kind == "WorkloadPriorityClass") {
    TRY_ASSIGN(const api::WorkloadPriorityClass found, api::WorkloadPriorityClassFromJson(json));
    workload_priorities_[object.name] = found.value;
  } else if (object.kind == "PriorityClass") {
    TRY_ASSIGN(api::PriorityClass found, api::PriorityClassFromJson(json));
    pod_priorities_[object.name] = std::move(found);
  } else if (object.kind == "Pod" && OfAJob(json)) {
    ++owned_pods_;  // its Job is simulated, not it
  } else {
    if (object.kind == "Namespace") {
      api::StringMap labels = api::StringMapFromJson(json["metadata"]["labels"]);
      labels[std::string(kNamespaceName)] = object.name;
      engine_->SetNamespace(object.name, labels);
      namespaces_.insert(object.name);
    }
    return cluster_.Add(object);
  }
  return {};
}

Status Simulator::Delete(const std::string& kind, const std::string& ns, const std::string& name) {
  if (kind == "ResourceFlavor") {
    engine_->RemoveFlavor(name);
  } else if (kind == "Cohort") {
    engine_->RemoveCohort(name);
  } else if (kind == "ClusterQueue") {
    engine_->RemoveClusterQueue(name);
  } else if (kind == "LocalQueue") {
    engine_->RemoveLocalQueue({ns, name});
  } else {
    return Fail(ErrorCode::kInvalid, kind + " can't be taken away in a simulation");
  }
  return {};
}

void Simulator::UseNamespace(const std::string& ns) {
  cluster_.UseNamespace(ns);
  if (namespaces_.insert(ns).second) {
    engine_->SetNamespace(ns, {{std::string(kNamespaceName), ns}});
  }
}

void Simulator::Finish() {
  cluster_.Finish();
  finished_ = true;
  for (const std::string& flavor : flavors_) {
    if (!WithNodes()) {
      engine_->SetFlavorCapacityMode(flavor, engine::CapacityMode::kOff);
    }
  }
}

Result<api::Workload> Simulator::FromJob(const cli::InputObject& object, const api::Job& job) {
  reconciler::Priority priority;
  const std::string label(job.meta.Label(names::kPriorityClassLabel));
  const std::string& of_pods =
      object.object["spec"]["template"]["spec"]["priorityClassName"].AsString();
  if (!label.empty()) {
    const auto found = workload_priorities_.find(label);
    if (found == workload_priorities_.end()) {
      return Fail(ErrorCode::kInvalid,
                  "metadata.labels[" + std::string(names::kPriorityClassLabel) +
                      "]: WorkloadPriorityClass " + label + " is not in the input");
    }
    priority.value = found->second;
  } else if (!of_pods.empty()) {
    const auto found = pod_priorities_.find(of_pods);
    if (found == pod_priorities_.end()) {
      return Fail(ErrorCode::kInvalid, "spec.template.spec.priorityClassName: PriorityClass " +
                                           of_pods + " is not in the input");
    }
    priority.value = found->second.value;
  } else {
    for (const auto& [name, found] : pod_priorities_) {
      if (found.global_default) {
        priority.value = found.value;
      }
    }
  }
  return reconciler::WorkloadFor(job, priority);
}

Result<std::optional<Submission>> Simulator::FromWorkload(const cli::InputObject& object,
                                                          const api::Workload& workload) {
  if (!workload.problem.empty()) {
    return Fail(ErrorCode::kInvalid, workload.problem);
  }
  UseNamespace(object.ns);
  Submission out;
  out.title = object.Title();
  out.created = workload.meta.created;
  TRY_ASSIGN(const auto arrival, SpanOf(workload.meta, names::kSimulateArrivalAnnotation));
  TRY_ASSIGN(out.runs, SpanOf(workload.meta, names::kSimulateRuntimeAnnotation));
  out.arrival_said = arrival.has_value();
  out.arrives = arrival.value_or(Duration::zero());
  engine::WorkloadInput& input = out.input;
  input.id = object.ns + "/" + object.name;
  input.uid = workload.meta.uid.empty() ? input.id : workload.meta.uid;
  input.ns = object.ns;
  input.local_queue = workload.queue_name;
  input.priority = workload.priority;
  for (size_t i = 0; i < workload.pod_sets.size(); ++i) {
    const api::PodSet& spec = workload.pod_sets[i];
    TRY_ASSIGN(Json pod_template, Json::Parse(spec.template_json));
    const bool of_job = object.kind == "Job";
    if (of_job) {
      pod_template = cli::TemplateOfJob(object.object, pod_template);
    }
    const std::string path =
        of_job ? "spec.template" : "spec.podSets[" + std::to_string(i) + "].template";
    engine::PodSetInput pod_set;
    pod_set.name = spec.name;
    pod_set.count = spec.count;
    pod_set.min_count = spec.min_count;
    TRY_ASSIGN(pod_set.shape, cluster_.Shape(object.ns, path, pod_template));
    if (!pod_set.shape->claims.empty()) {
      ++with_claims_;
      return std::optional<Submission>();
    }
    pod_set.requests = pod_set.shape->requests;
    out.pods += spec.count;
    out.labels.push_back(
        api::RuleLabels(api::StringMapFromJson(pod_template["metadata"]["labels"])));
    input.pod_sets.push_back(std::move(pod_set));
  }
  return std::optional<Submission>(std::move(out));
}

Result<std::optional<Submission>> Simulator::Read(const cli::InputObject& object) {
  if (object.kind == "Job") {
    TRY_ASSIGN(const api::Job job, api::JobFromJson(object.object));
    if (job.meta.Label(names::kQueueNameLabel).empty()) {
      ++without_queue_;
      return std::optional<Submission>();
    }
    TRY_ASSIGN(api::Workload workload, FromJob(object, job));
    workload.meta = job.meta;
    TRY_ASSIGN(std::optional<Submission> out, FromWorkload(object, workload));
    if (out && !out->runs) {
      out->runs = RunTimeOf(object.object);
    }
    return out;
  }
  TRY_ASSIGN(api::Workload workload, api::WorkloadFromJson(object.object));
  if (workload.meta.Controller() != nullptr) {
    ++owned_;  // its owner says the same
    return std::optional<Submission>();
  }
  if (workload.queue_name.empty()) {
    ++without_queue_;
    return std::optional<Submission>();
  }
  if (workload.priority_class && !object.object["spec"].Has("priority")) {
    const std::string& name = workload.priority_class->name;
    const auto own = workload_priorities_.find(name);
    const auto of_pods = pod_priorities_.find(name);
    if (workload.priority_class->kind == "PriorityClass" && of_pods != pod_priorities_.end()) {
      workload.priority = of_pods->second.value;
    } else if (workload.priority_class->kind != "PriorityClass" &&
               own != workload_priorities_.end()) {
      workload.priority = own->second;
    } else {
      return Fail(ErrorCode::kInvalid, "spec.priorityClassRef: " + workload.priority_class->kind +
                                           " " + name + " is not in the input");
    }
  }
  return FromWorkload(object, workload);
}

void Simulator::Submit(const Submission& submission, Duration now) {
  Live& live = live_[submission.input.id];
  live.input = submission.input;
  live.input.queue_time = kStart + now;
  live.labels = submission.labels;
  engine_->SetPending(live.input);
}

void Simulator::Land(const engine::AdmitDecision& decision) {
  Live& live = live_.at(decision.id);
  for (const engine::PlacementSlot& slot : decision.placement) {
    const engine::PodSetInput& pod_set = live.input.pod_sets[slot.pod_set];
    for (int32_t i = 0; i < slot.count; ++i) {
      live.pods.push_back(decision.id + "/" + std::to_string(live.pods.size()));
      engine_->capacity().SetPod(live.pods.back(), slot.node, pod_set.shape, decision.id,
                                 pod_set.name, {live.input.ns, live.labels[slot.pod_set]});
    }
  }
  engine_->MarkAdmitted(decision.id);
}

void Simulator::TakeOff(const std::string& id) {
  Live& live = live_.at(id);
  for (const std::string& pod : live.pods) {
    engine_->capacity().RemovePod(pod);
  }
  live.pods.clear();
}

void Simulator::End(const std::string& id) {
  if (live_.contains(id)) {
    TakeOff(id);
    engine_->Remove(id);
    live_.erase(id);
  }
}

Result<std::vector<Settled>> Simulator::Settle(Duration now) {
  // Evictions end by themselves, each workload makes way for another one at most once.
  constexpr size_t kMostPasses = 100000;
  std::vector<Settled> out;
  do {
    if (out.size() == kMostPasses) {
      return Fail(ErrorCode::kInternal, "decisions don't come to rest after " +
                                            std::to_string(kMostPasses) +
                                            " passes; please report the input as a bug");
    }
    engine::PassResult pass = engine_->RunPass(kStart + now);
    Settled settled;
    settled.pending = std::move(pass.pending);
    for (engine::AdmitDecision& decision : pass.admitted) {
      Land(decision);
      settled.admitted.push_back(std::move(decision));
    }
    for (const engine::PreemptDecision& decision : pass.preempted) {
      // Its pods are gone at once, and it waits anew.
      TakeOff(decision.id);
      engine_->SetPending(live_.at(decision.id).input);
      settled.preempted.push_back(
          {decision.id, decision.by, std::string(engine::ToString(decision.reason))});
    }
    out.push_back(std::move(settled));
  } while (engine_->NeedsPass());
  return out;
}

std::vector<std::string> Simulator::Notes() const {
  std::vector<std::string> notes;
  if (!WithNodes()) {
    notes.emplace_back("no Node in the input: quota alone decides");
  }
  if (without_queue_ > 0) {
    notes.push_back(cli::Count(without_queue_, "job") + " without a queue left out");
  }
  if (with_claims_ > 0) {
    notes.push_back(cli::Count(with_claims_, "job") +
                    " with ResourceClaims left out: devices are not simulated");
  }
  if (owned_ > 0) {
    notes.push_back(cli::Count(owned_, "Workload") + " left out: made from another object");
  }
  if (owned_pods_ > 0) {
    notes.push_back(cli::Count(owned_pods_, "Pod") + " of Jobs left out: their Jobs are simulated");
  }
  for (std::string& note : cluster_.Notes()) {
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace tutti::sim
