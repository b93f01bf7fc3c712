// SPDX-License-Identifier: Apache-2.0
#include "operator/manager.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/names.h"
#include "kube/client.h"
#include "kube/executor.h"
#include "kube/kubeconfig.h"
#include "kube/lease.h"
#include "kube/loop.h"
#include "kube/transport.h"
#include "operator/agreement_score.h"
#include "operator/bridge.h"
#include "operator/core_watches.h"
#include "operator/create_and_wait.h"
#include "operator/event_writer.h"
#include "operator/gang_probe.h"
#include "operator/guard.h"
#include "operator/health.h"
#include "operator/metrics.h"
#include "operator/metrics_server.h"
#include "operator/pending_lookup.h"
#include "operator/queue_metrics.h"
#include "operator/rights.h"
#include "operator/version.h"
#include "operator/webhook_controller.h"
#include "reconciler/core.h"
#include "storage/ledger.h"

namespace tutti {
namespace {

using std::chrono::seconds;

constexpr Duration kGuardInterval = seconds(30);
constexpr Duration kRetryInterval = seconds(2);
constexpr Duration kHousekeeping = seconds(10);
constexpr Duration kGaugesDelay = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr Duration kDrainLimit = seconds(10);
constexpr Duration kProbeAgain = seconds(60);
constexpr Duration kOfferInterval = seconds(30);
constexpr std::string_view kMetricsCertificates = "/etc/kueue/metrics/certs";
constexpr std::string_view kJoinPolicy = "tutti-pod-joins-group";

}  // namespace

class Manager::Impl {
 public:
  explicit Impl(ManagerOptions options) : options_(std::move(options)) {}

  Status Run() {
    TRY_ASSIGN(const kube::ClusterAccess access, options_.kubeconfig.empty()
                                                     ? kube::LoadInCluster()
                                                     : kube::LoadKubeconfig(options_.kubeconfig));
    if (access.exec.has_value()) {
      return Fail(ErrorCode::kInvalid,
                  options_.kubeconfig +
                      ": users[].user.exec: credential plugins are for the command "
                      "line; give the operator a token file or a certificate");
    }
    kube::TransportOptions transport_options;
    transport_options.max_connections = options_.config.max_concurrent_writes + 8;
    TRY_ASSIGN(transport_, options_.config.http_client == HttpClient::kBeast
                               ? kube::MakeBeastTransport(access, transport_options)
                               : kube::MakeCpprestTransport(access, transport_options));
    client_.emplace(*transport_);
    ledger_ = storage::Ledger::Open(options_.config.ledger.path,
                                    {.retention = options_.config.ledger.retention});
    kube::ExecutorOptions executor_options;
    executor_options.max_in_flight = options_.config.max_concurrent_writes;
    executor_.emplace(
        loop_,
        [this](const api::WriteRequest& request, std::function<void(Result<Json>)> done) {
          client_->Do(request, std::move(done));
        },
        executor_options);
    executor_->SetSampleHook(
        [this](const kube::WriteSample& sample) { RecordWrite(sample, metrics_); });
    events_.emplace(loop_, *executor_, metrics_, options_.identity);
    metrics_.UseCustomLabels(queue_metrics_.custom_labels());
    metrics_.SetRole(Elects() ? "follower" : "standalone");
    metrics_.Set(Metric::kBuildInfo,
                 {kVersionText, kGitCommit, kBuildDate, "", CompilerText(), PlatformText()}, 1);
    webhooks_.emplace(options_.config, WebhookController::Dependencies{
                                           .loop = &loop_,
                                           .client = &*client_,
                                           .executor = &*executor_,
                                           .metrics = &metrics_,
                                           .may_write = [this] { return acting_ && !stopping_; },
                                           .pending = LookUpOnLoop(loop_, [this] {
                                             return ready_ && acting_ ? &*core_ : nullptr;
                                           })});
    if (options_.config.health.bind.has_value()) {
      TRY_ASSIGN(
          health_,
          HealthServer::Start(
              *options_.config.health.bind, options_.config.health, &metrics_,
              {.ready = [this] { return ready_ ? webhooks_->NotReady() : "caches are not synced"; },
               .alive = [] { return std::string(); },
               .detail =
                   [this] {
                     const std::lock_guard lock(ready_detail_mutex_);
                     return ready_detail_;
                   }}));
    }
    TRY(ServeMetrics());
    log::Info("starting", {{"mode", ModeName(options_.config.mode)},
                           {"namespace", options_.config.ns},
                           {"server", access.server},
                           {"identity", options_.identity}});
    loop_.Post([this] { Discover(); });
    if (options_.config.mode != Mode::kObserve) {
      loop_.Post([this] { webhooks_->Start(); });
    }
    loop_.PostAt(loop_.Now() + kHousekeeping, [this] { Housekeeping(); });
    loop_.Run();
    health_.reset();
    plain_metrics_.reset();
    metrics_server_.reset();
    watches_.reset();
    webhooks_.reset();
    probe_.reset();
    transport_->Close();
    ledger_.reset();
    return std::move(exit_);
  }

