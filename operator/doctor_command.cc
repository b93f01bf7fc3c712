// SPDX-License-Identifier: Apache-2.0
#include "operator/doctor_command.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "api/meta.h"
#include "base/names.h"
#include "kube/client.h"
#include "kube/kubeconfig.h"
#include "operator/guard.h"
#include "operator/rights.h"

namespace tutti {
namespace {

constexpr int kExitMissing = 1;
constexpr int kExitNoAnswer = 2;
constexpr std::string_view kAdmission = "/apis/admissionregistration.k8s.io/";
constexpr std::string_view kValidatingWebhooks = "validatingwebhookconfigurations";
constexpr std::string_view kMutatingWebhooks = "mutatingwebhookconfigurations";
constexpr std::string_view kServiceAccount = "tutti-controller-manager";

class Collector {
 public:
  Collector(kube::Transport& transport, std::string operator_ns, Time now)
      : transport_(transport), client_(transport), ns_(std::move(operator_ns)), now_(now) {}

  Result<cli::DoctorFacts> Run() {
    TRY_ASSIGN(const Json version, Get("/version"));
    facts_.git_version = version["gitVersion"].AsString();
    facts_.minor = std::atoi(version["minor"].AsString().c_str());
    facts_.queue_versions = Serving("kueue.x-k8s.io", "clusterqueues");
    facts_.group_versions = Serving("scheduling.k8s.io", "podgroups");
    facts_.claim_versions = Serving("resource.k8s.io", "resourceclaims");
    facts_.mutating_policy_versions =
        Serving("admissionregistration.k8s.io", "mutatingadmissionpolicies");
    facts_.validating_policy_versions =
        Serving("admissionregistration.k8s.io", "validatingadmissionpolicies");
    Gates();
    Policies();
    Webhooks();
    if (!facts_.claim_versions.empty()) {
      facts_.resource_slices = Count(facts_.claim_versions.front(), "resourceslices");
      facts_.device_classes = Count(facts_.claim_versions.front(), "deviceclasses");
    }
    Rights();
    return std::move(facts_);
  }

