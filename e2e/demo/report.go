// SPDX-License-Identifier: Apache-2.0

// What is said before and after the runs.

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"tutti.dev/e2e/demo/trace"
)

// describe says what will be run.
func describe(jobs []trace.Job, o options) string {
	gangs, pods, gpuSeconds := 0, 0, 0.0
	generated := 0
	for _, j := range jobs {
		if j.Gang() {
			gangs++
		}
		if j.Generate {
			generated++
		}
		pods += j.Pods
		gpuSeconds += float64(j.TotalGPUs()) * j.Duration.Seconds()
	}
	c := trace.Default()
	var b strings.Builder
	fmt.Fprintf(&b, `
%d jobs (%d of one pod, %d gangs of 2 to 16 pods; %d pods in all; %d with generateName) arrive in
bursts within %.0f s on %d nodes with %d GPUs each. They ask for %.0f GPU-seconds, %.1f times what the
cluster has in that time. Each run lasts %.0f s on a fresh cluster.
Real: etcd, API server, controller manager, scheduler, Tutti. Simulated: the nodes, and the work: a
job makes progress only while all of its pods run, and ends when that has lasted for its run time.
`, len(jobs), len(jobs)-gangs, gangs, pods, generated, c.Window.Seconds(), nodeCount, gpusPerNode, gpuSeconds,
		gpuSeconds/(float64(c.GPUs)*c.Window.Seconds()), o.seconds)
	for _, t := range c.Teams {
		fmt.Fprintf(&b, "  team %-8s has %3d GPUs and may borrow %2d more in cohort %s\n", t.Name, t.Quota, t.Borrowing, t.Cohort)
	}
	return b.String()
}

// busyNote warns if others use the machine: then all three runs are slow, and Tutti's most, as more
// programs have to take turns until a job starts.
func busyNote(load float64, cores int) string {
	if load < 1.5*float64(cores) {
		return ""
	}
	return fmt.Sprintf("Note: this machine is busy (load %.0f on %d cores); the numbers will be those of a slow machine.\n", load, cores)
}

// oneLine sums up a run that has just ended.
func oneLine(r Result) string {
	return fmt.Sprintf("%-23s %3d of %d jobs finished, %4.0f GPUs at work, %4.0f held by jobs not whole",
		titles[r.Way]+":", r.Finished, r.Submitted, r.UsefulGPUSeconds/r.Seconds, r.NotWholeGPUSeconds/r.Seconds)
}

// row of the comparison. better is +1 if more is better, -1 if less is, 0 if it is neither.
type row struct {
	name   string
	better int
	value  func(Result) float64
	format func(Result) string
}

func rows(c trace.Config) []row {
	plain := func(format string, value func(Result) float64) func(Result) string {
		return func(r Result) string { return fmt.Sprintf(format, value(r)) }
	}
	finished := func(r Result) float64 { return float64(r.Finished) }
	gangs := func(r Result) float64 { return float64(r.GangsFinished) }
	stuck := func(r Result) float64 { return r.NotWholeGPUSeconds }
	useful := func(r Result) float64 { return r.UsefulGPUSeconds / r.Seconds }
	over := func(r Result) float64 { return float64(r.WorstOver) }
	scheduler := func(r Result) float64 { return r.SchedulerCPU }
	server := func(r Result) float64 { return r.APIServerCPU }
	tutti := func(r Result) float64 { return r.TuttiCPU }
	return []row{
		{"jobs finished in the time", +1, finished, func(r Result) string { return fmt.Sprintf("%d of %d", r.Finished, r.Submitted) }},
		{"  of them gangs", +1, gangs, func(r Result) string { return fmt.Sprintf("%d of %d", r.GangsFinished, r.Gangs) }},
		{"GPU-seconds held by jobs not whole", -1, stuck, plain("%.0f", stuck)},
		{fmt.Sprintf("GPUs doing useful work, mean of %d", c.GPUs), +1, useful, plain("%.0f", useful)},
		{"wait until whole, median", -1, func(r Result) float64 { return r.WaitMedian.Seconds }, func(r Result) string { return r.WaitMedian.String() }},
		{"wait until whole, p90", -1, func(r Result) float64 { return r.WaitP90.Seconds }, func(r Result) string { return r.WaitP90.String() }},
		{"wait of gangs, median", -1, func(r Result) float64 { return r.GangWaitMedian.Seconds }, func(r Result) string { return r.GangWaitMedian.String() }},
		{"wait of gangs, p90", -1, func(r Result) float64 { return r.GangWaitP90.Seconds }, func(r Result) string { return r.GangWaitP90.String() }},
		{"worst moment over a quota, GPUs", -1, over, func(r Result) string {
			if r.WorstOver == 0 {
				return "0"
			}
			return fmt.Sprintf("%d (%s)", r.WorstOver, r.WorstOverName)
		}},
		{"kube-scheduler, CPU seconds", -1, scheduler, plain("%.1f", scheduler)},
		{"API server, CPU seconds", -1, server, plain("%.1f", server)},
		{"Tutti, CPU seconds", -1, tutti, plain("%.1f", tutti)},
	}
}

