// SPDX-License-Identifier: Apache-2.0
// Self-managed certificates of the webhook server (internalCertManagement). Pure planner: from the
// time, the Secret and who calls us as found (webhook configurations, CustomResourceDefinitions
// with a conversion) to the certificate to serve and the writes to make. Every replica serves what
// the Secret holds; only the leader writes.
//
// A new CA is published before it is used: the Secret first gets the next CA beside the present
// pair, the configurations' caBundle then holds both, and only when all of them do is the leaf of
// the new CA put into the Secret. The old CA stays in the bundles until it ends, for replicas that
// still serve its leaf. A leaf of the same CA is replaced at once.
#pragma once

#include <string>
#include <vector>

#include "api/meta.h"
#include "api/request.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "net/certs.h"
#include "net/server.h"

namespace tutti {

struct WebhookCertOptions {
  api::ObjectKey secret;               // namespace and name
  std::string service;                 // DNS names: <service>.<namespace>.svc …
  std::vector<std::string> extra_ips;  // for webhooks by URL (tests)
  // Names of the webhook configurations that are ours to patch.
  std::string mutating_configuration = "tutti-mutating-webhook-configuration";
  std::string validating_configuration = "tutti-validating-webhook-configuration";
  Duration ca_life = std::chrono::hours(24 * 365);
  Duration leaf_life = std::chrono::hours(24 * 90);
};

// What the Secret holds, decoded. Empty texts for what is missing.
struct WebhookSecret {
  bool exists = false;
  std::string resource_version;
  net::KeyPair ca;       // ca.crt, ca.key
  net::KeyPair next_ca;  // next-ca.crt, next-ca.key: published, not used yet
  net::KeyPair leaf;     // tls.crt, tls.key
  std::string old_ca;    // old-ca.crt: certificate only, trusted until it ends
};
[[nodiscard]] WebhookSecret ParseWebhookSecret(const Json& secret);  // null = it doesn't exist

struct WebhookCertPlan {
  net::TlsMaterial serve;                 // empty while the Secret has no usable leaf
  std::vector<api::WriteRequest> writes;  // for the leader
  Time next_check = kNoTime;              // when to plan again, though nothing changed
  bool ready = false;  // a leaf is served and every configuration found trusts its CA
};

// `configurations`: the Mutating- and ValidatingWebhookConfigurations, CustomResourceDefinitions
// and APIServices as found (those that don't call us are ignored). Random bytes for keys apart, the
// outcome depends on the arguments only.
Result<WebhookCertPlan> PlanWebhookCerts(const WebhookCertOptions& options,
                                         const WebhookSecret& secret,
                                         const std::vector<Json>& configurations, Time now);

// Whether the API server calls us because of this object. Of a CustomResourceDefinition: its
// conversion is a webhook at our Service, or at a URL in a definition of our own; of an APIService:
// it is served by our Service.
[[nodiscard]] bool CallsUs(const WebhookCertOptions& options, const Json& configuration);

[[nodiscard]] api::Resource SecretResource();
[[nodiscard]] api::Resource MutatingWebhookResource();
[[nodiscard]] api::Resource ValidatingWebhookResource();
[[nodiscard]] api::Resource CustomResourceDefinitionResource();
[[nodiscard]] api::Resource ApiServiceResource();

}  // namespace tutti
