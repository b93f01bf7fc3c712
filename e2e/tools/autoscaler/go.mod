// The API of the cluster autoscaler, for its CustomResourceDefinitions.
module tutti.dev/e2e/tools/autoscaler

go 1.26.0

require k8s.io/autoscaler/cluster-autoscaler/apis v0.0.0-20240830133931-adfbe7e45277
