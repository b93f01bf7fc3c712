// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/internal/tuttichild"
)

// Start records that a scheduler is wanted.
func (s *Scheduler) Start(ctx context.Context) error {
	if tuttichild.PassThrough {
		return s.startHere(ctx)
	}
	tuttichild.UseScheduler()
	return nil
}

// WithFairSharing records it. Without strategies Kueue takes both; a configuration file must name them.
func WithFairSharing(fs *config.FairSharing) Option {
	return func(o *options) {
		if fs != nil {
			named := fs.DeepCopy()
			if len(named.PreemptionStrategies) == 0 {
				named.PreemptionStrategies = []config.PreemptionStrategy{config.LessThanOrEqualToFinalShare, config.LessThanInitialShare}
			}
			tuttichild.Set(named, "fairSharing")
		}
		withFairSharingHere(fs)(o)
	}
}

// WithAdmissionFairSharing records it.
func WithAdmissionFairSharing(afs *config.AdmissionFairSharing) Option {
	return func(o *options) {
		if afs != nil {
			tuttichild.Set(afs, "admissionFairSharing")
		}
		withAdmissionFairSharingHere(afs)(o)
	}
}

// WithQuotaCheckStrategy records it.
func WithQuotaCheckStrategy(strategy config.QuotaCheckStrategy) Option {
	return func(o *options) {
		tuttichild.Set(strategy, "resources", "quotaCheckStrategy")
		withQuotaCheckStrategyHere(strategy)(o)
	}
}