  void Stop() {
    loop_.Post([this] { Shutdown({}); });
  }

 private:
  // Who only observes takes no lease: it would be the live controller's.
  [[nodiscard]] bool Elects() const {
    return options_.config.leader_election.enabled && options_.config.mode != Mode::kObserve;
  }

  // --- metrics ---

  Status ServeMetrics() {
    const auto& bind = options_.config.metrics.bind;
    if (!bind.has_value()) {
      return {};
    }
    if (options_.config.metrics_plain) {
      TRY_ASSIGN(plain_metrics_, StartMetricsServer(*bind, &metrics_));
      return {};
    }
    auto certificate = MetricsCertificate(MetricsCertificateDirectory(), loop_.Now());
    if (!certificate) {
      return Fail(
          certificate.error().With("metrics.bindAddress is served with the certificate that is "
                                   "mounted there; without one set "
                                   "it to \"0\""));
    }
    TRY_ASSIGN(metrics_server_,
               MetricsServer::Start(*bind, options_.config.tls_min_version, *certificate, &metrics_,
                                    [this](const api::Resource& resource, Json body) {
                                      return CreateAndWait(*client_, resource, std::move(body));
                                    }));
    return {};
  }

  // "" = made here.
  [[nodiscard]] std::string MetricsCertificateDirectory() const {
    return options_.config.internal_certs.enabled ? "" : std::string(kMetricsCertificates);
  }

  void RenewMetricsCertificate() {
    const std::string directory = MetricsCertificateDirectory();
    if (metrics_server_ == nullptr || directory.empty()) {
      return;
    }
    const auto certificate = MetricsCertificate(directory, loop_.Now());
    const Status status =
        certificate ? metrics_server_->SetCertificate(*certificate) : Fail(certificate.error());
    if (!status) {
      log::Warn("the metrics keep their certificate", {{"error", status.error().message}});
    }
  }

  // --- start: what can the server do? ---

  void Discover() {
    client_->Discover([this](Result<kube::Discovery> found) {
      loop_.Post([this, found = std::move(found)]() mutable { OnDiscovered(std::move(found)); });
    });
  }

  void Retry(std::string_view what, const Error& error, void (Impl::*step)()) {
    log::Warn(what, {{"error", error.message}, {"code", ToString(error.code)}});
    loop_.PostAt(loop_.Now() + kRetryInterval, [this, step] {
      if (!stopping_) {
        (this->*step)();
      }
    });
  }

