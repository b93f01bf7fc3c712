// SPDX-License-Identifier: Apache-2.0
#include "net/certs.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace tutti::net {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using CertPtr = std::unique_ptr<X509, Deleter<X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, Deleter<BN_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES_free>>;

tl::unexpected<Error> OpenSslError(std::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return Fail(ErrorCode::kInternal, std::string(what) + ": " + text.data());
}

BioPtr Reader(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

CertPtr ReadCertificate(std::string_view pem) {
  const BioPtr bio = Reader(pem);
  CertPtr certificate(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  ERR_clear_error();
  return certificate;
}

KeyPtr ReadKey(std::string_view pem) {
  const BioPtr bio = Reader(pem);
  // A key with a passphrase must not make OpenSSL ask on the terminal.
  static char no_passphrase[] = "";
  KeyPtr key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, no_passphrase) : nullptr);
  ERR_clear_error();
  return key;
}

std::string Content(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

Result<std::string> ToPem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return OpenSslError("write a certificate");
  }
  return Content(bio.get());
}

Result<std::string> ToPem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("write a key");
  }
  return Content(bio.get());
}

bool AddExtension(X509* certificate, X509V3_CTX* context, int nid, const std::string& value) {
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, context, nid, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

time_t Seconds(Time time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

// Names go into OpenSSL's configuration syntax: only what a host name may hold is let through.
bool PlainName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '*';
  });
}

bool IsIp(const std::string& text) {
  std::array<unsigned char, 16> buffer{};
  return inet_pton(AF_INET, text.c_str(), buffer.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), buffer.data()) == 1;
}

Result<std::string> AlternativeNames(const CertificateSpec& spec) {
  std::string names;
  for (const std::string& dns : spec.dns_names) {
    if (!PlainName(dns)) {
      return Fail(ErrorCode::kInvalid, "'" + dns + "' is not a DNS name");
    }
    names += (names.empty() ? "DNS:" : ",DNS:") + dns;
  }
  for (const std::string& ip : spec.ip_addresses) {
    if (!IsIp(ip)) {
      return Fail(ErrorCode::kInvalid, "'" + ip + "' is not an IP address");
    }
    names += (names.empty() ? "IP:" : ",IP:") + ip;
  }
  return names;
}

// Signed by `issuer` with `issuer_key`, or by itself when both are null.
Result<KeyPair> Make(const CertificateSpec& spec, X509* issuer, EVP_PKEY* issuer_key, bool ca) {
  TRY_ASSIGN(const std::string names, AlternativeNames(spec));
  const KeyPtr key(EVP_EC_gen("P-256"));
  const CertPtr certificate(X509_new());
  if (!key || !certificate) {
    return OpenSslError("make a key");
  }
  std::array<unsigned char, 16> serial{};
  if (RAND_bytes(serial.data(), static_cast<int>(serial.size())) != 1) {
    return OpenSslError("random bytes");
  }
  serial[0] = static_cast<unsigned char>((serial[0] & 0x3FU) | 0x40U);  // positive, full length
  const NumberPtr number(BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr));
  X509* raw = certificate.get();
  X509_NAME* subject = X509_get_subject_name(raw);
  bool ok =
      number != nullptr && X509_set_version(raw, 2) == 1 &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(raw)) != nullptr &&
      ASN1_TIME_set(X509_getm_notBefore(raw), Seconds(spec.not_before)) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(raw), Seconds(spec.not_after)) != nullptr &&
      X509_set_pubkey(raw, key.get()) == 1 &&
      X509_NAME_add_entry_by_txt(
          subject, "CN", MBSTRING_UTF8,
          static_cast<const unsigned char*>(static_cast<const void*>(spec.common_name.data())),
          static_cast<int>(spec.common_name.size()), -1, 0) == 1 &&
      X509_set_issuer_name(raw, issuer == nullptr ? subject : X509_get_subject_name(issuer)) == 1;
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer == nullptr ? raw : issuer, raw, nullptr, nullptr, 0);
  ok = ok &&
       AddExtension(raw, &context, NID_basic_constraints,
                    ca ? "critical,CA:TRUE" : "critical,CA:FALSE") &&
       AddExtension(
           raw, &context, NID_key_usage,
           ca ? "critical,keyCertSign,cRLSign,digitalSignature" : "critical,digitalSignature") &&
       AddExtension(raw, &context, NID_subject_key_identifier, "hash");
  if (ok && issuer != nullptr) {
    ok = AddExtension(raw, &context, NID_authority_key_identifier, "keyid");
  }
  if (ok && !ca) {
    ok = AddExtension(raw, &context, NID_ext_key_usage,
                      spec.use == LeafUse::kServer ? "serverAuth" : "clientAuth");
  }
  if (ok && !names.empty()) {
    ok = AddExtension(raw, &context, NID_subject_alt_name, names);
  }
  if (!ok || X509_sign(raw, issuer_key == nullptr ? key.get() : issuer_key, EVP_sha256()) == 0) {
    return OpenSslError("make a certificate");
  }
  KeyPair pair;
  TRY_ASSIGN(pair.certificate_pem, ToPem(raw));
  TRY_ASSIGN(pair.key_pem, ToPem(key.get()));
  return pair;
}

