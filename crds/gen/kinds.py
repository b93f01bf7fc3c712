# SPDX-License-Identifier: Apache-2.0
"""The eleven kinds of kueue.x-k8s.io/v1beta2: fields, limits, rules. See schema.py for the blocks.

Field names, types, defaults, limits and rule semantics are those of the API as released in 0.19.2;
descriptions, messages and the extra rules of quotas are our own.
"""

from schema import (
    DNS_LABEL, DNS_SUBDOMAIN, KIND_NAME, MAX_INT64, QUALIFIED_NAME, amount, arr, as_quantity,
    choice, conditions, flag, int32, int64, label_selector, name_ref, obj, quantity,
    rule, table, text, time, tolerations, well_formed,
)
from template import pod_template

IMMUTABLE = "{} cannot be changed: delete the object and create it anew"


def column(name, path, kind="string", wide=False):
    out = {"name": name, "type": kind, "jsonPath": path}
    if wide:
        out["priority"] = 1
    return out


AGE = column("Age", ".metadata.creationTimestamp", "date")


def kind(name, plural, scope, short, d, props, columns=(), cel=None, status=False, selectable=()):
    meta = {
        "apiVersion": text("Version of this representation."),
        "kind": text("Kind of this object."),
        "metadata": {"type": "object"},
    }
    return {
        "kind": name, "plural": plural, "scope": scope, "short": short, "status": status,
        "columns": list(columns), "selectable": list(selectable),
        "schema": obj(d, {**meta, **props}, cel),
    }


# --- quotas, shared by ClusterQueue and Cohort ---------------------------------------------------

# The engine counts cpu in thousandths in 64 bits.
MAX_CPU = MAX_INT64 // 1000


def cpu_fits(field):
    value = as_quantity("self." + field)
    return rule(
        f"""self.name != 'cpu' || !has(self.{field}) || !{well_formed('self.' + field)}
            || {value}.isLessThan(quantity('{MAX_CPU}'))""",
        f"{field} of cpu must be below {MAX_CPU}: cpu is counted in thousandths",
        field_path="." + field)


def quota_resource(parent_field, lending_rule):
    nominal, lending = as_quantity("self.nominalQuota"), as_quantity("self.lendingLimit")
    cel = [cpu_fits(f) for f in ("nominalQuota", "borrowingLimit", "lendingLimit")]
    if lending_rule:
        cel.append(rule(
            f"""!has(self.lendingLimit) || !{well_formed('self.lendingLimit')}
                || !{well_formed('self.nominalQuota')}
                || {lending}.compareTo({nominal}) <= 0""",
            "lendingLimit must be at most nominalQuota: lower lendingLimit or raise nominalQuota",
            field_path=".lendingLimit", webhook=True,
        ))
    return obj("", {
        "*name": text("Resource name, such as cpu or nvidia.com/gpu.", maximum=317),
        "*nominalQuota": amount("nominalQuota", "Amount that is always here."),
        "borrowingLimit": amount(
            "borrowingLimit",
            f"Most that may be taken from the {parent_field} beyond nominalQuota; unset: no "
            "limit."),
        "lendingLimit": amount(
            "lendingLimit", "Most of nominalQuota that others may borrow; unset: all of it."),
    }, cel=cel)


def resource_groups(parent_field, lending_rule):
    return arr(
        "Resources and the flavors that supply them. A resource or a flavor is in one group only.",
        obj("", {
            "*coveredResources": arr(
                "Resources of this group; each flavor has quotas for them in this order.",
                text(maximum=317), 1, 64),
            "*flavors": arr("Flavors in the order in which they are tried.", obj("", {
                "*name": name_ref("ResourceFlavor."),
                "*resources": arr("Quotas of this flavor, one for each covered resource.",
                                  quota_resource(parent_field, lending_rule), 1, 64,
                                  keys=["name"]),
            }), 1, 64, keys=["name"]),
        }, cel=[
            rule("self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
                 "flavors[].resources must have one entry for each of coveredResources"),
            rule("""self.flavors.all(f, size(f.resources) != size(self.coveredResources)
                      || self.coveredResources.all(i, r, f.resources[i].name == r))""",
                 "flavors[].resources must name the same resources as coveredResources in the "
                 "same order", webhook=True),
            rule("size(self.flavors) * size(self.coveredResources) <= 512",
                 "flavors times coveredResources must be at most 512: split the group",
                 webhook=True),
        ]),
        maximum=16, cel=[
            rule("self.map(g, size(g.flavors)).sum() <= 256",
                 "resourceGroups must have at most 256 flavors in all", webhook=True),
            rule("self.map(g, size(g.coveredResources)).sum() <= 256",
                 "resourceGroups must have at most 256 coveredResources in all", webhook=True),
        ])


