// SPDX-License-Identifier: Apache-2.0
// An audit of a live cluster: lists what the report needs, page by page, one request at a time.
#pragma once

#include <string>

#include "audit/collect.h"
#include "base/result.h"
#include "kube/transport.h"

namespace tutti {

struct ClusterToAudit {
  std::string kubeconfig;  // "" = KUBECONFIG, then ~/.kube/config
  std::string context;
  std::string ns;  // only namespaced objects of this one; "" = all
};

// The name of the source, for the report. An error only when the cluster gives no answer at all:
// kinds that may not be listed become notes, kinds that are not served are left out.
Result<std::string> AuditCluster(const ClusterToAudit& cluster, audit::Collector& collector);

// The same over a transport.
Status ListForAudit(kube::Transport& transport, const std::string& ns, audit::Collector& collector);

}  // namespace tutti
