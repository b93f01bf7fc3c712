// SPDX-License-Identifier: Apache-2.0

package tuttichild

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	readyWithin = 30 * time.Second
	stopWithin  = 10 * time.Second
)

// Options of a child.
type Options struct {
	Kubeconfig  []byte
	WebhookHost string
	WebhookPort int
	CertDir     string
	// Mirror takes the child's metrics, as text, into the registry of this process. May be nil.
	Mirror func(text string, fresh bool)
	Log    func(format string, args ...any)
}

// Child is the manager under test: TUTTI_CONFORMANCE_CHILD names its program.
type Child struct {
	ctx     context.Context
	options Options
	record  Record
	dir     string
	gates   map[string]bool
	cmd     *exec.Cmd
	done    chan struct{}
	stopped chan struct{} // the mirror's
	health  string
}

var (
	running  *Child
	children atomic.Int32
)

// Start starts the child with what has been recorded since Begin and waits until it is ready. It is
// killed when ctx ends.
func Start(ctx context.Context, options Options) (*Child, error) {
	mu.Lock()
	r := record
	mu.Unlock()
	dir, err := os.MkdirTemp("", "tutti-conformance-")
	if err != nil {
		return nil, err
	}
	c := &Child{ctx: ctx, options: options, record: r, dir: dir, gates: maps.Clone(r.Gates)}
	if c.gates == nil {
		c.gates = map[string]bool{}
	}
	if err := os.WriteFile(c.path("kubeconfig"), options.Kubeconfig, 0o600); err != nil {
		return nil, err
	}
	if err := c.launch(); err != nil {
		return nil, err
	}
	mu.Lock()
	running = c
	mu.Unlock()
	return c, nil
}

func (c *Child) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Child) launch() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	c.health = "http://" + address
	text, err := c.config(address)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path("config.yaml"), text, 0o600); err != nil {
		return err
	}
	args := []string{"--config=" + c.path("config.yaml"), "--kubeconfig=" + c.path("kubeconfig")}
	if level := os.Getenv("TUTTI_CONFORMANCE_LEVEL"); level != "" {
		args = append(args, "--zap-log-level="+level)
	}
	gates := maps.Clone(c.gates)
	if len(c.record.Frameworks) > 0 && !c.record.PodsReady {
		// The suite's job reconcilers do without; the default Configuration has it on.
		gates["DisableWaitForPodsReady"] = true
	}
	if flag := gatesFlag(gates); flag != "" {
		args = append(args, "--feature-gates="+flag)
	}
	logs := os.Getenv("TUTTI_CONFORMANCE_LOGS")
	if logs == "" {
		logs = c.dir
	}
	log, err := os.Create(filepath.Join(logs, fmt.Sprintf("child-%04d.log", children.Add(1))))
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "# gates %s\n# %s\n", gatesFlag(c.gates), strings.ReplaceAll(string(text), "\n", "\n# "))
	c.cmd = exec.CommandContext(c.ctx, os.Getenv("TUTTI_CONFORMANCE_CHILD"), args...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		log.Close()
		return err
	}
	done := make(chan struct{})
	c.done = done
	cmd := c.cmd
	go func() {
		_ = cmd.Wait()
		log.Close()
		close(done)
	}()
	if err := c.waitReady(log.Name()); err != nil {
		_ = c.cmd.Process.Kill()
		return err
	}
	c.stopped = make(chan struct{})
	go c.mirror(c.health, done, c.stopped)
	return nil
}