def needs_parent(limit, field, webhook=True):
    return rule(
        f"""has(self.{field}) || !has(self.resourceGroups) || self.resourceGroups.all(g,
              g.flavors.all(f, f.resources.all(r, !has(r.{limit}))))""",
        f"{limit} has no meaning without a cohort: set {field} or remove {limit}",
        field_path=".resourceGroups", webhook=webhook)


def fair_sharing():
    q = as_quantity("self")
    return obj("Share of this node when fair sharing is on.", {
        "weight": quantity(
            "Relative weight; 0 means: only what nobody else wants.",
            default=1,
            cel=[rule(
                f"{well_formed('self')} && ({q}.compareTo(quantity('0')) == 0 "
                f"|| {q}.isGreaterThan(quantity('1n')))",
                "weight must be 0 or a quantity greater than 1n (10^-9)", webhook=True)]),
    })


def weighted_share():
    return obj("Fair sharing state.", {
        "*weightedShare": int64("Largest share above nominal quota, divided by the weight."),
    })


def usage(d, borrowed):
    resource = {"*name": text("Resource name."), "total": quantity("Amount in use.")}
    if borrowed:
        resource["borrowed"] = quantity("Part of it that is taken from the cohort.")
    return arr(d, obj("", {
        "*name": name_ref("ResourceFlavor."),
        "*resources": arr("Amounts by resource.", obj("", resource), maximum=64, keys=["name"]),
    }), maximum=64, keys=["name"])


def stop_policy():
    return choice("None: run; Hold: admit nothing new; HoldAndDrain: evict as well.",
                  "None", "Hold", "HoldAndDrain", default="None")


ADMISSION_CHECK = kind(
    "AdmissionCheck", "admissionchecks", "Cluster", ["ac"],
    "A further condition that a workload has to meet before it starts.",
    {
        "spec": obj("What checks.", {
            "*controllerName": text(
                "Controller that works on this check.", 1, 253,
                cel=[rule("self == oldSelf", IMMUTABLE.format("controllerName"))]),
            "parameters": obj("Object with further settings of the check.", {
                "*apiGroup": text("API group of that object.", 1, 253, DNS_SUBDOMAIN),
                "*kind": text("Kind of that object.", 1, 63, KIND_NAME),
                "*name": text("Name of that object.", 1, 63, DNS_LABEL),
            }),
        }),
        "status": obj("What is observed.", {"conditions": conditions()}),
    },
    status=True)

def quota_rules(parent_field):
    """Rules of a ClusterQueue's spec, by the name of the field with its cohort."""
    return [needs_parent("borrowingLimit", parent_field, webhook=False),
            needs_parent("lendingLimit", parent_field),
            rule("""has(self.concurrentAdmissionPolicy)
                        == has(oldSelf.concurrentAdmissionPolicy)
                      && (!has(self.concurrentAdmissionPolicy)
                          || self.concurrentAdmissionPolicy
                             == oldSelf.concurrentAdmissionPolicy)""",
                 "concurrentAdmissionPolicy cannot be changed: create another ClusterQueue",
                 field_path=".concurrentAdmissionPolicy")]


