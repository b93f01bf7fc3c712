// SPDX-License-Identifier: Apache-2.0

// kueue runs Kueue v0.19.2's own queue controllers and scheduler with settings that its benchmark's
// minimalkueue doesn't have: any client limit, and fair sharing. All that decides is Kueue's; this file only puts
// its packages together, as its manager does, without webhooks, job kinds and leader election.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	queues "sigs.k8s.io/kueue/pkg/cache/queue"
	snapshots "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
)

// As many workers as Kueue's default configuration has.
var workers = map[string]int{
	"Workload.kueue.x-k8s.io":       5,
	"LocalQueue.kueue.x-k8s.io":     1,
	"ClusterQueue.kueue.x-k8s.io":   1,
	"ResourceFlavor.kueue.x-k8s.io": 1,
}

func main() {
	qps := flag.Float64("qps", 50, "requests a second; negative: no limit")
	burst := flag.Int("burst", 100, "requests at once")
	fair := flag.Bool("fair", false, "fair sharing between ClusterQueues")
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	flag.Parse() // controller-runtime has the flag kubeconfig
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	if err := run(float32(*qps), *burst, *fair); err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		os.Exit(1)
	}
}

func run(qps float32, burst int, fair bool) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kueue.AddToScheme, configapi.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = qps, burst
	unique := true
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:     scheme,
		Controller: ctrlconfig.Controller{SkipNameValidation: &unique, GroupKindConcurrency: workers},
		Metrics:    metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := indexer.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}

	settings := &configapi.Configuration{}
	if fair {
		settings.FairSharing = &configapi.FairSharing{
			PreemptionStrategies: []configapi.PreemptionStrategy{configapi.LessThanOrEqualToFinalShare, configapi.LessThanInitialShare},
		}
	}
	client := mgr.GetClient()
	expected := expectations.New()
	requeuer := queues.NewRequeuer()
	cache := snapshots.New(client, snapshots.WithFairSharing(fair))
	waiting := queues.NewManager(client, cache, requeuer, queues.WithPreemptionExpectations(expected))
	go waiting.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	if name, err := core.SetupControllers(mgr, waiting, cache, settings, core.SetupControllersOpts{PreemptionExpectations: expected}); err != nil {
		return fmt.Errorf("controller of %s: %w", name, err)
	}
	decider := scheduler.New(waiting, cache, client, mgr.GetEventRecorder(constants.AdmissionName),
		scheduler.WithFairSharing(settings.FairSharing), scheduler.WithPreemptionExpectations(expected))
	for _, one := range []manager.Runnable{requeuer, decider} {
		if err := mgr.Add(one); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}
