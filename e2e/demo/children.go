// SPDX-License-Identifier: Apache-2.0

// The demo's child processes: the one that holds a cluster, and the counter.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"tutti.dev/e2e/demo/count"
	"tutti.dev/e2e/demo/trace"
)

type holder struct {
	cmd       *exec.Cmd
	state     State
	statePath string
	log       string
	exited    chan struct{}
	once      sync.Once
}

// startHolder returns when the cluster is up.
func startHolder(ctx context.Context, o options, way Way, keep bool, screen *screen) (*holder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &holder{statePath: o.state, log: filepath.Join(filepath.Dir(o.state), "hold-"+string(way)+".log"), exited: make(chan struct{})}
	_ = os.Remove(o.state)
	out, err := os.Create(h.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	h.cmd = exec.Command(self, "hold", "--way", string(way), "--state", o.state)
	h.cmd.Stdout, h.cmd.Stderr = out, out
	// A session of its own: it hears of an interrupt from us. One that is kept outlives us.
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !keep {
		h.cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = h.cmd.Wait()
		close(h.exited)
	}()
	begin := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			screen.progress(time.Since(begin))
			if h.state, err = ReadState(o.state); err != nil {
				if errors.Is(err, os.ErrNotExist) && time.Since(begin) < 15*time.Minute {
					continue
				}
				h.stop()
				return nil, fmt.Errorf("the cluster did not come up: %w (log: %s)", err, h.log)
			}
			if h.state.Error != "" {
				h.stop()
				return nil, errors.New(h.state.Error)
			}
			return h, nil
		case <-h.exited:
			return nil, fmt.Errorf("the cluster did not come up: %s", h.tail())
		case <-ctx.Done():
			h.stop()
			return nil, ctx.Err()
		}
	}
}

func (h *holder) stop() {
	h.once.Do(func() {
		_ = h.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-h.exited:
		case <-time.After(20 * time.Second):
			_ = h.cmd.Process.Kill()
			<-h.exited
		}
		_ = os.Remove(h.statePath)
	})
}

func (h *holder) tail() string {
	text, _ := os.ReadFile(h.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("%s (log: %s)", strings.Join(lines[max(0, len(lines)-5):], "\n"), h.log)
}

// holderAlive tells whether the process of a state file is (still) a holder.
func holderAlive(s State) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID))
	return err == nil && bytes.Contains(text, []byte("\x00hold\x00"))
}

// stopKept ends a cluster that --keep left, if there is one.
func stopKept(path string) error {
	s, err := ReadState(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if holderAlive(s) {
		if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil {
			return err
		}
		for deadline := time.Now().Add(20 * time.Second); holderAlive(s); {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d did not end within 20 s", s.PID)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return os.Remove(path)
}

type counter struct {
	cmd     *exec.Cmd
	reports chan count.Report
	stderr  bytes.Buffer
}

// startCounter returns when it watches.
func startCounter(state State, seconds float64) (*counter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(limits(trace.DefaultTeams()))
	if err != nil {
		return nil, err
	}
	c := &counter{reports: make(chan count.Report, 1000)}
	c.cmd = exec.Command(filepath.Join(filepath.Dir(self), "counter"), "--kubeconfig", state.CounterKubeconfig,
		"--seconds", fmt.Sprint(seconds), "--limits", string(text))
	c.cmd.Stderr = &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		_ = c.cmd.Wait()
		return nil, fmt.Errorf("the counter did not start: %s", c.errors())
	}
	go func() {
		defer close(c.reports)
		for lines.Scan() {
			var r count.Report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				c.reports <- r
			}
		}
		_ = c.cmd.Wait()
	}()
	return c, nil
}

func (c *counter) errors() string {
	if text := strings.TrimSpace(c.stderr.String()); text != "" {
		return text
	}
	return "it said nothing"
}

func (c *counter) stop() { _ = c.cmd.Process.Kill() }

func clients(kubeconfig string) (kubernetes.Interface, dynamic.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	return client, dynamicClient, err
}

// cpuSeconds is the processor time that a process has used; 0 if there is none.
func cpuSeconds(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || err != nil {
		return 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // USER_HZ, fixed by the kernel's interface
}

// rss is the resident memory of a process in bytes.
func rss(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(data))
	if pid == 0 || err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// loadAverage is that of the last minute; 0 if unknown.
func loadAverage() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) == 0 {
		return 0
	}
	load, _ := strconv.ParseFloat(fields[0], 64)
	return load
}
