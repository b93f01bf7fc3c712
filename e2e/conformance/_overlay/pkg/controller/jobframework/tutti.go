// SPDX-License-Identifier: Apache-2.0

package jobframework

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/internal/tuttichild"
)

// EnableIntegration records the framework.
func EnableIntegration(name string) {
	tuttichild.UseFramework(name)
	enableIntegrationHere(name)
}

// WithManageJobsWithoutQueueName records it.
func WithManageJobsWithoutQueueName(manage bool) Option {
	return func(o *Options) {
		tuttichild.Set(manage, "manageJobsWithoutQueueName")
		withManageJobsWithoutQueueNameHere(manage)(o)
	}
}

// WithManagedJobsNamespaceSelector records it.
func WithManagedJobsNamespaceSelector(selector labels.Selector) Option {
	return func(o *Options) {
		if selector != nil {
			parsed, err := metav1.ParseToLabelSelector(selector.String())
			if err != nil {
				panic(fmt.Sprintf("a namespace selector that can't be written down: %v", err))
			}
			tuttichild.Set(parsed, "managedJobsNamespaceSelector")
		}
		withManagedJobsNamespaceSelectorHere(selector)(o)
	}
}

// WithWaitForPodsReady records it.
func WithWaitForPodsReady(cfg *configapi.WaitForPodsReady) Option {
	return func(o *Options) {
		if cfg != nil {
			tuttichild.Set(cfg, "waitForPodsReady")
		}
		withWaitForPodsReadyHere(cfg)(o)
		if o.WaitForPodsReady {
			tuttichild.UsePodsReady()
		}
	}
}

// WithLabelKeysToCopy records them.
func WithLabelKeysToCopy(keys sets.Set[string]) Option {
	return func(o *Options) {
		tuttichild.Set(sets.List(keys), "integrations", "labelKeysToCopy")
		withLabelKeysToCopyHere(keys)(o)
	}
}

// WithObjectRetentionPolicies records them.
func WithObjectRetentionPolicies(policies *configapi.ObjectRetentionPolicies) Option {
	return func(o *Options) {
		if policies != nil {
			tuttichild.Set(policies, "objectRetentionPolicies")
		}
		withObjectRetentionPoliciesHere(policies)(o)
	}
}

// WithAnnotationsToCopy records them as what the Configuration has for it: labels of metrics that come from
// annotations of Workloads.
func WithAnnotationsToCopy(keys sets.Set[string]) Option {
	return func(o *Options) {
		var labels []map[string]string
		for i, key := range sets.List(keys) {
			labels = append(labels, map[string]string{
				"name": fmt.Sprintf("copied_%d", i), "sourceKind": "Workload", "sourceAnnotationKey": key,
			})
		}
		if len(labels) > 0 {
			tuttichild.Set(labels, "metrics", "customLabels")
		}
		withAnnotationsToCopyHere(keys)(o)
	}
}
