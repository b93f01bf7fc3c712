# SPDX-License-Identifier: Apache-2.0
# The CRDs of Tutti, in a stack of their own: see ../README.md.

terraform {
  required_version = ">= 1.6"
  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = ">= 2.30"
    }
  }
}

variable "crd_dir" {
  type        = string
  default     = "../../../crds"
  description = "Folder with the CRDs as YAML, one a file."
}

provider "kubernetes" {
  config_path = "~/.kube/config"
}

resource "kubernetes_manifest" "crd" {
  for_each = fileset(var.crd_dir, "*.yaml")

  manifest = yamldecode(file("${var.crd_dir}/${each.value}"))

  # The API server fills this in.
  computed_fields = ["metadata.annotations", "metadata.labels", "spec.conversion"]
}
