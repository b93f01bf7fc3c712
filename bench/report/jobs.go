// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// jobsRun is one run of e2e/burst, one line of results/jobs.jsonl.
type jobsRun struct {
	Date    string `json:"date"`
	Commit  string `json:"commit"`
	Machine string `json:"machine"`

	Side       string             `json:"side"` // bare, tutti
	Jobs       int                `json:"jobs"`
	Submitters int                `json:"submitters"`
	Submitted  float64            `json:"submittedSeconds"`
	Running    float64            `json:"runningSeconds"`
	CreateP50  float64            `json:"createP50Seconds"`
	CreateP99  float64            `json:"createP99Seconds"`
	PolicyP50  float64            `json:"policyP50Seconds"`
	PolicyP99  float64            `json:"policyP99Seconds"`
	CPU        map[string]float64 `json:"cpuSeconds"`
	Writes     map[string]float64 `json:"writes"`
}

// readJobs of what burst printed.
func readJobs(file string) (jobsRun, error) {
	var run jobsRun
	text, err := os.ReadFile(file)
	if err != nil {
		return run, err
	}
	if err := json.Unmarshal(text, &run); err != nil {
		return run, fmt.Errorf("%s: %w", file, err)
	}
	if run.Side == "" || run.Running == 0 {
		return run, fmt.Errorf("%s holds no run", file)
	}
	return run, nil
}

// jobsPart is the part of the page about the runs of the newest commit.
func jobsPart(out *strings.Builder, runs []jobsRun) {
	if len(runs) == 0 {
		return
	}
	last := runs[len(runs)-1]
	sets := map[int]map[string][]jobsRun{}
	for _, run := range runs {
		if run.Commit != last.Commit {
			continue
		}
		if sets[run.Submitters] == nil {
			sets[run.Submitters] = map[string][]jobsRun{}
		}
		sets[run.Submitters][run.Side] = append(sets[run.Submitters][run.Side], run)
	}
	fmt.Fprintf(out, "\n## A burst of Jobs\n\n%d Jobs of one pod, submitted at once to the whole control plane (etcd, API server, controller manager, scheduler, "+
		"simulated nodes with room for all), as plain Jobs and through a queue whose quota admits all: `./bench.sh jobs`. Commit %s; machine: %s.\n", last.Jobs, last.Commit, last.Machine)
	for _, submitters := range slices.Sorted(maps.Keys(sets)) {
		bare, tutti := sets[submitters]["bare"], sets[submitters]["tutti"]
		if len(bare) == 0 || len(tutti) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%d clients:\n\n| | Plain Jobs, n = %d | Tutti, n = %d | Tutti : plain |\n|---|---|---|---|\n", submitters, len(bare), len(tutti))
		row := func(name string, digits int, value func(jobsRun) float64) {
			b, middle := spread(bare, digits, value)
			t, of := spread(tutti, digits, value)
			fmt.Fprintf(out, "| %s | %s | %s | %s |\n", name, b, t, ratio(of, middle))
		}
		row("All Jobs exist after, s", 1, func(r jobsRun) float64 { return r.Submitted })
		row("All run after, s", 1, func(r jobsRun) float64 { return r.Running })
		row("Creating a Job, as the API server measures it, median ms", 1, func(r jobsRun) float64 { return 1000 * r.CreateP50 })
		row("… 99 of 100 less than, ms", 0, func(r jobsRun) float64 { return 1000 * r.CreateP99 })
		row("Of it the policies, median ms", 2, func(r jobsRun) float64 { return 1000 * r.PolicyP50 })
		row("… 99 of 100 less than, ms", 1, func(r jobsRun) float64 { return 1000 * r.PolicyP99 })
		for _, part := range slices.Sorted(maps.Keys(tutti[0].CPU)) {
			row("CPU of "+part+", s", 0, func(r jobsRun) float64 { return r.CPU[part] })
		}
		names := map[string]bool{}
		for _, run := range append(slices.Clone(bare), tutti...) {
			for name, n := range run.Writes {
				names[name] = names[name] || n >= float64(run.Jobs)/100
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if names[name] {
				row(name, 0, func(r jobsRun) float64 { return r.Writes[name] })
			}
		}
	}
}
