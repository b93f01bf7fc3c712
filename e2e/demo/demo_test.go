// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/count"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/demo/workload"
)

func TestClipCountsWhatIsSeenAndKeepsColours(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"plain", 3, "pla"},
		{"plain", 9, "plain"},
		{"\x1b[31mred\x1b[0m tail", 3, "\x1b[31mred\x1b[0m"},
		{"██████", 2, "██"},
		{"", 5, ""},
	} {
		if got := clip(c.line, c.width); got != c.want {
			t.Errorf("clip(%q, %d) = %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

func TestWrapBreaksAtSpacesAndKeepsToItsLines(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		most  int
		want  string
	}{
		{"one two three", 8, 3, "one two|  three"},
		{"one two", 20, 3, "one two"},
		{"one two three four", 8, 2, "one two|  three four"},
		{"unbreakable", 4, 3, "unbreakable"},
	} {
		if got := strings.Join(wrap(c.text, c.width, "  ", c.most), "|"); got != c.want {
			t.Errorf("wrap(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestBarStaysInItsCells(t *testing.T) {
	for _, c := range []struct {
		value, most float64
		want        string
	}{{0, 4, "░░░░"}, {2, 4, "██░░"}, {4, 4, "████"}, {9, 4, "████"}, {1, 0, "░░░░"}} {
		if got := bar(c.value, c.most, 4); got != c.want {
			t.Errorf("bar(%v, %v) = %s, want %s", c.value, c.most, got, c.want)
		}
	}
}

func result(way Way, finished int, useful, stuck float64, wait count.Wait, over int64, scheduler float64) Result {
	return Result{Way: way, SchedulerCPU: scheduler, Report: count.Report{
		Seconds: 60, Submitted: 200, Finished: finished, Gangs: 100, UsefulGPUSeconds: useful, NotWholeGPUSeconds: stuck,
		WaitMedian: wait, WorstOver: over, WorstOverName: "team vision",
	}}
}

func TestTableNamesEveryLineInWhichTuttiIsWorse(t *testing.T) {
	text := table([]Result{
		result(Plain, 150, 6000, 3000, count.Wait{Seconds: 1}, 40, 5),
		result(Native, 160, 9000, 20, count.Wait{Seconds: 2}, 40, 9),
		result(Tutti, 180, 12000, 10, count.Wait{Seconds: 3}, 0, 2),
	}, trace.Default())
	_, worse, found := strings.Cut(text, "Where Tutti is worse:\n")
	if !found {
		t.Fatalf("no such part:\n%s", text)
	}
	if !strings.Contains(worse, "wait until whole, median: 3.0 s against 1.0 s (plain Jobs), 2.0 s (native gangs)") {
		t.Errorf("the longer wait is not said:\n%s", worse)
	}
	if strings.Contains(worse, "finished") || strings.Contains(worse, "quota") || strings.Contains(worse, "scheduler") {
		t.Errorf("better lines are listed as worse:\n%s", worse)
	}
	for _, want := range []string{"150 of 200", "180 of 200", "40 (team vision)", "finished jobs x 1.20"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

func TestTableSaysSoIfTuttiIsWorseInNoLine(t *testing.T) {
	text := table([]Result{
		result(Native, 150, 6000, 30, count.Wait{Seconds: 3}, 40, 5),
		result(Tutti, 150, 6000, 30, count.Wait{Seconds: 3}, 0, 5),
	}, trace.Default())
	if !strings.Contains(text, "Where Tutti is worse: in no line of this run.") {
		t.Error(text)
	}
}

func TestJobsOfEachWay(t *testing.T) {
	gang := trace.Job{Team: "vision", Name: "gang-", Generate: true, Pods: 4, GPUs: 2, Duration: 1500 * time.Millisecond}
	solo := trace.Job{Team: "vision", Name: "solo", Pods: 1, GPUs: 1, Duration: time.Second}
	for _, c := range []struct {
		way                  Way
		job                  trace.Job
		label, group, schedG bool
	}{
		{Plain, gang, false, false, false},
		{Native, gang, false, true, true},
		{Native, solo, false, false, false},
		{Tutti, gang, true, false, false},
		{Tutti, solo, true, false, false},
	} {
		job, group := newJob(c.job, c.way, 7)
		template := job.Spec.Template
		if (job.Labels[queueLabel] != "") != c.label || (group != nil) != c.group || (template.Spec.SchedulingGroup != nil) != c.schedG {
			t.Errorf("%s %s: labels %v, group %v, schedulingGroup %v", c.way, c.job.Name, job.Labels, group, template.Spec.SchedulingGroup)
		}
		if (job.GenerateName != "") != c.job.Generate || (job.Name != "") == c.job.Generate {
			t.Errorf("name %q, generateName %q", job.Name, job.GenerateName)
		}
		if int(*job.Spec.Parallelism) != c.job.Pods || gpusOf(&template.Spec) != c.job.GPUs {
			t.Errorf("%d pods of %d GPUs", *job.Spec.Parallelism, gpusOf(&template.Spec))
		}
		if template.Annotations[workload.RunsFor] != c.job.Duration.String() {
			t.Errorf("runs for %q", template.Annotations[workload.RunsFor])
		}
	}
}

func TestLimitsAreTeamsAndSharedCohorts(t *testing.T) {
	got := map[string]int64{}
	for _, l := range limits(trace.DefaultTeams()) {
		got[l.Name] = l.GPUs
	}
	want := map[string]int64{"team vision": 160, "team speech": 160, "team ranking": 128, "cohort research": 192}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for name, gpus := range want {
		if got[name] != gpus {
			t.Errorf("%s: %d, want %d", name, got[name], gpus)
		}
	}
	quotas := 0
	for _, team := range trace.DefaultTeams() {
		quotas += team.Quota
	}
	if quotas != nodeCount*gpusPerNode {
		t.Errorf("quotas sum to %d of %d GPUs", quotas, nodeCount*gpusPerNode)
	}
}

func TestQueueManifestsAreOneFlavorAndTwoQueuesPerTeam(t *testing.T) {
	objects, err := cluster.ParseManifests([]byte(queueManifests(trace.DefaultTeams())))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, object := range objects {
		kinds[object.GetKind()]++
	}
	if kinds["ResourceFlavor"] != 1 || kinds["ClusterQueue"] != 3 || kinds["LocalQueue"] != 3 || len(objects) != 7 {
		t.Errorf("%v", kinds)
	}
	if example, err := cluster.ParseManifests([]byte(exampleGang)); err != nil || len(example) != 1 {
		t.Errorf("the example to try: %v", err)
	}
}

func TestWaysAreParsedOrRefusedByName(t *testing.T) {
	ways, err := ParseWays("plain, tutti")
	if err != nil || len(ways) != 2 || ways[1] != Tutti {
		t.Errorf("%v, %v", ways, err)
	}
	if _, err := ParseWays("plain,kube"); err == nil || !strings.Contains(err.Error(), "kube") {
		t.Errorf("%v", err)
	}
}
