// SPDX-License-Identifier: Apache-2.0
// Against a real API server (the e2e suite runs it): kube_live_test KUBECONFIG [WRITES]
// Goes through the transport, client, watcher, executor and lease once, and prints what it
// measured. Exit 0: everything held. It works in a namespace of its own and deletes it at the end.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

#include "kube/client.h"
#include "kube/events.h"
#include "kube/executor.h"
#include "kube/kubeconfig.h"
#include "kube/lease.h"
#include "kube/loop.h"
#include "kube/transport.h"
#include "kube/watcher.h"

namespace tutti::kube {
namespace {

struct ConfigMap {
  std::string name;
  int64_t data_size = 0;
};

Result<ConfigMap> DecodeConfigMap(const Json& json) {
  return ConfigMap{json["metadata"]["name"].AsString(),
                   static_cast<int64_t>(json["data"].AsObject().size())};
}

const api::Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const api::Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};

int failures = 0;

void Expect(bool held, const std::string& what) {
  std::printf("%s  %s\n", held ? "ok  " : "FAIL", what.c_str());
  std::fflush(stdout);
  failures += held ? 0 : 1;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long RssKb() {
  std::ifstream in("/proc/self/statm");
  long total = 0;
  long resident = 0;
  in >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

class Program {
 public:
  Program(ClusterAccess access, int writes, bool beast)
      : access_(std::move(access)), writes_(writes), beast_(beast) {}

  int Run() {
    Result<std::unique_ptr<Transport>> transport =
        beast_ ? MakeBeastTransport(access_, {}) : MakeCpprestTransport(access_, {});
    if (!transport) {
      std::printf("transport: %s\n", transport.error().message.c_str());
      return 1;
    }
    transport_ = std::move(*transport);
    client_ = std::make_unique<Client>(*transport_);
    loop_thread_ = std::thread([this] { loop_.Run(); });
    ns_ = "kube-live-" + std::to_string(getpid());

    CheckDiscovery();
    CheckErrors();
    CheckWatch();
    CheckExecutor();
    CheckFlood();
    CheckLease();
    CheckEvents();
    CheckDeadline();
    Wait([&](JsonCallback done) {
      client_->Do({api::Verb::kDelete, kNamespaces, {"", ns_}, "", "", Json()}, std::move(done));
    });
    std::printf("      resident %ld kB\n", RssKb());

    std::promise<void> cleared;
    loop_.Post([&] {
      watch_.reset();
      executor_.reset();
      cleared.set_value();
    });
    cleared.get_future().wait();
    const Time before = loop_.Now();
    transport_->Close();
    std::printf("      close took %lld us\n",
                static_cast<long long>((loop_.Now() - before).count()));
    loop_.Stop();
    loop_thread_.join();
    std::printf("%s\n", failures == 0 ? "all held" : "FAILED");
    return failures == 0 ? 0 : 1;
  }

 private:
  Result<Json> Wait(const std::function<void(JsonCallback)>& start) {
    std::promise<Result<Json>> promise;
    start([&](Result<Json> result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }

  Result<Json> Do(const api::WriteRequest& request) {
    return Wait([&](JsonCallback done) { client_->Do(request, std::move(done)); });
  }

  api::WriteRequest Map(api::Verb verb, const std::string& name, Json body) {
    if (verb == api::Verb::kCreate || verb == api::Verb::kApply) {
      body.Set("apiVersion", "v1");
      body.Set("kind", "ConfigMap");
      body.At("metadata").Set("name", name).Set("namespace", ns_);
    }
    return {verb, kConfigMaps, {ns_, name}, "", "live-test", std::move(body)};
  }

  void CheckDiscovery() {
    std::promise<Result<Discovery>> promise;
    client_->Discover([&](Result<Discovery> found) { promise.set_value(std::move(found)); });
    const Result<Discovery> found = promise.get_future().get();
    Expect(found.has_value(), "discovery answers" + (found ? "" : ": " + found.error().message));
    if (found) {
      std::string podgroups;
      for (const std::string& version : found->podgroup_versions) {
        podgroups += version + " ";
      }
      std::printf("      %s, podgroups: %s, mutating policies: %s, kueue versions: %zu\n",
                  found->git_version.c_str(), podgroups.c_str(),
                  found->mutating_admission_policies ? "yes" : "no", found->kueue_versions.size());
      Expect(found->major == 1 && found->minor > 0, "the server's version is known");
      Expect(found->validating_admission_policies, "validating admission policies are served");
    }
  }

  void CheckErrors() {
    const Result<Json> created = Do({api::Verb::kCreate,
                                     kNamespaces,
                                     {"", ns_},
                                     "",
                                     "",
                                     Json::Obj({{"apiVersion", "v1"},
                                                {"kind", "Namespace"},
                                                {"metadata", Json::Obj({{"name", ns_}})}})});
    Expect(created.has_value(),
           "a namespace is created" + (created ? std::string() : ": " + created.error().message));
    Expect(Do(Map(api::Verb::kCreate, "a", Json::Obj({{"data", Json::Obj({{"x", "1"}})}})))
               .has_value(),
           "create");
    const Result<Json> again = Do(Map(api::Verb::kCreate, "a", Json::Obj()));
    Expect(!again && again.error().code == ErrorCode::kAlreadyExists,
           "create again: AlreadyExists");
    const Result<Json> stale =
        Do(Map(api::Verb::kMergePatch, "a",
               Json::Obj({{"metadata", Json::Obj({{"resourceVersion", "1"}})},
                          {"data", Json::Obj({{"x", "2"}})}})));
    Expect(!stale && stale.error().code == ErrorCode::kConflict, "stale patch: Conflict");
    const Result<Json> gone =
        Do(Map(api::Verb::kMergePatch, "none", Json::Obj({{"data", Json()}})));
    Expect(!gone && gone.error().code == ErrorCode::kNotFound, "patch of nothing: NotFound");
    const Result<Json> bad =
        Do(Map(api::Verb::kMergePatch, "a", Json::Obj({{"data", Json::Obj({{"bad key", "1"}})}})));
    Expect(!bad && bad.error().code == ErrorCode::kInvalid, "invalid field: Invalid");
    const Result<Json> applied =
        Do(Map(api::Verb::kApply, "a", Json::Obj({{"data", Json::Obj({{"x", "3"}})}})));
    Expect(applied && (*applied)["data"]["x"].AsString() == "3", "server-side apply");
    const Result<Json> patched =
        Do(Map(api::Verb::kJsonPatch, "a",
               Json::Arr({Json::Obj({{"op", "replace"}, {"path", "/data/x"}, {"value", "4"}})})));
    Expect(patched && (*patched)["data"]["x"].AsString() == "4", "json patch");
    const Result<Json> wrong =
        Do({api::Verb::kDelete, kConfigMaps, {ns_, "a"}, "", "", Json::Obj({{"uid", "x"}})});
    Expect(!wrong && wrong.error().code == ErrorCode::kConflict, "delete of another uid: Conflict");
  }

  // Waits on the main thread until `held` (evaluated on the loop) or ten seconds have passed.
  bool Until(const std::function<bool()>& held) {
    std::promise<bool> promise;
    const Time end = loop_.Now() + std::chrono::seconds(60);
    std::function<void()> look = [&] {
      if (held()) {
        promise.set_value(true);
      } else if (loop_.Now() > end) {
        promise.set_value(false);
      } else {
        loop_.PostAt(loop_.Now() + std::chrono::milliseconds(2), look);
      }
    };
    loop_.Post(look);
    return promise.get_future().get();
  }

  void CheckWatch() {
    WatchOptions options;
    options.ns = ns_;
    loop_.Post([this, options] {
      watch_ = WatchTyped<ConfigMap>(*client_, loop_, kConfigMaps, options, &DecodeConfigMap,
                                     [this](const WatchEvent<ConfigMap>& event) {
                                       synced_ = synced_ || event.type == WatchEventType::kSynced;
                                       added_ += event.type == WatchEventType::kAdded ||
                                                 event.type == WatchEventType::kInitialAdd;
                                       modified_ += event.type == WatchEventType::kModified;
                                       deleted_ += event.type == WatchEventType::kDeleted;
                                     });
    });
    Expect(Until([this] { return synced_ && added_ > 0; }), "a watch synchronises");
    Do(Map(api::Verb::kCreate, "b", Json::Obj()));
    Do({api::Verb::kDelete, kConfigMaps, {ns_, "b"}, "", "", Json()});
    Expect(Until([this] { return deleted_ >= 1; }), "creation and deletion arrive");
  }

  void CheckExecutor() {
    const double cpu = CpuSeconds();
    const Time start = loop_.Now();
    const int before = added_;
    loop_.Post([this] {
      executor_ = std::make_unique<Executor>(
          loop_, [this](const api::WriteRequest& request, JsonCallback done) {
            client_->Do(request, std::move(done));
          });
      for (int i = 0; i < writes_; ++i) {
        const std::string name = "w" + std::to_string(i);
        Json patch = Json::Obj({{"data", Json::Obj({{"n", std::to_string(i)}})}});
        executor_->Submit(name,
                          {Map(api::Verb::kCreate, name, Json::Obj()),
                           Map(api::Verb::kMergePatch, name, std::move(patch))},
                          static_cast<uint64_t>(i), [this](const WriteOutcome& outcome) {
                            written_ += outcome.result.has_value() ? 1 : 0;
                            finished_ += 1;
                          });
      }
    });
    Expect(Until([this] { return finished_ == writes_; }) && written_ == writes_,
           "ordered writes through the executor");
    const double seconds = static_cast<double>((loop_.Now() - start).count()) / 1e6;
    const double used = CpuSeconds() - cpu;
    std::printf("      %d writes in %.2f s: %.0f/s, client CPU %.2f ms each (watch included)\n",
                2 * writes_, seconds, 2 * writes_ / seconds, 1000 * used / (2 * writes_));
    Expect(Until([this, before] { return added_ >= before + writes_; }),
           "every object arrives by watch");
  }

  // All objects at once: what a start costs.
  void CheckFlood() {
    const double cpu = CpuSeconds();
    const Time start = loop_.Now();
    bool synced = false;
    int seen = 0;
    std::unique_ptr<Watch> second;
    WatchOptions options;
    options.ns = ns_;
    loop_.Post([&] {
      second = WatchTyped<ConfigMap>(*client_, loop_, kConfigMaps, options, &DecodeConfigMap,
                                     [&](const WatchEvent<ConfigMap>& event) {
                                       synced = synced || event.type == WatchEventType::kSynced;
                                       ++seen;
                                     });
    });
    Expect(Until([&] { return synced; }), "a second watch synchronises");
    const double seconds = static_cast<double>((loop_.Now() - start).count()) / 1e6;
    std::printf("      %d initial events in %.3f s, %.3f s of CPU\n", seen, seconds,
                CpuSeconds() - cpu);
    std::promise<void> gone;
    loop_.Post([&] {
      second.reset();
      gone.set_value();
    });
    gone.get_future().wait();
  }

  void CheckLease() {
    LeaseOptions options;
    options.key = {ns_, "leader"};
    options.identity = "first";
    bool first = false;
    bool second = false;
    std::unique_ptr<LeaderElector> one;
    std::unique_ptr<LeaderElector> two;
    loop_.Post([&] {
      one = std::make_unique<LeaderElector>(
          loop_, *client_, options,
          LeaderElector::Callbacks{[&] { first = true; }, [&] { first = false; }, {}});
      one->Start();
    });
    Expect(Until([&] { return first; }), "the first candidate leads");
    options.identity = "second";
    loop_.Post([&] {
      two = std::make_unique<LeaderElector>(
          loop_, *client_, options,
          LeaderElector::Callbacks{[&] { second = true; }, [&] { second = false; }, {}});
      two->Start();
      one->Stop([] {});
    });
    Expect(Until([&] { return second && !first; }), "a released lease goes to the next");
    bool stopped = false;
    loop_.Post([&] { two->Stop([&] { stopped = true; }); });
    Expect(Until([&] { return stopped && !second; }), "the second stops");
    std::promise<void> gone;
    loop_.Post([&] {
      one.reset();
      two.reset();
      gone.set_value();
    });
    gone.get_future().wait();
    const Result<Json> lease = Wait([&](JsonCallback done) {
      client_->Get(api::ResourceOf(api::Kind::kLease), options.key, std::move(done));
    });
    Expect(lease && (*lease)["spec"]["holderIdentity"].AsString().empty() &&
               (*lease)["spec"]["leaseTransitions"].AsInt() >= 1,
           "the lease is empty and counted its changes");
  }

  void CheckEvents() {
    std::vector<api::WriteRequest> requests;
    EventRecorder recorder({}, [&](const std::string&, api::WriteRequest request) {
      requests.push_back(std::move(request));
    });
    const ObjectReference object{"v1", "ConfigMap", ns_, "a", "", ""};
    const Time now = loop_.Now();
    recorder.Record(object, "Normal", "Tested", "seen once", now);
    recorder.Record(object, "Normal", "Tested", "seen once", now + std::chrono::seconds(11));
    Result<Json> last = Json();
    for (const api::WriteRequest& request : requests) {
      last = Do(request);
      if (!last) {
        break;
      }
    }
    Expect(
        requests.size() == 2 && last && (*last)["count"].AsInt() == 2,
        "an event is written and counted" + (last ? std::string() : ": " + last.error().message));
  }

  void CheckDeadline() {
    const Result<Json> late = Wait([&](JsonCallback done) {
      client_->GetPath("/api/v1/configmaps?watch=1&timeoutSeconds=20", std::move(done),
                       std::chrono::milliseconds(200));
    });
    Expect(!late && late.error().code == ErrorCode::kTimeout, "a deadline ends a call");
  }

  ClusterAccess access_;
  const int writes_;
  const bool beast_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Client> client_;
  ThreadLoop loop_;
  std::thread loop_thread_;
  std::string ns_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Executor> executor_;
  bool synced_ = false;
  int added_ = 0;
  int modified_ = 0;
  int deleted_ = 0;
  int written_ = 0;
  int finished_ = 0;
};

}  // namespace
}  // namespace tutti::kube

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : std::getenv("KUBECONFIG_TEST");
  if (path == nullptr) {
    std::printf("usage: kube_live_test KUBECONFIG [WRITES [beast|cpprestsdk]]\n");
    return 2;
  }
  auto access = tutti::kube::LoadKubeconfig(path);
  if (!access) {
    std::printf("%s\n", access.error().message.c_str());
    return 2;
  }
  const int writes = argc > 2 ? std::atoi(argv[2]) : 500;
  const bool beast = argc <= 3 || std::string_view(argv[3]) != "cpprestsdk";
  return tutti::kube::Program(std::move(*access), writes, beast).Run();
}
