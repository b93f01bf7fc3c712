// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"sync"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"sigs.k8s.io/kueue/internal/tuttichild"
	"sigs.k8s.io/kueue/pkg/metrics"
)

// Who the child acts as: not the user of the specs, so that webhooks can tell them apart.
const childUser = "system:serviceaccount:kueue-system:kueue-controller-manager"

var (
	childMutex sync.Mutex
	childOf    = map[*Framework]*tuttichild.Child{}
	kubeconfig = map[*Framework][]byte{}
)

// StartManager runs the set-up function on a manager that is never started, to learn what it wants,
// and starts the manager under test with that.
func (f *Framework) StartManager(ctx context.Context, cfg *rest.Config, managerSetup ManagerSetup, opts ...ManagerOption) {
	ginkgo.By("starting the manager under test", func() {
		webhooks := &f.testEnv.WebhookInstallOptions
		options := manager.Options{
			Scheme:        f.scheme,
			Metrics:       metricsserver.Options{BindAddress: "0"},
			WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: 1, CertDir: f.certDir()}),
			Controller:    crconfig.Controller{SkipNameValidation: new(true)},
		}
		for _, opt := range opts {
			opt(&options)
		}
		mgr, err := ctrl.NewManager(cfg, options)
		gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), "failed to create manager")

		childCtx, cancel := context.WithCancel(ctx)
		tuttichild.Begin()
		managerSetup(childCtx, mgr)

		identity, err := f.childKubeconfig()
		gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
		child, err := tuttichild.Start(childCtx, tuttichild.Options{
			Kubeconfig:  identity,
			WebhookHost: webhooks.LocalServingHost,
			WebhookPort: webhooks.LocalServingPort,
			CertDir:     f.certDir(),
			Mirror:      metrics.Mirror,
			Log: func(format string, args ...any) {
				ginkgo.GinkgoLogr.Info("manager under test", "note", format, "args", args)
			},
		})
		if err != nil {
			cancel()
		}
		gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
		childMutex.Lock()
		childOf[f] = child
		childMutex.Unlock()
		f.managerCancel = cancel
	})
}

// StopManager ends the manager under test.
func (f *Framework) StopManager(context.Context) {
	ginkgo.By("stopping the manager under test", func() {
		childMutex.Lock()
		child := childOf[f]
		delete(childOf, f)
		childMutex.Unlock()
		if child != nil {
			child.Stop()
			f.managerCancel()
		}
	})
}

func (f *Framework) certDir() string { return f.testEnv.WebhookInstallOptions.LocalServingCertDir }

func (f *Framework) childKubeconfig() ([]byte, error) {
	childMutex.Lock()
	defer childMutex.Unlock()
	if text := kubeconfig[f]; text != nil {
		return text, nil
	}
	user, err := f.testEnv.AddUser(envtest.User{Name: childUser, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}
	text, err := user.KubeConfig()
	if err == nil && len(text) == 0 {
		err = errors.New("an empty kubeconfig for the manager under test")
	}
	kubeconfig[f] = text
	return text, err
}
