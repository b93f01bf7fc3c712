#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests of the chart and of the CRDs that need no cluster: lint, stable output, what the values
# schema refuses and how, what the switches switch, RBAC, drift of generated files.
# What the API server makes of it all is tested in e2e/suite (crds_test.go, policies_test.go).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

HELM=${HELM:-$(e2e/tools/build.sh helm)/helm} || exit 1
export HELM
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

ok() {
  passed=$((passed + 1))
  echo "ok    $1"
}
bad() {
  failed=$((failed + 1))
  echo "FAIL  $1"
  sed 's/^/      /' "$work/out" | tail -n 12
}
# works NAME COMMAND...: the command succeeds.
works() {
  local name=$1
  shift
  if "$@" >"$work/out" 2>&1; then ok "$name"; else bad "$name"; fi
}
# refused NAME PATTERN OPTION...: rendering fails with a message that matches.
refused() {
  local name=$1 pattern=$2
  shift 2
  if charts/render.sh "$@" >"$work/out" 2>&1; then
    echo "was accepted" >"$work/out"
    bad "refuses $name"
  elif grep -qE -- "$pattern" "$work/out"; then
    ok "refuses $name"
  else
    bad "refuses $name (message doesn't match $pattern)"
  fi
}
# has NAME COUNT PATTERN OPTION...: so many lines of the output match.
has() {
  local name=$1 want=$2 pattern=$3 got
  shift 3
  charts/render.sh "$@" >"$work/out" 2>&1
  got=$(grep -cE -- "$pattern" "$work/out")
  if [[ $got == "$want" ]]; then ok "$name"; else
    echo "$got lines match $pattern, not $want" >"$work/out"
    bad "$name"
  fi
}

works "CRDs are what the generator writes" python3 crds/gen/gen.py --check
works "lint" "$HELM" lint --strict --kube-version 1.36.3 charts/tutti

everything=(--set 'crds.v1beta1=true,visibility.enabled=true,metrics.secure=true,policies.use.localQueues=true,policies.use.priorityClasses=true,webhook.enabled=true,webhook.jobs=true,flowControl.enabled=true,replicaCount=2'
  --set 'ledger.persistence.enabled=true,ledger.persistence.accessMode=ReadWriteMany'
  --set 'nativeGang.enabled=true,manageJobsWithoutQueueName=true,config.kueue.integrations.frameworks={batch/job,jobset.x-k8s.io/jobset,pod,deployment,statefulset}')
works "lint with everything on" "$HELM" lint --strict --kube-version 1.36.3 charts/tutti "${everything[@]}"
stable() {
  charts/render.sh "$@" >"$work/a" && charts/render.sh "$@" >"$work/b" && cmp "$work/a" "$work/b"
}
works "the same values give the same bytes" stable
works "the same values give the same bytes with everything on" stable "${everything[@]}"
constant() { ! grep -rnE '\b(now|date|lookup|rand[A-Za-z]*|uuidv4|genCA|genPrivateKey|genSelfSignedCert|shuffle)\b' charts/tutti/templates; }
works "no template asks for time, chance or the cluster" constant
parses() {
  charts/render.sh "$@" >"$work/a" && python3 - "$work/a" <<'P'
import re, sys
seen = set()
for doc in open(sys.argv[1]).read().split("\n---\n"):
    kind = re.search(r"^kind: (\S+)$", doc, re.M)
    name = re.search(r"^metadata:\n(?:  .*\n)*?  name: (\S+)$", doc, re.M)
    if not kind or not name:
        sys.exit(f"without kind or name: {doc[:200]}")
    key = (kind[1], name[1])
    if key in seen:
        sys.exit(f"twice: {key}")
    seen.add(key)
if len(seen) < 30:
    sys.exit(f"only {len(seen)} objects")
P
}
works "every document has a name of its own" parses
works "every document has a name of its own with everything on" parses "${everything[@]}"
order() {
  charts/render.sh "${everything[@]}" | grep -E '^kind: ' >"$work/a"
  local crd policy
  crd=$(grep -n 'CustomResourceDefinition' "$work/a" | tail -1 | cut -d: -f1)
  policy=$(grep -n 'AdmissionPolicy' "$work/a" | head -1 | cut -d: -f1)
  ((crd > 0 && policy > crd))
}
works "policies come after the CRDs" order

