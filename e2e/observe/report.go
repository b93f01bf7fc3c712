// SPDX-License-Identifier: Apache-2.0

// What an observer tells: the state now, and a report over all of its time.

package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Job is what was seen of one Job.
type Job struct {
	Namespace, Name, Queue string
	Size                   int
	Devices                int64 // of all pods together
	Created                time.Time
	Released, Suspended    []time.Time // changes of suspend to false, to true
	Whole                  time.Time   // first moment with all pods bound
	Finished               time.Time
	Failed, Held, Deleted  bool // Held: suspended now
	Gangs                  []Gang
}

// Wait is the time from creation to all pods bound; false if that hasn't happened.
func (j Job) Wait() (time.Duration, bool) { return j.Whole.Sub(j.Created), !j.Whole.IsZero() }

// Gang is one life of a Job's pods.
type Gang struct {
	Name     string // of the group, or "release N"
	Size     int
	First    time.Time     // first binding
	Span     time.Duration // from the first to the last of the first Size bindings; of those so far if fewer
	Bindings int
	Whole    bool // all were bound at the same time
	Live     int  // bound and not ended now
	Gone     bool // no pod of it exists now
}

// Partial tells whether some but not all of it are bound now, and never were all.
func (g Gang) Partial() bool { return !g.Whole && g.Live > 0 && g.Live < g.Size }

// TakenBack tells whether it ended without ever being whole.
func (g Gang) TakenBack() bool { return !g.Whole && g.Gone && g.Bindings > 0 }

// Queue is the state of one queue now.
type Queue struct {
	Name                       string
	Held, Placing, Run, Failed int // jobs: suspended; released but not whole; whole; failed
	Done                       int
	Used                       corev1.ResourceList // by released, unfinished Jobs
}

// View is the state at one moment.
type View struct {
	Time    time.Time
	Jobs    []Job // in the order of first sight
	Queues  []Queue
	Devices Devices
}

// Job finds one by name; nil if it hasn't been seen. Of several lives of a name the last one counts.
func (v View) Job(namespace, name string) *Job {
	for i := len(v.Jobs) - 1; i >= 0; i-- {
		if v.Jobs[i].Namespace == namespace && v.Jobs[i].Name == name {
			return &v.Jobs[i]
		}
	}
	return nil
}

// View is a copy of the present state.
func (o *Observer) View() View {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.view()
}

func (o *Observer) view() View {
	v := View{Time: time.Now(), Devices: o.devices()}
	queues := map[string]*Queue{}
	for _, uid := range o.order {
		state := o.jobs[uid]
		if !state.known {
			continue
		}
		v.Jobs = append(v.Jobs, state.export(o.options.Device))
		queue := queues[state.queue]
		if queue == nil {
			queue = &Queue{Name: state.queue, Used: corev1.ResourceList{}}
			queues[state.queue] = queue
		}
		switch {
		case state.failed:
			queue.Failed++
		case !state.finished.IsZero():
			queue.Done++
		case state.deleted:
		case state.suspended:
			queue.Held++
		case state.whole():
			queue.Run++
		default:
			queue.Placing++
		}
		if state.holds() {
			for name := range state.perPod {
				sum := queue.Used[name].DeepCopy()
				sum.Add(times(state.perPod, name, state.remaining))
				queue.Used[name] = sum
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		v.Queues = append(v.Queues, *queues[name])
	}
	return v
}

func (j *jobState) whole() bool {
	return len(j.gangs) > 0 && !j.gangs[len(j.gangs)-1].wholeAt.IsZero()
}

func (j *jobState) export(device corev1.ResourceName) Job {
	devices := times(j.perPod, device, j.size)
	job := Job{
		Namespace: j.namespace, Name: j.name, Queue: j.queue, Size: j.size, Devices: devices.Value(),
		Created: j.seen, Released: slices.Clone(j.released), Suspended: slices.Clone(j.suspends),
		Whole: j.firstWhole, Finished: j.finished, Failed: j.failed, Held: j.suspended, Deleted: j.deleted,
	}
	for _, g := range j.gangs {
		gang := Gang{
			Name: g.name, Size: g.size, Bindings: len(g.bindings), Whole: !g.wholeAt.IsZero(), Live: g.live,
			Gone: !g.ended.IsZero(),
		}
		if len(g.bindings) > 0 {
			gang.First = g.bindings[0]
			gang.Span = g.bindings[min(g.size, len(g.bindings))-1].Sub(g.bindings[0])
		}
		job.Gangs = append(job.Gangs, gang)
	}
	return job
}

// Wait returns the first view for which done says yes; it looks again at every change that the
// watches deliver.
func (o *Observer) Wait(ctx context.Context, timeout time.Duration, what string, done func(View) bool) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		o.mutex.Lock()
		view, changed := o.view(), o.changed
		o.mutex.Unlock()
		if done(view) {
			return view, nil
		}
		select {
		case <-changed:
			time.Sleep(5 * time.Millisecond) // a burst of changes is looked at once
		case <-ctx.Done():
			return view, fmt.Errorf("waited %v for %s", timeout, what)
		}
	}
}

