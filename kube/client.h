// SPDX-License-Identifier: Apache-2.0
// The Kubernetes API over a Transport: paths, paging, patch types, error bodies, discovery.
// Stateless and thread-safe; callbacks arrive on I/O threads with the answer already parsed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta.h"
#include "api/request.h"
#include "base/json.h"
#include "base/result.h"
#include "kube/transport.h"

namespace tutti::kube {

using JsonCallback = std::function<void(Result<Json>)>;

struct ListOptions {
  std::string ns;  // "" = all namespaces
  std::string label_selector;
  std::string field_selector;
  int limit = 500;  // 0 = no paging
  std::string continue_token;
  std::string resource_version;  // "" = newest, "0" = any
};

struct WatchRequest {
  std::string ns;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  bool send_initial_events = false;
  int timeout_seconds = 300;
  std::chrono::milliseconds idle_timeout{180'000};
};

// What the server can do. Absent group or version: the vector is empty, the flag false.
struct Discovery {
  std::string git_version;  // v1.36.3
  int major = 0;
  int minor = 0;
  // Versions of scheduling.k8s.io that serve podgroups, in the server's order of preference.
  std::vector<std::string> podgroup_versions;
  bool mutating_admission_policies = false;    // admissionregistration.k8s.io/v1
  bool validating_admission_policies = false;  // admissionregistration.k8s.io/v1
  bool devices = false;                        // resource.k8s.io/v1, all kinds that are read
  bool provisioning_requests = false;          // autoscaling.x-k8s.io/v1
  std::vector<std::string> kueue_versions;     // of kueue.x-k8s.io, v1beta2 or v1beta1 first
  std::map<std::string, std::vector<std::string>> kueue_resources;  // version -> plurals, sorted
};

class Client {
 public:
  explicit Client(Transport& transport) : transport_(transport) {}

  static constexpr std::chrono::milliseconds kTimeout{30'000};
  static constexpr std::chrono::milliseconds kListTimeout{60'000};

  RequestId Get(const api::Resource& resource, const api::ObjectKey& key, JsonCallback done,
                std::chrono::milliseconds timeout = kTimeout);
  // One page. The whole list is fetched by ListAll.
  RequestId List(const api::Resource& resource, const ListOptions& options, JsonCallback done);
  // Every page, `items` concatenated; a position that expires on the way starts over once.
  void ListAll(const api::Resource& resource, ListOptions options, JsonCallback done);
  RequestId Do(const api::WriteRequest& request, JsonCallback done,
               std::chrono::milliseconds timeout = kTimeout);
  RequestId Watch(const api::Resource& resource, const WatchRequest& request,
                  StreamCallbacks callbacks);
  // GET of any path, parsed.
  RequestId GetPath(std::string target, JsonCallback done,
                    std::chrono::milliseconds timeout = kTimeout);
  void Discover(std::function<void(Result<Discovery>)> done);
  void Cancel(RequestId id) { transport_.Cancel(id); }

 private:
  Transport& transport_;
};

// The answer as a value or as an Error: metav1.Status with reason, causes and retryAfterSeconds, or
// the plain text of a proxy.
Result<Json> DecodeAnswer(Result<HttpResponse> answer);
// Of a metav1.Status object as found in error bodies and in ERROR events of a watch.
Error ErrorFromStatus(const Json& status, int http_status,
                      std::optional<std::chrono::milliseconds> retry_after = {});
HttpRequest ToHttp(const api::WriteRequest& request);
std::string ListTarget(const api::Resource& resource, const ListOptions& options);
std::string WatchTarget(const api::Resource& resource, const WatchRequest& request);
std::string PercentEncode(std::string_view text);

}  // namespace tutti::kube