CLUSTER_QUEUE = kind(
    "ClusterQueue", "clusterqueues", "Cluster", ["cq"],
    "A pool of quota with an order of admission.",
    {
        "spec": obj("Quota and policies.", {
            "resourceGroups": resource_groups("cohort", lending_rule=True),
            "cohortName": name_ref("Cohort to borrow from and lend to; unset: alone."),
            "queueingStrategy": choice(
                "StrictFIFO: an unfit head blocks; BestEffortFIFO: later ones may pass.",
                "StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
            "namespaceSelector": label_selector(
                "Namespaces that may use this queue; unset: none, {}: all."),
            "flavorFungibility": obj("When to go on to the next flavor.", {
                "whenCanBorrow": choice("If borrowing would do.", "MayStopSearch", "TryNextFlavor",
                                        default="MayStopSearch"),
                "whenCanPreempt": choice("If preemption would do.", "MayStopSearch",
                                         "TryNextFlavor", default="TryNextFlavor"),
                "preference": choice("Which of the two is better if all flavors were tried.",
                                     "BorrowingOverPreemption", "PreemptionOverBorrowing"),
            }, default={}, cel=[rule(
                """!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor'
                     && self.whenCanPreempt == 'TryNextFlavor')""",
                "preference has a meaning only where whenCanBorrow and whenCanPreempt are both "
                "TryNextFlavor: set them or remove preference")]),
            "preemption": obj("Which workloads may be evicted for a new one.", {
                "withinClusterQueue": choice(
                    "In this queue.", "Never", "LowerPriority", "LowerOrNewerEqualPriority",
                    default="Never"),
                "reclaimWithinCohort": choice(
                    "In queues that hold quota of this one.", "Never", "LowerPriority", "Any",
                    default="Never"),
                "borrowWithinCohort": obj("In the cohort while this queue borrows.", {
                    "policy": choice("Whom.", "Never", "LowerPriority", default="Never"),
                    "maxPriorityThreshold": int32("Victims have at most this priority."),
                }, default={}),
            }, default={}, cel=[rule(
                """self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort)
                     || self.borrowWithinCohort.policy == 'Never'""",
                "borrowWithinCohort.policy must be Never while reclaimWithinCohort is Never: "
                "set reclaimWithinCohort to LowerPriority or Any")]),
            "admissionChecksStrategy": obj("Checks that workloads of this queue have to pass.", {
                "*admissionChecks": arr("Checks.", obj("", {
                    "*name": text("AdmissionCheck.", 1, 316),
                    "onFlavors": arr("Only for workloads that use one of these flavors; "
                                     "empty: for all.",
                                     text(maximum=253, pattern=DNS_SUBDOMAIN), maximum=64,
                                     kind="set"),
                }), 1, 64, keys=["name"]),
            }),
            "admissionScope": obj("How admission is ordered between local queues.", {
                "*admissionMode": choice("By past usage or not.", "UsageBasedAdmissionFairSharing",
                                         "NoAdmissionFairSharing"),
            }),
            "concurrentAdmissionPolicy": obj("Trying several flavors at once.", {
                "*migration": obj("When to move to a better flavor.", {
                    "*mode": choice("Move or stay.", "TryPreferredFlavors",
                                    "RetainFirstAdmission", maximum=253),
                    "constraints": obj("Limits of the move.", {
                        "lastAcceptableFlavorName": name_ref("Last flavor worth moving to."),
                    }),
                }),
            }),
            "fairSharing": fair_sharing(),
            "stopPolicy": stop_policy(),
        }, cel=quota_rules("cohortName")),
        "status": obj("What is observed.", {
            "conditions": conditions(),
            "flavorsReservation": usage("Quota that is reserved, by flavor.", borrowed=True),
            "flavorsUsage": usage("Quota of admitted workloads, by flavor.", borrowed=True),
            "pendingWorkloads": int32("Workloads that wait."),
            "reservingWorkloads": int32("Workloads with reserved quota."),
            "admittedWorkloads": int32("Workloads that are admitted and not finished."),
            "fairSharing": weighted_share(),
        }),
    },
    columns=[
        column("Cohort", ".spec.cohortName"),
        column("Strategy", ".spec.queueingStrategy", wide=True),
        column("Pending Workloads", ".status.pendingWorkloads", "integer"),
        column("Admitted Workloads", ".status.admittedWorkloads", "integer", wide=True),
    ],
    status=True)

COHORT = kind(
    "Cohort", "cohorts", "Cluster", ["co"],
    "A node in the tree in which ClusterQueues share quota.",
    {
        "spec": obj("Quota and place in the tree.", {
            "parentName": name_ref("Cohort above; unset: this is a root."),
            "resourceGroups": resource_groups("parent", lending_rule=False),
            "fairSharing": fair_sharing(),
        }, cel=[needs_parent("borrowingLimit", "parentName"),
                needs_parent("lendingLimit", "parentName")]),
        "status": obj("What is observed.", {"fairSharing": weighted_share()}),
    },
    status=True)

LOCAL_QUEUE = kind(
    "LocalQueue", "localqueues", "Namespaced", ["queue", "queues", "lq"],
    "A team's entry to a ClusterQueue.",
    {
        "spec": obj("Where it leads.", {
            "clusterQueue": text(
                "ClusterQueue behind this queue.", maximum=253, pattern=DNS_SUBDOMAIN,
                cel=[rule("self == oldSelf", IMMUTABLE.format("clusterQueue"))]),
            "stopPolicy": stop_policy(),
            "fairSharing": fair_sharing(),
        }),
        "status": obj("What is observed.", {
            "conditions": conditions(),
            "pendingWorkloads": int32("Workloads that wait."),
            "reservingWorkloads": int32("Workloads with reserved quota."),
            "admittedWorkloads": int32("Workloads that are admitted and not finished."),
            "flavorsReservation": usage("Quota that is reserved, by flavor.", borrowed=False),
            "flavorsUsage": usage("Quota of admitted workloads, by flavor.", borrowed=False),
            "fairSharing": obj("Fair sharing state.", {
                "*weightedShare": int64("Share by usage, divided by the weight."),
                "admissionFairSharingStatus": obj("Past usage.", {
                    "*consumedResources": table("Usage with decay.", quantity()),
                    "*lastUpdate": time("When it was computed."),
                }),
            }),
        }),
    },
    columns=[
        column("ClusterQueue", ".spec.clusterQueue"),
        column("Pending Workloads", ".status.pendingWorkloads", "integer"),
        column("Admitted Workloads", ".status.admittedWorkloads", "integer"),
    ],
    status=True)

MULTIKUEUE_CLUSTER = kind(
    "MultiKueueCluster", "multikueueclusters", "Cluster", ["mkc"],
    "Another cluster that could take workloads. Accepted, not acted upon.",
    {
        "spec": obj("How to reach it.", {
            "*clusterSource": obj("Source of the credentials.", {
                "kubeConfig": obj("A kubeconfig.", {
                    "*location": text("Secret name or path.", 1, 256),
                    "locationType": choice("What location is.", "Secret", "Path",
                                           default="Secret"),
                }),
                "clusterProfileRef": obj("A ClusterProfile.", {
                    "*name": text("Its name.", 1, 256),
                }),
            }, cel=[rule("has(self.kubeConfig) != has(self.clusterProfileRef)",
                         "clusterSource must have exactly one of kubeConfig and "
                         "clusterProfileRef")]),
        }),
        "status": obj("What is observed.", {"conditions": conditions()}),
    },
    columns=[column("Connected", ".status.conditions[?(@.type=='Active')].status"), AGE],
    status=True)

MULTIKUEUE_CONFIG = kind(
    "MultiKueueConfig", "multikueueconfigs", "Cluster", ["mkconf"],
    "A set of clusters. Accepted, not acted upon.",
    {
        "spec": obj("The set.", {
            "*clusters": arr("MultiKueueCluster names.", text(maximum=256), 1, 20, cel=[rule(
                "self.all(x, self.exists_one(y, x == y))",
                "clusters must not name a cluster twice")]),
            "quotaManagement": choice("Who sets the quota.", "Manual", "Automated"),
        }),
    })

PROVISIONING_REQUEST_CONFIG = kind(
    "ProvisioningRequestConfig", "provisioningrequestconfigs", "Cluster", ["prc"],
    "Settings of a check that asks an autoscaler for nodes.",
    {
        "spec": obj("Settings.", {
            "*provisioningClassName": text("Class of the ProvisioningRequests.", 1, 253,
                                           DNS_SUBDOMAIN),
            "parameters": table("Parameters of the class.", text(maximum=255), maximum=100),
            "managedResources": arr("Resources that need a request; empty: all.", text(),
                                    maximum=100, kind="set"),
            "retryStrategy": obj("What follows a failure.", {
                "backoffLimitCount": int32("Retries.", default=3),
                "backoffBaseSeconds": int32("First pause.", default=60),
                "backoffMaxSeconds": int32("Longest pause.", default=1800),
            }, default={"backoffLimitCount": 3, "backoffBaseSeconds": 60,
                        "backoffMaxSeconds": 1800}),
            "podSetUpdates": obj("Changes to pods once nodes are there.", {
                "nodeSelector": arr("Node selector entries.", obj("", {
                    "*key": text("Label key.", 1, 317, QUALIFIED_NAME),
                    "*valueFromProvisioningClassDetail": text("Detail that holds the value.", 1,
                                                              32768),
                }), maximum=8, keys=["key"]),
            }),
            "podSetMergePolicy": choice("Which pod sets share one request.",
                                        "IdenticalPodTemplates",
                                        "IdenticalWorkloadSchedulingRequirements"),
        }),
    })


def frozen_with_topology(field):
    return rule(
        f"""!has(oldSelf.topologyName) || (has(self.{field}) == has(oldSelf.{field})
              && (!has(self.{field}) || self.{field} == oldSelf.{field}))""",
        f"{field} cannot be changed once topologyName is set: create another ResourceFlavor")


RESOURCE_FLAVOR = kind(
    "ResourceFlavor", "resourceflavors", "Cluster", ["flavor", "flavors", "rf"],
    "A sort of nodes.",
    {
        "spec": obj("Which nodes.", {
            "nodeLabels": table("Labels of these nodes.", text(), maximum=8, atomic=True),
            "nodeTaints": arr("Taints of these nodes that workloads have to tolerate.", obj("", {
                "*key": text("Taint key."),
                "value": text("Taint value."),
                "*effect": text("NoSchedule, PreferNoSchedule or NoExecute."),
                "timeAdded": time("When the taint was set."),
            }), maximum=8, cel=[rule(
                "self.all(x, x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
                "nodeTaints[].effect must be NoSchedule, PreferNoSchedule or NoExecute")]),
            "tolerations": tolerations("Tolerations that its workloads get."),
            "topologyName": name_ref("Topology of these nodes."),
        }, cel=[
            rule("""!has(self.topologyName)
                      || (has(self.nodeLabels) && size(self.nodeLabels) > 0)""",
                 "nodeLabels must have at least one label where topologyName is set"),
            frozen_with_topology("topologyName"),
            frozen_with_topology("nodeLabels"),
            frozen_with_topology("tolerations"),
        ]),
    })

TOPOLOGY = kind(
    "Topology", "topologies", "Cluster", ["topo"],
    "The levels of a network, from the widest to the narrowest.",
    {
        "spec": obj("Levels.", {
            "*levels": arr("Node labels, widest level first.", obj("", {
                "*nodeLabel": text("Label that names the domain of a node.", 1, 316,
                                   QUALIFIED_NAME),
            }), 1, 16, cel=[
                rule("self == oldSelf", IMMUTABLE.format("levels")),
                rule("self.all(x, self.exists_one(y, x.nodeLabel == y.nodeLabel))",
                     "levels must not name a nodeLabel twice"),
                rule("self.all(i, x, x.nodeLabel != 'kubernetes.io/hostname' "
                     "|| i == size(self) - 1)",
                     "levels may have kubernetes.io/hostname only as the last level"),
            ]),
        }),
    })

WORKLOAD_PRIORITY_CLASS = kind(
    "WorkloadPriorityClass", "workloadpriorityclasses", "Cluster", ["wpc"],
    "A priority in the queue, apart from that of the pods.",
    {
        "*value": int32("The priority; higher goes first."),
        "description": text("What it is for.", maximum=2048),
    },
    columns=[column("Value", ".value", "integer")])

# --- Workload ------------------------------------------------------------------------------------


def pod_set_name(d, default=None):
    return text(d, maximum=63, pattern=DNS_LABEL, default=default)


def topology_request():
    return obj("Wishes about the place in the topology.", {
        "required": text("All pods in one domain of this level.", maximum=63),
        "preferred": text("If possible, all pods in one domain of this level.", maximum=63),
        "unconstrained": flag("Any place, found with the topology in view."),
        "podIndexLabel": text("Pod label that holds the pod's index.", maximum=317),
        "subGroupIndexLabel": text("Pod label that holds the index of its sub-group.",
                                   maximum=317),
        "subGroupCount": int32("Number of sub-groups."),
        "podSetGroupName": text("Pod sets of one group share flavor and domain.", maximum=256),
        "podSetSliceRequiredTopology": text("Each slice in one domain of this level.",
                                            maximum=63),
        "podSetSliceSize": int32("Pods in a slice."),
        "podsetSliceRequiredTopologyConstraints": arr("Slices on several levels.", obj("", {
            "*topology": text("Level.", 1, 63),
            "*size": int32("Pods in a slice.", 1),
        }), maximum=3),
    })


def topology_assignment():
    one_of = "must have exactly one of universal and individual"
    return obj("Domains that the pods are to go to, in a compact form.", {
        "*levels": arr("Node labels of the levels.", text(maximum=317), 1, 16),
        "*slices": arr("Runs of domains.", obj("", {
            "*domainCount": int32("Number of domains.", 1),
            "*podCounts": obj("Pods in each domain.", {
                "universal": int32("The same for each.", 1),
                "individual": arr("One for each.", int32(minimum=1), 1, 100000),
            }, cel=[rule("has(self.universal) != has(self.individual)", "podCounts " + one_of)]),
            "*valuesPerLevel": arr("Domain names, one entry for each level.", obj("", {
                "universal": text("The same for each domain.", maximum=63),
                "individual": obj("One for each domain: prefix, root, suffix.", {
                    "*roots": arr("Middle parts.", text(maximum=63), 1, 100000),
                    "prefix": text("Common start.", maximum=63),
                    "suffix": text("Common end.", maximum=63),
                }),
            }, cel=[rule("has(self.universal) != has(self.individual)",
                         "valuesPerLevel[] " + one_of)]), 1, 16),
        }, cel=[
            rule("""!has(self.podCounts.individual)
                      || size(self.podCounts.individual) == self.domainCount""",
                 "podCounts.individual must have length equal to domainCount"),
            rule("""self.valuesPerLevel.all(x, !has(x.individual)
                      || size(x.individual.roots) == self.domainCount)""",
                 "valuesPerLevel.individual, if set, must have roots of length equal to domainCount "
                 "of this TopologyAssignmentSlice"),
        ]), maximum=1000),
    }, cel=[rule("self.slices.all(x, size(x.valuesPerLevel) == size(self.levels))",
                 "valuesPerLevel must have the same length as the number of levels in this "
             "TopologyAssignment")])


def is_true(who, condition):
    return (f"has({who}.status) && has({who}.status.conditions) && {who}.status.conditions"
            f".exists(c, c.type == '{condition}' && c.status == 'True')")


RESERVED_NOW = is_true("self", "QuotaReserved")
RESERVED_BEFORE = is_true("oldSelf", "QuotaReserved")
CLASS_BEFORE = "has(oldSelf.spec.priorityClassRef)"
CLASS_NOW = "has(self.spec.priorityClassRef)"
WHILE_RESERVED = "cannot be changed while quota is reserved"


def class_part(part, extra=""):
    return rule(
        f"""!({RESERVED_BEFORE} && {CLASS_BEFORE} && {CLASS_NOW}{extra})
            || oldSelf.spec.priorityClassRef.{part} == self.spec.priorityClassRef.{part}""",
        f"spec.priorityClassRef.{part} {WHILE_RESERVED}"
        + (" (it can where group is kueue.x-k8s.io)" if part == "name" else ""))


WORKLOAD_RULES = [
    rule(f"""!({RESERVED_NOW} && has(self.status.admission)) || (has(self.spec.podSets)
               && has(self.status.admission.podSetAssignments)
               && size(self.spec.podSets) == size(self.status.admission.podSetAssignments))""",
         "status.admission.podSetAssignments must have one entry for each of spec.podSets"),
    rule(f"!({RESERVED_BEFORE}) || {CLASS_BEFORE} == {CLASS_NOW}",
         f"spec.priorityClassRef cannot be added or removed while quota is reserved"),
    class_part("group"),
    class_part("kind"),
    class_part("name", " && self.spec.priorityClassRef.group == 'scheduling.k8s.io'"
                       " && self.spec.priorityClassRef.kind == 'PriorityClass'"),
    rule(f"""!({RESERVED_BEFORE} && {RESERVED_NOW})
             || (has(oldSelf.spec.queueName) == has(self.spec.queueName)
                 && (!has(self.spec.queueName)
                     || oldSelf.spec.queueName == self.spec.queueName))""",
         f"spec.queueName {WHILE_RESERVED}"),
    rule(f"""!({is_true('oldSelf', 'Admitted')} && {is_true('self', 'Admitted')})
             || (has(oldSelf.spec.maximumExecutionTimeSeconds)
                   ? oldSelf.spec.maximumExecutionTimeSeconds : 0)
             == (has(self.spec.maximumExecutionTimeSeconds)
                   ? self.spec.maximumExecutionTimeSeconds : 0)""",
         "spec.maximumExecutionTimeSeconds cannot be changed while the workload is admitted"),
]

# The same of v1beta1, which has priorityClassName and priorityClassSource instead.
OLD_CLASS_RULES = [
    rule(f"""!({RESERVED_BEFORE})
             || (has(oldSelf.spec.priorityClassName) == has(self.spec.priorityClassName)
                 && (has(oldSelf.spec.priorityClassSource)
                       ? oldSelf.spec.priorityClassSource : '')
                    == (has(self.spec.priorityClassSource)
                          ? self.spec.priorityClassSource : ''))""",
         f"spec.priorityClassSource {WHILE_RESERVED}, priorityClassName not be added or removed"),
    rule(f"""!({RESERVED_BEFORE} && has(oldSelf.spec.priorityClassName)
               && has(self.spec.priorityClassName) && has(self.spec.priorityClassSource)
               && self.spec.priorityClassSource == 'scheduling.k8s.io/priorityclass')
             || oldSelf.spec.priorityClassName == self.spec.priorityClassName""",
         f"spec.priorityClassName {WHILE_RESERVED} "
         "(it can where priorityClassSource is kueue.x-k8s.io/workloadpriorityclass)"),
]

WORKLOAD = kind(
    "Workload", "workloads", "Namespaced", ["kwl", "kueueworkload", "kueueworkloads"],
    "What a job asks of its queue, and the answer.",
    {
        "spec": obj("The request.", {
            "podSets": arr("Groups of equal pods, admitted together.", obj("", {
                "name": pod_set_name("Name of the group.", default="main"),
                "*template": pod_template(),
                "count": int32("Number of pods.", 0, default=1),
                "minCount": int32("Smallest number that is of use.", 1),
                "topologyRequest": topology_request(),
            }, cel=[rule("!has(self.minCount) || self.minCount <= self.count",
                         "minCount must be at most count")]), 1, 18, keys=["name"]),
            "queueName": name_ref("LocalQueue in the same namespace."),
            "priorityClassRef": obj("Class that the priority comes from.", {
                "*group": choice("API group of the class.", "kueue.x-k8s.io",
                                 "scheduling.k8s.io"),
                "*kind": choice("Kind of the class.", "WorkloadPriorityClass", "PriorityClass"),
                "*name": text("Name of the class.", 1, 253, DNS_SUBDOMAIN),
            }, cel=[
                rule("self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
                     "kind must be PriorityClass where group is scheduling.k8s.io"),
                rule("self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
                     "kind must be WorkloadPriorityClass where group is kueue.x-k8s.io"),
            ]),
            "priority": int32("Priority; higher goes first."),
            "active": flag("False: not to be admitted, evicted if it is.", default=True),
            "maximumExecutionTimeSeconds": int32("Longest time in the admitted state.", 1),
            "preemptionGates": arr("Gates that forbid it to preempt.", obj("", {
                "*name": text("Gate.", 1, 63),
            }), maximum=8, keys=["name"]),
        }, cel=[rule("!has(self.priorityClassRef) || has(self.priority)",
                     "priority must be set where priorityClassRef is set")]),
        "status": obj("The answer.", {
            "conditions": conditions(),
            "admission": obj("Quota that is reserved.", {
                "clusterQueue": name_ref("ClusterQueue that gives it."),
                "podSetAssignments": arr("What each pod set gets.", obj("", {
                    "name": pod_set_name("Pod set.", default="main"),
                    "flavors": table("Flavor by resource.",
                                     text(maximum=253, pattern=DNS_SUBDOMAIN)),
                    "resourceUsage": table("Amount by resource, for all its pods.", quantity()),
                    "count": int32("Pods that are counted.", 0),
                    "topologyAssignment": topology_assignment(),
                    "delayedTopologyRequest": choice("Whether topology is assigned later.",
                                                     "Pending", "Ready", maximum=7),
                }), maximum=18, keys=["name"]),
            }),
            "admissionChecks": arr("State of each check.", obj("", {
                "*name": text("AdmissionCheck.", 1, 316),
                "*state": choice("State.", "Pending", "Ready", "Retry", "Rejected"),
                "*lastTransitionTime": time("When the state last changed."),
                "*message": text("Explanation for people.", maximum=32768),
                "podSetUpdates": arr("Changes to pods that the check asks for.", obj("", {
                    "*name": pod_set_name("Pod set."),
                    "labels": table("Labels to add.", text()),
                    "annotations": table("Annotations to add.", text()),
                    "nodeSelector": table("Node selector entries to add.", text()),
                    "tolerations": tolerations("Tolerations to add."),
                }), maximum=18),
                "requeueAfterSeconds": int32("Pause before the next try.", 0),
                "retryCount": int32("Tries so far.", 0),
            }), maximum=8, keys=["name"]),
            "requeueState": obj("Back-off after evictions.", {
                "count": int32("Evictions that count.", 0),
                "requeueAt": time("Not before this time."),
            }),
            "reclaimablePods": arr("Pods whose quota is given back.", obj("", {
                "*name": pod_set_name("Pod set."),
                "*count": int32("Number of pods.", 0),
            }), maximum=18, keys=["name"]),
            "resourceRequests": arr("Request of each pod set while it waits.", obj("", {
                "*name": pod_set_name("Pod set."),
                "resources": table("Amount by resource, for all its pods.", quantity()),
            }), maximum=18, keys=["name"]),
            "schedulingStats": obj("Counters.", {
                "evictions": arr("Evictions by reason.", obj("", {
                    "*reason": text("Reason.", maximum=316),
                    "*underlyingCause": text("Finer cause, may be empty.", maximum=316),
                    "*count": int32("Number.", 0),
                }), maximum=256, keys=["reason", "underlyingCause"]),
            }),
            "accumulatedPastExecutionTimeSeconds": int32("Admitted time of earlier admissions."),
            "preemptionGates": arr("State of each gate.", obj("", {
                "*name": text("Gate.", 1, 63),
                "*position": choice("State.", "Closed", "Open"),
                "*lastTransitionTime": time("When the state last changed."),
            }), maximum=8, keys=["name"]),
            "unhealthyNodes": arr("Nodes of its pods that have failed.", obj("", {
                "*name": text("Node.", maximum=63),
            }), maximum=8, keys=["name"]),
            "clusterName": text("Cluster that took it.", maximum=256),
            "nominatedClusterNames": arr("Clusters that may take it.", text(maximum=256),
                                         maximum=20),
        }, cel=[
            rule("""!has(oldSelf.clusterName) || !has(self.clusterName)
                      || oldSelf.clusterName == self.clusterName""",
                 "clusterName cannot be changed from one name to another"),
            rule("""!has(self.clusterName) || !has(self.nominatedClusterNames)
                      || size(self.nominatedClusterNames) == 0""",
                 "clusterName and nominatedClusterNames cannot both be set"),
        ]),
    },
    columns=[
        column("Queue", ".spec.queueName"),
        column("Reserved in", ".status.admission.clusterQueue"),
        column("Admitted", ".status.conditions[?(@.type=='Admitted')].status"),
        column("Finished", ".status.conditions[?(@.type=='Finished')].status"),
        AGE,
    ],
    cel=WORKLOAD_RULES, status=True, selectable=[".status.admission.clusterQueue"])

KINDS = [
    ADMISSION_CHECK, CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG,
    PROVISIONING_REQUEST_CONFIG, RESOURCE_FLAVOR, TOPOLOGY, WORKLOAD, WORKLOAD_PRIORITY_CLASS,
]