Result<Time> ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return OpenSslError("read a time");
  }
  return Time(std::chrono::seconds(timegm(&parts)));
}

void ReadNames(X509* certificate, CertificateInfo* info) {
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      info->dns_names.emplace_back(static_cast<const char*>(static_cast<const void*>(
                                       ASN1_STRING_get0_data(name->d.dNSName))),
                                   static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      std::array<char, INET6_ADDRSTRLEN> text{};
      const int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;
      if (inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), text.data(), text.size()) !=
          nullptr) {
        info->ip_addresses.emplace_back(text.data());
      }
    }
  }
}

bool Due(const CertificateInfo& info, Time now) {
  return now < info.not_before || now >= RotationTime(info.not_before, info.not_after);
}

}  // namespace

Result<KeyPair> MakeCa(const CertificateSpec& spec) {
  return Make(spec, nullptr, nullptr, /*ca=*/true);
}

Result<KeyPair> MakeLeaf(const KeyPair& ca, const CertificateSpec& spec) {
  const CertPtr issuer = ReadCertificate(ca.certificate_pem);
  const KeyPtr issuer_key = ReadKey(ca.key_pem);
  if (!issuer || !issuer_key) {
    return Fail(ErrorCode::kInvalid, "the CA's certificate or key can't be read");
  }
  return Make(spec, issuer.get(), issuer_key.get(), /*ca=*/false);
}

Result<CertificateInfo> Inspect(std::string_view certificate_pem) {
  const CertPtr certificate = ReadCertificate(certificate_pem);
  if (!certificate) {
    return Fail(ErrorCode::kInvalid, "not a certificate in PEM form");
  }
  CertificateInfo info;
  TRY_ASSIGN(info.not_before, ToTime(X509_get0_notBefore(certificate.get())));
  TRY_ASSIGN(info.not_after, ToTime(X509_get0_notAfter(certificate.get())));
  std::array<char, 256> name{};
  if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
                                name.data(), static_cast<int>(name.size())) > 0) {
    info.common_name = name.data();
  }
  info.is_ca = X509_check_ca(certificate.get()) == 1;
  ReadNames(certificate.get(), &info);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (X509_digest(certificate.get(), EVP_sha256(), digest.data(), &size) != 1) {
    return OpenSslError("digest of a certificate");
  }
  for (unsigned i = 0; i < size; ++i) {
    constexpr std::string_view kHex = "0123456789abcdef";
    info.fingerprint += kHex[digest[i] >> 4U];
    info.fingerprint += kHex[digest[i] & 15U];
  }
  return info;
}

bool KeyMatches(std::string_view certificate_pem, std::string_view key_pem) {
  const CertPtr certificate = ReadCertificate(certificate_pem);
  const KeyPtr key = ReadKey(key_pem);
  const bool matches =
      certificate && key && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return matches;
}

bool IsSignedBy(std::string_view certificate_pem, std::string_view ca_pem) {
  const CertPtr certificate = ReadCertificate(certificate_pem);
  const CertPtr ca = ReadCertificate(ca_pem);
  const bool is = certificate && ca &&
                  X509_check_issued(ca.get(), certificate.get()) == X509_V_OK &&
                  X509_verify(certificate.get(), X509_get0_pubkey(ca.get())) == 1;
  ERR_clear_error();
  return is;
}

std::vector<std::string> SplitBundle(std::string_view bundle) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
  std::vector<std::string> certificates;
  while (true) {
    const size_t begin = bundle.find(kBegin);
    const size_t end = begin == std::string_view::npos ? begin : bundle.find(kEnd, begin);
    if (end == std::string_view::npos) {
      return certificates;
    }
    std::string pem(bundle.substr(begin, end + kEnd.size() - begin));
    pem += "\n";
    if (ReadCertificate(pem)) {
      certificates.push_back(std::move(pem));
    }
    bundle.remove_prefix(end + kEnd.size());
  }
}

Time RotationTime(Time not_before, Time not_after) {
  return not_before + (not_after - not_before) / 3 * 2;
}

Rotation DecideRotation(const KeyPair& ca, const KeyPair& leaf,
                        const std::vector<std::string>& dns_names, Time now) {
  const auto ca_info = Inspect(ca.certificate_pem);
  if (!ca_info || !ca_info->is_ca || !KeyMatches(ca.certificate_pem, ca.key_pem) ||
      Due(*ca_info, now)) {
    return Rotation::kNewCa;
  }
  const auto leaf_info = Inspect(leaf.certificate_pem);
  if (!leaf_info || !KeyMatches(leaf.certificate_pem, leaf.key_pem) ||
      !IsSignedBy(leaf.certificate_pem, ca.certificate_pem) || Due(*leaf_info, now)) {
    return Rotation::kNewLeaf;
  }
  for (const std::string& name : dns_names) {
    if (std::find(leaf_info->dns_names.begin(), leaf_info->dns_names.end(), name) ==
        leaf_info->dns_names.end()) {
      return Rotation::kNewLeaf;
    }
  }
  return Rotation::kKeep;
}

}  // namespace tutti::net
