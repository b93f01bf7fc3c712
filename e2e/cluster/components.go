// SPDX-License-Identifier: Apache-2.0

// The command lines of the components, and reading their metrics.

package cluster

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

func (c *Cluster) startEtcd(ctx context.Context) error {
	client, err := FreePort()
	if err != nil {
		return err
	}
	peer, err := FreePort()
	if err != nil {
		return err
	}
	c.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	c.Etcd, err = c.run("etcd", []string{
		"--data-dir", c.path("etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", c.etcdURL, "--advertise-client-urls", c.etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
		"--initial-cluster", "default=" + peerURL,
		"--quota-backend-bytes", fmt.Sprint(int64(6) << 30),
	})
	if err != nil {
		return err
	}
	return c.wait(ctx, c.Etcd, "etcd's client port", func(context.Context) bool {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", client), time.Second)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
}

// StartAPIServer starts the API server (again) and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	args := []string{
		"--etcd-servers=" + c.etcdURL, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.apiPort),
		"--cert-dir=" + c.path("certs"),
		"--tls-cert-file=" + c.path("server.crt"), "--tls-private-key-file=" + c.path("server.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--requestheader-client-ca-file=" + c.path("front-proxy-ca.crt"), "--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.path("front-proxy.crt"), "--proxy-client-key-file=" + c.path("front-proxy.key"),
		"--service-account-key-file=" + c.path("sa.key"), "--service-account-signing-key-file=" + c.path("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--token-auth-file=" + c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none",
	}
	args = append(args, c.gateArgs(c.APIServerGates)...)
	if c.apis != "" {
		args = append(args, "--runtime-config="+c.apis)
	}
	if c.AuditPolicy != "" {
		if err := os.WriteFile(c.path("audit.yaml"), []byte(c.AuditPolicy), 0o644); err != nil {
			return err
		}
		args = append(args, "--audit-policy-file="+c.path("audit.yaml"), "--audit-log-path="+c.LogDir+"/audit.log")
	}
	var err error
	if c.APIServer, err = c.run("kube-apiserver", append(args, c.APIServerArgs...)); err != nil {
		return err
	}
	return c.wait(ctx, c.APIServer, "the API server's /readyz", func(ctx context.Context) bool {
		_, err := c.get(ctx, c.URL+"/readyz")
		return err == nil
	})
}

// StartManager starts the controller manager (again). Node life-cycle is off: nobody sends
// heartbeats for the simulated nodes.
func (c *Cluster) StartManager() error {
	args := []string{
		"--kubeconfig=" + c.managerKubeconfig, "--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.path("sa.key"),
		"--root-ca-file=" + c.path("ca.crt"), "--leader-elect=false", "--secure-port=0",
		// As kubeadm does: each controller under its own name, which the chart's policies know.
		"--use-service-account-credentials=true",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--concurrent-job-syncs=10", "--concurrent-gc-syncs=10",
		"--controllers=*,-node-lifecycle-controller,-taint-eviction-controller,-node-ipam-controller",
	}
	args = append(args, c.gateArgs(c.ManagerGates)...)
	var err error
	c.Manager, err = c.run("kube-controller-manager", append(args, c.ManagerArgs...))
	return err
}

// StartScheduler starts the scheduler (again).
func (c *Cluster) StartScheduler() error {
	args := []string{
		"--kubeconfig=" + c.schedulerKubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.schedulerPort),
		"--tls-cert-file=" + c.path("server.crt"), "--tls-private-key-file=" + c.path("server.key"),
		"--authentication-kubeconfig=" + c.schedulerKubeconfig, "--authorization-kubeconfig=" + c.schedulerKubeconfig,
		"--authentication-tolerate-lookup-failure=true",
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
	args = append(args, c.gateArgs(c.SchedulerGates)...)
	var err error
	c.Scheduler, err = c.run("kube-scheduler", append(args, c.SchedulerArgs...))
	return err
}

func (c *Cluster) run(name string, args []string) (*Process, error) {
	return StartProcess(name, c.LogDir, c.Dir, c.tools+"/"+name, args, nil)
}

// Kubectl is the path of a kubectl of the cluster's version.
func (c *Cluster) Kubectl() string { return c.tools + "/kubectl" }

// SchedulerMetrics reads kube-scheduler's own metrics.
func (c *Cluster) SchedulerMetrics(ctx context.Context) (Metrics, error) {
	text, err := c.get(ctx, fmt.Sprintf("https://127.0.0.1:%d/metrics", c.schedulerPort))
	if err != nil {
		return nil, err
	}
	return ParseMetrics(text)
}

// APIServerMetrics reads the API server's metrics.
func (c *Cluster) APIServerMetrics(ctx context.Context) (Metrics, error) {
	text, err := c.get(ctx, c.URL+"/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(text)
}

// SchedulingAttempts is the number of scheduling attempts so far, whatever their result.
func (c *Cluster) SchedulingAttempts(ctx context.Context) (float64, error) {
	m, err := c.SchedulerMetrics(ctx)
	if err != nil {
		return 0, err
	}
	return m.Sum("scheduler_schedule_attempts_total", nil) + m.Sum("scheduler_podgroup_schedule_attempts_total", nil), nil
}

// get is an HTTPS GET as administrator.
func (c *Cluster) get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: c.CA.Pool()},
		DisableKeepAlives: true,
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s: %.300s", url, response.Status, body)
	}
	return string(body), nil
}

// TokenConfig is a client configuration without rate limits.
func (c *Cluster) TokenConfig(url, token string) *rest.Config {
	return &rest.Config{
		Host:            url,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA.CAPEM},
		QPS:             -1,
		UserAgent:       "tutti-e2e",
	}
}

// UserConfig acts as another user, by impersonation.
func (c *Cluster) UserConfig(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// WriteKubeconfig writes <Dir>/<name>.kubeconfig and returns its path.
func (c *Cluster) WriteKubeconfig(name, url, token string) (string, error) {
	file := c.path(name + ".kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: tutti-e2e
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    token: %s
contexts:
- name: tutti-e2e
  context:
    cluster: tutti-e2e
    user: %s
current-context: tutti-e2e
`, url, base64.StdEncoding.EncodeToString(c.CA.CAPEM), name, token, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}
