// SPDX-License-Identifier: Apache-2.0
#include "operator/measure_watch.h"

#include <csignal>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "kube/client.h"
#include "kube/loop.h"
#include "kube/transport.h"
#include "kube/watcher.h"
#include "measure/recorder.h"

namespace tutti {
namespace {

constexpr Duration kLookForSync = std::chrono::milliseconds(100);
constexpr Duration kMostToSync = std::chrono::minutes(5);
// So often everything is compared with the ledger, not only what has changed.
constexpr Duration kFullRound = std::chrono::minutes(10);

struct Kind {
  const char* group;
  std::vector<const char*> versions;  // best first
  const char* plural;
  const char* kind;
  bool namespaced;
  const char* without;  // what is missing when it may not be watched
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {
      {"", {"v1"}, "nodes", "Node", false, "what the nodes have, and prices by their labels"},
      {"", {"v1"}, "pods", "Pod", true, "all that pods do"},
      {"batch", {"v1"}, "jobs", "Job", true, "Jobs"},
      {"jobset.x-k8s.io", {"v1alpha2"}, "jobsets", "JobSet", true, "JobSets"},
      {"scheduling.k8s.io", {"v1beta1", "v1alpha2"}, "podgroups", "PodGroup", true, "native gangs"},
      {"scheduling.x-k8s.io", {"v1alpha1"}, "podgroups", "PodGroup", true, "pod groups"},
      {"scheduling.volcano.sh", {"v1beta1"}, "podgroups", "PodGroup", true, "Volcano's gangs"},
      {"batch.volcano.sh", {"v1alpha1"}, "jobs", "Job", true, "Volcano's jobs"},
      {"kueue.x-k8s.io",
       {"v1beta2", "v1beta1"},
       "workloads",
       "Workload",
       true,
       "evictions, and jobs of other kinds"},
      {"resource.k8s.io", {"v1"}, "resourceclaims", "ResourceClaim", true, "devices of claims"},
      {"resource.k8s.io",
       {"v1"},
       "resourceclaimtemplates",
       "ResourceClaimTemplate",
       true,
       "devices of claims"},
  };
  return kinds;
}

class Watcher {
 public:
  Watcher(const MeasureWatchOptions& options, std::string source, measure::Ledger& ledger)
      : options_(options), source_(std::move(source)), ledger_(ledger) {}

  Status Run(const kube::ClusterAccess& access) {
    // Blocked before any thread starts, so that only the waiting thread receives them.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    TRY_ASSIGN(transport_,
               kube::MakeCpprestTransport(access, {.threads = 2, .user_agent = "tutti-measure"}));
    client_.emplace(*transport_);
    if (const Status found = FindKinds(); !found) {
      transport_->Close();
      return found;
    }
    std::thread waiter([this, signals] {
      int number = 0;
      sigwait(&signals, &number);
      loop_.Post([this] { End(); });
    });
    loop_.Post([this] { Start(); });
    loop_.Run();
    watches_.clear();
    transport_->Close();
    pthread_kill(waiter.native_handle(), SIGTERM);
    waiter.join();
    return std::move(exit_);
  }

 private:
  // Which kinds are served and may be listed; an error when there is no answer at all.
  Status FindKinds() {
    bool answered = false;
    for (const Kind& kind : Kinds()) {
      for (const char* version : kind.versions) {
        const api::Resource resource{kind.group, version, kind.plural, kind.kind, kind.namespaced};
        kube::ListOptions one;
        one.ns = kind.namespaced ? options_.ns : "";
        one.limit = 1;
        std::promise<Result<Json>> promise;
        client_->List(resource, one,
                      [&promise](Result<Json> answer) { promise.set_value(std::move(answer)); });
        const Result<Json> answer = promise.get_future().get();
        const ErrorCode code = answer ? ErrorCode::kInternal : answer.error().code;
        if (!answer && code != ErrorCode::kNotFound && code != ErrorCode::kForbidden) {
          return Fail(answer.error());
        }
        if (answer) {
          resources_.push_back(resource);
        } else if (code == ErrorCode::kForbidden) {
          if (std::string_view(kind.kind) == "Pod") {
            return Fail(answer.error().With("pods must be listed and watched"));
          }
          options_.say(std::string(kind.plural) + " can't be listed, so the ledger lacks " +
                       kind.without + ": " + answer.error().message);
        }
        answered = answered || answer || code == ErrorCode::kForbidden;
        if (code != ErrorCode::kNotFound) {
          break;
        }
      }
    }
    return answered ? Status()
                    : Fail(ErrorCode::kNotFound,
                           "the server serves none of the kinds that are "
                           "looked at: is it a Kubernetes API server?");
  }

