// SPDX-License-Identifier: Apache-2.0
// `tutti audit`: reads dumps or a cluster, with GET requests only, and writes the report.
#pragma once

#include <string>
#include <vector>

namespace tutti {

struct AuditFlags {
  std::vector<std::string> inputs;  // files and folders, "-" for standard input; none: a cluster
  std::string kubeconfig;
  std::string context;
  std::string ns;  // only what is in this namespace; "" = all
  std::string prices;
  std::string at;
  std::string tolerance = "10s";
  bool count_work_queues = false;
  bool how_to_dump = false;
  std::string output = "text";
  std::string html;     // also write the page to this file
  std::string propose;  // write manifests into this folder
  int width = 0;        // columns; 0: of the terminal
};

// The exit code: 0 with a report, whatever it says; 2 without one.
int RunAudit(const AuditFlags& flags);

}  // namespace tutti