// table compares the runs; the last lines say where Tutti is worse.
func table(results []Result, c trace.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-35s", "Same jobs, same nodes, same time")
	for _, r := range results {
		fmt.Fprintf(&b, "%21s", titles[r.Way])
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Repeat("-", 35+21*len(results)))
	var tutti *Result
	for i := range results {
		if results[i].Way == Tutti {
			tutti = &results[i]
		}
	}
	var worse []string
	for _, row := range rows(c) {
		fmt.Fprintf(&b, "%-35s", row.name)
		for _, r := range results {
			fmt.Fprintf(&b, "%21s", row.format(r))
		}
		b.WriteByte('\n')
		if tutti == nil {
			continue
		}
		var better []string
		for _, r := range results {
			if r.Way != Tutti && isWorse(row.value(*tutti), row.value(r), row.better) {
				better = append(better, fmt.Sprintf("%s (%s)", row.format(r), titles[r.Way]))
			}
		}
		if len(better) > 0 {
			worse = append(worse, fmt.Sprintf("  %s: %s against %s", strings.TrimSpace(row.name), row.format(*tutti),
				strings.Join(better, ", ")))
		}
	}
	fmt.Fprintf(&b, "%s\n", strings.Repeat("-", 35+21*len(results)))
	b.WriteString(`Counted by a program that may read Jobs and Pods and nothing else; CPU seconds from /proc. A job
is whole while all of its pods have a node; only then do its GPUs do useful work. Waits run from
creation until the job is whole for the first time; ">=": jobs that still wait at the end are in
it with their wait so far. Over a quota: above what a team has and may borrow, or above a cohort's
sum, counting pods that have a node and aren't being deleted. Native gangs: all pods at once, but
no queue and no quota.
`)
	if tutti != nil && len(results) > 1 {
		for _, r := range results {
			if r.Way != Tutti {
				fmt.Fprintf(&b, "Against %s: %s.\n", titles[r.Way], ratios(*tutti, r))
			}
		}
		if len(worse) == 0 {
			b.WriteString("Where Tutti is worse: in no line of this run.\n")
		} else {
			b.WriteString("Where Tutti is worse:\n" + strings.Join(worse, "\n") + "\n")
		}
	}
	return b.String()
}

// isWorse ignores differences below 2 % or of no size.
func isWorse(mine, other float64, better int) bool {
	const least = 0.05
	switch {
	case better > 0:
		return mine < other*0.98 && other-mine > least
	case better < 0:
		return mine > other*1.02 && mine-other > least
	}
	return false
}

func ratios(tutti, other Result) string {
	times := func(a, b float64) string {
		if b == 0 {
			return "-"
		}
		return fmt.Sprintf("x %.2f", a/b)
	}
	return fmt.Sprintf("finished jobs %s, useful GPUs %s, median wait %s", times(float64(tutti.Finished), float64(other.Finished)),
		times(tutti.UsefulGPUSeconds, other.UsefulGPUSeconds), times(tutti.WaitMedian.Seconds, other.WaitMedian.Seconds))
}

// tryIt is said after --keep.
func tryIt(s State) string {
	directory := filepath.Dir(s.Kubeconfig)
	return fmt.Sprintf(`
The cluster with Tutti stays up (process %d, since %s). Three things to try:

  export KUBECONFIG=%s
  export PATH=%s:$PATH

  kubectl get clusterqueues,kueueworkloads -A
  kubectl create -f %s/gang.yaml   # 8 pods of 8 GPUs, 20 s
  kubectl describe clusterqueue vision

Logs: %[6]s
Stop it: ./quickstart.sh --clean, or kill %[1]d
`, s.PID, time.Now().Format("15:04"), s.Kubeconfig, filepath.Dir(s.Kubectl), directory, s.Logs)
}