  void OnDiscovered(Result<kube::Discovery> found) {
    if (!found) {
      Retry("can't read what the API server offers", found.error(), &Impl::Discover);
      return;
    }
    facts_.discovery = std::move(*found);
    const auto& versions = facts_.discovery.kueue_versions;
    if (std::find(versions.begin(), versions.end(), "v1beta2") == versions.end()) {
      Retry("CustomResourceDefinitions are missing",
            Error{ErrorCode::kNotFound,
                  "kueue.x-k8s.io/v1beta2 is not served: apply crds/ (or install the chart)",
                  0,
                  {}},
            &Impl::Discover);
      return;
    }
    // Is the policy installed that puts released pods into their group?
    if (!facts_.discovery.mutating_admission_policies) {
      AskForVolumes();
      return;
    }
    client_->GetPath("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/" +
                         std::string(kJoinPolicy),
                     [this](Result<Json> policy) {
                       loop_.Post([this, policy = std::move(policy)] { OnJoinPolicy(policy); });
                     });
  }

  void OnJoinPolicy(const Result<Json>& policy) {
    // Only a clear no means that it is not there: the choice lasts as long as the process.
    if (!policy && policy.error().code != ErrorCode::kNotFound) {
      Retry("can't look for the policy " + std::string(kJoinPolicy), policy.error(),
            &Impl::Discover);
      return;
    }
    facts_.join_policy = policy.has_value();
    AskForVolumes();
  }

  // An installation without the rights to read volumes goes on without them.
  void AskForVolumes() {
    if (options_.config.mode == Mode::kObserve) {
      Configure();  // asking is a write, too
      return;
    }
    FindMissingRight(*client_, RightsForVolumes(), [this](Result<std::optional<Right>> missing) {
      loop_.Post([this, missing = std::move(missing)] { OnRights(missing); });
    });
  }

  void OnRights(const Result<std::optional<Right>>& missing) {
    if (!missing) {
      Retry("can't ask what may be read", missing.error(), &Impl::Discover);
      return;
    }
    facts_.volumes = !missing->has_value();
    if (const std::optional<Right>& right = *missing) {
      log::Warn(
          "volumes are left to the scheduler: a right is missing, see the chart's ClusterRole",
          {{"resource", right->resource.plural}, {"verb", right->verb}});
    }
    Configure();
  }

  void Configure() {
    const GangChoice gang = ChooseGangApi(options_.config, facts_);
    const reconciler::Options options = ToOptions(options_.config, facts_);
    log::Info("server", {{"version", facts_.discovery.git_version},
                         {"native_gangs", gang.api == reconciler::GangApi::kNone ? "off" : "on"},
                         {"why", gang.reason},
                         {"devices", options.devices ? "known" : "left to the scheduler"},
                         {"volumes", options.volumes ? "known" : "left to the scheduler"}});
    gang_api_ = gang.api;
    core_.emplace(options);
    if (gang.api == reconciler::GangApi::kNone) {
      TellGangs(
          {reconciler::GangFinding::State::kOff, "Native gangs are not used: " + gang.reason});
    }
    webhooks_->SetPodGroups(gang.api != reconciler::GangApi::kNone);
    StartWatches(options);
    watches_->SetProvisioning(facts_.discovery.provisioning_requests);
    loop_.PostAt(loop_.Now() + kOfferInterval, [this] { CheckOffer(); });
    if (Elects()) {
      StartElection();
    } else {
      leader_ = true;
      CheckGuard();
    }
  }

  void StartWatches(const reconciler::Options& options) {
    watches_.emplace(
        *client_, loop_, metrics_, *core_,
        CoreWatches::Kinds{options.gang_api, options.devices, options.volumes, options.job_kinds},
        [this] { ScheduleStep(); }, [this] { OnSynced(); });
    loop_.PostAt(loop_.Now() + options_.config.cache_sync_timeout, [this] {
      if (!ready_ && !stopping_) {
        Exit(Error{ErrorCode::kTimeout,
                   "caches were not synced within controller.cacheSyncTimeout (" +
                       FormatDuration(options_.config.cache_sync_timeout) +
                       "): " + std::to_string(watches_->Synced()) + " of " +
                       std::to_string(watches_->Expected()) + " kinds are",
                   0,
                   {}});
      }
    });
  }

  void OnSynced() {
    log::Info("caches synced", {});
    ShowRules();
    ready_ = true;
    core_->OnSynced();
    ScheduleStep();
  }

  // --- who may act ---

