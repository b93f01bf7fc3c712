// SPDX-License-Identifier: Apache-2.0
// The objects of a live cluster for a command that only reads: listed page by page, one request at
// a time.
#pragma once

#include <string>

#include "base/result.h"
#include "kube/kubeconfig.h"
#include "kube/transport.h"
#include "operator/object_sink.h"

namespace tutti {

struct ClusterToRead {
  std::string user_agent = "tutti";
  std::string kubeconfig = {};  // "" = KUBECONFIG, then ~/.kube/config
  std::string context = {};
  std::string ns = {};  // only namespaced objects of this one; "" = all
  // Where a kind may not be listed in all namespaces: in this one alone; "" = not at all.
  std::string fallback_ns = {};
  bool for_decisions = false;  // also the kinds that decisions of queues depend on
};

// The name of the source, for the report. An error only when the cluster gives no answer at all:
// kinds that may not be listed become notes, kinds that are not served are left out.
Result<std::string> ReadCluster(const ClusterToRead& cluster, const ObjectSink& sink);

// How the cluster is reached; credential plugins have been run.
Result<kube::ClusterAccess> AccessTo(const std::string& kubeconfig, const std::string& context);

// The same over a transport.
Status ListObjects(kube::Transport& transport, const ClusterToRead& cluster,
                   const ObjectSink& sink);

}  // namespace tutti