  void Start() {
    started_ = loop_.Now();
    for (const api::Resource& resource : resources_) {
      kube::WatchOptions watch;
      watch.ns = resource.namespaced ? options_.ns : "";
      watch.limits.seed = watches_.size() + 1;
      watches_.push_back(std::make_unique<kube::Watch>(
          *client_, loop_, resource, watch,
          [kind = resource.kind, version = resource.ApiVersion()](
              const Json& object) -> Result<std::shared_ptr<const void>> {
            return std::shared_ptr<const void>(std::make_shared<const measure::Slim>(
                measure::MakeSlim(object, std::string(kind), version)));
          },
          [this](const kube::UntypedWatchEvent& event) { On(event); }));
    }
    Round();
  }

  void On(const kube::UntypedWatchEvent& event) {
    using Type = kube::WatchEventType;
    if (event.object == nullptr) {
      return;
    }
    recorder_.Take(std::static_pointer_cast<const measure::Slim>(event.object),
                   event.type == Type::kDeleted, Now());
  }

  [[nodiscard]] Time Now() const { return std::chrono::floor<std::chrono::seconds>(loop_.Now()); }

  // "" or why what is seen now may be old.
  [[nodiscard]] std::string Trouble() const {
    for (size_t i = 0; i < watches_.size(); ++i) {
      if (const std::string error = watches_[i]->LastError(); !error.empty()) {
        return std::string(resources_[i].plural) + ": " + error;
      }
    }
    return "";
  }

  [[nodiscard]] bool Synced() const {
    for (const auto& watch : watches_) {
      if (!watch->Synced()) {
        return false;
      }
    }
    return true;
  }

  void Round() {
    if (ended_) {
      return;
    }
    const std::string trouble = Trouble();
    if (!Synced()) {
      if (loop_.Now() - started_ > kMostToSync) {
        Exit(Error{ErrorCode::kTimeout,
                   "the cluster was not listed within " + FormatDuration(kMostToSync) +
                       (trouble.empty() ? "" : ": " + trouble),
                   0,
                   {}});
        return;
      }
      loop_.PostAt(loop_.Now() + kLookForSync, [this] { Round(); });
      return;
    }
    if (const Status recorded = Record(trouble); !recorded) {
      Exit(recorded.error());
      return;
    }
    const Time now = loop_.Now();
    if (options_.run_for > Duration::zero() && now >= started_ + options_.run_for) {
      End();
      return;
    }
    Time next = now + options_.every;
    if (options_.run_for > Duration::zero()) {
      next = std::min(next, started_ + options_.run_for);
    }
    loop_.PostAt(next, [this] { Round(); });
  }

  Status Record(const std::string& trouble) {
    if (!trouble.empty()) {
      if (std::exchange(watching_, false)) {
        options_.say("interrupted, this time is not counted: " + trouble);
      }
      return {};
    }
    const Time now = Now();
    if (!watching_) {
      TRY(ledger_.Begin(source_, std::max(now, ledger_.End()), /*sampled=*/false));
      options_.say((std::exchange(said_, true) ? "watching again " : "watching ") + source_);
    }
    const bool full = !watching_ || now >= last_full_ + kFullRound;
    watching_ = true;
    if (!full && !recorder_.Changed()) {
      return ledger_.Extend(now);
    }
    if (!full) {
      return ledger_.Record(recorder_.Collect(now), nullptr);
    }
    last_full_ = now;
    recorder_.TouchAll();
    const std::set<std::string> alive = recorder_.Alive();
    return ledger_.Record(recorder_.Collect(now), &alive);
  }

  void End() {
    if (ended_) {
      return;
    }
    if (watching_) {
      if (const Status last = Record(Trouble()); !last) {
        Exit(last.error());
        return;
      }
    }
    ended_ = true;
    loop_.Stop();
  }

  void Exit(Error error) {
    ended_ = true;
    exit_ = Fail(std::move(error));
    loop_.Stop();
  }

  const MeasureWatchOptions& options_;
  const std::string source_;
  measure::Ledger& ledger_;
  kube::ThreadLoop loop_;
  std::unique_ptr<kube::Transport> transport_;
  std::optional<kube::Client> client_;
  std::vector<api::Resource> resources_;
  std::vector<std::unique_ptr<kube::Watch>> watches_;  // one for each of resources_
  measure::Recorder recorder_;
  Time started_ = kNoTime;
  Time last_full_ = kNoTime;
  bool watching_ = false;
  bool said_ = false;
  bool ended_ = false;
  Status exit_;
};

}  // namespace

Status WatchIntoLedger(const kube::ClusterAccess& access, const MeasureWatchOptions& options,
                       measure::Ledger& ledger) {
  const std::string source =
      "cluster " + access.server + (options.ns.empty() ? "" : ", namespace " + options.ns);
  return Watcher(options, source, ledger).Run(access);
}

}  // namespace tutti
