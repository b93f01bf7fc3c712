// SPDX-License-Identifier: Apache-2.0

// Package tally counts what a cluster's GPUs did, from Jobs and Pods alone: it knows nothing of
// queues, so the same count holds for every way of running the jobs. Times come in as arguments.
//
// A job is whole while as many of its pods as it asks for run (or have succeeded) at the same time.
// GPUs of a whole job do useful work; GPUs that pods of any other job have been given are held
// without progress.
package tally

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Limit is the most GPUs that jobs in these namespaces may use together.
type Limit struct {
	Name       string   `json:"name"`
	Namespaces []string `json:"namespaces"`
	GPUs       int      `json:"gpus"`
}

// Job as the API shows it.
type Job struct {
	Namespace, Name string
	Pods            int // that must run together: the smaller of parallelism and completions
	Complete        bool
	Failed          bool
}

// Pod as the API shows it.
type Pod struct {
	Namespace, Name, Job string
	GPUs                 int
	Bound                bool // has a node
	Running              bool
	Succeeded, Failed    bool
	Deleting             bool
	Gone                 bool
}

// Report is the count so far.
type Report struct {
	Seconds       float64 `json:"seconds"`
	Submitted     int     `json:"submitted"`
	Finished      int     `json:"finished"`
	GangsFinished int     `json:"gangsFinished"`
	Gangs         int     `json:"gangs"`
	Failed        int     `json:"failed"`
	NeverWhole    int     `json:"neverWhole"` // jobs that had not once been whole
	// Integrals over the time, in GPU-seconds.
	UsefulGPUSeconds   float64 `json:"usefulGPUSeconds"`
	NotWholeGPUSeconds float64 `json:"notWholeGPUSeconds"`
	// From a job's creation until it is whole for the first time; jobs that have not been count with
	// the time they have waited so far, and then the value is a lower bound.
	WaitMedian        float64 `json:"waitMedian"`
	WaitMedianAtLeast bool    `json:"waitMedianAtLeast"`
	WaitP90           float64 `json:"waitP90"`
	WaitP90AtLeast    bool    `json:"waitP90AtLeast"`
	GangWaitMedian    float64 `json:"gangWaitMedian"`
	GangWaitAtLeast   bool    `json:"gangWaitAtLeast"`
	// The largest excess over a limit at any moment.
	WorstOver     int    `json:"worstOver"`
	WorstOverName string `json:"worstOverName,omitempty"`
	// GPU-seconds above a limit, summed over the limits.
	OverGPUSeconds float64 `json:"overGPUSeconds"`
}

type job struct {
	name      string
	needs     int
	created   time.Time
	wholeAt   time.Time // first time; zero if never
	complete  bool
	failed    bool
	pods      map[string]Pod
	useful    int // GPUs
	stuck     int // GPUs held while not whole
	charged   int // GPUs that count against the limits
	namespace string
}

// Tally is the running count. Not for concurrent use.
type Tally struct {
	limits  []Limit
	jobs    map[string]*job
	started bool
	start   time.Time
	last    time.Time
	useful  int
	stuck   int
	usage   map[string]int // by namespace

	usefulSum, stuckSum, overSum float64
	worstOver                    int
	worstName                    string
}

// New starts a count. The clock starts with the first job.
func New(limits []Limit) *Tally {
	return &Tally{limits: limits, jobs: map[string]*job{}, usage: map[string]int{}}
}

// Started tells whether a job has been seen, and since when.
func (t *Tally) Started() (time.Time, bool) { return t.start, t.started }

// over is by how much a limit is exceeded now.
func (t *Tally) over(l Limit) int {
	used := 0
	for _, namespace := range l.Namespaces {
		used += t.usage[namespace]
	}
	return max(0, used-l.GPUs)
}

func (t *Tally) advance(at time.Time) {
	if !t.started || !at.After(t.last) {
		return
	}
	seconds := at.Sub(t.last).Seconds()
	t.usefulSum += seconds * float64(t.useful)
	t.stuckSum += seconds * float64(t.stuck)
	for _, l := range t.limits {
		t.overSum += seconds * float64(t.over(l))
	}
	t.last = at
}

func (t *Tally) job(at time.Time, namespace, name string) *job {
	key := namespace + "/" + name
	j := t.jobs[key]
	if j == nil {
		j = &job{name: name, namespace: namespace, created: at, pods: map[string]Pod{}}
		t.jobs[key] = j
	}
	return j
}

