// SPDX-License-Identifier: Apache-2.0

package queue

import (
	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/internal/tuttichild"
)

// WithResourceMetrics records it.
func WithResourceMetrics(enabled bool) Option {
	return func(m *Manager) {
		tuttichild.Set(enabled, "metrics", "enableClusterQueueResources")
		withResourceMetricsHere(enabled)(m)
	}
}

// WithResourceTransformations records them.
func WithResourceTransformations(transforms []config.ResourceTransformation) Option {
	return func(m *Manager) {
		tuttichild.Set(transforms, "resources", "transformations")
		withResourceTransformationsHere(transforms)(m)
	}
}

// WithExcludedResourcePrefixes records them.
func WithExcludedResourcePrefixes(prefixes []string) Option {
	return func(m *Manager) {
		tuttichild.Set(prefixes, "resources", "excludeResourcePrefixes")
		withExcludedResourcePrefixesHere(prefixes)(m)
	}
}