# Values.
refused "an unknown value" "additional properties 'replicas' not allowed" --set replicas=2
refused "a number that is none" "/replicaCount'?: got string, want integer" --set replicaCount=two
refused "too many replicas" "/replicaCount.*10" --set replicaCount=11
refused "an unknown mode" "/mode.*Observe.*Takeover.*Greenfield" --set mode=Dry
refused "an unknown gang setting" "/nativeGang/enabled" --set nativeGang.enabled=maybe
refused "a size that is none" "/ledger/size" --set ledger.size=big
refused "a webhook without TLS" "/webhook/url" --set webhook.url=http://127.0.0.1:1
refused "an unknown field of the configuration" "/config/kueue.*'waitForPods' not allowed" --set config.kueue.waitForPods=1
refused "a field of the configuration that has a value" "config.kueue.namespace is set by the chart" --set config.kueue.namespace=x
refused "our configuration's mode" "config.tutti.mode is set by the chart: use the value mode" --set config.tutti.mode=Observe
refused "Job webhooks without webhooks" "webhook.jobs needs webhook.enabled" --set webhook.jobs=true
refused "queued pods that nobody holds" "nobody would hold pods: set policies.enabled: true, or webhook" --set 'config.kueue.integrations.frameworks={batch/job,pod},policies.enabled=false,webhook.enabled=true'
refused "one volume for two" "needs accessMode ReadWriteMany" --set 'replicaCount=2,ledger.persistence.enabled=true'
refused "two without an election" "replicaCount above 1 needs leaderElection.enabled" --set 'replicaCount=2,leaderElection.enabled=false'
refused "our CRDs over others'" "mode Takeover .*crds.install: false" --set mode=Takeover
refused "an old cluster" "kubeVersion" --kube-version 1.33.0
refused "policies on a server without them" "set policies.enabled: false, webhook.enabled: true and webhook.jobs: true" --kube-version 1.35.0

# Switches.
has "eleven CRDs, all kept" 11 'helm.sh/resource-policy: keep'
has "no CRD where they are installed already" 0 '^kind: CustomResourceDefinition' --set crds.install=false
has "one version by default" 0 'name: v1beta1$'
has "two versions where asked for" 11 'name: v1beta1$' --set crds.v1beta1=true
has "the operator is asked to convert five kinds" 5 'path: "?/convert' --set crds.v1beta1=true
has "the operator converts where the release is" 5 '^          namespace: tutti-system$' --set crds.v1beta1=true
has "an operator elsewhere is asked to convert at its address" 5 'url: https://127.0.0.1:7/convert$' --set crds.v1beta1=true,webhook.url=https://127.0.0.1:7/
has "no visibility API by default" 0 '^kind: APIService$'
has "the visibility API in both versions where asked for" 2 '^kind: APIService$' --set visibility.enabled=true
has "plain metrics by default" 1 'targetPort: health$'
has "secure metrics where asked for" 1 'targetPort: metrics$' --set metrics.secure=true
has "anybody may use queues by default" 0 "check.'use'"
has "queues by right where asked for" 3 "check.'use'" --set policies.use.localQueues=true
has "queues and classes by right where asked for" 9 "check.'use'" --set policies.use.localQueues=true,policies.use.priorityClasses=true
NATIVE_GANG=auto
export NATIVE_GANG
has "gang policies where 1.36 serves the API" 2 '^  name: tutti-pod-joins-group$' --api-versions scheduling.k8s.io/v1alpha2/PodGroup
has "gang policies where 1.37 serves the API" 2 '^  name: tutti-pod-joins-group$' --kube-version 1.37.2 --api-versions scheduling.k8s.io/v1beta1/PodGroup
has "a group is left by its version of 1.36" 1 '^    apiVersion: scheduling.k8s.io/v1alpha2$' --api-versions scheduling.k8s.io/v1alpha2/PodGroup
has "a group is left by its version of 1.37" 1 '^    apiVersion: scheduling.k8s.io/v1beta1$' --kube-version 1.37.2 --api-versions scheduling.k8s.io/v1beta1/PodGroup
has "pods are made only where the API is served" 0 'tutti-gang-probe'
has "pods of the probe alone are deleted" 1 'resourceNames: .tutti-gang-probe-member, tutti-gang-probe-free.$' --api-versions scheduling.k8s.io/v1alpha2/PodGroup
has "no gang policy where the API is not served" 0 'tutti-pod-joins-group'
has "no gang policy where it is switched off" 0 'tutti-pod-joins-group' --api-versions scheduling.k8s.io/v1alpha2/PodGroup --set nativeGang.enabled=false
unset NATIVE_GANG
has "beta policies where asked for" 8 '^apiVersion: admissionregistration.k8s.io/v1beta1$' --kube-version 1.35.0 --set policies.betaApi=true --show-only templates/policies-hold.yaml --show-only templates/policies-jobs.yaml
has "JobSets are held by webhooks on servers without policies" 2 '^    resources: \[jobsets\]$' --set 'config.kueue.integrations.frameworks={batch/job,jobset.x-k8s.io/jobset},webhook.enabled=true,webhook.jobs=true' --show-only templates/webhooks.yaml
has "nothing holds Jobs in mode Observe" 0 '^kind: (Mutating|Validating)(AdmissionPolicy|WebhookConfiguration)' --set mode=Observe,crds.install=false,webhook.enabled=true
has "no policy for older servers" 0 'AdmissionPolicy(Binding)?$' --set policies.enabled=false,webhook.enabled=true,webhook.jobs=true
has "no disruption budget for one replica" 0 '^kind: PodDisruptionBudget'
has "a disruption budget for two" 1 '^kind: PodDisruptionBudget' --set replicaCount=2
has "an emptyDir by default" 0 '^kind: PersistentVolumeClaim'
has "all Jobs are held where that is asked for" 0 'name: queued$' --set manageJobsWithoutQueueName=true