// OnJob takes in a job's state.
func (t *Tally) OnJob(at time.Time, in Job) {
	if !t.started {
		t.started, t.start, t.last = true, at, at
	}
	t.advance(at)
	j := t.job(at, in.Namespace, in.Name)
	j.needs = in.Pods
	j.complete = j.complete || in.Complete
	j.failed = j.failed || in.Failed
	t.update(at, j)
}

// OnPod takes in a pod's state. A pod may come before its job.
func (t *Tally) OnPod(at time.Time, in Pod) {
	if in.Job == "" {
		return
	}
	t.advance(at)
	j := t.job(at, in.Namespace, in.Job)
	if old, known := j.pods[in.Name]; in.Gone && known && old.Succeeded {
		// It has done its part; that it is cleaned up afterwards changes nothing.
		in = old
		in.Bound = false
	}
	if in.Gone {
		delete(j.pods, in.Name)
	} else {
		j.pods[in.Name] = in
	}
	t.update(at, j)
}

func (t *Tally) update(at time.Time, j *job) {
	t.useful -= j.useful
	t.stuck -= j.stuck
	t.usage[j.namespace] -= j.charged
	j.useful, j.stuck, j.charged = 0, 0, 0

	together := 0
	for _, p := range j.pods {
		if p.Succeeded || (p.Running && !p.Deleting) {
			together++
		}
	}
	whole := j.needs > 0 && together >= j.needs
	if whole && j.wholeAt.IsZero() {
		j.wholeAt = at
	}
	for _, p := range j.pods {
		if !p.Bound || p.Succeeded || p.Failed {
			continue
		}
		if whole && p.Running && !p.Deleting {
			j.useful += p.GPUs
		} else {
			j.stuck += p.GPUs
		}
		if !p.Deleting {
			j.charged += p.GPUs
		}
	}
	t.useful += j.useful
	t.stuck += j.stuck
	t.usage[j.namespace] += j.charged
	for _, l := range t.limits {
		if over := t.over(l); over > t.worstOver {
			t.worstOver, t.worstName = over, l.Name
		}
	}
}

// Report closes the count at a time.
func (t *Tally) Report(at time.Time) Report {
	t.advance(at)
	r := Report{
		UsefulGPUSeconds: t.usefulSum, NotWholeGPUSeconds: t.stuckSum, OverGPUSeconds: t.overSum,
		WorstOver: t.worstOver, WorstOverName: t.worstName,
	}
	if t.started {
		r.Seconds = at.Sub(t.start).Seconds()
	}
	var all, gangs []wait
	for _, j := range t.jobs {
		if j.needs == 0 {
			continue // its pods were seen, the job itself never
		}
		r.Submitted++
		w := wait{seconds: j.wholeAt.Sub(j.created).Seconds()}
		if j.wholeAt.IsZero() {
			w = wait{seconds: at.Sub(j.created).Seconds(), open: true}
			r.NeverWhole++
		}
		all = append(all, w)
		if j.needs > 1 {
			r.Gangs++
			gangs = append(gangs, w)
		}
		if j.complete {
			r.Finished++
			if j.needs > 1 {
				r.GangsFinished++
			}
		}
		if j.failed {
			r.Failed++
		}
	}
	r.WaitMedian, r.WaitMedianAtLeast = quantile(all, 0.5)
	r.WaitP90, r.WaitP90AtLeast = quantile(all, 0.9)
	r.GangWaitMedian, r.GangWaitAtLeast = quantile(gangs, 0.5)
	return r
}

type wait struct {
	seconds float64
	open    bool // it still waits
}

// quantile treats a job that still waits as one that waits at least as long as any that started
// after the same time: an open wait at or below the value makes it a lower bound.
func quantile(waits []wait, q float64) (seconds float64, atLeast bool) {
	if len(waits) == 0 {
		return 0, false
	}
	waits = slices.Clone(waits)
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(a.seconds, b.seconds) })
	i := min(int(q*float64(len(waits))), len(waits)-1)
	for _, w := range waits[:i+1] {
		atLeast = atLeast || w.open
	}
	return waits[i].seconds, atLeast
}

// String is one line for logs.
func (r Report) String() string {
	return fmt.Sprintf("%.0f s: %d of %d jobs finished, %.0f GPU-s useful, %.0f not whole", r.Seconds, r.Finished, r.Submitted,
		r.UsefulGPUSeconds, r.NotWholeGPUSeconds)
}
