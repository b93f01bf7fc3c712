// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook_certs.h"

#include <algorithm>
#include <optional>

#include "base/names.h"
#include "operator/base64.h"

namespace tutti {
namespace {

constexpr Duration kBackdate = std::chrono::minutes(5);  // for clocks that are behind ours

std::string Decoded(const Json& secret, std::string_view key) {
  return DecodeBase64(secret["data"][key].AsString()).value_or("");
}

std::vector<std::string> DnsNames(const WebhookCertOptions& options) {
  const std::string base = options.service + "." + options.secret.ns + ".svc";
  return {options.service, options.service + "." + options.secret.ns, base,
          base + ".cluster.local"};
}

net::CertificateSpec CaSpec(const WebhookCertOptions& options, Time now) {
  net::CertificateSpec spec;
  spec.common_name = "tutti-ca";
  spec.not_before = now - kBackdate;
  spec.not_after = now + options.ca_life;
  return spec;
}

net::CertificateSpec LeafSpec(const WebhookCertOptions& options, const net::KeyPair& ca, Time now) {
  net::CertificateSpec spec;
  spec.common_name = options.service + "." + options.secret.ns + ".svc";
  spec.dns_names = DnsNames(options);
  spec.ip_addresses = options.extra_ips;
  spec.not_before = now - kBackdate;
  spec.not_after = now + options.leaf_life;
  if (const auto info = net::Inspect(ca.certificate_pem)) {
    spec.not_after = std::min(spec.not_after, info->not_after);  // never outlives its CA
  }
  return spec;
}

bool UsableCa(const net::KeyPair& ca, Time now) {
  const auto info = net::Inspect(ca.certificate_pem);
  return info && info->is_ca && net::KeyMatches(ca.certificate_pem, ca.key_pem) &&
         now >= info->not_before && now < net::RotationTime(info->not_before, info->not_after);
}

// A leaf that clients accept: right key, right CA, not expired.
bool Servable(const net::KeyPair& leaf, const net::KeyPair& ca, Time now) {
  const auto info = net::Inspect(leaf.certificate_pem);
  return info && net::KeyMatches(leaf.certificate_pem, leaf.key_pem) &&
         net::IsSignedBy(leaf.certificate_pem, ca.certificate_pem) && now < info->not_after;
}

// A place with a caBundle.
struct Caller {
  const Json* client_config;  // has the caBundle
  std::string path;           // of the clientConfig, as a JSON pointer
  Json guard;                 // operation that fails when something else is there by now
};

std::vector<Caller> CallersIn(const Json& configuration) {
  std::vector<Caller> callers;
  const auto guard = [](std::string path, const Json& value) {
    return Json::Obj({{"op", "test"}, {"path", std::move(path)}, {"value", value}});
  };
  if (configuration["kind"].AsString() == "APIService") {
    const Json& spec = configuration["spec"];
    if (!spec["insecureSkipTLSVerify"].AsBool()) {
      callers.push_back({&spec, "/spec", guard("/spec/service/name", spec["service"]["name"])});
    }
    return callers;
  }
  if (configuration["kind"].AsString() == "CustomResourceDefinition") {
    const Json& conversion = configuration["spec"]["conversion"];
    callers.push_back({&conversion["webhook"]["clientConfig"],
                       "/spec/conversion/webhook/clientConfig",
                       guard("/spec/conversion/strategy", conversion["strategy"])});
    return callers;
  }
  for (const Json& webhook : configuration["webhooks"].AsArray()) {
    const std::string path = "/webhooks/" + std::to_string(callers.size());
    callers.push_back(
        {&webhook["clientConfig"], path + "/clientConfig", guard(path + "/name", webhook["name"])});
  }
  return callers;
}

// Whether every caller in the configuration trusts the CA.
bool Trusts(const Json& configuration, const std::string& ca_pem) {
  const auto wanted = net::SplitBundle(ca_pem);
  for (const Caller& caller : CallersIn(configuration)) {
    const auto bundle =
        net::SplitBundle(DecodeBase64((*caller.client_config)["caBundle"].AsString()).value_or(""));
    if (wanted.empty() || std::find(bundle.begin(), bundle.end(), wanted.front()) == bundle.end()) {
      return false;
    }
  }
  return true;
}

// A JSON patch that gives every caller the bundle; each is tested first, so that a configuration
// that changed meanwhile is refused instead of damaged.
std::optional<api::WriteRequest> BundlePatch(const Json& configuration, const std::string& bundle) {
  const std::string encoded = EncodeBase64(bundle);
  Json patch = Json::Arr();
  bool differs = false;
  for (Caller& caller : CallersIn(configuration)) {
    patch.Push(std::move(caller.guard));
    if ((*caller.client_config)["caBundle"].AsString() != encoded) {
      patch.Push(
          Json::Obj({{"op", "add"}, {"path", caller.path + "/caBundle"}, {"value", encoded}}));
      differs = true;
    }
  }
  if (!differs) {
    return std::nullopt;
  }
  const std::string& kind = configuration["kind"].AsString();
  api::WriteRequest write;
  write.verb = api::Verb::kJsonPatch;
  write.resource = kind == "MutatingWebhookConfiguration"     ? MutatingWebhookResource()
                   : kind == "ValidatingWebhookConfiguration" ? ValidatingWebhookResource()
                   : kind == "APIService"                     ? ApiServiceResource()
                                                              : CustomResourceDefinitionResource();
  write.key = {"", configuration["metadata"]["name"].AsString()};
  write.body = std::move(patch);
  return write;
}

api::WriteRequest SecretWrite(const WebhookCertOptions& options, const WebhookSecret& before,
                              const WebhookSecret& after) {
  Json data = Json::Obj();
  const auto put = [&data](std::string_view key, const std::string& text) {
    data.Set(key, text.empty() ? Json() : Json(EncodeBase64(text)));
  };
  put("ca.crt", after.ca.certificate_pem);
  put("ca.key", after.ca.key_pem);
  put("next-ca.crt", after.next_ca.certificate_pem);
  put("next-ca.key", after.next_ca.key_pem);
  put("tls.crt", after.leaf.certificate_pem);
  put("tls.key", after.leaf.key_pem);
  put("old-ca.crt", after.old_ca);
  api::WriteRequest write;
  write.resource = SecretResource();
  write.key = options.secret;
  Json metadata = Json::Obj({{"name", options.secret.name}, {"namespace", options.secret.ns}});
  if (before.exists) {
    // The version makes two writers at once a conflict instead of a mix of their keys.
    write.verb = api::Verb::kMergePatch;
    metadata = Json::Obj({{"resourceVersion", before.resource_version}});
    write.body = Json::Obj({{"metadata", metadata}, {"data", data}});
    return write;
  }
  Json present = Json::Obj();
  for (const auto& [key, value] : data.AsObject()) {
    if (!value.IsNull()) {
      present.Set(key, value);
    }
  }
  write.verb = api::Verb::kCreate;
  write.body = Json::Obj({{"apiVersion", "v1"},
                          {"kind", "Secret"},
                          {"metadata", metadata},
                          {"type", "Opaque"},
                          {"data", present}});
  return write;
}

}  // namespace

bool CallsUs(const WebhookCertOptions& options, const Json& configuration) {
  const std::string& kind = configuration["kind"].AsString();
  const std::string& name = configuration["metadata"]["name"].AsString();
  if (kind == "CustomResourceDefinition") {
    const Json& conversion = configuration["spec"]["conversion"];
    const Json& config = conversion["webhook"]["clientConfig"];
    if (conversion["strategy"].AsString() != "Webhook") {
      return false;
    }
    if (config["service"].IsObject()) {
      return config["service"]["name"].AsString() == options.service &&
             config["service"]["namespace"].AsString() == options.secret.ns;
    }
    return configuration["metadata"]["labels"]["app.kubernetes.io/part-of"].AsString() == "tutti";
  }
  if (kind == "APIService") {
    const Json& service = configuration["spec"]["service"];
    return service["name"].AsString() == options.service &&
           service["namespace"].AsString() == options.secret.ns;
  }
  return (kind == "MutatingWebhookConfiguration" && name == options.mutating_configuration) ||
         (kind == "ValidatingWebhookConfiguration" && name == options.validating_configuration);
}

api::Resource SecretResource() {
  return {"", "v1", "secrets", "Secret", true};
}

api::Resource MutatingWebhookResource() {
  return {"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
          "MutatingWebhookConfiguration", false};
}

api::Resource ValidatingWebhookResource() {
  return {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
          "ValidatingWebhookConfiguration", false};
}

api::Resource CustomResourceDefinitionResource() {
  return {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
          false};
}

api::Resource ApiServiceResource() {
  return {"apiregistration.k8s.io", "v1", "apiservices", "APIService", false};
}

WebhookSecret ParseWebhookSecret(const Json& secret) {
  WebhookSecret parsed;
  parsed.exists = secret.IsObject();
  parsed.resource_version = secret["metadata"]["resourceVersion"].AsString();
  parsed.ca = {Decoded(secret, "ca.crt"), Decoded(secret, "ca.key")};
  parsed.next_ca = {Decoded(secret, "next-ca.crt"), Decoded(secret, "next-ca.key")};
  parsed.leaf = {Decoded(secret, "tls.crt"), Decoded(secret, "tls.key")};
  parsed.old_ca = Decoded(secret, "old-ca.crt");
  return parsed;
}

Result<WebhookCertPlan> PlanWebhookCerts(const WebhookCertOptions& options,
                                         const WebhookSecret& secret,
                                         const std::vector<Json>& configurations, Time now) {
  WebhookCertPlan plan;
  WebhookSecret wanted = secret;
  const bool served = Servable(secret.leaf, secret.ca, now);
  bool everybody_trusts_next = UsableCa(secret.next_ca, now);
  for (const Json& configuration : configurations) {
    if (CallsUs(options, configuration) && everybody_trusts_next) {
      everybody_trusts_next = Trusts(configuration, secret.next_ca.certificate_pem);
    }
  }
  switch (net::DecideRotation(secret.ca, secret.leaf, DnsNames(options), now)) {
    case net::Rotation::kKeep:
      wanted.next_ca = {};  // left over from a rotation that somebody else ended
      break;
    case net::Rotation::kNewLeaf: {
      TRY_ASSIGN(wanted.leaf, net::MakeLeaf(secret.ca, LeafSpec(options, secret.ca, now)));
      wanted.next_ca = {};
      break;
    }
    case net::Rotation::kNewCa:
      if (!served) {
        // Nothing works at present: no reason to wait for anybody.
        TRY_ASSIGN(wanted.ca, net::MakeCa(CaSpec(options, now)));
        TRY_ASSIGN(wanted.leaf, net::MakeLeaf(wanted.ca, LeafSpec(options, wanted.ca, now)));
        wanted.next_ca = {};
      } else if (!UsableCa(secret.next_ca, now)) {
        TRY_ASSIGN(wanted.next_ca, net::MakeCa(CaSpec(options, now)));
      } else if (everybody_trusts_next) {
        wanted.old_ca = secret.ca.certificate_pem;
        wanted.ca = secret.next_ca;
        TRY_ASSIGN(wanted.leaf, net::MakeLeaf(wanted.ca, LeafSpec(options, wanted.ca, now)));
        wanted.next_ca = {};
      }
      break;
  }
  const auto old_ca = net::Inspect(wanted.old_ca);
  if (!old_ca || now >= old_ca->not_after) {
    wanted.old_ca.clear();
  }
  const auto texts = [](const WebhookSecret& s) {
    return s.old_ca + s.ca.certificate_pem + s.ca.key_pem + s.next_ca.certificate_pem +
           s.next_ca.key_pem + s.leaf.certificate_pem + s.leaf.key_pem;
  };
  if (texts(wanted) != texts(secret)) {
    plan.writes.push_back(SecretWrite(options, secret, wanted));
  }

  // What is published and served follows the Secret as it is, not as it is going to be.
  if (served) {
    plan.serve = {secret.leaf.certificate_pem + secret.ca.certificate_pem, secret.leaf.key_pem};
    plan.ready = true;
    std::string bundle = secret.ca.certificate_pem;
    if (UsableCa(secret.next_ca, now)) {
      bundle += secret.next_ca.certificate_pem;
    }
    if (!wanted.old_ca.empty() && wanted.old_ca == secret.old_ca) {
      bundle += secret.old_ca;
    }
    for (const Json& configuration : configurations) {
      if (!CallsUs(options, configuration)) {
        continue;
      }
      plan.ready = plan.ready && Trusts(configuration, secret.ca.certificate_pem);
      if (auto write = BundlePatch(configuration, bundle)) {
        plan.writes.push_back(std::move(*write));
      }
    }
  }
  plan.next_check = now + std::chrono::hours(1);
  for (const net::KeyPair* pair : {&wanted.ca, &wanted.leaf}) {
    if (const auto info = net::Inspect(pair->certificate_pem)) {
      const Time due = net::RotationTime(info->not_before, info->not_after);
      if (due > now) {
        plan.next_check = std::min(plan.next_check, due);
      }
    }
  }
  return plan;
}

}  // namespace tutti
