// SPDX-License-Identifier: Apache-2.0
// A TLS client for tests of servers: one request, one answer.
#pragma once

#include <cstdint>
#include <string>

#include "net/certs.h"

namespace tutti::testing_tls {

struct Client {
  std::string trusted_ca = {};    // "" = every server is believed
  std::string host = {};          // that the server's certificate must be for; with trusted_ca
  net::KeyPair certificate = {};  // of the client; empty = none
};

// Sends the text to 127.0.0.1 and returns all that comes back; "" when there is no connection.
std::string Exchange(uint16_t port, const std::string& request, const Client& client);

}  // namespace tutti::testing_tls
