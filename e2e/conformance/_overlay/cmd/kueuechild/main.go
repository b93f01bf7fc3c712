// SPDX-License-Identifier: Apache-2.0

// kueuechild is Kueue itself as the child of the conformance suites: its own packages, wired as its
// program and the suites do it. A spec that fails with it can't be run against any other process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"net/http"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuev1beta1 "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/internal/tuttichild"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/elasticjobs"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/waitforpodsready"
	"sigs.k8s.io/kueue/pkg/webhooks"
	"sigs.k8s.io/kueue/test/util"
)

func main() {
	tuttichild.PassThrough = true
	file := flag.String("config", "", "")
	gates := flag.String("feature-gates", "", "")
	zapOptions := zap.Options{}
	zapOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&zapOptions)))
	if err := run(*file, *gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, configapi.AddToScheme, kueue.AddToScheme, kueuev1beta1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	utilruntime.Must(jobframework.ForEachIntegration(func(_ string, integration jobframework.IntegrationCallbacks) error {
		if integration.AddToScheme == nil {
			return nil
		}
		return integration.AddToScheme(scheme)
	}))
	return scheme
}

func run(file, gates string) error {
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		return err
	}
	text, wantScheduler, wantCore, err := tuttichild.Wanted(file)
	if err != nil {
		return err
	}
	scheme := newScheme()
	cfg := &configapi.Configuration{}
	if err := yaml.UnmarshalStrict(text, cfg); err != nil {
		return err
	}
	scheme.Default(cfg)
	restConfig := ctrl.GetConfigOrDie()
	restConfig.QPS, restConfig.Burst = 500, 1000
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: "0",
		Metrics:                metricsserver.Options{BindAddress: "0"},
		WebhookServer:          webhook.NewServer(webhook.Options{Host: cfg.Webhook.Host, Port: *cfg.Webhook.Port, CertDir: cfg.Webhook.CertDir}),
		Controller:             crconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := setUp(ctx, mgr, cfg, wantScheduler, wantCore); err != nil {
		return err
	}
	go serveHealth(ctx, mgr, cfg.Health.HealthProbeBindAddress)
	return mgr.Start(ctx)
}

func setUp(ctx context.Context, mgr ctrl.Manager, cfg *configapi.Configuration, wantScheduler, wantCore bool) error {
	if err := indexer.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	localQueues := metrics.NewLocalQueueMetricsConfig(cfg.Metrics.LocalQueueMetrics)
	cacheOptions := []schdcache.Option{
		schdcache.WithResourceMetrics(cfg.Metrics.EnableClusterQueueResources), schdcache.WithLocalQueueMetrics(localQueues),
		schdcache.WithPodsReadyTracking(waitforpodsready.Enabled(cfg.WaitForPodsReady)),
	}
	customLabels := metrics.NewCustomLabels(cfg.Metrics.CustomLabels)
	metrics.Register()
	cacheOptions = append(cacheOptions, schdcache.WithCustomLabels(customLabels))
	expectations := preemptexpectations.New()
	queueOptions := []qcache.Option{
		qcache.WithResourceMetrics(cfg.Metrics.EnableClusterQueueResources), qcache.WithLocalQueueMetrics(localQueues),
		qcache.WithPreemptionExpectations(expectations),
		qcache.WithCustomLabels(customLabels),
	}
	if cfg.Resources != nil {
		cacheOptions = append(cacheOptions, schdcache.WithExcludedResourcePrefixes(cfg.Resources.ExcludeResourcePrefixes),
			schdcache.WithResourceTransformations(cfg.Resources.Transformations))
		queueOptions = append(queueOptions, qcache.WithExcludedResourcePrefixes(cfg.Resources.ExcludeResourcePrefixes),
			qcache.WithResourceTransformations(cfg.Resources.Transformations))
	}
	if cfg.FairSharing != nil {
		cacheOptions = append(cacheOptions, schdcache.WithFairSharing(true))
	}
	if cfg.AdmissionFairSharing != nil {
		cacheOptions = append(cacheOptions, schdcache.WithAdmissionFairSharing(cfg.AdmissionFairSharing))
		queueOptions = append(queueOptions, qcache.WithAdmissionFairSharing(cfg.AdmissionFairSharing))
	}
	cache := schdcache.New(mgr.GetClient(), cacheOptions...)
	queues := util.NewManagerForIntegrationTests(ctx, mgr.GetClient(), cache, queueOptions...)
	if failed, err := webhooks.Setup(mgr, nil); err != nil {
		return fmt.Errorf("webhook %s: %w", failed, err)
	}
	if wantCore {
		if failed, err := core.SetupControllers(mgr, queues, cache, cfg, core.SetupControllersOpts{
			PreemptionExpectations: expectations, CustomLabels: customLabels,
		}); err != nil {
			return fmt.Errorf("controller %s: %w", failed, err)
		}
	}
	if features.Enabled(features.ElasticJobsViaWorkloadSlices) {
		if failed, err := elasticjobs.SetupWithManager(mgr, cfg, nil); err != nil {
			return fmt.Errorf("controller %s: %w", failed, err)
		}
	}
	if err := setUpJobs(ctx, mgr, cfg, cache, queues, customLabels); err != nil {
		return err
	}
	if !wantScheduler {
		return nil
	}
	options := []scheduler.Option{
		scheduler.WithPreemptionExpectations(expectations), scheduler.WithFairSharing(cfg.FairSharing),
		scheduler.WithAdmissionFairSharing(cfg.AdmissionFairSharing), scheduler.WithCustomLabels(customLabels),
	}
	if cfg.Resources != nil && cfg.Resources.QuotaCheckStrategy != nil {
		options = append(options, scheduler.WithQuotaCheckStrategy(*cfg.Resources.QuotaCheckStrategy))
	}
	return mgr.Add(scheduler.New(queues, cache, mgr.GetClient(), mgr.GetEventRecorder(constants.AdmissionName), options...))
}

