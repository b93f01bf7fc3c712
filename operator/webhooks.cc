// SPDX-License-Identifier: Apache-2.0
#include "operator/webhooks.h"

#include <algorithm>
#include <set>

#include "base/names.h"
#include "operator/base64.h"

namespace tutti::webhooks {
namespace {

using Rule = Verdict (*)(const Request&, const Rules&);

struct Route {
  std::string_view path;
  Rule rule;
};

constexpr Route kRoutes[] = {
    {"/mutate-batch-v1-job", MutateJob},
    {"/validate-batch-v1-job", ValidateJob},
    {"/mutate-jobset-x-k8s-io-v1alpha2-jobset", MutateJob},
    {"/validate-jobset-x-k8s-io-v1alpha2-jobset", ValidateJobSet},
    {"/mutate--v1-pod", MutatePod},
    {"/validate--v1-pod", ValidatePod},
    {"/mutate-apps-v1-deployment", MutateDeployment},
    {"/validate-apps-v1-deployment", ValidateDeployment},
    {"/mutate-apps-v1-statefulset", MutateStatefulSet},
    {"/validate-apps-v1-statefulset", ValidateStatefulSet},
    {"/mutate-kueue-x-k8s-io-v1beta2-workload", MutateWorkload},
    {"/mutate-kueue-x-k8s-io-v1beta2-clusterqueue", MutateWithFinalizer},
    {"/mutate-kueue-x-k8s-io-v1beta2-resourceflavor", MutateWithFinalizer},
    {"/validate-kueue-x-k8s-io-v1beta2-workload", ValidateWorkload},
    {"/validate-kueue-x-k8s-io-v1beta2-clusterqueue", ValidateClusterQueue},
    {"/validate-kueue-x-k8s-io-v1beta2-cohort", ValidateCohort},
    {"/validate-kueue-x-k8s-io-v1beta2-resourceflavor", ValidateResourceFlavor},
};

Json ResponseOf(const std::string& uid, const Verdict& verdict) {
  Json response = Json::Obj({{"uid", uid}, {"allowed", verdict.problems.empty()}});
  if (!verdict.problems.empty()) {
    std::string message;
    for (const std::string& problem : verdict.problems) {
      message += (message.empty() ? "" : "; ") + problem;
    }
    response.Set(
        "status",
        Json::Obj(
            {{"status", "Failure"}, {"reason", "Forbidden"}, {"code", 403}, {"message", message}}));
  } else if (!verdict.patch.AsArray().empty()) {
    response.Set("patchType", "JSONPatch");
    response.Set("patch", EncodeBase64(verdict.patch.Dump()));
  }
  return response;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  return text;
}

// example.com/name, at most 63 long.
bool IsGateName(std::string_view name) {
  const size_t slash = name.find('/');
  return name.size() <= 63 && slash != std::string_view::npos && slash > 0 &&
         slash + 1 < name.size();
}

}  // namespace

const std::vector<std::string_view>& Paths() {
  static const std::vector<std::string_view> paths = [] {
    std::vector<std::string_view> all;
    for (const Route& route : kRoutes) {
      all.push_back(route.path);
    }
    return all;
  }();
  return paths;
}

Result<Json> Answer(std::string_view path, const Json& review, const Rules& rules) {
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    if (route.path == path) {
      found = &route;
    }
  }
  if (found == nullptr) {
    return Fail(ErrorCode::kNotFound, "no webhook at " + std::string(path));
  }
  const Json& body = review["request"];
  const std::string& uid = body["uid"].AsString();
  if (review["kind"].AsString() != "AdmissionReview" ||
      review["apiVersion"].AsString() != "admission.k8s.io/v1" || uid.empty()) {
    return Fail(ErrorCode::kInvalid,
                "the body must be an AdmissionReview of admission.k8s.io/v1 with a request");
  }
  Request request;
  request.operation = body["operation"].AsString();
  request.subresource = body["subResource"].AsString();
  request.user = body["userInfo"]["username"].AsString();
  request.ns = body["namespace"].AsString();
  request.object = &body["object"];
  request.old_object = &body["oldObject"];
  Verdict verdict;
  const bool ours = !rules.own_user.empty() && request.user == rules.own_user;
  if (!ours && (request.operation == "CREATE" || request.IsUpdate())) {
    verdict = found->rule(request, rules);
  }
  return Json::Obj({{"apiVersion", "admission.k8s.io/v1"},
                    {"kind", "AdmissionReview"},
                    {"response", ResponseOf(uid, verdict)}});
}

bool IsRoot(const Json& object) {
  for (const Json& owner : object["metadata"]["ownerReferences"].AsArray()) {
    const bool cron_job = owner["kind"].AsString() == "CronJob" &&
                          owner["apiVersion"].AsString().rfind("batch/", 0) == 0;
    if (owner["controller"].AsBool() && !cron_job) {
      return false;
    }
  }
  return true;
}

std::vector<std::string> GateNames(const Json& object) {
  std::vector<std::string> names;
  std::string_view rest =
      object["metadata"]["annotations"][names::kAdmissionGatedByAnnotation].AsString();
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    names.emplace_back(Trim(rest.substr(0, comma)));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return names;
}

void CheckGates(const Request& request, std::vector<std::string>* problems) {
  const std::string field =
      "metadata.annotations[" + std::string(names::kAdmissionGatedByAnnotation) + "]: ";
  const std::vector<std::string> gates = GateNames(*request.object);
  const std::vector<std::string> before = GateNames(*request.old_object);
  std::set<std::string> seen;
  for (const std::string& gate : gates) {
    const bool was_there = std::find(before.begin(), before.end(), gate) != before.end();
    if (!seen.insert(gate).second) {
      problems->push_back(field + "\"" + gate + "\" is named twice");
    } else if (request.IsUpdate() && !was_there) {
      problems->push_back(field + "\"" + gate +
                          "\" can't be added: gates are set at creation and can only be removed");
    } else if (!IsGateName(gate) && !was_there) {
      problems->push_back(field + "\"" + gate +
                          "\" must have the form example.com/name, at most 63 long");
    }
  }
}

}  // namespace tutti::webhooks
