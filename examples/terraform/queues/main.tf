# SPDX-License-Identifier: Apache-2.0
# Flavors, quotas, queues and gang Jobs of one environment. Values: variables.tf, environments/.

terraform {
  required_version = ">= 1.6"
  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = ">= 2.30"
    }
  }
}

provider "kubernetes" {
  config_path = "~/.kube/config"
}

locals {
  api = "kueue.x-k8s.io/v1beta2"

  # Resources that any flavor of any team has quota for: a queue covers all of them in one group.
  resources = distinct(flatten([
    for team in var.teams : [for quota in team.quota : keys(quota.resources)]
  ]))
}

resource "kubernetes_manifest" "namespace" {
  for_each = var.teams

  manifest = {
    apiVersion = "v1"
    kind       = "Namespace"
    metadata   = { name = "${var.environment}-${each.key}" }
  }
}

resource "kubernetes_manifest" "flavor" {
  for_each = var.flavors

  manifest = {
    apiVersion = local.api
    kind       = "ResourceFlavor"
    metadata   = { name = "${var.environment}-${each.key}" }
    spec       = { nodeLabels = each.value }
  }
}

resource "kubernetes_manifest" "cluster_queue" {
  for_each   = var.teams
  depends_on = [kubernetes_manifest.flavor]

  manifest = {
    apiVersion = local.api
    kind       = "ClusterQueue"
    metadata   = { name = "${var.environment}-${each.key}" }
    spec = {
      cohortName        = var.environment
      namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = "${var.environment}-${each.key}" } }
      queueingStrategy  = "BestEffortFIFO"
      resourceGroups = [{
        coveredResources = local.resources
        flavors = [for quota in each.value.quota : {
          name = "${var.environment}-${quota.flavor}"
          resources = [for resource in local.resources : {
            name         = resource
            nominalQuota = lookup(quota.resources, resource, "0")
          }]
        }]
      }]
      preemption = {
        reclaimWithinCohort = each.value.reclaims ? "Any" : "Never"
        withinClusterQueue  = "LowerPriority"
      }
    }
  }
}

resource "kubernetes_manifest" "local_queue" {
  for_each   = var.teams
  depends_on = [kubernetes_manifest.cluster_queue, kubernetes_manifest.namespace]

  manifest = {
    apiVersion = local.api
    kind       = "LocalQueue"
    metadata   = { name = "main", namespace = "${var.environment}-${each.key}" }
    spec       = { clusterQueue = "${var.environment}-${each.key}" }
  }
}

# A gang: so many pods that all run at once, or none. Requests are those of any Job.
resource "kubernetes_manifest" "gang" {
  for_each   = var.gangs
  depends_on = [kubernetes_manifest.local_queue]

  manifest = {
    apiVersion = "batch/v1"
    kind       = "Job"
    metadata = {
      name      = each.key
      namespace = "${var.environment}-${each.value.team}"
      labels    = { "kueue.x-k8s.io/queue-name" = "main" }
    }
    spec = {
      parallelism    = each.value.pods
      completions    = each.value.pods
      completionMode = "Indexed"
      backoffLimit   = 0
      template = {
        spec = {
          restartPolicy = "Never"
          containers = [{
            name    = "main"
            image   = each.value.image
            command = each.value.command
            resources = {
              requests = each.value.resources
              limits   = { for name, amount in each.value.resources : name => amount if name != "cpu" }
            }
          }]
        }
      }
    }
  }

  # Held by policy, then released, by the controller.
  computed_fields = [
    "metadata.annotations", "metadata.labels", "spec.suspend", "spec.template.metadata.labels",
    "spec.template.spec.nodeSelector", "spec.template.spec.tolerations", "spec.template.spec.affinity",
  ]
}
