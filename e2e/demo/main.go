// SPDX-License-Identifier: Apache-2.0

// The demo: about 200 jobs of three teams on 40 simulated nodes of a real Kubernetes control plane,
// three times: as plain Jobs, as native gangs without a queue, and with Tutti. It shows what happens
// while it runs and compares the three at the end. The numbers come from a second program (counter)
// that sees only Jobs and Pods.
//
//	demo [--ways plain,native,tutti] [--seconds 60] [--keep]   run and compare
//	demo hold --way WAY --state FILE                           keep one cluster up (used by demo)
//	demo stop --state FILE                                     stop a cluster that --keep left
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/count"
	"tutti.dev/e2e/demo/trace"
)

func init() {
	// The client library's own log would break into the picture; what matters comes back as errors.
	klog.SetLogger(logr.Discard())
	// The main goroutine starts the children, and they die with the thread that started them.
	runtime.LockOSThread()
}

func main() {
	args := os.Args[1:]
	command := "run"
	if len(args) > 0 && len(args[0]) > 0 && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("demo "+command, flag.ExitOnError)
	state := flags.String("state", filepath.Join(cluster.CacheDir(), "demo", "cluster.json"), "file that says where the cluster is")
	var err error
	switch command {
	case "hold":
		way := flags.String("way", string(Tutti), "plain, native or tutti")
		_ = flags.Parse(args)
		err = hold(context.Background(), Way(*way), *state)
	case "stop":
		_ = flags.Parse(args)
		err = stopKept(*state)
	case "run":
		ways := flags.String("ways", "plain,native,tutti", "which ways to run, in this order")
		seconds := flags.Float64("seconds", 60, "length of each run, from its first job on")
		keep := flags.Bool("keep", false, "leave the last cluster up")
		out := flags.String("out", "", "write the results to this file, as JSON")
		_ = flags.Parse(args)
		o := options{seconds: *seconds, keep: *keep, out: *out, state: *state}
		if o.ways, err = ParseWays(*ways); err == nil {
			err = run(o)
		}
	default:
		err = fmt.Errorf("unknown command %q: known are run (or none), hold and stop", command)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type options struct {
	ways    []Way
	seconds float64
	keep    bool
	out     string
	state   string
}

// Result of one run.
type Result struct {
	Way Way `json:"way"`
	count.Report
	SchedulerCPU float64 `json:"schedulerCPUSeconds"`
	APIServerCPU float64 `json:"apiServerCPUSeconds"`
	TuttiCPU     float64 `json:"tuttiCPUSeconds,omitempty"`
	TuttiRSS     int64   `json:"tuttiRSSBytes,omitempty"`
}

func run(o options) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(o.state), 0o755); err != nil {
		return err
	}
	if old, err := ReadState(o.state); err == nil && holderAlive(old) {
		return fmt.Errorf("a cluster of an earlier run is still up (%s): stop it with './quickstart.sh --clean', "+
			"or 'demo stop --state %s'", old.Kubeconfig, o.state)
	}
	if least := trace.Default().Window.Seconds() + 5; o.seconds < least {
		return fmt.Errorf("--seconds %.0f: the last job arrives at %.0f s, so use %.0f or more", o.seconds, least-5, least)
	}
	jobs, err := trace.Generate(trace.Default())
	if err != nil {
		return err
	}
	screen := newScreen(os.Stdout)
	defer screen.close()
	screen.say(describe(jobs, o) + busyNote(loadAverage(), runtime.NumCPU()))
	var results []Result
	for i, way := range o.ways {
		last := i == len(o.ways)-1
		result, err := runWay(ctx, o, way, fmt.Sprintf("run %d of %d: %s", i+1, len(o.ways), titles[way]), jobs, o.keep && last, screen)
		if err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted; everything that was started has been stopped")
			}
			return fmt.Errorf("%s: %w", titles[way], err)
		}
		results = append(results, result)
		screen.say(oneLine(result))
	}
	screen.say(table(results, trace.Default()))
	if o.out != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.out, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.keep {
		state, err := ReadState(o.state)
		if err != nil {
			return err
		}
		screen.say(tryIt(state))
	}
	return nil
}

// runWay runs the jobs one way on a fresh cluster.
func runWay(ctx context.Context, o options, way Way, title string, jobs []trace.Job, keep bool, screen *screen) (Result, error) {
	result := Result{Way: way}
	screen.begin(title + ": starting etcd, API server, controller manager, scheduler, 40 nodes")
	holder, err := startHolder(ctx, o, way, keep, screen)
	if err != nil {
		return result, err
	}
	done := false
	defer func() {
		if !keep || !done {
			holder.stop()
		}
	}()
	client, dynamicClient, err := clients(holder.state.Kubeconfig)
	if err != nil {
		return result, err
	}
	counter, err := startCounter(holder.state, o.seconds)
	if err != nil {
		return result, err
	}
	defer counter.stop()
	look, err := newView(ctx, client, dynamicClient, way)
	if err != nil {
		return result, err
	}
	defer look.close()

	cpu := func() (scheduler, api, tutti float64) {
		return cpuSeconds(holder.state.SchedulerPID), cpuSeconds(holder.state.APIServerPID), cpuSeconds(holder.state.TuttiPID)
	}
	scheduler0, api0, tutti0 := cpu()
	begin := time.Now()
	failed := make(chan error, len(jobs))
	go func() {
		for i, j := range jobs {
			select {
			case <-time.After(time.Until(begin.Add(j.At))):
			case <-ctx.Done():
				return
			}
			go func() {
				if err := submit(ctx, client, j, way, i); err != nil && ctx.Err() == nil {
					failed <- err
				}
			}()
		}
	}()

	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case report, more := <-counter.reports:
			if more {
				result.Report = report
				continue
			}
			if result.Seconds < o.seconds-0.5 {
				return result, fmt.Errorf("the counter ended early: %s", counter.errors())
			}
			scheduler1, api1, tutti1 := cpu()
			result.SchedulerCPU, result.APIServerCPU, result.TuttiCPU = scheduler1-scheduler0, api1-api0, tutti1-tutti0
			result.TuttiRSS = rss(holder.state.TuttiPID)
			if result.Submitted < len(jobs) {
				return result, fmt.Errorf("only %d of %d jobs could be submitted in the time", result.Submitted, len(jobs))
			}
			screen.clear()
			done = true
			return result, nil
		case err := <-failed:
			return result, err
		case <-holder.exited:
			return result, fmt.Errorf("the cluster ended: %s", holder.tail())
		case <-ctx.Done():
			return result, ctx.Err()
		case <-tick.C:
			elapsed := time.Since(begin)
			screen.frame(look.render(frameInput{
				title: title, elapsed: elapsed.Seconds(), length: o.seconds, report: result.Report,
				schedulerCPU: cpuSeconds(holder.state.SchedulerPID) - scheduler0,
				width:        screen.width(),
			}), look.line(title, elapsed.Seconds(), o.seconds, result.Report))
		}
	}
}
