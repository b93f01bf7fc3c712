# SPDX-License-Identifier: Apache-2.0
# Small, shared, and nobody takes anything back.

environment = "staging"

flavors = {
  any = {}
}

teams = {
  vision = {
    reclaims = false
    quota    = [{ flavor = "any", resources = { cpu = "4", memory = "8Gi" } }]
  }
}

gangs = {
  smoke = {
    team      = "vision"
    pods      = 2
    image     = "registry.example/train:dev"
    command   = ["train", "--steps=10"]
    resources = { cpu = "1", memory = "1Gi" }
  }
}
