// SPDX-License-Identifier: Apache-2.0

// Usage against limits, in two readings: by Jobs (released and not finished: what a quota promises)
// and by Pods (bound or about to be, not ended, not being deleted: what really runs). Each reading
// follows one watch stream alone, so that it never mixes moments.

package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Worst is the worst moment of one limit and resource in one reading.
type Worst struct {
	Limit    string
	Resource corev1.ResourceName
	Reading  string // "jobs" or "pods"
	Used     resource.Quantity
	Max      resource.Quantity
	At       time.Time
	Holders  []string // beyond the limit, in the reading by jobs: what each released job counted for
}

// Excess is how much was used beyond the maximum; zero or less if never.
func (w Worst) Excess() resource.Quantity {
	excess := w.Used.DeepCopy()
	excess.Sub(w.Max)
	return excess
}

type limitState struct {
	Limit
	queues map[string]bool
	worst  map[string]Worst // by reading and resource
}

func newLimitState(limit Limit) limitState {
	state := limitState{Limit: limit, queues: map[string]bool{}, worst: map[string]Worst{}}
	for _, queue := range limit.Queues {
		state.queues[queue] = true
	}
	return state
}

func (l *limitState) covers(queue string, selector map[string]string) bool {
	if !l.queues[queue] {
		return false
	}
	for key, value := range l.NodeSelector {
		if selector[key] != value {
			return false
		}
	}
	return true
}

// SetLimits replaces the limits, e.g. after a quota was changed; the worst moments start anew.
func (o *Observer) SetLimits(limits []Limit) {
	now, end := o.begin()
	defer end()
	o.limits = nil
	for _, limit := range limits {
		o.limits = append(o.limits, newLimitState(limit))
	}
	o.checkLimits(now)
}

func (o *Observer) checkLimits(now time.Time) {
	for i := range o.limits {
		limit := &o.limits[i]
		for name, most := range limit.Max {
			for _, reading := range []string{"jobs", "pods"} {
				used := o.usage(limit, name, reading)
				key := reading + " " + string(name)
				if before, found := limit.worst[key]; !found || used.Cmp(before.Used) > 0 {
					worst := Worst{Limit: limit.Name, Resource: name, Reading: reading, Used: used, Max: most, At: now}
					if reading == "jobs" && used.Cmp(most) > 0 {
						worst.Holders = o.holders(limit, name)
					}
					limit.worst[key] = worst
				}
			}
		}
	}
}

// holders says who makes up a reading by jobs.
func (o *Observer) holders(limit *limitState, name corev1.ResourceName) []string {
	var out []string
	for _, job := range o.holding {
		if limit.covers(job.queue, job.selector) {
			var released []string
			for _, at := range job.released {
				released = append(released, at.Format("15:04:05.000"))
			}
			amount := times(job.perPod, name, job.remaining)
			out = append(out, fmt.Sprintf("%s/%s %s, %d of %d pods left, version %s, released %s", job.namespace, job.name,
				quantity(amount), job.remaining, job.size, job.version, strings.Join(released, " ")))
		}
	}
	slices.Sort(out)
	return out
}

func (o *Observer) usage(limit *limitState, name corev1.ResourceName, reading string) resource.Quantity {
	var sum resource.Quantity
	if reading == "jobs" {
		for _, job := range o.holding {
			if limit.covers(job.queue, job.selector) {
				sum.Add(times(job.perPod, name, job.remaining))
			}
		}
		return sum
	}
	for _, pod := range o.active {
		if limit.BoundOnly && !pod.bound {
			continue
		}
		if !pod.deleting && limit.covers(pod.queue, pod.selector) {
			sum.Add(times(pod.requests, name, 1))
		}
	}
	return sum
}

// holds tells whether a Job is released and not over.
func (j *jobState) holds() bool {
	return j.known && !j.suspended && j.finished.IsZero() && !j.deleted
}