  void StartElection() {
    kube::LeaseOptions lease;
    const auto& election = options_.config.leader_election;
    lease.key = {election.ns.empty() ? options_.config.ns : election.ns, election.name};
    lease.identity = options_.identity;
    lease.lease_duration = election.lease_duration;
    lease.renew_deadline = election.renew_deadline;
    lease.retry_period = election.retry_period;
    lease.seed = std::hash<std::string>{}(options_.identity);
    elector_.emplace(loop_, *client_, lease,
                     kube::LeaderElector::Callbacks{
                         .on_acquired =
                             [this] {
                               log::Info("leader", {{"identity", options_.identity}});
                               leader_ = true;
                               metrics_.SetRole("leader");
                               metrics_.Set(Metric::kLeader, 1);
                               CheckGuard();
                             },
                         .on_lost =
                             [this] {
                               leader_ = false;
                               acting_ = false;
                               executor_->Stop();
                               if (!stopping_) {
                                 Exit(Error{ErrorCode::kConflict,
                                            "the lease was lost: another process may act now",
                                            0,
                                            {}});
                               }
                             },
                         .on_new_holder =
                             [](const std::string& holder) {
                               log::Info("lease holder", {{"holder", holder}});
                             }});
    executor_->SetFence([this](Time) { return elector_->IsLeader(); });
    elector_->Start();
  }

  void CheckGuard() {
    if (stopping_ || !leader_) {
      return;
    }
    client_->GetPath(
        "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3D" +
            std::string(names::kLeaseName),
        [this](Result<Json> leases) {
          if (!leases) {
            PostGuard(Fail(leases.error().With("listing Leases")));
            return;
          }
          guard_.leases = std::move(*leases);
          client_->GetPath(
              "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
              [this](Result<Json> mutating) {
                if (!mutating) {
                  PostGuard(Fail(mutating.error().With("listing webhook configurations")));
                  return;
                }
                guard_.webhook_lists.clear();
                guard_.webhook_lists.push_back(std::move(*mutating));
                client_->GetPath(
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                    [this](Result<Json> validating) {
                      if (!validating) {
                        PostGuard(Fail(validating.error().With("listing webhook configurations")));
                        return;
                      }
                      guard_.webhook_lists.push_back(std::move(*validating));
                      PostGuard({});
                    });
              });
        });
  }

  void PostGuard(Status status) {
    loop_.Post([this, status = std::move(status)] { OnGuard(status); });
  }

  void OnGuard(const Status& status) {
    if (stopping_ || !leader_) {
      return;
    }
    loop_.PostAt(loop_.Now() + (acting_ ? kGuardInterval : kRetryInterval),
                 [this] { CheckGuard(); });
    if (!status) {
      log::Warn("can't look for other controllers", {{"error", status.error().message}});
      return;
    }
    guard_.own_namespace = options_.config.ns;
    guard_.own_identity = options_.identity;
    const std::vector<std::string> others = OtherControllers(guard_, loop_.Now());
    if (others.empty()) {
      if (!acting_) {
        acting_ = true;
        log::Info("acting", {});
        ScheduleStep();
        ProbeGangs();
      }
      return;
    }
    for (const std::string& other : others) {
      log::Error("another controller of the same kinds is alive", {{"found", other}});
    }
    if (acting_ && options_.config.mode != Mode::kObserve) {
      Exit(Error{ErrorCode::kConflict, "another controller appeared: " + others.front(), 0, {}});
    } else if (options_.config.mode == Mode::kObserve && !acting_) {
      acting_ = true;  // writes nothing, so it may run beside it
      ScheduleStep();
    }
  }

  // --- do gangs gate? ---

  void TellGangs(reconciler::GangFinding finding) {
    using State = reconciler::GangFinding::State;
    for (const auto& [state, name] : {std::pair(State::kOff, "off"),
                                      {State::kUnproven, "unproven"},
                                      {State::kGates, "gating"},
                                      {State::kDoesNotGate, "not_gating"}}) {
      metrics_.Set(Metric::kNativeGangs, {name}, finding.state == state ? 1 : 0);
    }
    {
      const std::lock_guard lock(ready_detail_mutex_);
      ready_detail_ = finding.message;
    }
    core_->SetGangFinding(std::move(finding));
    ScheduleStep();
  }

