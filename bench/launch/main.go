// SPDX-License-Identifier: Apache-2.0

// launch is what Kueue's performance runner starts in place of its own minimalkueue, for every side
// alike: it starts the program under test and, when the runner asks it to end, first writes down what
// the run has cost so far: requests to the API server, CPU of API server, etcd and program, memory of
// the program. The runner's own figures of the command hold the program's, too: the kernel adds those
// of a child that has been waited for.
//
//	BENCH_SIDE     kueue, kueue-unlimited, tutti or floor
//	BENCH_FAIR     not empty: with fair sharing (kueue-unlimited, tutti)
//	BENCH_PROGRAM  path of the program under test
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The program under test ends within this time or is killed, and said so.
const patience = 30 * time.Second

// Cost is what launch writes to cost.json, beside the kubeconfig.
type Cost struct {
	Side         string             `json:"side"`
	WallSeconds  float64            `json:"wallSeconds"`
	APIServerCPU float64            `json:"apiServerCPUSeconds"` // since the program's start
	EtcdCPU      float64            `json:"etcdCPUSeconds"`      // since the program's start
	ProgramCPU   float64            `json:"programCPUSeconds"`
	ProgramPeak  int64              `json:"programPeakKiB"`
	Requests     map[string]float64 `json:"requests"` // "VERB resource/subresource": answered ones, by anybody
}

// The kernel ends the program under test with the thread that started it: this one, kept for good.
func init() { runtime.LockOSThread() }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "of the API server of the run")
	metricsPort := flag.Int("metricsPort", 0, "passed on")
	level := flag.Int("zap-log-level", 0, "passed on")
	flag.Parse()
	side, program := os.Getenv("BENCH_SIDE"), os.Getenv("BENCH_PROGRAM")
	dir := filepath.Dir(*kubeconfig)
	args, err := arguments(side, dir, *kubeconfig, *metricsPort, *level)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	before, err := look(api)
	if err != nil {
		return err
	}

	asked := make(chan os.Signal, 2)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	child := exec.Command(program, args...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	begin := time.Now()
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("%s ended by itself: %v", side, err)
	case <-asked:
	}

	cost := Cost{Side: side, WallSeconds: time.Since(begin).Seconds()}
	// What can't be measured any more is a failed run, after the program has been ended.
	failure := cost.fill(api, before, child.Process.Pid)
	_ = child.Process.Signal(syscall.SIGINT)
	select {
	case <-ended:
	case <-time.After(patience):
		_ = child.Process.Kill()
		<-ended
		return fmt.Errorf("%s did not end within %s", side, patience)
	}
	if failure != nil {
		return failure
	}
	text, err := json.MarshalIndent(cost, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cost.json"), append(text, '\n'), 0o644)
}

func (c *Cost) fill(api kubernetes.Interface, before reading, pid int) error {
	after, err := look(api)
	if err != nil {
		return err
	}
	c.APIServerCPU = after.apiServer - before.apiServer
	c.EtcdCPU = after.etcd - before.etcd
	c.Requests = map[string]float64{}
	for name, count := range after.requests {
		if n := count - before.requests[name]; n > 0 {
			c.Requests[name] = n
		}
	}
	if c.ProgramCPU, err = cpuSeconds(pid); err != nil {
		return err
	}
	c.ProgramPeak, err = peakKiB(pid)
	return err
}

// arguments of the program under test; writes its configuration file where it has one.
func arguments(side, dir, kubeconfig string, metricsPort, level int) ([]string, error) {
	fair := os.Getenv("BENCH_FAIR") != ""
	switch side {
	case "kueue":
		args := []string{"--kubeconfig", kubeconfig}
		if metricsPort != 0 {
			args = append(args, fmt.Sprintf("--metricsPort=%d", metricsPort))
		}
		if level != 0 {
			args = append(args, fmt.Sprintf("--zap-log-level=%d", level))
		}
		return args, nil
	case "kueue-unlimited":
		args := []string{"--kubeconfig", kubeconfig, "--qps=-1", fmt.Sprintf("--fair=%t", fair)}
		if level != 0 {
			args = append(args, fmt.Sprintf("--zap-log-level=%d", level))
		}
		return args, nil
	case "floor":
		return []string{"--kubeconfig", kubeconfig}, nil
	case "tutti":
		file := filepath.Join(dir, "tutti.yaml")
		config := tuttiConfig
		if fair {
			config = strings.Replace(config, "---\n", fairSharing+"---\n", 1)
		}
		return []string{"operator", "--kubeconfig", kubeconfig, "--config", file}, os.WriteFile(file, []byte(config), 0o644)
	default:
		return nil, fmt.Errorf("BENCH_SIDE is %q: use kueue, kueue-unlimited, tutti or floor", side)
	}
}

// What minimalkueue does, no more: queues, quota and Workloads; no Jobs, no nodes, no servers.
const tuttiConfig = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: default
health: {healthProbeBindAddress: "0"}
metrics: {bindAddress: "0"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
---
apiVersion: config.tutti.dev/v1alpha1
kind: TuttiConfiguration
mode: Greenfield
nativeGang: "Off"
capacity: {mode: "Off"}
steering: None
ledger: {path: ""}
`

const fairSharing = "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}\n"

// reading is the state of the counters at one moment.
type reading struct {
	apiServer, etcd float64
	requests        map[string]float64
}

func look(api kubernetes.Interface) (reading, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("metrics of the API server: %w", err)
	}
	r, err := parseMetrics(text)
	if err != nil {
		return reading{}, err
	}
	// The runner started etcd, as it started this process.
	pid, err := childNamed(os.Getppid(), "etcd")
	if err != nil {
		return reading{}, err
	}
	r.etcd, err = cpuSeconds(pid)
	return r, err
}
