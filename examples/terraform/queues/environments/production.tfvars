# SPDX-License-Identifier: Apache-2.0
# Two teams that lend to each other and take back what is theirs; two kinds of GPU nodes.

environment = "production"

flavors = {
  h100 = { "gpu" = "h100" }
  a100 = { "gpu" = "a100" }
}

teams = {
  vision = {
    reclaims = true
    quota = [
      { flavor = "h100", resources = { cpu = "32", memory = "128Gi", "nvidia.com/gpu" = "16" } },
      { flavor = "a100", resources = { cpu = "16", memory = "64Gi", "nvidia.com/gpu" = "8" } },
    ]
  }
  language = {
    reclaims = true
    quota = [
      { flavor = "h100", resources = { cpu = "32", memory = "128Gi", "nvidia.com/gpu" = "16" } },
    ]
  }
}

gangs = {
  pretrain = {
    team      = "language"
    pods      = 2
    image     = "registry.example/train:1.4"
    command   = ["train", "--config=/etc/train.yaml"]
    resources = { cpu = "4", memory = "16Gi", "nvidia.com/gpu" = "8" }
  }
  finetune = {
    team      = "vision"
    pods      = 4
    image     = "registry.example/train:1.4"
    command   = ["train", "--config=/etc/finetune.yaml"]
    resources = { cpu = "4", memory = "16Gi", "nvidia.com/gpu" = "8" }
  }
}