func setUpJobs(ctx context.Context, mgr ctrl.Manager, cfg *configapi.Configuration, cache *schdcache.Cache, queues *qcache.Manager,
	customLabels *metrics.CustomLabels) error {
	if cfg.Integrations == nil || len(cfg.Integrations.Frameworks) == 0 {
		return nil
	}
	frameworks := jobframework.WithEnabledFrameworks(cfg.Integrations.Frameworks)
	if err := jobframework.SetupIndexes(ctx, mgr.GetFieldIndexer(), frameworks); err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(cfg.ManagedJobsNamespaceSelector)
	if err != nil {
		return err
	}
	labels, annotations := sets.New[string](), sets.New[string]()
	if features.Enabled(features.CustomMetricLabels) {
		labels, annotations = metrics.WorkloadCustomLabelSources(cfg.Metrics.CustomLabels)
	}
	labels.Insert(cfg.Integrations.LabelKeysToCopy...)
	return jobframework.SetupControllers(ctx, mgr, ctrl.Log, frameworks,
		jobframework.WithLabelKeysToCopy(labels), jobframework.WithAnnotationsToCopy(annotations),
		jobframework.WithCustomLabels(customLabels),
		jobframework.WithManageJobsWithoutQueueName(cfg.ManageJobsWithoutQueueName),
		jobframework.WithWaitForPodsReady(cfg.WaitForPodsReady),
		jobframework.WithManagedJobsNamespaceSelector(selector),
		jobframework.WithObjectRetentionPolicies(cfg.ObjectRetentionPolicies),
		jobframework.WithCache(cache), jobframework.WithQueues(queues))
}

// serveHealth answers /readyz once caches are synced and webhooks are served, and plain /metrics.
func serveHealth(ctx context.Context, mgr ctrl.Manager, address string) {
	mux := http.NewServeMux()
	started := mgr.GetWebhookServer().StartedChecker()
	mux.Handle("/readyz", healthz.CheckHandler{Checker: func(r *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(r.Context()) {
			return fmt.Errorf("caches are not synced")
		}
		return started(r)
	}})
	mux.Handle("/metrics", promhttp.HandlerFor(crmetrics.Registry, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: address, Handler: mux}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	_ = server.ListenAndServe()
}