  void ProbeGangs() {
    if (stopping_ || !acting_ || gang_api_ == reconciler::GangApi::kNone ||
        options_.config.mode == Mode::kObserve) {
      return;
    }
    if (!probe_.has_value()) {
      probe_.emplace(options_.config.ns, gang_api_,
                     GangProbe::Dependencies{&loop_, &*client_, [this] { return MayWrite(); }});
    }
    if (probe_->Running()) {
      return;
    }
    probe_->Start(
        [this](const reconciler::GangFinding& finding) {
          using State = reconciler::GangFinding::State;
          log::Write(finding.state == State::kGates ? log::Level::kInfo : log::Level::kWarn,
                     "native gangs",
                     {{"hold", finding.state == State::kGates         ? "yes"
                               : finding.state == State::kDoesNotGate ? "no"
                                                                      : "unproven"},
                      {"why", finding.message}});
          TellGangs(finding);
          if (finding.state == State::kUnproven) {
            loop_.PostAt(loop_.Now() + kProbeAgain, [this] { ProbeGangs(); });
          }
        },
        [](const std::string& message) {
          log::Warn("native gangs", {{"why", message}});
        });
  }

  [[nodiscard]] bool MayWrite() const {
    return !stopping_ && acting_ && (!elector_.has_value() || elector_->IsLeader());
  }

  // What the server offers was read once; a change of it (an upgrade, a gate, a policy that was
  // installed later) is acted on by starting again.
  void CheckOffer() {
    if (stopping_) {
      return;
    }
    loop_.PostAt(loop_.Now() + kOfferInterval, [this] { CheckOffer(); });
    client_->Discover([this](Result<kube::Discovery> found) {
      if (!found || !found->mutating_admission_policies) {
        loop_.Post([this, found = std::move(found)] { OnOffer(found, /*join_policy=*/false); });
        return;
      }
      client_->GetPath(
          "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/" +
              std::string(kJoinPolicy),
          [this, found = std::move(found)](const Result<Json>& policy) {
            if (!policy && policy.error().code != ErrorCode::kNotFound) {
              return;  // asked again
            }
            loop_.Post([this, found, join = policy.has_value()] { OnOffer(found, join); });
          });
    });
  }

  void OnOffer(const Result<kube::Discovery>& found, bool join_policy) {
    if (!found || stopping_) {
      return;
    }
    watches_->SetProvisioning(found->provisioning_requests);
    ServerFacts facts = facts_;
    facts.discovery = *found;
    facts.join_policy = join_policy;
    const GangChoice choice = ChooseGangApi(options_.config, facts);
    // A server that is just starting shows less than it will: believed when seen twice.
    other_offers_ = choice.api != gang_api_ ? other_offers_ + 1 : 0;
    if (other_offers_ >= 2) {
      Exit(Error{ErrorCode::kConflict,
                 "what the API server offers for native gangs has changed" +
                     (choice.reason.empty() ? std::string(": they can be used now")
                                            : ": " + choice.reason) +
                     "; starting again",
                 0,
                 {}});
    }
  }

  // --- the loop ---

  void ScheduleStep() {
    if (step_scheduled_) {
      return;
    }
    step_scheduled_ = true;
    loop_.Post([this] {
      step_scheduled_ = false;
      Step();
    });
  }

