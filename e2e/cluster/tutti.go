// SPDX-License-Identifier: Apache-2.0

// The operator under test as a local process.

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// TuttiOptions of one replica.
type TuttiOptions struct {
	Name string // for files and logs; default "tutti", "tutti-2", …
	// Config is laid over the default Configuration, Tutti over the default TuttiConfiguration; a
	// nil value takes a key away.
	Config, Tutti map[string]any
	APIServer     string // URL to use instead of the cluster's, e.g. that of a crash proxy
	Args, Env     []string
	// NoWebhook gives it ports of its own for webhooks and visibility, which nothing points to: for
	// replicas after the first.
	NoWebhook bool
	// ImageRoot is the file tree of the container image: the replica is the program in it and sees
	// nothing else, runs as the image's user, and finds the API server as a pod does.
	ImageRoot string
}

// Tutti is one replica.
type Tutti struct {
	*Process
	Options   TuttiOptions
	Directory string // configuration, kubeconfig, ledger
	Config    string // path of the configuration file
	HealthURL string
	// MetricsURL is the page for those who may read it, over HTTPS.
	MetricsURL string
	// VisibilityURL is where the API server reaches it for the visibility API.
	VisibilityURL string
	StartedAt     time.Time

	cluster    *Cluster
	binary     string
	kubeconfig string
}

// TuttiBinary is TUTTI_BIN, or build/release/tutti in the repository.
func TuttiBinary() (string, error) {
	if path := os.Getenv("TUTTI_BIN"); path != "" {
		return path, nil
	}
	repo, err := RepoDir()
	if err != nil {
		return "", err
	}
	for _, path := range []string{"build/release/tutti", "build/release/operator/tutti"} {
		if path = filepath.Join(repo, path); fileExists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("no tutti binary below %s: build it or set TUTTI_BIN", filepath.Join(repo, "build/release"))
}

// StartTutti starts a replica with the chart's ServiceAccount and waits until it is ready.
func (c *Cluster) StartTutti(ctx context.Context, o TuttiOptions) (*Tutti, error) {
	t, err := c.NewTutti(ctx, o)
	if err != nil {
		return nil, err
	}
	return t, t.Start(ctx)
}

// NewTutti prepares a replica without starting it.
func (c *Cluster) NewTutti(ctx context.Context, o TuttiOptions) (*Tutti, error) {
	binary, err := TuttiBinary()
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "tutti"
		if n := len(c.tuttis); n > 0 {
			o.Name = fmt.Sprintf("tutti-%d", n+1)
		}
	}
	if o.APIServer == "" {
		o.APIServer = c.URL
	}
	t := &Tutti{Options: o, cluster: c, binary: binary, Directory: c.path(o.Name)}
	if err := os.MkdirAll(t.Directory, 0o755); err != nil {
		return nil, err
	}
	token, err := c.ServiceAccountToken(ctx, TuttiNamespace, TuttiServiceAccount, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	if o.ImageRoot != "" {
		err = c.writePodCredentials(o.ImageRoot, token)
	} else {
		t.kubeconfig, err = c.WriteKubeconfig(o.Name, o.APIServer, token)
	}
	if err != nil {
		return nil, err
	}
	health, err := FreePort()
	if err != nil {
		return nil, err
	}
	metrics, err := FreePort()
	if err != nil {
		return nil, err
	}
	webhook, visibility := c.webhookPort, c.visibilityPort
	if o.NoWebhook {
		for _, port := range []*int{&webhook, &visibility} {
			if *port, err = FreePort(); err != nil {
				return nil, err
			}
		}
	}
	t.MetricsURL = fmt.Sprintf("https://127.0.0.1:%d/metrics", metrics)
	t.VisibilityURL = fmt.Sprintf("https://127.0.0.1:%d", visibility)
	t.HealthURL = fmt.Sprintf("http://127.0.0.1:%d", health)
	config := merge(map[string]any{
		"apiVersion":       "config.kueue.x-k8s.io/v1beta2",
		"kind":             "Configuration",
		"namespace":        TuttiNamespace,
		"health":           map[string]any{"healthProbeBindAddress": fmt.Sprintf("127.0.0.1:%d", health)},
		"metrics":          map[string]any{"bindAddress": fmt.Sprintf("127.0.0.1:%d", metrics)},
		"webhook":          map[string]any{"host": "127.0.0.1", "port": webhook},
		"visibilityServer": map[string]any{"bindAddress": "127.0.0.1", "bindPort": visibility},
		"internalCertManagement": map[string]any{
			"enable": true, "webhookServiceName": "tutti-webhook-service", "webhookSecretName": "tutti-webhook-server-cert",
		},
		"leaderElection": map[string]any{"leaderElect": false},
	}, o.Config)
	tutti := merge(map[string]any{
		"apiVersion": "config.tutti.dev/v1alpha1",
		"kind":       "TuttiConfiguration",
		"mode":       "Greenfield",
		"ledger":     map[string]any{"path": filepath.Join(t.Directory, "ledger.db")},
	}, o.Tutti)
	t.Config = filepath.Join(t.Directory, "config.yaml")
	if o.ImageRoot != "" {
		t.Config = filepath.Join(o.ImageRoot, "etc/tutti/controller_manager_config.yaml")
		tutti["ledger"] = map[string]any{"path": "/var/lib/tutti/ledger.db"}
	}
	if err := os.MkdirAll(filepath.Dir(t.Config), 0o755); err != nil {
		return nil, err
	}
	if err := writeYAML(t.Config, config, tutti); err != nil {
		return nil, err
	}
	c.tuttis = append(c.tuttis, t)
	return t, nil
}

// Launch starts the process and does not wait.
func (t *Tutti) Launch() error {
	if t.Options.ImageRoot != "" {
		return t.launchImage()
	}
	args := append([]string{"operator", "--config", t.Config, "--kubeconfig", t.kubeconfig}, t.Options.Args...)
	t.StartedAt = time.Now()
	var err error
	t.Process, err = StartProcess(t.Options.Name, t.cluster.LogDir, t.Directory, t.binary, args, t.Options.Env)
	return err
}

const (
	imageUser      = 65532
	podCredentials = "var/run/secrets/kubernetes.io/serviceaccount"
)

// launchImage starts the program of the image as the chart's Deployment does.
func (t *Tutti) launchImage() error {
	server, err := url.Parse(t.Options.APIServer)
	if err != nil {
		return err
	}
	args := append([]string{"operator", "--config=/etc/tutti/controller_manager_config.yaml"}, t.Options.Args...)
	env := append([]string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}, t.Options.Env...)
	t.StartedAt = time.Now()
	t.Process, err = startProcess(t.Options.Name, t.cluster.LogDir, "/", "/usr/bin/tutti", args, env, syscall.SysProcAttr{
		Chroot:     t.Options.ImageRoot,
		Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser},
	})
	return err
}

