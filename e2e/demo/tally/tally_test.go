// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"fmt"
	"testing"
	"time"
)

var zero = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func second(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }

func TestGangHoldsWithoutProgressUntilItsLastPodRuns(t *testing.T) {
	tally := New(nil)
	tally.OnJob(second(0), Job{Namespace: "a", Name: "j", Pods: 2})
	pod := func(i int) Pod {
		return Pod{Namespace: "a", Name: fmt.Sprint("j-", i), Job: "j", GPUs: 4, Bound: true, Running: true}
	}
	tally.OnPod(second(1), pod(0)) // 4 GPUs held, half a gang
	tally.OnPod(second(3), pod(1)) // whole
	done := pod(0)
	done.Running, done.Succeeded = false, true
	tally.OnPod(second(8), done)
	done.Name = "j-1"
	tally.OnPod(second(9), done) // the last pod ran for one more second
	tally.OnJob(second(9), Job{Namespace: "a", Name: "j", Pods: 2, Complete: true})

	r := tally.Report(second(10))
	if r.NotWholeGPUSeconds != 8 {
		t.Errorf("not whole: %v GPU-s, want 2 s x 4", r.NotWholeGPUSeconds)
	}
	if r.UsefulGPUSeconds != 5*8+1*4 {
		t.Errorf("useful: %v GPU-s, want 44", r.UsefulGPUSeconds)
	}
	if r.Finished != 1 || r.GangsFinished != 1 || r.WaitMedian != 3 || r.WaitMedianAtLeast {
		t.Errorf("%+v", r)
	}
}

func TestLosingAMemberStopsProgress(t *testing.T) {
	tally := New(nil)
	tally.OnJob(second(0), Job{Namespace: "a", Name: "j", Pods: 2})
	for i := range 2 {
		tally.OnPod(second(0), Pod{Namespace: "a", Name: fmt.Sprint(i), Job: "j", GPUs: 1, Bound: true, Running: true})
	}
	tally.OnPod(second(4), Pod{Namespace: "a", Name: "0", Job: "j", GPUs: 1, Bound: true, Running: true, Deleting: true})
	tally.OnPod(second(6), Pod{Namespace: "a", Name: "0", Job: "j", Gone: true})
	r := tally.Report(second(10))
	if r.UsefulGPUSeconds != 8 || r.NotWholeGPUSeconds != 2*2+4*1 {
		t.Errorf("useful %v, not whole %v; want 8 and 8", r.UsefulGPUSeconds, r.NotWholeGPUSeconds)
	}
}

func TestPendingPodsHoldNothing(t *testing.T) {
	tally := New([]Limit{{Name: "a", Namespaces: []string{"a"}, GPUs: 1}})
	tally.OnJob(second(0), Job{Namespace: "a", Name: "j", Pods: 1})
	tally.OnPod(second(0), Pod{Namespace: "a", Name: "p", Job: "j", GPUs: 8})
	r := tally.Report(second(5))
	if r.NotWholeGPUSeconds != 0 || r.UsefulGPUSeconds != 0 || r.WorstOver != 0 {
		t.Errorf("%+v", r)
	}
	if r.NeverWhole != 1 || !r.WaitMedianAtLeast || r.WaitMedian != 5 {
		t.Errorf("a job that still waits must count with its wait so far: %+v", r)
	}
}

func TestWorstMomentOverALimitIsOfATeamOrACohort(t *testing.T) {
	tally := New([]Limit{
		{Name: "a", Namespaces: []string{"a"}, GPUs: 8},
		{Name: "cohort", Namespaces: []string{"a", "b"}, GPUs: 10},
	})
	for _, team := range []string{"a", "b"} {
		tally.OnJob(second(0), Job{Namespace: team, Name: "j", Pods: 1})
		tally.OnPod(second(0), Pod{Namespace: team, Name: "p", Job: "j", GPUs: 8, Bound: true, Running: true})
	}
	// A pod that is on its way out is not charged any more.
	tally.OnPod(second(2), Pod{Namespace: "b", Name: "p", Job: "j", GPUs: 8, Bound: true, Running: true, Deleting: true})
	r := tally.Report(second(4))
	if r.WorstOver != 6 || r.WorstOverName != "cohort" || r.OverGPUSeconds != 12 {
		t.Errorf("worst %d of %q, %v GPU-s; want 6 of cohort, 12", r.WorstOver, r.WorstOverName, r.OverGPUSeconds)
	}
}

func TestFinishedPodThatIsCleanedUpChangesNothing(t *testing.T) {
	tally := New(nil)
	tally.OnJob(second(0), Job{Namespace: "a", Name: "j", Pods: 2})
	tally.OnPod(second(0), Pod{Namespace: "a", Name: "0", Job: "j", GPUs: 1, Succeeded: true, Bound: true})
	tally.OnPod(second(0), Pod{Namespace: "a", Name: "1", Job: "j", GPUs: 1, Running: true, Bound: true})
	tally.OnPod(second(1), Pod{Namespace: "a", Name: "0", Job: "j", Gone: true})
	if r := tally.Report(second(3)); r.UsefulGPUSeconds != 3 || r.NotWholeGPUSeconds != 0 {
		t.Errorf("%+v", r)
	}
}

func TestQuantileIsALowerBoundOnlyIfAnOpenWaitLiesBelow(t *testing.T) {
	waits := []wait{{1, false}, {2, false}, {3, false}, {9, true}}
	if v, atLeast := quantile(waits, 0.5); v != 3 || atLeast {
		t.Errorf("median %v, at least: %v", v, atLeast)
	}
	if v, atLeast := quantile(waits, 0.9); v != 9 || !atLeast {
		t.Errorf("p90 %v, at least: %v", v, atLeast)
	}
}
