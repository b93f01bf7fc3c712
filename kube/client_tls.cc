// SPDX-License-Identifier: Apache-2.0
#include "kube/client_tls.h"

#include <string>
#include <utility>
#include <vector>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace tutti::kube {
namespace {

struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct X509Free {
  void operator()(X509* cert) const { X509_free(cert); }
};
struct KeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct StoreFree {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
};
using Bio = std::unique_ptr<BIO, BioFree>;
using Cert = std::unique_ptr<X509, X509Free>;

std::vector<Cert> ParseCerts(const std::string& pem) {
  std::vector<Cert> out;
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* cert = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    out.emplace_back(cert);
  }
  ERR_clear_error();  // the end of the text is an error to OpenSSL
  return out;
}

// Never asks on the terminal for a passphrase.
int NoPassphrase(char*, int, int, void*) {
  return 0;
}

}  // namespace

struct ClientTls::Material {
  std::unique_ptr<X509_STORE, StoreFree> roots;
  std::vector<Cert> chain;  // own certificate first
  std::unique_ptr<EVP_PKEY, KeyFree> key;
};

ClientTls::ClientTls(std::unique_ptr<Material> material) : material_(std::move(material)) {}
ClientTls::~ClientTls() = default;

void ClientTls::Apply(ssl_ctx_st* context) const {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  if (material_->roots != nullptr) {
    SSL_CTX_set1_cert_store(context, material_->roots.get());
  }
  if (material_->key != nullptr) {
    SSL_CTX_use_certificate(context, material_->chain.front().get());
    for (size_t i = 1; i < material_->chain.size(); ++i) {
      SSL_CTX_add1_chain_cert(context, material_->chain[i].get());
    }
    SSL_CTX_use_PrivateKey(context, material_->key.get());
  }
}

Result<std::shared_ptr<const ClientTls>> ClientTls::Make(const ClusterAccess& access) {
  auto tls = std::make_unique<Material>();
  if (!access.ca_pem.empty()) {
    tls->roots.reset(X509_STORE_new());
    const std::vector<Cert> roots = ParseCerts(access.ca_pem);
    if (roots.empty()) {
      return Fail(ErrorCode::kInvalid,
                  "certificate-authority: no PEM certificate found; it should begin with "
                  "-----BEGIN CERTIFICATE-----");
    }
    for (const Cert& root : roots) {
      X509_STORE_add_cert(tls->roots.get(), root.get());
    }
  }
  if (access.client_cert_pem.empty() != access.client_key_pem.empty()) {
    return Fail(ErrorCode::kInvalid, "client-certificate and client-key must be given together");
  }
  if (!access.client_cert_pem.empty()) {
    tls->chain = ParseCerts(access.client_cert_pem);
    if (tls->chain.empty()) {
      return Fail(ErrorCode::kInvalid, "client-certificate: no PEM certificate found");
    }
    const Bio bio(BIO_new_mem_buf(access.client_key_pem.data(),
                                  static_cast<int>(access.client_key_pem.size())));
    tls->key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, nullptr));
    ERR_clear_error();
    if (tls->key == nullptr) {
      return Fail(ErrorCode::kInvalid,
                  "client-key: no usable PEM private key (encrypted keys are not supported)");
    }
    if (X509_check_private_key(tls->chain.front().get(), tls->key.get()) != 1) {
      ERR_clear_error();
      return Fail(ErrorCode::kInvalid, "client-key does not belong to client-certificate");
    }
  }
  return std::shared_ptr<const ClientTls>(new ClientTls(std::move(tls)));
}

}  // namespace tutti::kube
