#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the chart as plain manifests: CRDs first, policies last, the same bytes for the same values.
#
#   charts/render.sh [helm template options...]            e.g. --set replicaCount=2 -f my-values.yaml
#
# NAMESPACE     where it is to run (default tutti-system)
# KUBE_VERSION  version of the cluster (default 1.36.3)
# NATIVE_GANG   true: the cluster serves PodGroups of scheduling.k8s.io (default false)
# HELM          the helm program (default: the pinned one of e2e/tools, else the one in PATH)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

helm=${HELM:-}
if [[ -z $helm ]]; then
  helm=$("$here/../e2e/tools/build.sh" --path helm)/helm
  [[ -x $helm ]] || helm=$(command -v helm) || {
    echo "render.sh: no helm: run e2e/tools/build.sh helm, or set HELM" >&2
    exit 1
  }
fi
options=(--namespace "${NAMESPACE:-tutti-system}" --kube-version "${KUBE_VERSION:-1.36.3}")
options+=(--set "nativeGang.enabled=${NATIVE_GANG:-false}")
exec "$helm" template tutti "$here/tutti" "${options[@]}" "$@"
