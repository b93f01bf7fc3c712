// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane (etcd, API server, controller manager,
// scheduler) and simulated nodes (kwok) on loopback ports and in a directory of its own, for tests
// and for the demo. Several can run at once; nothing is left behind after Stop, an interrupt, a
// panic or a kill of this process.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Options of a cluster; the zero value is the default one with native gang scheduling on.
type Options struct {
	Name         string          // for log directories; default "cluster"
	Minor        string          // Kubernetes minor; default TUTTI_K8S_MINOR or 1.36
	GatesOff     bool            // native gang scheduling is not served, as on managed clusters
	FeatureGates map[string]bool // further gates, on every component
	// Gates of one component alone, laid over the others; read each time it is started.
	APIServerGates, ManagerGates, SchedulerGates map[string]bool

	RuntimeConfig []string // further entries, e.g. "resource.k8s.io/v1alpha3=true"
	AuditPolicy   string   // YAML; the log is <LogDir>/audit.log
	APIServerArgs []string
	SchedulerArgs []string
	ManagerArgs   []string
	Stages        string // further kwok Stage documents
	NoKwok        bool   // pods are bound but nobody runs them
}

// Cluster is a running control plane.
type Cluster struct {
	Options
	Dir        string // everything it writes, removed by Stop
	LogDir     string // one log per component, kept after a failure
	URL        string // https://127.0.0.1:PORT
	CA         *Authority
	Kubeconfig string // of the administrator
	Config     *rest.Config
	Kube       kubernetes.Interface
	Dynamic    dynamic.Interface
	Mapper     *restmapper.DeferredDiscoveryRESTMapper

	Etcd, APIServer, Manager, Scheduler, Kwok *Process

	APIReady, Ready time.Duration // from the call of Start

	// The controller manager and the scheduler act under their usual names, not as administrator.
	managerKubeconfig, schedulerKubeconfig string

	tools         string
	gates         map[string]bool
	apis          string
	etcdURL       string
	apiPort       int
	schedulerPort int
	nodes         int
	webhookPort   int
	// Of Tutti's visibility API.
	visibilityPort int
	tuttis         []*Tutti
	stopOnce       sync.Once
	stopped        chan struct{}
}

const (
	adminToken     = "tutti-e2e-admin"
	managerToken   = "tutti-e2e-manager"
	schedulerToken = "tutti-e2e-scheduler"
	dirPrefix      = "tutti-e2e-"
)