// writePodCredentials lays the ServiceAccount's files where kubelet mounts them.
func (c *Cluster) writePodCredentials(root, token string) error {
	dir := filepath.Join(root, podCredentials)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"token": []byte(token), "ca.crt": c.CA.CAPEM, "namespace": []byte(TuttiNamespace)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Start starts the process and waits until /readyz says yes.
func (t *Tutti) Start(ctx context.Context) error {
	if err := t.Launch(); err != nil {
		return err
	}
	return t.WaitReady(ctx)
}

// WaitReady waits for /readyz.
func (t *Tutti) WaitReady(ctx context.Context) error {
	return t.cluster.wait(ctx, t.Process, "Tutti's /readyz", func(ctx context.Context) bool {
		_, err := t.fetch(ctx, "/readyz")
		return err == nil
	})
}

// Running tells whether the process has been started and still runs.
func (t *Tutti) Running() bool { return t.Process != nil && t.Alive() }

// Kill9 kills the process if it runs.
func (t *Tutti) Kill9() {
	if t.Process != nil {
		t.Process.Kill9()
	}
}

// Stop ends it as Kubernetes does; an exit status other than 0 or more than 30 s is an error.
func (t *Tutti) Stop() error {
	if t.Process == nil {
		return nil
	}
	return t.Process.Stop(30 * time.Second)
}

// Restart stops (or, if it has been killed, just starts) the process and waits until it is ready.
func (t *Tutti) Restart(ctx context.Context) error {
	if t.Running() {
		if err := t.Stop(); err != nil {
			return err
		}
	}
	return t.Start(ctx)
}

// Remove kills the replica and forgets it.
func (t *Tutti) Remove() {
	t.Kill9()
	t.cluster.removeTutti(t)
}

// Metrics reads the plain /metrics of the health listener.
func (t *Tutti) Metrics(ctx context.Context) (Metrics, error) {
	text, err := t.fetch(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(text)
}

var plainClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (t *Tutti) fetch(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.HealthURL+path, nil)
	if err != nil {
		return "", err
	}
	response, err := plainClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s: %.300s", path, response.Status, body)
	}
	return string(body), nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
