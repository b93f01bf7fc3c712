// SPDX-License-Identifier: Apache-2.0

// Package celdiff compares Tutti's evaluator of CEL device selectors (api/cel) with the one that
// kube-scheduler and kube-apiserver use (k8s.io/dynamic-resource-allocation/cel), on random expressions
// and devices and on a table of cases. Compared are: refused or not, the value or that there is an error,
// and the cost.
package celdiff