// Report sums up everything since Start.
type Report struct {
	Duration       time.Duration
	Jobs, Finished int
	Failed         int
	DeviceSeconds  Devices // integrals
	WaitMedian     time.Duration
	WaitP90        time.Duration
	NeverWhole     int // jobs that had not been whole at the end: their wait so far is in the two above
	LargestSpan    time.Duration
	LargestSpanOf  string
	WholeGangs     int
	TakenBack      int // gangs partly bound that ended without having been whole
	PartialNow     int
	Worst          []Worst // every limit, resource and reading
}

// Report sums up until now, or until Stop.
func (o *Observer) Report() Report {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	end := o.ended
	if end.IsZero() {
		end = time.Now()
		o.advance(end)
	}
	r := Report{Duration: end.Sub(o.start), DeviceSeconds: o.sums}
	var waits []time.Duration
	for _, job := range o.view().Jobs {
		r.Jobs++
		if !job.Finished.IsZero() {
			r.Finished++
		}
		if job.Failed {
			r.Failed++
		}
		wait, whole := job.Wait()
		if !whole {
			r.NeverWhole++
			wait = end.Sub(job.Created)
		}
		waits = append(waits, wait)
		for _, gang := range job.Gangs {
			switch {
			case gang.Whole:
				r.WholeGangs++
				if gang.Span > r.LargestSpan {
					r.LargestSpan, r.LargestSpanOf = gang.Span, job.Namespace+"/"+job.Name+" "+gang.Name
				}
			case gang.TakenBack():
				r.TakenBack++
			case gang.Partial():
				r.PartialNow++
			}
		}
	}
	slices.Sort(waits)
	r.WaitMedian, r.WaitP90 = Percentile(waits, 50), Percentile(waits, 90)
	for _, limit := range o.limits {
		for _, key := range slices.Sorted(maps.Keys(limit.worst)) {
			r.Worst = append(r.Worst, limit.worst[key])
		}
	}
	return r
}

// OverLimit lists the moments beyond a limit; empty if there was none.
func (r Report) OverLimit() []Worst {
	var over []Worst
	for _, worst := range r.Worst {
		if excess := worst.Excess(); excess.Sign() > 0 {
			over = append(over, worst)
		}
	}
	return over
}

// String is one line for a log.
func (w Worst) String() string {
	return fmt.Sprintf("%s: %s of %s %s used, by %s, at %s", w.Limit, quantity(w.Used), quantity(w.Max), w.Resource,
		w.Reading, w.At.Format("15:04:05.000"))
}

func quantity(q resource.Quantity) string { return strings.TrimSpace(q.String()) }

// Percentile of sorted values, by the nearest rank; 0 for none.
func Percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(0, min(rank, len(sorted))-1)]
}
