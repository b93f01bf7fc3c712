// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook_controller.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/names.h"
#include "operator/front_proxy.h"
#include "operator/visibility_server.h"
#include "operator/webhook_certs.h"
#include "operator/webhook_server.h"

namespace tutti {
namespace {

using std::chrono::seconds;

constexpr Duration kLookInterval = seconds(10);    // nothing to serve
constexpr Duration kSteadyInterval = seconds(60);  // all well
constexpr Duration kWorkInterval = seconds(1);     // something is on its way
constexpr Duration kRetryInterval = seconds(5);

const api::Resource& SelfSubjectReviews() {
  static const api::Resource resource{"authentication.k8s.io", "v1", "selfsubjectreviews",
                                      "SelfSubjectReview", false};
  return resource;
}

// What the rules go by, as counted by the stores: queues by their names (their statuses change all
// the time), namespaces and classes by what they say.
using Seen = std::array<uint64_t, 3>;

Seen SeenIn(const reconciler::World& world) {
  return {world.local_queues.Names(), world.namespaces.Changes(),
          world.workload_priorities.Changes()};
}

}  // namespace

struct WebhookController::Impl : std::enable_shared_from_this<WebhookController::Impl> {
  Impl(const Config& own_config, Dependencies dependencies)
      : config(own_config), deps(std::move(dependencies)) {
    options.secret = {config.ns, config.internal_certs.webhook_secret};
    options.service = config.internal_certs.webhook_service;
    if (config.webhooks == WebhookServing::kAlways) {
      not_ready = "webhooks: not served yet";
      rules.others_may_resume = true;
    }
    rules.manage_jobs_without_queue_name = config.manage_jobs_without_queue_name;
    const auto uses = [&](std::string_view framework) {
      const auto& used = config.integrations.frameworks;
      return std::find(used.begin(), used.end(), framework) != used.end();
    };
    rules.pods = uses("pod");
    rules.deployments = uses("deployment");
    rules.statefulsets = uses("statefulset");
    rules.partial_admission = config.gates.Enabled("PartialAdmission");
    rules.elastic_jobs = config.gates.Enabled("ElasticJobsViaWorkloadSlices");
    rules.priority_boost = config.gates.Enabled("PriorityBoost");
    rules.own_user =
        "system:serviceaccount:" + config.ns + ":" + std::string(names::kServiceAccount);
  }

  // Runs `fn` on the loop as long as this object lives.
  template <typename Fn>
  auto OnLoop(Fn fn) {
    return [weak = weak_from_this(), loop = deps.loop, fn](Result<Json> answer) {
      loop->Post([weak, fn, answer = std::move(answer)]() mutable {
        if (const auto self = weak.lock()) {
          fn(*self, std::move(answer));
        }
      });
    };
  }

