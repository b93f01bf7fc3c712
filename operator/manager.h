// SPDX-License-Identifier: Apache-2.0
// The running operator: connects to the API server, keeps the watches, feeds the controller core
// and carries out what it says, as long as this process is the leader and nobody else works on the
// same kinds. Everything below runs on the loop thread; Run() is that thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "operator/config.h"

namespace tutti {

struct ManagerOptions {
  Config config;
  std::string kubeconfig;  // "" = in cluster
  std::string identity;    // unique per process
};

class Manager {
 public:
  explicit Manager(ManagerOptions options);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // Blocks until Stop; an error is a reason to exit (lost lease, no access, another controller).
  Status Run();
  // Graceful: what is in flight is finished, the lease is given up. From any thread, also from a
  // thread that waits for signals.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
