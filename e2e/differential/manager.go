// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
)

// runKueue runs Kueue's core controllers and its scheduler in this process, against a real API server, until ctx
// ends. Its webhooks and job controllers are not there.
func runKueue(ctx context.Context, restConfig *rest.Config, fairSharing bool) error {
	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, config.AddToScheme, kueue.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	cfg := &config.Configuration{}
	if fairSharing {
		cfg.FairSharing = &config.FairSharing{
			PreemptionStrategies: []config.PreemptionStrategy{config.LessThanOrEqualToFinalShare, config.LessThanInitialShare},
		}
	}
	scheme.Default(cfg)
	restConfig = rest.CopyConfig(restConfig)
	restConfig.QPS, restConfig.Burst, restConfig.UserAgent = 500, 1000, "kueue"
	skip := true
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: "0",
		Metrics:                metricsserver.Options{BindAddress: "0"},
		Controller:             crconfig.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		return err
	}
	if err := indexer.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	expectations := preemptexpectations.New()
	cache := schdcache.New(mgr.GetClient(), schdcache.WithFairSharing(fairSharing))
	requeuer := qcache.NewRequeuer()
	queues := qcache.NewManager(mgr.GetClient(), cache, requeuer, qcache.WithPreemptionExpectations(expectations))
	go func() { _ = requeuer.Start(ctx) }()
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	if failed, err := core.SetupControllers(mgr, queues, cache, cfg, core.SetupControllersOpts{PreemptionExpectations: expectations}); err != nil {
		return fmt.Errorf("controller %s: %w", failed, err)
	}
	if err := mgr.Add(scheduler.New(queues, cache, mgr.GetClient(), mgr.GetEventRecorder(constants.AdmissionName),
		scheduler.WithFairSharing(cfg.FairSharing), scheduler.WithPreemptionExpectations(expectations))); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
