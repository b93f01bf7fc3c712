// SPDX-License-Identifier: Apache-2.0

package core

import (
	ctrl "sigs.k8s.io/controller-runtime"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/internal/tuttichild"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
)

// SetupControllers records the configuration.
func SetupControllers(mgr ctrl.Manager, queues *qcache.Manager, cache *schdcache.Cache, cfg *configapi.Configuration, opts SetupControllersOpts) (string, error) {
	if tuttichild.PassThrough {
		return setupControllersHere(mgr, queues, cache, cfg, opts)
	}
	if cfg.FairSharing != nil && len(cfg.FairSharing.PreemptionStrategies) == 0 {
		// Said in a file, as it must be there.
		cfg = cfg.DeepCopy()
		cfg.FairSharing.PreemptionStrategies = []configapi.PreemptionStrategy{
			configapi.LessThanOrEqualToFinalShare, configapi.LessThanInitialShare,
		}
	}
	tuttichild.Base(cfg)
	return "", nil
}