  void Step() {
    if (!ready_ || stopping_) {
      return;
    }
    ShowRules();
    if (!acting_) {
      return;
    }
    const Time started = loop_.Now();
    reconciler::Output output = core_->Step(started);
    const bool decided = output.passes > 0;
    const bool admitted = std::any_of(
        output.history.begin(), output.history.end(),
        [](const auto& row) { return row.kind == reconciler::HistoryKind::kQuotaReserved; });
    const std::chrono::duration<double> stepped = loop_.Now() - started;
    Carry(std::move(output));
    ShowGauges();
    if (decided) {
      const std::string_view result = admitted ? "success" : "inadmissible";
      metrics_.Observe(Metric::kPassSeconds, stepped.count());
      metrics_.Add(Metric::kAdmissionAttempts, {result});
      metrics_.Observe(Metric::kAdmissionAttemptDuration, {result}, stepped.count());
    }
    metrics_.Observe(Metric::kLoopTurnSeconds,
                     std::chrono::duration<double>(loop_.Now() - started).count());
    if (core_->Busy()) {
      ScheduleStep();
      return;
    }
    const std::optional<Time> next = core_->NextWake();
    if (next.has_value() && (!wake_at_.has_value() || *next < *wake_at_)) {
      wake_at_ = next;
      loop_.PostAt(*next, [this, at = *next] {
        if (wake_at_ == at) {
          wake_at_.reset();
        }
        ScheduleStep();
      });
    }
  }

  // What looks at all objects: with many it takes long, and gets a fiftieth of the time.
  struct Look {
    bool planned = false;
    Time due = kNoTime;
  };

  // What webhooks go by changes seldom, and a job may come right behind the change: at once, and in
  // every replica.
  void ShowRules() {
    if (!webhooks_->Knows(core_->world())) {
      ShowAt(loop_.Now(), rules_look_, [this] { webhooks_->SetWorld(core_->world()); });
    }
  }

  // Of queues; they follow a moment later.
  void ShowGauges() {
    ShowAt(loop_.Now() + kGaugesDelay, gauges_look_,
           [this] { queue_metrics_.Update(core_->world(), core_->engine(), metrics_); });
  }

  // Once, however often it is asked for until then.
  void ShowAt(Time when, Look& look, std::function<void()> show) {
    if (look.planned) {
      return;
    }
    const auto show_now = [this, &look, show = std::move(show)] {
      look.planned = false;
      if (stopping_) {
        return;
      }
      const Time begin = loop_.Now();
      show();
      look.due = begin + std::min<Duration>(kLongestPause, (loop_.Now() - begin) * 50);
    };
    when = std::max(when, look.due);
    if (when <= loop_.Now()) {
      show_now();
      return;
    }
    look.planned = true;
    loop_.PostAt(when, show_now);
  }

  void Carry(reconciler::Output output) {
    for (const std::string& bug : output.bugs) {
      metrics_.Add(Metric::kLogBugs);
      log::Error("bug", {{"what", bug}});
    }
    for (reconciler::HistoryRow& row : output.history) {
      log::Debug("workload", {{"event", reconciler::ToString(row.kind)},
                              {"workload", row.workload.ToString()},
                              {"reason", row.reason},
                              {"message", row.message}});
      ledger_->Append(ToLedgerRow(row));
    }
    queue_metrics_.ShowCustomLabels(core_->world(), metrics_);
    for (const reconciler::MetricSample& sample : output.metrics) {
      if (!Record(sample, metrics_, [this](const api::ObjectKey& queue) {
            return queue_metrics_.Wants(core_->world(), queue);
          })) {
        log::Error("bug", {{"what", "no such metric: " + sample.name}});
      }
    }
    if (options_.config.mode == Mode::kObserve) {
      score_.Take(output.observed, metrics_, *ledger_);
      return;  // writes nothing
    }
    for (reconciler::Read& read : output.reads) {
      client_->GetPath(std::move(read.path), [this, token = read.token](Result<Json> answer) {
        loop_.Post([this, token, answer = std::move(answer)]() mutable {
          core_->OnRead(token, std::move(answer));
          ScheduleStep();
        });
      });
    }
    events_->Carry(output);
    for (reconciler::Effect& effect : output.effects) {
      executor_->Submit(std::move(effect.order_key), std::move(effect.writes), effect.token,
                        [this](const kube::WriteOutcome& outcome) { OnOutcome(outcome); });
    }
  }

