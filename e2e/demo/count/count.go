// SPDX-License-Identifier: Apache-2.0

// Package count turns what an outside observer saw (package observe: Jobs and Pods alone) into the
// numbers that the demo compares. It knows nothing of queues, so the same count holds for every way
// of running the jobs.
//
// A job is whole while as many of its pods as it asks for have a node (or have succeeded) at the same
// time. GPUs of a whole job do useful work; GPUs given to pods of any other job are held without
// progress.
package count

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tutti.dev/e2e/observe"
)

// GPU is the resource that is counted.
const GPU = corev1.ResourceName("nvidia.com/gpu")

// Limit is the most GPUs that jobs in these namespaces may use together.
type Limit struct {
	Name       string   `json:"name"`
	Namespaces []string `json:"namespaces"`
	GPUs       int64    `json:"gpus"`
}

// Report is the count so far.
type Report struct {
	Seconds       float64 `json:"seconds"`
	Submitted     int     `json:"submitted"`
	Finished      int     `json:"finished"`
	Gangs         int     `json:"gangs"`
	GangsFinished int     `json:"gangsFinished"`
	Failed        int     `json:"failed"`
	NeverWhole    int     `json:"neverWhole"` // jobs that had not once been whole
	// Integrals over the time, in GPU-seconds.
	UsefulGPUSeconds   float64 `json:"usefulGPUSeconds"`
	NotWholeGPUSeconds float64 `json:"notWholeGPUSeconds"`
	// From a job's creation until it is whole for the first time; jobs that have not been count with
	// the time they have waited so far.
	WaitMedian     Wait `json:"waitMedian"`
	WaitP90        Wait `json:"waitP90"`
	GangWaitMedian Wait `json:"gangWaitMedian"`
	GangWaitP90    Wait `json:"gangWaitP90"`
	// The largest excess over a limit at any moment, by pods that have a node and aren't being deleted.
	WorstOver     int64  `json:"worstOver"`
	WorstOverName string `json:"worstOverName,omitempty"`
}

// Wait is a time. It is a lower bound if a job that still waits stands at or before it.
type Wait struct {
	Seconds float64 `json:"seconds"`
	AtLeast bool    `json:"atLeast,omitempty"`
}

// String is a form for tables.
func (w Wait) String() string {
	if w.AtLeast {
		return fmt.Sprintf(">= %.1f s", w.Seconds)
	}
	return fmt.Sprintf("%.1f s", w.Seconds)
}

// Options for an observer that counts for this package.
func Options(limits []Limit) observe.Options {
	o := observe.Options{
		Device: GPU, NoNodes: true,
		QueueOf: func(j *batchv1.Job) string { return j.Namespace },
	}
	for _, l := range limits {
		o.Limits = append(o.Limits, observe.Limit{
			Name: l.Name, Queues: l.Namespaces, BoundOnly: true,
			Max: corev1.ResourceList{GPU: *resource.NewQuantity(l.GPUs, resource.DecimalSI)},
		})
	}
	return o
}

// Started is when the first job was seen.
func Started(v observe.View) (time.Time, bool) {
	if len(v.Jobs) == 0 {
		return time.Time{}, false
	}
	return v.Jobs[0].Created, true
}

// Make is the report at the view's time.
func Make(v observe.View, sums observe.Devices, worst []observe.Worst) Report {
	r := Report{UsefulGPUSeconds: sums.Useful, NotWholeGPUSeconds: sums.Partial + sums.Degraded}
	if start, started := Started(v); started {
		r.Seconds = v.Time.Sub(start).Seconds()
	}
	var all, gangs []Wait
	for _, j := range v.Jobs {
		r.Submitted++
		wait := Wait{Seconds: j.Whole.Sub(j.Created).Seconds()}
		if j.Whole.IsZero() {
			wait = Wait{Seconds: v.Time.Sub(j.Created).Seconds(), AtLeast: true}
			r.NeverWhole++
		}
		all = append(all, wait)
		complete := !j.Finished.IsZero() && !j.Failed
		if j.Size > 1 {
			r.Gangs++
			gangs = append(gangs, wait)
			if complete {
				r.GangsFinished++
			}
		}
		if complete {
			r.Finished++
		}
		if j.Failed {
			r.Failed++
		}
	}
	r.WaitMedian, r.WaitP90 = quantile(all, 0.5), quantile(all, 0.9)
	r.GangWaitMedian, r.GangWaitP90 = quantile(gangs, 0.5), quantile(gangs, 0.9)
	for _, w := range worst {
		if excess := w.Excess(); w.Reading == "pods" && excess.Value() > r.WorstOver {
			r.WorstOver, r.WorstOverName = excess.Value(), w.Limit
		}
	}
	return r
}

// quantile counts a job that still waits with its wait so far: an open wait at or below the value
// makes it a lower bound.
func quantile(waits []Wait, q float64) Wait {
	if len(waits) == 0 {
		return Wait{}
	}
	waits = slices.Clone(waits)
	slices.SortFunc(waits, func(a, b Wait) int { return cmp.Compare(a.Seconds, b.Seconds) })
	i := min(int(q*float64(len(waits))), len(waits)-1)
	out := Wait{Seconds: waits[i].Seconds}
	for _, w := range waits[:i+1] {
		out.AtLeast = out.AtLeast || w.AtLeast
	}
	return out
}
