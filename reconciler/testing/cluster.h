// SPDX-License-Identifier: Apache-2.0
// A whole cluster in virtual time for tests of the controller core: the in-memory API server with
// the admission rules of the chart, and plain imitations of the Job controller, the (gang)
// scheduler and the kubelets. Deterministic from its seed; no thread, no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "api/meta.h"
#include "base/json.h"
#include "kube/fake_api_server.h"
#include "reconciler/core.h"

namespace tutti::reconciler::testing {

struct JobSpec {
  std::string name;
  std::string ns = "team-a";
  std::string queue = "main";
  int pods = 1;
  int64_t cpu_milli = 1000;
  int64_t gpus = 0;
  Duration runs_for = std::chrono::seconds(5);
  std::string priority_class = "";
  std::string preset_group = "";  // spec.template.spec.schedulingGroup.podGroupName
  bool indexed = false;
  std::string claims = "";          // spec.template.spec.resourceClaims, a JSON array
  std::string gang_claims = "";     // annotation tutti.dev/gang-claims
  std::string claim_template = "";  // each pod has one claim from it, called "gpu"
  std::string volume_claim = "";    // PersistentVolumeClaim that all pods use
  int completions = 0;              // 0 = as many as pods
  api::StringMap labels = {};       // of the Job, besides queue and priority class
  api::StringMap annotations = {};  // of the Job
};

class Cluster {
 public:
  explicit Cluster(Options options, uint64_t seed = 1);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // --- the world ---
  void AddNode(const std::string& name, int64_t cpu, int64_t gpus = 0);
  void RemoveNode(const std::string& name);
  void Cordon(const std::string& name, bool cordoned);
  void AddNamespace(const std::string& name);
  // Active, as its controller says.
  void AddCheck(const std::string& name, bool active = true);
  // What a check's controller writes: the entry of the job's Workload; `more` are further fields.
  void SetCheck(const std::string& ns, const std::string& job, const std::string& check,
                const std::string& state, const std::string& message = "",
                const Json& more = Json());
  // A merge patch of an object's spec, by its user.
  void PatchSpec(api::Kind kind, const api::ObjectKey& key, Json spec);
  void AddFlavor(const std::string& name, const api::StringMap& labels = {});
  // quota: resource -> nominal, in the form of a quantity
  void AddQueue(const std::string& cluster_queue, const std::string& ns,
                const std::vector<std::pair<std::string, std::string>>& quota,
                const std::string& cohort = "", bool strict = false);
  void SetQuota(const std::string& cluster_queue, const std::string& resource,
                const std::string& nominal);
  void Submit(const JobSpec& job);
  void DeleteJob(const api::ObjectKey& key);
  void KillPod(const api::ObjectKey& key);  // deleted at once, as by a drain

  // --- time ---
  // One turn of everything, `step` later.
  void Tick(Duration step = std::chrono::milliseconds(200));
  void Run(Duration duration, Duration step = std::chrono::milliseconds(200));
  // Until every job has finished; false when `limit` passed first.
  bool RunUntilDone(Duration limit);
  [[nodiscard]] Time now() const { return now_; }

