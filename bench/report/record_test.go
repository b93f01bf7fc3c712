// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runDir is what the runner and launch leave of a run with two Workloads.
func runDir(t *testing.T, finished string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"launch.stats.yaml": "wallMs: 12500\n",
		"cost.json":         `{"side": "tutti", "apiServerCPUSeconds": 3, "programPeakKiB": 2048, "requests": {"POST events": 4, "GET nodes": 9}}`,
		"summary.yaml": `
clusterQueueClasses: {cq: {cpuAverageUsage: 30000, nominalQuota: 40000}}
workloadClasses: {large: {count: 2, totalEvictions: 1, averageTimeToAdmissionMs: 1500}}
`,
		"wlStates.csv": "id,class name,namespace,ms to admitted,ms to finish\n1,large,a,800,900\n2,large,b,2200," + finished + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestARunIsReadAndShown(t *testing.T) {
	r, err := readRun(runDir(t, "700"))
	if err != nil {
		t.Fatal(err)
	}
	if r.WallSeconds != 12.5 || r.UsagePercent != 75 || r.workloads() != 2 || r.evictions() != 1 {
		t.Errorf("%+v", r)
	}
	r.Config, r.Commit = "baseline", "abc"
	text := page([]record{r}, nil, nil, "")
	for _, want := range []string{"## Kueue's scheduler benchmark, `baseline`", "| Wait of all, median s | 0.8 |", "| Median wait in the queue that waited most, s | 2.2 |", "| Wall, s | 12 |", "| Admitted after, `large`, mean s | 1.5 |", "| API server CPU per 1,000 workloads, s | 1500.0 |", "| POST events | 4 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "GET nodes") {
		t.Error("reads are shown as writes")
	}
}

func TestARunThatEndsBeforeItsWorkloadsIsRefused(t *testing.T) {
	if _, err := readRun(runDir(t, "0")); err == nil || !strings.Contains(err.Error(), "1 of 2 Workloads") {
		t.Error(err)
	}
}

func TestRatioIsReadFromTheSmallerSide(t *testing.T) {
	for _, one := range []struct {
		a, b float64
		want string
	}{{1, 4, "1 / 4.0"}, {4, 1, "4.00"}, {0, 3, "0"}, {3, 0, "–"}} {
		if got := ratio(one.a, one.b); got != one.want {
			t.Errorf("ratio(%v, %v) is %q", one.a, one.b, got)
		}
	}
}

func TestOnlyTheNewestCommitCounts(t *testing.T) {
	records := []record{{Commit: "a"}, {Commit: "b", WallSeconds: 1}, {Commit: "b", WallSeconds: 3}}
	if text, middle := spread(newest(records), 0, func(r record) float64 { return r.WallSeconds }); middle != 2 || text != "2 (1 to 3)" {
		t.Errorf("%s, %v", text, middle)
	}
}

func TestARunOfTheEngineIsReadAndShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "engine.json")
	text := `{"benchmarks": [
		{"name": "BM_End/queues:10/pending:1000", "cpu_time": 14.5, "time_unit": "us"},
		{"name": "BM_MemoryPerPending/pending:100000/iterations:1", "cpu_time": 800, "time_unit": "ms", "bytes_per_workload": 1205.4}]}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run, err := readEngine([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	enginePart(&out, []engineRun{{}, run})
	for _, want := range []string{"| queues 10, pending 1000 | 14.5 µs |  |", "| pending 100000 | 800.00 ms | 1205 bytes each |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestAnEngineBenchmarkThatFailedIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "engine.json")
	if err := os.WriteFile(file, []byte(`{"benchmarks": [{"name": "BM_X", "time_unit": "us", "error_message": "nobody"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readEngine([]string{file}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
}

func TestABurstIsShownPerNumberOfClients(t *testing.T) {
	file := filepath.Join(t.TempDir(), "burst.json")
	if err := os.WriteFile(file, []byte(`{"side": "tutti", "jobs": 100, "submitters": 50, "runningSeconds": 30, "policyP99Seconds": 0.002, "cpuSeconds": {"etcd": 4}, "writes": {"POST jobs": 100, "PUT leases": 0.5}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	run, err := readJobs(file)
	if err != nil {
		t.Fatal(err)
	}
	bare := run
	bare.Side, bare.Running, bare.PolicyP99 = "bare", 20, 0
	alone := bare
	alone.Submitters = 7
	old := run
	old.Commit, old.Running = "old", 99
	var out strings.Builder
	jobsPart(&out, []jobsRun{old, bare, run, alone})
	for _, want := range []string{"50 clients:", "| All run after, s | 20.0 | 30.0 | 1.50 |", "| … 99 of 100 less than, ms | 0.0 | 2.0 | – |", "| POST jobs | 100 | 100 | 1.00 |", "| CPU of etcd, s | 4 | 4 | 1.00 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, no := range []string{"7 clients", "leases", "99.0"} {
		if strings.Contains(out.String(), no) {
			t.Errorf("%q in\n%s", no, out.String())
		}
	}
}

func TestThePlotShowsEachGrowth(t *testing.T) {
	var run engineRun
	for _, name := range []string{"BM_Admissions/queues:10/pending:", "BM_Arrival/queues:10/pending:", "BM_End/queues:10/pending:", "BM_Preemption/candidates:", "BM_FairSharingPass/queues:", "BM_MemoryPerPending/pending:"} {
		for i, n := range []string{"1000", "100000"} {
			run.Results = append(run.Results, engineResult{Name: name + n, Micros: float64(10 * (i + 1)), Bytes: 700})
		}
	}
	picture, err := growthPlot(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, growth := range growths {
		if !strings.Contains(string(picture), growth.title) {
			t.Errorf("no panel %q", growth.title)
		}
	}
	if _, err := growthPlot(engineRun{Results: run.Results[:3]}); err == nil {
		t.Error("a plot of one size was drawn")
	}
}
