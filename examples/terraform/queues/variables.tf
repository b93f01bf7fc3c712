# SPDX-License-Identifier: Apache-2.0

variable "environment" {
  type        = string
  description = "Begins the names of everything that has no namespace, and of the namespaces."
}

variable "flavors" {
  type        = map(map(string))
  description = "Kinds of nodes: name to the labels of its nodes."
}

variable "teams" {
  type = map(object({
    reclaims = bool # takes back what others borrowed
    quota = list(object({
      flavor    = string
      resources = map(string)
    }))
  }))
  description = "A ClusterQueue, a namespace and a LocalQueue `main` each; flavors in the order in which they are tried."
}

variable "gangs" {
  type = map(object({
    team      = string
    pods      = number
    image     = string
    command   = list(string)
    resources = map(string)
  }))
  default     = {}
  description = "Jobs of which all pods run at once."
}