func (c *Child) waitReady(log string) error {
	deadline := time.Now().Add(readyWithin)
	for time.Now().Before(deadline) {
		select {
		case <-c.done:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("the manager under test ended at its start: %.2000s", withoutComments(string(text)))
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := get(c.health + "/readyz"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the manager under test was not ready within %s, see %s", readyWithin, log)
}

// Stop ends the child as Kubernetes does.
func (c *Child) Stop() {
	mu.Lock()
	if running == c {
		running = nil
	}
	mu.Unlock()
	c.end()
	_ = os.RemoveAll(c.dir)
}

func (c *Child) end() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(stopWithin):
		c.options.Log("the manager under test did not stop within %s: killed", stopWithin)
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	<-c.stopped
}

func (c *Child) applyGates(gates map[string]bool) {
	if maps.Equal(gates, c.gates) || c.ctx.Err() != nil {
		return
	}
	before := c.gates
	c.gates = maps.Clone(gates)
	c.end()
	err := c.launch()
	if err == nil || c.ctx.Err() != nil {
		return
	}
	// The spec fails; what it has made is cleared away with a manager, as after any other failure.
	c.gates = before
	if again := c.launch(); again != nil {
		err = fmt.Errorf("%w; and with the gates before: %w", err, again)
	}
	panic(fmt.Sprintf("starting the manager again with other gates: %v", err))
}

// mirror copies metrics until the child has ended.
func (c *Child) mirror(health string, done <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	if c.options.Mirror == nil {
		<-done
		return
	}
	fresh := true
	for {
		if text, err := get(health + "/metrics"); err == nil {
			c.options.Mirror(text, fresh)
			fresh = false
		}
		select {
		case <-done:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// config is the text of the configuration file: Kueue's Configuration, and a second document for
// what only Tutti has or needs.
func (c *Child) config(health string) ([]byte, error) {
	frameworks := slices.Clone(c.record.Frameworks)
	own := map[string]any{
		"apiVersion":             "config.kueue.x-k8s.io/v1beta2",
		"kind":                   "Configuration",
		"namespace":              "kueue-system",
		"health":                 map[string]any{"healthProbeBindAddress": health},
		"metrics":                map[string]any{"bindAddress": "0"},
		"webhook":                map[string]any{"host": c.options.WebhookHost, "port": c.options.WebhookPort, "certDir": c.options.CertDir},
		"internalCertManagement": map[string]any{"enable": false},
		"leaderElection":         map[string]any{"leaderElect": false},
		"integrations":           map[string]any{"frameworks": frameworks},
	}
	if len(frameworks) == 0 {
		delete(own, "integrations")
	}
	kueue, err := yaml.Marshal(merge(c.record.Configuration, own))
	if err != nil {
		return nil, err
	}
	tutti, err := yaml.Marshal(map[string]any{
		"apiVersion":         "config.tutti.dev/v1alpha1",
		"kind":               "TuttiConfiguration",
		"mode":               "Greenfield",
		"nativeGang":         "Off",
		"capacity":           map[string]any{"mode": "Off"},
		"steering":           "None",
		"ledger":             map[string]any{"path": ""},
		"pendingReasonDelay": "0s",
		"webhooks":           "Always",
		"controllers":        map[string]any{"scheduler": c.record.Scheduler, "core": c.record.Core},
	})
	if err != nil {
		return nil, err
	}
	return append(append(kueue, "---\n"...), tutti...), nil
}

func gatesFlag(gates map[string]bool) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		parts = append(parts, fmt.Sprintf("%s=%t", name, gates[name]))
	}
	return strings.Join(parts, ",")
}

func withoutComments(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

var plain = &http.Client{Timeout: 5 * time.Second}

func get(url string) (string, error) {
	response, err := plain.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(body), nil
}

// Wanted takes the configuration file of a child apart; for the child that is Kueue itself.
func Wanted(file string) (kueue []byte, scheduler, core bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, false, false, err
	}
	first, second, _ := strings.Cut(string(text), "---\n")
	raw, err := yaml.YAMLToJSON([]byte(second))
	if err != nil {
		return nil, false, false, err
	}
	var own struct {
		Controllers struct{ Scheduler, Core bool }
	}
	err = json.Unmarshal(raw, &own)
	return []byte(first), own.Controllers.Scheduler, own.Controllers.Core, err
}
