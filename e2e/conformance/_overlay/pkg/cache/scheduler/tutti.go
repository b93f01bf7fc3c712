// SPDX-License-Identifier: Apache-2.0

package scheduler

import "sigs.k8s.io/kueue/internal/tuttichild"

// WithResourceMetrics records it.
func WithResourceMetrics(enabled bool) Option {
	return func(c *Cache) {
		tuttichild.Set(enabled, "metrics", "enableClusterQueueResources")
		withResourceMetricsHere(enabled)(c)
	}
}
