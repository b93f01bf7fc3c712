// SPDX-License-Identifier: Apache-2.0
// Queues, nodes and jobs in virtual time, decided by the engine that the operator runs. A released
// workload lands at once where it was planned, holds its quota and places until it ends, and one
// that is preempted starts anew later. Pure and deterministic: objects in, decisions out.
//
// Simulated are decisions, not the cluster around them: no API server, no image pulls, no failing
// pods, no admission checks, no devices by ResourceClaim.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/batch.h"
#include "api/kueue.h"
#include "base/result.h"
#include "base/time.h"
#include "cli/cluster_input.h"
#include "cli/objects.h"
#include "engine/engine.h"

namespace tutti::sim {

// A Job or Workload as it is submitted.
struct Submission {
  std::string title;          // "Job team/train"
  Duration arrives{};         // after the start
  bool arrival_said = false;  // by annotation; else by creationTimestamp, as far as there are any
  Time created = kNoTime;
  std::optional<Duration> runs;  // none: as long as the simulation
  int32_t pods = 0;
  engine::WorkloadInput input;         // without queue_time
  std::vector<api::StringMap> labels;  // of the pods, by pod set
};

struct Preemption {
  std::string victim;
  std::string preemptor;
  std::string reason;
};

// What one pass brought. Who is preempted is pending again after it; nobody is in both lists.
struct Settled {
  std::vector<engine::AdmitDecision> admitted;
  std::vector<Preemption> preempted;
  std::vector<engine::PendingDecision> pending;  // those whose reason changed
};

class Simulator {
 public:
  Simulator();

  // As the configuration section fairSharing, with both strategies.
  void ShareFairly() { engine_->SetFairSharing(engine::FairSharing{}); }

  // Evictions among equals come in waves, as with the operator's default configuration.
  void SpreadEvictions();
  // When there is something to decide without a change; nothing: never.
  [[nodiscard]] std::optional<Duration> DueAt() const;

  // Whether objects of this kind change queues or the cluster.
  [[nodiscard]] static bool Knows(std::string_view kind);
  // REQUIRES: Knows(object.kind). Adds or replaces. kInvalid names the field.
  Status Apply(const cli::InputObject& object);
  // Takes a ResourceFlavor, Cohort, ClusterQueue or LocalQueue away; others: kInvalid.
  Status Delete(const std::string& kind, const std::string& ns, const std::string& name);
  // After the objects that stand at the start.
  void Finish();

  // A Job or Workload, read with the priority classes, LimitRanges and RuntimeClasses that were
  // applied. kInvalid names what is wrong with it. Nothing: it takes no part, and `Notes` counts
  // it (without a queue, with ResourceClaims, made from another object).
  Result<std::optional<Submission>> Read(const cli::InputObject& object);

  void Submit(const Submission& submission, Duration now);
  // It has ended, or was deleted: quota and places are free.
  void End(const std::string& id);
  // Decides until nothing changes: the passes in their order. kInternal when there is no end to it.
  Result<std::vector<Settled>> Settle(Duration now);

  [[nodiscard]] const engine::Engine& engine() const { return *engine_; }
  [[nodiscard]] bool WithNodes() const { return cluster_.Nodes() > 0; }
  [[nodiscard]] std::vector<std::string> Notes() const;

 private:
  // What was submitted and has not ended.
  struct Live {
    engine::WorkloadInput input;
    std::vector<api::StringMap> labels;
    std::vector<std::string> pods;  // uids of those that have landed
  };
  void UseNamespace(const std::string& ns);
  Result<api::Workload> FromJob(const cli::InputObject& object, const api::Job& job);
  Result<std::optional<Submission>> FromWorkload(const cli::InputObject& object,
                                                 const api::Workload& workload);
  void Land(const engine::AdmitDecision& decision);
  void TakeOff(const std::string& id);

  std::unique_ptr<engine::Engine> engine_ = engine::MakeEngine();
  cli::ClusterInput cluster_;
  std::map<std::string, int32_t> workload_priorities_;
  std::map<std::string, api::PriorityClass> pod_priorities_;
  std::set<std::string> flavors_;
  std::set<std::string> namespaces_;
  bool finished_ = false;
  std::map<std::string, Live> live_;  // by id
  size_t without_queue_ = 0;
  size_t with_claims_ = 0;
  size_t owned_ = 0;
  size_t owned_pods_ = 0;
};

}  // namespace tutti::sim