  void Later(Duration delay) {
    deps.loop->PostAt(deps.loop->Now() + delay, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->Look();
      }
    });
  }

  void Trouble(const Error& error) {
    log::Warn("webhook certificates", {{"error", error.message}});
    if (!found.empty() || config.webhooks == WebhookServing::kAlways) {
      Say("webhooks: " + error.message);  // the API server counts on us
    }
    Later(kRetryInterval);
  }

  void Say(std::string problem) {
    const std::scoped_lock lock(mutex);
    not_ready = std::move(problem);
  }

  // Under which name do our own writes arrive?
  void AskOwnName() {
    api::WriteRequest request;
    request.verb = api::Verb::kCreate;
    request.resource = SelfSubjectReviews();
    request.body = Json::Obj(
        {{"apiVersion", SelfSubjectReviews().ApiVersion()}, {"kind", SelfSubjectReviews().kind}});
    deps.client->Do(request, OnLoop([](Impl& self, Result<Json> answer) {
                      const std::string name =
                          answer ? (*answer)["status"]["userInfo"]["username"].AsString() : "";
                      if (!name.empty()) {
                        self.rules.own_user = name;
                      }
                      self.PublishRules();
                      self.Look();
                    }));
  }

  void Look() {
    found.clear();
    callers = {{MutatingWebhookResource(), options.mutating_configuration},
               {ValidatingWebhookResource(), options.validating_configuration}};
    if (config.gates.Enabled("VisibilityOnDemand")) {
      for (const char* version : {"v1beta1", "v1beta2"}) {
        callers.emplace_back(ApiServiceResource(),
                             std::string(version) + ".visibility.kueue.x-k8s.io");
      }
    }
    // Conversion is asked for only where a second version is served; the definitions are large, so
    // they are not read for nothing.
    deps.client->GetPath(
        "/apis/" + std::string(names::kKueueGroup), OnLoop([](Impl& self, Result<Json> answer) {
          if (!answer && answer.error().code != ErrorCode::kNotFound) {
            self.Trouble(answer.error());
            return;
          }
          if (answer && (*answer)["versions"].AsArray().size() > 1) {
            for (const char* plural :
                 {"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"}) {
              self.callers.emplace_back(
                  CustomResourceDefinitionResource(),
                  std::string(plural) + "." + std::string(names::kKueueGroup));
            }
          }
          self.LookForNext();
        }));
  }

  void LookForNext() {
    if (callers.empty()) {
      OnConfigurations();
      return;
    }
    const auto [resource, name] = callers.back();
    callers.pop_back();
    deps.client->Get(resource, {"", name},
                     OnLoop([kind = resource.kind](Impl& self, Result<Json> answer) {
                       const ErrorCode code = answer ? ErrorCode::kNotFound : answer.error().code;
                       // An installation without the visibility API has no right to look for it.
                       const bool absent = code == ErrorCode::kNotFound ||
                                           (kind == "APIService" && code == ErrorCode::kForbidden);
                       if (!absent) {
                         self.Trouble(answer.error());
                         return;
                       }
                       if (answer) {
                         answer->Set("kind", kind);
                         if (CallsUs(self.options, *answer)) {
                           self.found.push_back(std::move(*answer));
                         }
                       }
                       self.LookForNext();
                     }));
  }

  void OnConfigurations() {
    if (found.empty() && config.webhooks == WebhookServing::kAuto) {
      Say("");  // nobody calls us
      Later(kLookInterval);
      return;
    }
    const auto is_api_service = [](const Json& caller) {
      return caller["kind"].AsString() == "APIService";
    };
    const bool webhooks = config.webhooks == WebhookServing::kAlways ||
                          !std::all_of(found.begin(), found.end(), is_api_service);
    if (webhooks && !Listen()) {
      return;
    }
    if (!std::any_of(found.begin(), found.end(), is_api_service)) {
      LookForCertificate();
      return;
    }
    if (!ListenForVisibility()) {
      return;
    }
    deps.client->Get(ConfigMapResource(), FrontProxyConfigMap(),
                     OnLoop([](Impl& self, Result<Json> answer) {
                       if (!answer) {
                         self.Trouble(answer.error());
                         return;
                       }
                       auto parsed = ParseFrontProxy(*answer);
                       if (!parsed) {
                         self.Trouble(parsed.error().With(FrontProxyConfigMap().ToString()));
                         return;
                       }
                       self.proxy = std::move(*parsed);
                       self.LookForCertificate();
                     }));
  }

  void LookForCertificate() {
    if (!config.internal_certs.enabled) {
      ServeDirectory();
      return;
    }
    deps.client->Get(SecretResource(), options.secret, OnLoop([](Impl& self, Result<Json> answer) {
                       if (!answer && answer.error().code != ErrorCode::kNotFound) {
                         self.Trouble(answer.error());
                         return;
                       }
                       self.Follow(answer ? *answer : Json());
                     }));
  }

  bool Listen() {
    if (server) {
      return true;
    }
    auto started = WebhookServer::Start({config.webhook.host, config.webhook.port},
                                        config.tls_min_version, rules, deps.metrics);
    if (!started) {
      Trouble(started.error());
      return false;
    }
    server = std::move(*started);
    log::Info("webhooks are served", {{"port", static_cast<int64_t>(server->port())}});
    PublishRules();
    return true;
  }

  bool ListenForVisibility() {
    if (visibility) {
      return true;
    }
    auto started = VisibilityServer::Start(config.visibility, config.tls_min_version, deps.pending,
                                           deps.metrics);
    if (!started) {
      Trouble(started.error());
      return false;
    }
    visibility = std::move(*started);
    log::Info("the visibility API is served", {{"port", static_cast<int64_t>(visibility->port())}});
    return true;
  }

  Status Serve(const net::TlsMaterial& material) {
    if (server) {
      TRY(server->SetCertificate(material));
    }
    if (visibility) {
      TRY(visibility->Set(material, proxy));
    }
    return {};
  }

  void ServeDirectory() {
    const auto material = LoadCertificateDirectory(config.webhook.cert_dir);
    if (!material) {
      Trouble(material.error());
      return;
    }
    if (const Status status = Serve(*material); !status) {
      Trouble(status.error());
      return;
    }
    Say("");
    Later(kSteadyInterval);
  }

  void Follow(const Json& secret) {
    const Time now = deps.loop->Now();
    auto plan = PlanWebhookCerts(options, ParseWebhookSecret(secret), found, now);
    if (!plan) {
      Trouble(plan.error());
      return;
    }
    if (!plan->serve.key_pem.empty()) {
      if (const Status status = Serve(plan->serve); !status) {
        Trouble(status.error());
        return;
      }
    }
    Say(plan->ready ? "" : "webhooks: the certificate is not there or not trusted yet");
    if (plan->writes.empty() || !deps.may_write()) {
      Later(plan->ready ? std::clamp<Duration>(plan->next_check - now, seconds(1), kSteadyInterval)
                        : kWorkInterval);
      return;
    }
    deps.executor->Submit("webhook-certificates", std::move(plan->writes), 0,
                          [weak = weak_from_this()](const kube::WriteOutcome& outcome) {
                            if (const auto self = weak.lock()) {
                              self->OnWritten(outcome.result);
                            }
                          });
  }

  void OnWritten(const Result<Json>& result) {
    // A conflict means that another replica was first: look again.
    if (!result && result.error().code != ErrorCode::kConflict &&
        result.error().code != ErrorCode::kAlreadyExists) {
      Trouble(result.error());
      return;
    }
    Look();
  }

  void PublishRules() {
    if (server) {
      server->SetRules(rules);
    }
  }

  const Config config;
  const Dependencies deps;
  WebhookCertOptions options;
  webhooks::Rules rules;
  std::optional<Seen> seen;                                    // by the last SetWorld
  std::vector<std::pair<api::Resource, std::string>> callers;  // still to be looked for
  std::vector<Json> found;                                     // those that call us
  std::unique_ptr<WebhookServer> server;
  std::unique_ptr<VisibilityServer> visibility;
  FrontProxy proxy;
  mutable std::mutex mutex;  // for not_ready
  std::string not_ready;
};

