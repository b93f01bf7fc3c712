// SPDX-License-Identifier: Apache-2.0
// `tutti doctor` as a command: reads a cluster and prints what cli/doctor.h finds. Reads only (a
// SubjectAccessReview, which asks for a right, is a POST that stores nothing). Blocks.
#pragma once

#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cli/doctor.h"
#include "kube/transport.h"

namespace tutti {

struct DoctorFlags {
  std::string kubeconfig;           // "" = KUBECONFIG, then ~/.kube/config
  std::string context;              // "" = current-context
  std::string ns = "tutti-system";  // where the operator is installed
  std::string output = "text";      // text, json
};

// Errors: the server can't be reached or read at all. What single parts don't show is in the facts.
Result<cli::DoctorFacts> CollectDoctorFacts(kube::Transport& transport, const std::string& server,
                                            const std::string& operator_ns, Time now);

// Exit code: 0 nothing is missing, 1 something is, 2 no answer.
int RunDoctor(const DoctorFlags& flags);

}  // namespace tutti