 private:
  Result<Json> Get(const std::string& path) {
    std::promise<Result<Json>> promise;
    client_.GetPath(path,
                    [&promise](Result<Json> answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }

  Result<std::string> GetText(const std::string& path) {
    std::promise<Result<kube::HttpResponse>> promise;
    kube::HttpRequest request;
    request.target = path;
    transport_.Send(std::move(request), [&promise](Result<kube::HttpResponse> answer) {
      promise.set_value(std::move(answer));
    });
    TRY_ASSIGN(kube::HttpResponse answer, promise.get_future().get());
    if (answer.status != 200) {
      return Fail(ErrorCode::kForbidden, "HTTP " + std::to_string(answer.status));
    }
    return std::move(answer.body);
  }

  void Problem(const std::string& what, const Error& error) {
    facts_.problems.push_back(what + ": " + error.message);
  }

  // Versions of a group that serve a resource, in the server's order of preference.
  std::vector<std::string> Serving(const std::string& group, std::string_view plural) {
    std::vector<std::string> out;
    const Result<Json> found = Get("/apis/" + group);
    if (!found) {
      if (found.error().code != ErrorCode::kNotFound) {
        Problem("API group " + group, found.error());
      }
      return out;
    }
    for (const Json& version : (*found)["versions"].AsArray()) {
      const std::string& name = version["version"].AsString();
      const Result<Json> resources = Get("/apis/" + group + "/" + name);
      if (!resources) {
        Problem("API " + group + "/" + name, resources.error());
        continue;
      }
      for (const Json& resource : (*resources)["resources"].AsArray()) {
        if (resource["name"].AsString() == plural) {
          out.push_back(name);
        }
      }
    }
    return out;
  }

  void Gates() {
    const Result<std::string> metrics = GetText("/metrics");
    if (metrics) {
      facts_.api_server = cli::GatesFromMetrics(*metrics);
    } else {
      Problem("gates of kube-apiserver (GET /metrics)", metrics.error());
    }
    const Result<Json> pods =
        Get("/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane");
    if (!pods) {
      Problem("pods of the control plane (kube-system)", pods.error());
      return;
    }
    if (facts_.api_server.source.empty()) {
      facts_.api_server = cli::GatesFromPods(*pods, "kube-apiserver");
    }
    facts_.controller_manager = cli::GatesFromPods(*pods, "kube-controller-manager");
    facts_.scheduler = cli::GatesFromPods(*pods, "kube-scheduler");
  }

  // Names of policies that a binding puts into force.
  Status AddPolicies(const std::string& version, std::string_view kind) {
    const std::string path = std::string(kAdmission) + version + "/" + std::string(kind);
    TRY_ASSIGN(const Json policies, Get(path + "admissionpolicies"));
    TRY_ASSIGN(const Json bindings, Get(path + "admissionpolicybindings"));
    for (const Json& policy : policies["items"].AsArray()) {
      const std::string& name = policy["metadata"]["name"].AsString();
      for (const Json& binding : bindings["items"].AsArray()) {
        if (binding["spec"]["policyName"].AsString() == name) {
          facts_.policies->insert(name);
        }
      }
    }
    return {};
  }

  void Policies() {
    facts_.policies.emplace();
    for (const auto& [versions, kind] :
         {std::pair(&facts_.mutating_policy_versions, "mutating"),
          std::pair(&facts_.validating_policy_versions, "validating")}) {
      if (versions->empty()) {
        continue;
      }
      if (const Status read = AddPolicies(versions->front(), kind); !read) {
        Problem("admission policies", read.error());
        facts_.policies.reset();
        return;
      }
    }
  }

  void Webhooks() {
    GuardInput guard;
    guard.own_namespace = ns_;
    bool job_webhook = false;
    for (const std::string_view kind : {kMutatingWebhooks, kValidatingWebhooks}) {
      Result<Json> list = Get(std::string(kAdmission) + "v1/" + std::string(kind));
      if (!list) {
        Problem("webhook configurations", list.error());
        return;
      }
      for (const Json& configuration : (*list)["items"].AsArray()) {
        for (const Json& webhook : configuration["webhooks"].AsArray()) {
          job_webhook = job_webhook || webhook["name"].AsString() == "mjob.tutti.dev";
        }
      }
      guard.webhook_lists.push_back(std::move(*list));
    }
    facts_.job_webhook = job_webhook;
    Result<Json> leases = Get("/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3D" +
                              std::string(names::kLeaseName));
    if (!leases) {
      Problem("Leases", leases.error());
      return;
    }
    guard.leases = std::move(*leases);
    facts_.other_controllers = OtherControllers(guard, now_);
  }

  std::optional<int> Count(const std::string& version, const std::string& plural) {
    const Result<Json> list = Get("/apis/resource.k8s.io/" + version + "/" + plural + "?limit=1");
    if (!list) {
      Problem(plural, list.error());
      return std::nullopt;
    }
    return static_cast<int>((*list)["items"].AsArray().size() +
                            (*list)["metadata"]["remainingItemCount"].AsInt());
  }

  // Whether the operator's account may list and watch each kind that it watches, and start Jobs.
  void Rights() {
    facts_.rights.account = ns_ + "/" + std::string(kServiceAccount);
    using api::Kind;
    std::vector<std::pair<std::string, api::Resource>> wanted;
    for (const Kind kind :
         {Kind::kJob, Kind::kPod, Kind::kNode, Kind::kNamespace, Kind::kLimitRange,
          Kind::kPriorityClass, Kind::kRuntimeClass, Kind::kWorkload, Kind::kClusterQueue,
          Kind::kLocalQueue, Kind::kCohort, Kind::kResourceFlavor, Kind::kAdmissionCheck,
          Kind::kWorkloadPriorityClass}) {
      wanted.emplace_back("watch", api::ResourceOf(kind));
    }
    for (Right& right : RightsForVolumes()) {
      wanted.emplace_back(std::move(right.verb), std::move(right.resource));
    }
    wanted.emplace_back("patch", api::ResourceOf(Kind::kJob));
    wanted.emplace_back("create", api::ResourceOf(Kind::kWorkload));
    if (!facts_.group_versions.empty()) {
      const api::Resource groups{"scheduling.k8s.io", facts_.group_versions.front(), "podgroups",
                                 "PodGroup", true};
      for (const char* verb : {"watch", "create", "delete"}) {
        wanted.emplace_back(verb, groups);
      }
    }
    for (const auto& [verb, resource] : wanted) {
      const Result<bool> allowed = Allowed(verb, resource);
      if (!allowed) {
        facts_.rights.problem = "can't be asked for: " + allowed.error().message;
        return;
      }
      if (!*allowed) {
        facts_.rights.denied.push_back(verb + " " + resource.plural);
      }
    }
  }

  Result<bool> Allowed(const std::string& verb, const api::Resource& resource) {
    api::WriteRequest review;
    review.verb = api::Verb::kCreate;
    review.resource = {"authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview",
                       false};
    review.body = Json::Obj(
        {{"apiVersion", "authorization.k8s.io/v1"},
         {"kind", "SubjectAccessReview"},
         {"spec",
          Json::Obj(
              {{"user", "system:serviceaccount:" + ns_ + ":" + std::string(kServiceAccount)},
               {"groups", Json::Arr({"system:serviceaccounts", "system:serviceaccounts:" + ns_,
                                     "system:authenticated"})},
               {"resourceAttributes", Json::Obj({{"group", resource.group},
                                                 {"resource", resource.plural},
                                                 {"verb", verb}})}})}});
    std::promise<Result<Json>> promise;
    client_.Do(review, [&promise](Result<Json> answer) { promise.set_value(std::move(answer)); });
    TRY_ASSIGN(const Json answer, promise.get_future().get());
    return answer["status"]["allowed"].AsBool();
  }

  kube::Transport& transport_;
  kube::Client client_;
  std::string ns_;
  Time now_;
  cli::DoctorFacts facts_;
};

std::string DefaultKubeconfig() {
  if (const char* path = std::getenv("KUBECONFIG"); path != nullptr && *path != '\0') {
    return path;
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.kube/config";
}

Result<cli::DoctorFacts> Collect(const DoctorFlags& flags) {
  const std::string path = flags.kubeconfig.empty() ? DefaultKubeconfig() : flags.kubeconfig;
  TRY_ASSIGN(kube::ClusterAccess access, kube::LoadKubeconfig(path, flags.context));
  if (access.exec.has_value()) {
    TRY(kube::RunExecPlugin(access));
  }
  TRY_ASSIGN(const std::unique_ptr<kube::Transport> transport,
             kube::MakeCpprestTransport(access, {.threads = 2, .user_agent = "tutti-doctor"}));
  auto facts =
      CollectDoctorFacts(*transport, access.server, flags.ns,
                         std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()));
  transport->Close();
  return facts;
}

}  // namespace

Result<cli::DoctorFacts> CollectDoctorFacts(kube::Transport& transport, const std::string& server,
                                            const std::string& operator_ns, Time now) {
  TRY_ASSIGN(cli::DoctorFacts facts, Collector(transport, operator_ns, now).Run());
  facts.server = server;
  return facts;
}

int RunDoctor(const DoctorFlags& flags) {
  const Result<cli::DoctorFacts> facts = Collect(flags);
  if (!facts) {
    std::fprintf(stderr, "tutti doctor: %s\n", facts.error().message.c_str());
    return kExitNoAnswer;
  }
  const std::vector<cli::Finding> findings = cli::Diagnose(*facts);
  const std::string text = flags.output == "json" ? cli::ToJson(*facts, findings).Dump() + "\n"
                                                  : cli::ToText(*facts, findings);
  std::fputs(text.c_str(), stdout);
  return cli::AllWell(findings) ? 0 : kExitMissing;
}

}  // namespace tutti
