// SPDX-License-Identifier: Apache-2.0
// The bearer token of a ClusterAccess; one from a file is read again while it is used, because
// bound tokens rotate. May be used from any thread.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "kube/kubeconfig.h"

namespace tutti::kube {

class TokenSource {
 public:
  explicit TokenSource(const ClusterAccess& access)
      : token_(access.token), file_(access.token_file) {}

  std::string Get();  // "" = none
  // The server refused it: the file is read again soon.
  void OnUnauthorized();

 private:
  std::mutex mutex_;
  std::string token_;
  const std::string file_;
  std::chrono::steady_clock::time_point stale_at_{};
};

}  // namespace tutti::kube
