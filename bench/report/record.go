// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// record is one run of Kueue's performance runner, one line of results/scheduler.jsonl.
type record struct {
	Date    string `json:"date"`
	Commit  string `json:"commit"`
	Machine string `json:"machine"`
	Config  string `json:"config"` // baseline, large-scale
	Side    string `json:"side"`   // kueue, tutti, floor
	CRDs    string `json:"crds"`   // lean (ours), kueue

	WallSeconds  float64            `json:"wallSeconds"` // of the program under test, as the runner says it
	APIServerCPU float64            `json:"apiServerCPUSeconds"`
	EtcdCPU      float64            `json:"etcdCPUSeconds"`
	ProgramCPU   float64            `json:"programCPUSeconds"`
	ProgramPeak  int64              `json:"programPeakKiB"`
	Requests     map[string]float64 `json:"requests"`

	UsagePercent float64          `json:"usagePercent"` // of nominal quota, over the run
	Classes      map[string]class `json:"classes"`      // of Workloads
	Dropped      uint64           `json:"droppedEvents"`
}

type class struct {
	Count       int     `json:"count"`
	Evictions   int     `json:"totalEvictions"`
	AdmissionMs float64 `json:"averageTimeToAdmissionMs"`
	FinishedMs  float64 `json:"averageTimeToFinishMs"`
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
	return r, allFinished(filepath.Join(dir, "wlStates.csv"))
}

// allFinished: the runner ends when no ClusterQueue's status shows anything to come. A status that is late ends a
// run too early, and its figures say nothing.
func allFinished(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		return fmt.Errorf("%s: no Workloads: %v", file, err)
	}
	column := slices.Index(rows[0], "ms to finish")
	if column < 0 {
		return fmt.Errorf("%s has no column 'ms to finish'", file)
	}
	open := 0
	for _, row := range rows[1:] {
		if row[column] == "0" {
			open++
		}
	}
	if open > 0 {
		return fmt.Errorf("%s: %d of %d Workloads were not seen to finish", file, open, len(rows)-1)
	}
	return nil
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

// readRecords of a data file, oldest first; none where there is no file.
func readRecords(file string) ([]record, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var records []record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, len(records)+1, err)
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

func (r record) appendTo(file string) error {
	text, err := json.Marshal(r)
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