  void OnOutcome(const kube::WriteOutcome& outcome) {
    std::optional<Error> error;
    if (!outcome.result) {
      error = outcome.result.error();
      const bool routine =
          error->code == ErrorCode::kConflict || error->code == ErrorCode::kCancelled;
      log::Write(routine ? log::Level::kDebug : log::Level::kWarn, "write failed",
                 {{"code", ToString(error->code)}, {"error", error->message}});
    }
    core_->OnOutcome(outcome.token, outcome.answers, error);
    ScheduleStep();
  }

  void Housekeeping() {
    if (stopping_) {
      return;
    }
    loop_.PostAt(loop_.Now() + kHousekeeping, [this] { Housekeeping(); });
    events_->Housekeeping();
    RenewMetricsCertificate();
    ledger_seen_ = RecordLedger(ledger_->stats(), ledger_seen_, metrics_);
    if (core_.has_value()) {
      metrics_.Set(Metric::kToTell, {"reasons"}, static_cast<double>(core_->ReasonsWaiting()));
      const reconciler::World& world = core_->world();
      metrics_.Set(Metric::kObjects, {"jobs"}, static_cast<double>(world.CountJobs()));
      metrics_.Set(Metric::kObjects, {"pods"}, static_cast<double>(world.pods.Size()));
      metrics_.Set(Metric::kObjects, {"workloads"}, static_cast<double>(world.workloads.Size()));
      const std::string problem = core_->SanityCheck();
      if (!problem.empty()) {
        metrics_.Add(Metric::kLogBugs);
        log::Error("bug", {{"what", problem}});
      }
    }
  }

  // --- the end ---

  void Exit(Error error) {
    log::Error("exiting", {{"error", error.message}});
    exit_ = Fail(std::move(error));
    Shutdown({});
  }

  void Shutdown(std::function<void()> then) {
    if (stopping_) {
      return;
    }
    stopping_ = true;
    ready_ = false;
    log::Info("stopping", {});
    const auto finish = [this, then = std::move(then)] {
      if (then) {
        then();
      }
      loop_.Stop();
    };
    const auto release = [this, finish] {
      if (released_) {
        return;
      }
      released_ = true;
      if (elector_.has_value()) {
        elector_->Stop(finish);
      } else {
        finish();
      }
    };
    // What was decided is finished or dropped as a whole; the next life goes on from the API's
    // state.
    executor_->DrainAll(release);
    loop_.PostAt(loop_.Now() + kDrainLimit, release);
  }

  ManagerOptions options_;
  kube::ThreadLoop loop_;
  Metrics metrics_;
  std::unique_ptr<kube::Transport> transport_;
  std::optional<kube::Client> client_;
  std::optional<kube::Executor> executor_;
  std::optional<EventWriter> events_;
  std::optional<kube::LeaderElector> elector_;
  std::unique_ptr<storage::Ledger> ledger_;
  storage::LedgerStats ledger_seen_;
  std::unique_ptr<HealthServer> health_;
  std::unique_ptr<net::Server> plain_metrics_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::optional<reconciler::Core> core_;
  std::optional<CoreWatches> watches_;
  std::optional<WebhookController> webhooks_;
  QueueMetrics queue_metrics_{options_.config};
  AgreementScore score_;
  Look rules_look_;
  Look gauges_look_;
  ServerFacts facts_;
  GuardInput guard_;
  reconciler::GangApi gang_api_ = reconciler::GangApi::kNone;
  std::optional<GangProbe> probe_;
  int other_offers_ = 0;  // in a row
  std::mutex ready_detail_mutex_;
  std::string ready_detail_;
  std::atomic<bool> ready_ = false;
  bool leader_ = false;
  bool acting_ = false;
  bool stopping_ = false;
  bool released_ = false;
  bool step_scheduled_ = false;
  std::optional<Time> wake_at_;
  Status exit_;
};

Manager::Manager(ManagerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Manager::~Manager() = default;

Status Manager::Run() {
  return impl_->Run();
}

void Manager::Stop() {
  impl_->Stop();
}

}  // namespace tutti
