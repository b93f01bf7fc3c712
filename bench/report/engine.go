// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// engineRun is one run of engine/scale_bench, one line of results/engine.jsonl.
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
	Bytes  float64 `json:"bytes,omitempty"` // for each workload
	Error  string  `json:"error,omitempty"`
}

// What each benchmark does, and how it should grow; in the order of the page.
var engineTitles = []struct{ name, title, growth string }{
	{"BM_Admissions", "All that wait are admitted", "n log n"},
	{"BM_Arrival", "One more arrives and has to wait", "log n"},
	{"BM_End", "One ends, the next of its queue is admitted", "log n"},
	{"BM_Preemption", "Search for victims among so many candidates, 4 levels of cohorts", "n"},
	{"BM_FairSharingPass", "One ends; the queue with the smallest share gets its place", "queues"},
	{"BM_MemoryPerPending", "Memory of a waiting workload", "n"},
}

// readEngine reads what Google Benchmark writes with --benchmark_out_format=json.
func readEngine(file string) (engineRun, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return engineRun{}, err
	}
	var out struct {
		Benchmarks []struct {
			Name  string  `json:"name"`
			CPU   float64 `json:"cpu_time"`
			Unit  string  `json:"time_unit"`
			Rate  float64 `json:"items_per_second"`
			Bytes float64 `json:"bytes_per_workload"`
			Error string  `json:"error_message"`
		} `json:"benchmarks"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return engineRun{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(out.Benchmarks) == 0 {
		return engineRun{}, fmt.Errorf("%s holds no benchmark", file)
	}
	micros := map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
	var run engineRun
	for _, one := range out.Benchmarks {
		if one.Error != "" {
			return engineRun{}, fmt.Errorf("%s failed: %s", one.Name, one.Error)
		}
		factor, known := micros[one.Unit]
		if !known {
			return engineRun{}, fmt.Errorf("%s: unknown unit %q", one.Name, one.Unit)
		}
		run.Results = append(run.Results, engineResult{Name: one.Name, Micros: one.CPU * factor, Rate: one.Rate, Bytes: one.Bytes})
	}
	return run, nil
}

func readEngineRuns(file string) ([]engineRun, error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []engineRun
	for line := range strings.Lines(string(text)) {
		var run engineRun
		if err := json.Unmarshal([]byte(line), &run); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func (r engineRun) appendTo(file string) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// enginePart is the part of the page about the newest run.
func enginePart(out *strings.Builder, runs []engineRun) {
	if len(runs) == 0 {
		return
	}
	run := runs[len(runs)-1]
	fmt.Fprintf(out, "\n## The engine alone\n\nNo API server; `./bench.sh engine` (`engine/scale_bench.cc`). Commit %s; machine: %s. CPU time of one operation.\n\n", run.Commit, run.Machine)
	out.WriteString("| What | Sizes | CPU | |\n|---|---|---|---|\n")
	for _, about := range engineTitles {
		for _, one := range run.Results {
			name, sizes, _ := strings.Cut(one.Name, "/")
			if name != about.name {
				continue
			}
			sizes = strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(sizes, "/", ", "), ":", " "), ", iterations 1")
			extra := ""
			if one.Rate > 0 {
				extra = fmt.Sprintf("%.0f a second", one.Rate)
			}
			if one.Bytes > 0 {
				extra = fmt.Sprintf("%.0f bytes each", one.Bytes)
			}
			fmt.Fprintf(out, "| %s; grows with %s | %s | %s | %s |\n", about.title, about.growth, sizes, duration(one.Micros), extra)
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
