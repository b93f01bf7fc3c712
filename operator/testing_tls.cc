// SPDX-License-Identifier: Apache-2.0
#include "operator/testing_tls.h"

#include <csignal>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tutti::testing_tls {
namespace {

template <typename T>
T* Read(const std::string& pem, T* (*read)(BIO*, T**, pem_password_cb*, void*)) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  T* value = read(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return value;
}

SSL_CTX* ContextFor(const Client& client) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (!client.trusted_ca.empty()) {
    X509* ca = Read<X509>(client.trusted_ca, PEM_read_bio_X509);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca);
    X509_free(ca);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  if (!client.certificate.certificate_pem.empty()) {
    X509* certificate = Read<X509>(client.certificate.certificate_pem, PEM_read_bio_X509);
    EVP_PKEY* key = Read<EVP_PKEY>(client.certificate.key_pem, PEM_read_bio_PrivateKey);
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  return context;
}

}  // namespace

std::string Exchange(uint16_t port, const std::string& request, const Client& client) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes with write()
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address);
  SSL_CTX* context = ContextFor(client);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, fd);
  if (!client.trusted_ca.empty()) {
    X509_VERIFY_PARAM_set1_host(SSL_get0_param(ssl), client.host.c_str(), 0);
  }
  std::string answer;
  if (SSL_connect(ssl) == 1) {
    SSL_write(ssl, request.data(), static_cast<int>(request.size()));
    char buffer[4096];
    int got = 0;
    while ((got = SSL_read(ssl, buffer, sizeof buffer)) > 0) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(fd);
  return answer;
}

}  // namespace tutti::testing_tls
