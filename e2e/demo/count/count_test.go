// SPDX-License-Identifier: Apache-2.0

package count

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tutti.dev/e2e/observe"
)

var zero = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func second(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }

func TestReportCountsJobsGangsAndWaits(t *testing.T) {
	v := observe.View{Time: second(10), Jobs: []observe.Job{
		{Name: "done", Size: 1, Created: second(0), Whole: second(1), Finished: second(4)},
		{Name: "gang done", Size: 4, Created: second(1), Whole: second(4), Finished: second(9)},
		{Name: "gang waits", Size: 2, Created: second(2)},
		{Name: "failed", Size: 1, Created: second(2), Whole: second(4), Finished: second(5), Failed: true},
	}}
	r := Make(v, observe.Devices{Useful: 40, Partial: 5, Degraded: 2}, nil)
	if r.Submitted != 4 || r.Finished != 2 || r.Failed != 1 || r.Gangs != 2 || r.GangsFinished != 1 || r.NeverWhole != 1 {
		t.Errorf("%+v", r)
	}
	if r.UsefulGPUSeconds != 40 || r.NotWholeGPUSeconds != 7 || r.Seconds != 10 {
		t.Errorf("%+v", r)
	}
	if r.WaitMedian != (Wait{Seconds: 3}) || r.WaitP90 != (Wait{Seconds: 8, AtLeast: true}) {
		t.Errorf("median %v, p90 %v; want 3 s and at least 8 s", r.WaitMedian, r.WaitP90)
	}
}

func TestWorstMomentIsThatOfPodsAndOfTheLargestExcess(t *testing.T) {
	of := func(name, reading string, used, most int64) observe.Worst {
		return observe.Worst{
			Limit: name, Reading: reading,
			Used: *resource.NewQuantity(used, resource.DecimalSI), Max: *resource.NewQuantity(most, resource.DecimalSI),
		}
	}
	r := Make(observe.View{}, observe.Devices{}, []observe.Worst{
		of("a", "jobs", 100, 8), of("a", "pods", 9, 8), of("cohort", "pods", 16, 10), of("b", "pods", 3, 8),
	})
	if r.WorstOver != 6 || r.WorstOverName != "cohort" {
		t.Errorf("worst %d of %q, want 6 of cohort", r.WorstOver, r.WorstOverName)
	}
}

func TestQuantileIsALowerBoundOnlyIfAnOpenWaitLiesBelow(t *testing.T) {
	waits := []Wait{{Seconds: 1}, {Seconds: 2}, {Seconds: 3}, {Seconds: 9, AtLeast: true}}
	if w := quantile(waits, 0.5); w != (Wait{Seconds: 3}) {
		t.Errorf("median %v", w)
	}
	if w := quantile(waits, 0.9); w != (Wait{Seconds: 9, AtLeast: true}) {
		t.Errorf("p90 %v", w)
	}
	if w := quantile(nil, 0.5); w != (Wait{}) {
		t.Errorf("of nothing: %v", w)
	}
}

func TestLimitsAreOverNamespacesAndPodsWithANode(t *testing.T) {
	o := Options([]Limit{{Name: "c", Namespaces: []string{"a", "b"}, GPUs: 12}})
	l := o.Limits[0]
	most := l.Max[corev1.ResourceName("nvidia.com/gpu")]
	if !o.NoNodes || len(o.Limits) != 1 || len(l.Queues) != 2 || !l.BoundOnly || most.Value() != 12 {
		t.Errorf("%+v", o)
	}
}