// ForTest starts a cluster that is stopped at the end of the test. Its logs are kept, and their
// directory is printed, if the test fails.
func ForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Name == "" {
		o.Name = strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())
	}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs: %s", c.LogDir)
		}
		if err := c.Stop(!t.Failed()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Start brings the cluster up; it returns when the API is served, the default ServiceAccount exists
// and the scheduler is healthy.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	begin := time.Now()
	if o.Name == "" {
		o.Name = "cluster"
	}
	if o.Minor == "" {
		o.Minor = MinorFromEnv()
	}
	removeStale()
	gates, apis, err := componentFlags(o)
	if err != nil {
		return nil, err
	}
	tools, err := toolDir("controlplane", "TUTTI_CONTROLPLANE", o.Minor)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Options: o, tools: tools, gates: gates, apis: apis, stopped: make(chan struct{})}
	if c.Dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())); err != nil {
		return nil, err
	}
	if c.LogDir, err = newLogDir(o.Name); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.Dir))
	}
	register(c)
	if err := c.start(ctx, begin); err != nil {
		return nil, errors.Join(fmt.Errorf("%w (logs: %s)", err, c.LogDir), c.Stop(false))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, begin time.Time) error {
	var err error
	if c.CA, err = newAuthority(); err != nil {
		return err
	}
	if err := c.CA.write(c.Dir); err != nil {
		return err
	}
	tokens := adminToken + `,admin,admin,"system:masters"` + "\n" +
		managerToken + ",system:kube-controller-manager,manager\n" +
		schedulerToken + ",system:kube-scheduler,scheduler\n"
	if err := os.WriteFile(c.path("tokens.csv"), []byte(tokens), 0o600); err != nil {
		return err
	}
	for _, port := range []*int{&c.apiPort, &c.schedulerPort, &c.webhookPort, &c.visibilityPort} {
		if *port, err = FreePort(); err != nil {
			return err
		}
	}
	c.URL = fmt.Sprintf("https://127.0.0.1:%d", c.apiPort)
	if c.Kubeconfig, err = c.WriteKubeconfig("admin", c.URL, adminToken); err != nil {
		return err
	}
	if c.managerKubeconfig, err = c.WriteKubeconfig("manager", c.URL, managerToken); err != nil {
		return err
	}
	if c.schedulerKubeconfig, err = c.WriteKubeconfig("scheduler", c.URL, schedulerToken); err != nil {
		return err
	}
	c.Config = c.TokenConfig(c.URL, adminToken)
	typed := rest.CopyConfig(c.Config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	kube, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return err
	}
	c.Kube = kube
	if c.Dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
		return err
	}
	c.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery()))

	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	c.APIReady = time.Since(begin)
	if err := c.StartManager(); err != nil {
		return err
	}
	if err := c.StartScheduler(); err != nil {
		return err
	}
	if !c.NoKwok {
		if err := c.startKwok(); err != nil {
			return err
		}
	}
	if err := c.wait(ctx, c.Manager, "the default ServiceAccount", func(ctx context.Context) bool {
		_, err := c.Kube.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	}); err != nil {
		return err
	}
	if err := c.wait(ctx, c.Scheduler, "kube-scheduler's /readyz", func(ctx context.Context) bool {
		_, err := c.get(ctx, fmt.Sprintf("https://127.0.0.1:%d/readyz", c.schedulerPort))
		return err == nil
	}); err != nil {
		return err
	}
	c.Ready = time.Since(begin)
	return nil
}

// Stop ends everything in the right order (kwok, Tutti, scheduler, controller manager, API server,
// etcd) and removes the directory. The logs go too if removeLogs is set.
func (c *Cluster) Stop(removeLogs bool) error {
	var err error
	c.stopOnce.Do(func() {
		for _, t := range c.tuttis {
			t.Kill9()
		}
		for _, p := range []*Process{c.Kwok, c.Scheduler, c.Manager, c.APIServer, c.Etcd} {
			// The state is thrown away, so nobody needs a goodbye.
			p.Kill9()
		}
		err = os.RemoveAll(c.Dir)
		if removeLogs {
			err = errors.Join(err, os.RemoveAll(c.LogDir))
		}
		unregister(c)
		close(c.stopped)
	})
	return err
}

// Detach takes the cluster out of the clean-up at an interrupt: the caller answers for it.
func (c *Cluster) Detach() { unregister(c) }

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// wait polls until done says yes, the process ends, or three minutes have passed (a start takes
// seconds, but the machine may be busy).
func (c *Cluster) wait(ctx context.Context, p *Process, what string, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		if done(ctx) {
			return nil
		}
		select {
		case <-p.Exited():
			return fmt.Errorf("%s ended while waiting for %s: %v\n%s", p.Name, what, p.ExitError(), p.LogTail(2000))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w\n%s", what, ctx.Err(), p.LogTail(2000))
		case <-tick.C:
		}
	}
}

// The clusters that are up, for an interrupt.
var (
	running      = map[*Cluster]bool{}
	runningMutex sync.Mutex
	signalsOnce  sync.Once
)

func register(c *Cluster) {
	runningMutex.Lock()
	defer runningMutex.Unlock()
	running[c] = true
	signalsOnce.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		go func() {
			s := <-signals
			fmt.Fprintf(os.Stderr, "\n%v: stopping the test clusters\n", s)
			StopAll()
			os.Exit(130)
		}()
	})
}

func unregister(c *Cluster) {
	runningMutex.Lock()
	defer runningMutex.Unlock()
	delete(running, c)
}

// StopAll stops every cluster of this process and keeps the logs.
func StopAll() {
	runningMutex.Lock()
	var all []*Cluster
	for c := range running {
		all = append(all, c)
	}
	runningMutex.Unlock()
	for _, c := range all {
		_ = c.Stop(false)
	}
}
