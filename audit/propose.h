// SPDX-License-Identifier: Apache-2.0
// What the audit suggests, as manifests: queues with quotas from past use, and the jobs that
// started partially as gangs of these queues. Nothing is applied; requests stay as they are.
#pragma once

#include <string>
#include <vector>

#include "audit/report.h"

namespace tutti::audit {

struct ProposedFile {
  std::string path;    // "queues/cluster-queue-team.yaml"; one object a file
  std::string before;  // "" = new
  std::string after;
};

// REQUIRES: the audit was collected with keep_manifests. In order of path.
std::vector<ProposedFile> Propose(const Audit& audit);

}  // namespace tutti::audit
