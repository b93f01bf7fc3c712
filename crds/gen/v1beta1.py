# SPDX-License-Identifier: Apache-2.0
"""What the kinds look like as v1beta1: each v1beta2 kind with the fields that differ put back.

The limits of v1beta2 hold in v1beta1 too, and fields that only v1beta2 has are known, so that what
is written as one version can always be read as the other and nothing is lost on the way.
operator/conversion.h has the other half.
"""

import copy

from kinds import KINDS, OLD_CLASS_RULES, quota_rules
from schema import arr, int32, int64, name_ref, obj, opaque, rule, text

WARNING = "kueue.x-k8s.io/v1beta1 is deprecated: use kueue.x-k8s.io/v1beta2"
# Kinds whose fields differ: the API server asks the operator to convert them.
CONVERTED = ["ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "Workload"]
# The one kind without a deprecation warning.
NOT_DEPRECATED = "MultiKueueConfig"

SOURCE = {"type": "string", "default": "",
          "enum": ["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""],
          "description": "Kind of the class."}


def rename(props, old, new):
    """v1beta2's field `old` as `new`, in the same place."""
    items = [(new if key == old else key, value) for key, value in props.items()]
    props.clear()
    props.update(items)


def admission_check(spec, status):
    spec["properties"]["retryDelayMinutes"] = {
        **int64("Without effect."), "default": 15}


def cluster_queue(spec, status):
    props = spec["properties"]
    rename(props, "cohortName", "cohort")
    props["admissionChecks"] = arr(
        "Checks that workloads have to pass; in place of admissionChecksStrategy.",
        text(minimum=1, maximum=316), maximum=64, kind="set")
    props["flavorFungibility"]["properties"]["whenCanBorrow"]["enum"].append("Borrow")
    props["flavorFungibility"]["properties"]["whenCanPreempt"]["enum"].append("Preempt")
    spec["x-kubernetes-validations"] = quota_rules("cohort")
    status["properties"]["pendingWorkloadsStatus"] = opaque("Without effect.")
    past_usage(status)


def past_usage(status):
    status["properties"]["fairSharing"]["properties"]["admissionFairSharingStatus"] = opaque(
        "Without effect.")


def cohort(spec, status):
    past_usage(status)


def local_queue(spec, status):
    rename(status["properties"], "flavorsUsage", "flavorUsage")
    status["properties"]["flavors"] = arr("Without effect.", opaque(), maximum=64)


def multikueue_cluster(spec, status):
    source = spec["properties"].pop("clusterSource")["properties"]
    config = source["kubeConfig"]
    config["properties"]["location"].pop("minLength")
    config["required"] = ["location", "locationType"]
    spec["properties"]["kubeConfig"] = config
    spec["properties"]["clusterProfileRef"] = source["clusterProfileRef"]
    spec["required"] = ["kubeConfig"]
    spec["x-kubernetes-validations"] = [rule(
        "(self.kubeConfig.location != '') != has(self.clusterProfileRef)",
        "exactly one of kubeConfig.location and clusterProfileRef must be set")]


def workload(spec, status):
    props = spec["properties"]
    items = list(props.items())
    at = [key for key, _ in items].index("priorityClassRef")
    items[at:at + 1] = [("priorityClassName", name_ref("Class that the priority comes from.")),
                        ("priorityClassSource", SOURCE)]
    props.clear()
    props.update(items)
    spec["required"] = ["podSets"]
    spec["x-kubernetes-validations"] = [
        rule("!has(self.priorityClassName) || has(self.priority)",
             "priority must be set where priorityClassName is set")]
    rename(status["properties"], "accumulatedPastExecutionTimeSeconds",
           "accumulatedPastExexcutionTimeSeconds")
    assignment = status["properties"]["admission"]["properties"]["podSetAssignments"]["items"]
    topology = assignment["properties"]["topologyAssignment"]
    topology["properties"].pop("slices")
    topology["properties"]["domains"] = arr("The domains.", obj("", {
        "*values": arr("Domain names, one for each level.", text(maximum=63), 1, 16),
        "*count": int32("Pods in the domain.", 1),
    }), maximum=100000)
    topology["required"] = ["levels", "domains"]
    topology.pop("x-kubernetes-validations")


def workload_rules(rules):
    """The rules on priorityClassRef, in terms of priorityClassName and priorityClassSource."""
    first, rest = rules[0], [r for r in rules[1:] if "priorityClassRef" not in r["rule"]]
    return [first] + OLD_CLASS_RULES + rest


CHANGES = {
    "AdmissionCheck": admission_check, "ClusterQueue": cluster_queue, "Cohort": cohort,
    "LocalQueue": local_queue, "MultiKueueCluster": multikueue_cluster, "Workload": workload,
}


def version(kind):
    """The kind as v1beta1: schema, columns and deprecation, in kinds.py's form."""
    out = copy.deepcopy(kind)
    out["selectable"] = []
    props = out["schema"]["properties"]
    if kind["kind"] in CHANGES:
        CHANGES[kind["kind"]](props["spec"], props.get("status"))
    if kind["kind"] == "Workload":
        out["schema"]["x-kubernetes-validations"] = workload_rules(
            out["schema"]["x-kubernetes-validations"])
    for column in out["columns"]:
        column["jsonPath"] = column["jsonPath"].replace(".spec.cohortName", ".spec.cohort")
    out["warning"] = None if kind["kind"] == NOT_DEPRECATED else WARNING
    return out


VERSIONS = {kind["kind"]: version(kind) for kind in KINDS}
