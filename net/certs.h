// SPDX-License-Identifier: Apache-2.0
// Certificates for our own HTTPS servers: a self-signed CA and leaves (P-256), reading what a PEM
// says, and when to replace what. OpenSSL stays inside certs.cc. Thread-safe, no state; the time
// comes in as an argument.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tutti::net {

struct KeyPair {
  std::string certificate_pem;
  std::string key_pem;  // PKCS #8
};

enum class LeafUse { kServer, kClient };

struct CertificateSpec {
  std::string common_name;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;
  Time not_before = kNoTime;
  Time not_after = kNoTime;
  LeafUse use = LeafUse::kServer;  // of a leaf
};

Result<KeyPair> MakeCa(const CertificateSpec& spec);
Result<KeyPair> MakeLeaf(const KeyPair& ca, const CertificateSpec& spec);

struct CertificateInfo {
  std::string common_name;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;
  Time not_before = kNoTime;
  Time not_after = kNoTime;
  bool is_ca = false;
  std::string fingerprint;  // SHA-256, hexadecimal
};

// The first certificate of the PEM text.
Result<CertificateInfo> Inspect(std::string_view certificate_pem);
// Whether the key is the certificate's, and the certificate is signed by the CA (first one of
// either).
[[nodiscard]] bool KeyMatches(std::string_view certificate_pem, std::string_view key_pem);
[[nodiscard]] bool IsSignedBy(std::string_view certificate_pem, std::string_view ca_pem);
// The certificates of a bundle, each as its own PEM text, in order; broken blocks are left out.
std::vector<std::string> SplitBundle(std::string_view bundle);

// The moment from which a certificate should be replaced: two thirds of its life.
[[nodiscard]] Time RotationTime(Time not_before, Time not_after);

enum class Rotation { kKeep, kNewLeaf, kNewCa };

// What to do about a CA and its leaf (PEM texts as found; empty or unreadable is as good as
// absent).
[[nodiscard]] Rotation DecideRotation(const KeyPair& ca, const KeyPair& leaf,
                                      const std::vector<std::string>& dns_names, Time now);

}  // namespace tutti::net
