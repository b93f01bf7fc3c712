// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"
)

// record is one run of Kueue's performance runner, one line of results/scheduler.jsonl.
type record struct {
	Date    string `json:"date"`
	Commit  string `json:"commit"`
	Machine string `json:"machine"`
	Config  string `json:"config"` // baseline, large-scale, deepqueue
	Side    string `json:"side"`   // of `sides`
	CRDs    string `json:"crds"`   // lean (ours), kueue

	WallSeconds  float64            `json:"wallSeconds"` // of the program under test, as the runner says it
	APIServerCPU float64            `json:"apiServerCPUSeconds"`
	EtcdCPU      float64            `json:"etcdCPUSeconds"`
	ProgramCPU   float64            `json:"programCPUSeconds"`
	ProgramPeak  int64              `json:"programPeakKiB"`
	Requests     map[string]float64 `json:"requests"`

	UsagePercent float64          `json:"usagePercent"` // of nominal quota, over the run
	Classes      map[string]class `json:"classes"`      // of Workloads
	Waits        *waits           `json:"waits,omitempty"`
	Dropped      uint64           `json:"droppedEvents"`
}

type class struct {
	Count       int     `json:"count"`
	Evictions   int     `json:"totalEvictions"`
	AdmissionMs float64 `json:"averageTimeToAdmissionMs"`
	FinishedMs  float64 `json:"averageTimeToFinishMs"`
}

// waits of all Workloads until their last admission, in seconds.
type waits struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
	// The median of the tenant (namespace) that waited least, and of the one that waited most.
	LeastTenant float64 `json:"leastTenant"`
	MostTenant  float64 `json:"mostTenant"`
}

// workloads is how many Workloads the runner recorded.
func (r record) workloads() int {
	n := 0
	for _, one := range r.Classes {
		n += one.Count
	}
	return n
}

func (r record) evictions() int {
	n := 0
	for _, one := range r.Classes {
		n += one.Evictions
	}
	return n
}

// readRun takes what the runner and launch left in `dir`.
func readRun(dir string) (record, error) {
	var r record
	var err error
	var stats struct {
		WallMs int64 `json:"wallMs"`
	}
	if err := readYAML(filepath.Join(dir, "launch.stats.yaml"), &stats); err != nil {
		return r, err
	}
	if err := readYAML(filepath.Join(dir, "cost.json"), &r); err != nil {
		return r, err
	}
	var summary struct {
		ClusterQueueClasses map[string]struct {
			Average float64 `json:"cpuAverageUsage"`
			Nominal float64 `json:"nominalQuota"`
		} `json:"clusterQueueClasses"`
		WorkloadClasses map[string]class `json:"workloadClasses"`
		Dropped         uint64           `json:"droppedWorkloadEvents"`
	}
	if err := readYAML(filepath.Join(dir, "summary.yaml"), &summary); err != nil {
		return r, err
	}
	r.WallSeconds = float64(stats.WallMs) / 1000
	r.Classes, r.Dropped = summary.WorkloadClasses, summary.Dropped
	average, nominal := 0.0, 0.0
	for _, one := range summary.ClusterQueueClasses {
		average += one.Average
		nominal += one.Nominal
	}
	if nominal == 0 || r.workloads() == 0 {
		return r, fmt.Errorf("%s/summary.yaml: no ClusterQueue or no Workload was recorded", dir)
	}
	r.UsagePercent = 100 * average / nominal
	r.Waits, err = readWaits(filepath.Join(dir, "wlStates.csv"))
	return r, err
}

// readWaits of a run in which all Workloads finished. The runner ends when no ClusterQueue's status shows anything to
// come: a status that is late ends a run too early, and its figures say nothing.
func readWaits(file string) (*waits, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		return nil, fmt.Errorf("%s: no Workloads: %v", file, err)
	}
	var columns []int
	for _, name := range []string{"namespace", "ms to admitted", "ms to finish"} {
		column := slices.Index(rows[0], name)
		if column < 0 {
			return nil, fmt.Errorf("%s has no column '%s'", file, name)
		}
		columns = append(columns, column)
	}
	open := 0
	var all []float64
	tenants := map[string][]float64{}
	for _, row := range rows[1:] {
		if row[columns[2]] == "0" {
			open++
		}
		ms, err := strconv.ParseFloat(row[columns[1]], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: ms to admitted: %w", file, err)
		}
		all = append(all, ms/1000)
		tenants[row[columns[0]]] = append(tenants[row[columns[0]]], ms/1000)
	}
	if open > 0 {
		return nil, fmt.Errorf("%s: %d of %d Workloads were not seen to finish", file, open, len(rows)-1)
	}
	var medians []float64
	for _, of := range tenants {
		medians = append(medians, quantile(of, 0.5))
	}
	return &waits{Median: quantile(all, 0.5), P90: quantile(all, 0.9), Max: slices.Max(all), LeastTenant: slices.Min(medians), MostTenant: slices.Max(medians)}, nil
}

// quantile of at least one value: the smallest that so great a part of them doesn't exceed.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

func readYAML(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// readLines of a data file, oldest first; none where there is no file.
func readLines[Run any](file string) ([]Run, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var runs []Run
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var run Run
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, len(runs)+1, err)
		}
		runs = append(runs, run)
	}
	return runs, lines.Err()
}

func appendLine(file string, run any) error {
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
