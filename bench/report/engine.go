// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// engineRun is one run of engine/scale_bench and reconciler/crowd_bench, one line of results/engine.jsonl.
type engineRun struct {
	Date    string         `json:"date"`
	Commit  string         `json:"commit"`
	Machine string         `json:"machine"`
	Results []engineResult `json:"results"`
}

type engineResult struct {
	Name   string  `json:"name"` // as Google Benchmark prints it: BM_End/queues:10/pending:1000
	Micros float64 `json:"µs"`   // of CPU, one iteration
	Rate   float64 `json:"rate,omitempty"`
	Bytes  float64 `json:"bytes,omitempty"` // for each workload, or job
	Idle   float64 `json:"idle,omitempty"`  // bytes with queues and nothing else
	Left   float64 `json:"left,omitempty"`  // bytes after all jobs are gone
	Error  string  `json:"error,omitempty"`
}

// What each benchmark does, and how it should grow ("" = there is nothing to grow with); in the order of the page.
var engineTitles = []struct{ name, title, growth string }{
	{"BM_Admissions", "All that wait are admitted", "n log n"},
	{"BM_Arrival", "One more arrives and has to wait", "log n"},
	{"BM_End", "One ends, the next of its queue is admitted", "log n"},
	{"BM_Preemption", "Search for victims among so many candidates, 4 levels of cohorts", "n"},
	{"BM_FairSharingPass", "One ends; the queue with the smallest share gets its place", "queues"},
	{"BM_MemoryPerPending", "Memory of a waiting workload", "n"},
}

var controllerTitles = []struct{ name, title, growth string }{
	{"BM_MemoryOfWaitingJobs", "Memory of a waiting Job with its Workload", "n"},
	{"BM_StartReading", "50,000 Workloads and 5,000 nodes are read as JSON, no more", ""},
	{"BM_Start", "The same, until all has been decided once", ""},
	{"BM_EventWhileParked", "An event of a pod while so many wait for quota", "nothing"},
}

// readEngine reads what Google Benchmark writes with --benchmark_out_format=json.
func readEngine(files []string) (engineRun, error) {
	var run engineRun
	for _, file := range files {
		if err := run.read(file); err != nil {
			return engineRun{}, err
		}
	}
	return run, nil
}

func (r *engineRun) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out struct {
		Benchmarks []struct {
			Name     string  `json:"name"`
			CPU      float64 `json:"cpu_time"`
			Unit     string  `json:"time_unit"`
			Rate     float64 `json:"items_per_second"`
			Bytes    float64 `json:"bytes_per_workload"`
			JobBytes float64 `json:"bytes_per_job"`
			Idle     float64 `json:"idle_bytes"`
			Left     float64 `json:"left_bytes"`
			Error    string  `json:"error_message"`
		} `json:"benchmarks"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(out.Benchmarks) == 0 {
		return fmt.Errorf("%s holds no benchmark", file)
	}
	micros := map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
	for _, one := range out.Benchmarks {
		if one.Error != "" {
			return fmt.Errorf("%s failed: %s", one.Name, one.Error)
		}
		factor, known := micros[one.Unit]
		if !known {
			return fmt.Errorf("%s: unknown unit %q", one.Name, one.Unit)
		}
		r.Results = append(r.Results, engineResult{Name: one.Name, Micros: one.CPU * factor, Rate: one.Rate, Bytes: one.Bytes + one.JobBytes, Idle: one.Idle, Left: one.Left})
	}
	return nil
}

// enginePart is the part of the page about the newest run.
func enginePart(out *strings.Builder, runs []engineRun) {
	if len(runs) == 0 {
		return
	}
	run := runs[len(runs)-1]
	fmt.Fprintf(out, "\n## The engine alone\n\nNo API server; `./bench.sh engine` (`engine/scale_bench.cc`). Commit %s; machine: %s. CPU time of one operation.\n\n", run.Commit, run.Machine)
	run.table(out, engineTitles)
	out.WriteString("\n![How the costs grow; grey: the growth that is expected through the first point](performance-growth.svg)\n")
	out.WriteString("\n## The controller without the network\n\nThe whole controller core, objects given as JSON (`reconciler/crowd_bench.cc`), in the same run.\n\n")
	run.table(out, controllerTitles)
}

func (r engineRun) table(out *strings.Builder, titles []struct{ name, title, growth string }) {
	out.WriteString("| What | Sizes | CPU | |\n|---|---|---|---|\n")
	for _, about := range titles {
		for _, one := range r.Results {
			name, sizes, _ := strings.Cut(one.Name, "/")
			if name != about.name {
				continue
			}
			sizes = strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(sizes, "/", ", "), ":", " "), ", iterations 1")
			var extra []string
			if one.Rate > 0 {
				extra = append(extra, fmt.Sprintf("%.0f a second", one.Rate))
			}
			if one.Bytes > 0 {
				extra = append(extra, fmt.Sprintf("%.0f bytes each", one.Bytes))
			}
			if one.Left > 0 {
				extra = append(extra, fmt.Sprintf("%.1f MB left when all are gone (%.1f before the first came)", one.Left/1e6, one.Idle/1e6))
			}
			title := about.title
			if about.growth != "" {
				title += "; grows with " + about.growth
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s |\n", title, sizes, duration(one.Micros), strings.Join(extra, "; "))
		}
	}
}

func duration(micros float64) string {
	switch {
	case micros < 1e3:
		return fmt.Sprintf("%.1f µs", micros)
	case micros < 1e6:
		return fmt.Sprintf("%.2f ms", micros/1e3)
	default:
		return fmt.Sprintf("%.2f s", micros/1e6)
	}
}