  // The controller dies without a word and a new one starts from what the API server has.
  void Restart();
  // Each write fails with this probability: half of them before, half after they are carried out.
  void SetFaults(double probability) { faults_ = probability; }
  // While stopped nothing lets pods be bound.
  void SetScheduler(bool on) { scheduler_on_ = on; }
  // While off, pods that run are never Ready.
  void SetReadiness(bool on) { readiness_on_ = on; }
  void SetController(bool on) { controller_on_ = on; }
  // While off, nobody acts on Jobs: no pods, no status.
  void SetJobController(bool on) { job_controller_on_ = on; }
  // While off, what a deleted Job owned stays.
  void SetGarbageCollector(bool on) { garbage_collector_on_ = on; }
  // While on, the watch shows the controller's own writes only at the next tick; answers come at
  // once.
  void SetWatchLag(bool on) { watch_lag_ = on; }
  // Bound pods that are deleted stay so long, as with kubelets that need their grace time.
  void SetGrace(Duration grace) { grace_ = grace; }
  // The Job controller makes groups for new Indexed jobs and puts their pods into them
  // (WorkloadWithJob).
  void SetJobControllerGroups(bool on) { job_controller_groups_ = on; }
  // Whether PodGroups keep their claims (DRAWorkloadResourceClaims of the API server), and whether
  // claims are made from templates (of the controller manager).
  void SetClaimGates(bool server, bool manager) {
    claim_server_ = server;
    claim_manager_ = manager;
  }
  // Whether the API server has ProvisioningRequests.
  void SetProvisioning(bool served);
  void AddClaim(const std::string& name) { claims_.insert(name); }
  // No job gets more live pods than this, as with a ResourceQuota on pods.
  void SetPodLimit(int64_t limit) { pod_limit_ = limit; }

  // --- looking ---
  kube::FakeApiServer& server() { return server_; }
  Core& core() { return *core_; }
  [[nodiscard]] Json Job(const std::string& ns, const std::string& name) const;
  [[nodiscard]] Json WorkloadOf(const std::string& ns, const std::string& job) const;
  [[nodiscard]] std::vector<Json> PodsOf(const std::string& ns, const std::string& job) const;
  [[nodiscard]] bool Suspended(const std::string& ns, const std::string& job) const;
  [[nodiscard]] bool Finished(const std::string& ns, const std::string& job) const;
  [[nodiscard]] std::string Condition(const Json& object, std::string_view type,
                                      std::string_view field = "status") const;
  [[nodiscard]] const std::vector<HistoryRow>& history() const { return history_; }
  [[nodiscard]] const std::vector<EventRecord>& events() const { return events_; }
  [[nodiscard]] uint64_t writes() const { return writes_; }
  // What was added to a counter, over all labels.
  [[nodiscard]] double Counted(const std::string& metric) const;
  // How many samples a histogram got.
  [[nodiscard]] int Observed(const std::string& metric) const;
  // The invariants that an outsider can check, and the core's own. "" or what is broken.
  [[nodiscard]] std::string Check() const;

 private:
  void Deliver();
  void CollectGarbage();
  Result<Json> Answer(const std::string& path) const;
  bool MakePod(const Json& job);
  void MakeControllersGroup(const Json& job);
  void RunClaimController();
  void Feed(const kube::FakeApiServer::Event& event);
  void StepController();
  void RunJobController();
  void RunScheduler();
  void RunKubelets();
  void SetStatus(const api::Resource& resource, const api::ObjectKey& key, Json status);
  Status Fault(bool before);

  Options options_;
  std::mt19937_64 random_;
  kube::FakeApiServer server_;
  std::unique_ptr<Core> core_;
  std::vector<kube::FakeApiServer::Event> undelivered_;
  Time now_;
  std::map<std::string, Duration> run_time_;  // job uid -> how long its pods run
  std::map<std::string, Time> started_;       // pod uid -> when it was bound
  std::map<std::string, std::map<std::string, int64_t>>
      quota_;  // ClusterQueue -> resource -> nominal
  std::map<std::string, std::string> cohort_of_;
  std::vector<HistoryRow> history_;
  std::vector<EventRecord> events_;
  std::map<std::string, double> counted_;
  std::map<std::string, int> observed_;
  double faults_ = 0;
  bool scheduler_on_ = true;
  bool readiness_on_ = true;
  bool controller_on_ = true;
  bool job_controller_on_ = true;
  bool garbage_collector_on_ = true;
  bool watch_lag_ = false;
  int64_t pod_limit_ = 1000;
  Duration grace_{};
  bool job_controller_groups_ = false;
  bool claim_server_ = true;
  bool claim_manager_ = true;
  std::set<std::string> claims_;
  std::optional<bool> provisioning_;
  uint64_t writes_ = 0;
  int next_pod_ = 0;
};

}  // namespace tutti::reconciler::testing