has "JobSets are left alone by default" 0 'jobsets'
has "JobSets are held where they are queued" 6 '^      resources: \[jobsets\]$' --set 'config.kueue.integrations.frameworks={batch/job,jobset.x-k8s.io/jobset}' --show-only templates/policies-hold.yaml --show-only templates/policies-jobs.yaml
has "JobSets are held by webhooks on servers without policies" 2 '^    resources: \[jobsets\]$' --set 'config.kueue.integrations.frameworks={batch/job,jobset.x-k8s.io/jobset},webhook.enabled=true,webhook.jobs=true' --show-only templates/webhooks.yaml
has "pods are left alone by default" 0 'tutti-(hold-queued-pods|pod-rules)'
has "pods with a queue are held where they are queued" 2 '^  name: tutti-hold-queued-pods$' --set 'config.kueue.integrations.frameworks={batch/job,pod}' --show-only templates/policies-pods.yaml
has "StatefulSets are left alone where only pods are queued" 0 'statefulset' --set 'config.kueue.integrations.frameworks={batch/job,pod},webhook.enabled=true,webhook.jobs=true' --show-only templates/webhooks.yaml --show-only templates/policies-pods.yaml
has "only pods with a label are looked at where no StatefulSet is queued" 3 '^    objectSelector:$' --set 'config.kueue.integrations.frameworks={batch/job,pod}' --show-only templates/policies-pods.yaml
has "StatefulSets and their pods are held by policies where they are queued" 5 '^      resources: \[(statefulsets|pods)\]$' --set 'config.kueue.integrations.frameworks={batch/job,statefulset}' --show-only templates/policies-pods.yaml
has "no webhook for pods beside the policies" 0 '^    resources: \[(statefulsets|pods)\]$' --set 'config.kueue.integrations.frameworks={batch/job,statefulset},webhook.enabled=true' --show-only templates/webhooks.yaml
has "StatefulSets and their pods are held by webhooks on servers without policies" 4 '^    resources: \[(statefulsets|pods)\]$' --set 'config.kueue.integrations.frameworks={batch/job,statefulset},policies.enabled=false,webhook.enabled=true,webhook.jobs=true' --show-only templates/webhooks.yaml

# The operator can write nothing but what it has to.
rights() {
  charts/render.sh >"$work/a" && python3 - "$work/a" <<'P'
import re, sys
write = {"create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate"}
allowed = {  # resource: verbs that change something, cluster-wide
    "workloads": {"create", "update", "patch", "delete"}, "jobs": {"patch"}, "pods": {"patch"}, "jobs/status": {"patch"},
    "jobs/finalizers": {"update"}, "podgroups": {"create", "patch", "delete"},
    "events": {"create", "patch"}, "scheduling.k8s.io/workloads": {"delete"}, "provisioningrequests": {"create", "delete"}, "podtemplates": {"create", "update", "patch"}, "tokenreviews": {"create"}, "subjectaccessreviews": {"create"},
}
role = re.search(r"^kind: ClusterRole\nmetadata:\n  name: tutti-controller-manager\n(.*?)^---$",
                 open(sys.argv[1]).read(), re.M | re.S)[1]
rules = re.findall(r"- apiGroups: \[(.*)\]\n  resources: \[(.*)\]\n(?:  resourceNames: \[.*\]\n)?  verbs: \[(.*)\]\n", role)
if len(rules) < 15 or len(rules) != role.count("- apiGroups:"):
    sys.exit(f"{len(rules)} rules are readable")
for groups, resources, verbs in rules:
    if "*" in groups + resources + verbs:
        sys.exit(f"a wildcard: {resources}")
    for resource in resources.split(", "):
        extra = set(verbs.split(", ")) & write
        if groups == "kueue.x-k8s.io" and resource != "workloads":
            extra -= {"update", "patch"}
        extra -= allowed.get(f"{groups}/{resource}" if f"{groups}/{resource}" in allowed else resource, set())
        if extra:
            sys.exit(f"{resource}: {sorted(extra)}")
        if resource in ("secrets", "configmaps"):
            sys.exit("Secrets and ConfigMaps belong to the Role of the namespace")
P
}
works "the cluster role changes only what it has to" rights

echo "charts: $passed passed, $failed failed"
((failed == 0))