WebhookController::WebhookController(const Config& config, Dependencies dependencies)
    : impl_(std::make_shared<Impl>(config, std::move(dependencies))) {}

WebhookController::~WebhookController() {
  if (impl_->server) {
    impl_->server->Stop();
  }
  if (impl_->visibility) {
    impl_->visibility->Stop();
  }
}

void WebhookController::Start() {
  impl_->AskOwnName();
}

void WebhookController::SetPodGroups(bool served) {
  impl_->rules.pod_groups = served;
  impl_->PublishRules();
}

bool WebhookController::Knows(const reconciler::World& world) const {
  return impl_->seen == SeenIn(world);
}

void WebhookController::SetWorld(const reconciler::World& world) {
  impl_->seen = SeenIn(world);
  std::set<std::string> with_default;
  for (const auto& [key, queue] : world.local_queues.All()) {
    if (key.name == "default") {
      with_default.insert(key.ns);
    }
  }
  const api::LabelSelector& selector = impl_->config.managed_jobs_namespace_selector;
  std::map<std::string, bool> managed;
  for (const auto& [key, ns] : world.namespaces.All()) {
    managed[key.name] = selector.Matches(ns->meta.labels);
  }
  impl_->rules.has_default_queue = [with_default = std::move(with_default)](const std::string& ns) {
    return with_default.count(ns) > 0;
  };
  impl_->rules.manages = [managed = std::move(managed), selector](const std::string& ns) {
    const auto known = managed.find(ns);
    // A namespace that has just been made: its name is a label that it has.
    return known != managed.end() ? known->second
                                  : selector.Matches({{"kubernetes.io/metadata.name", ns}});
  };
  impl_->rules.default_priority_class =
      impl_->config.gates.Enabled("WorkloadPriorityClassDefaulting") &&
      world.workload_priorities.Find({"", "default"}) != nullptr;
  impl_->PublishRules();
}

uint16_t WebhookController::port() const {
  return impl_->server ? impl_->server->port() : 0;
}

uint16_t WebhookController::visibility_port() const {
  return impl_->visibility ? impl_->visibility->port() : 0;
}

std::string WebhookController::NotReady() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->not_ready;
}

}  // namespace tutti
