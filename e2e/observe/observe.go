// SPDX-License-Identifier: Apache-2.0

// Package observe judges a scheduler from outside: it watches Jobs, Pods and Nodes only and
// recomputes from them what each queue uses, which gangs are only partly placed and for how long,
// what the GPUs do, and how long jobs wait. It knows nothing of Workloads, ClusterQueues or
// PodGroups objects and shares no code with the operator.
package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	queueLabel    = "kueue.x-k8s.io/queue-name"
	podGroupLabel = "tutti.dev/pod-group"
)

// Limit is an amount that a set of queues together may never use more of.
type Limit struct {
	Name   string
	Queues []string // "namespace/queue"
	Max    corev1.ResourceList
	// NodeSelector, if set: count only pods that ask for these node labels (a flavor's).
	NodeSelector map[string]string
	// BoundOnly: the reading by pods leaves out those that wait for a node, for clusters where nobody
	// holds jobs back.
	BoundOnly bool
}

// Options of an observer.
type Options struct {
	Namespaces []string            // default: all
	Device     corev1.ResourceName // what "GPU" means; default nvidia.com/gpu
	Limits     []Limit
	// NoNodes: don't watch nodes, for accounts that may not; Capacity is 0 then.
	NoNodes bool
	// QueueOf names the queue of a Job; default: <namespace>/<queue label>, "" without the label.
	QueueOf func(*batchv1.Job) string
}

// Observer is a running observer. All times are those at which its watches delivered.
type Observer struct {
	options Options
	start   time.Time
	stop    context.CancelFunc
	factory informers.SharedInformerFactory

	mutex   sync.Mutex
	changed chan struct{} // closed and replaced at every change
	jobs    map[types.UID]*jobState
	order   []types.UID // of first sight
	pods    map[types.UID]*podState
	active  map[types.UID]*podState   // of them, those not ended
	holding map[types.UID]*jobState   // Jobs released and not over
	orphans map[types.UID]*corev1.Pod // pods whose Job hasn't been seen yet
	nodes   map[string]int64          // devices per schedulable node
	limits  []limitState
	last    time.Time // up to which the integrals below go
	sums    Devices   // device-seconds
	ended   time.Time
}

// Devices are numbers of devices (or device-seconds) by what holds them.
type Devices struct {
	Useful   float64 // pods of gangs that are whole
	Partial  float64 // pods of gangs that have never been whole
	Degraded float64 // pods of gangs that were whole and miss members
	Capacity float64 // on schedulable nodes
}

type jobState struct {
	uid        types.UID
	namespace  string
	name       string
	queue      string
	seen       time.Time
	suspended  bool
	known      bool // the Job object itself has been seen
	size       int  // pods that have to run together
	remaining  int  // pods still to be run at the same time, by the Job's own status
	perPod     corev1.ResourceList
	selector   map[string]string
	released   []time.Time // changes to suspend=false (or created so)
	suspends   []time.Time // changes to suspend=true
	firstWhole time.Time
	finished   time.Time
	failed     bool
	deleted    bool
	version    string // resourceVersion
	gangs      []*gangState
}

type gangState struct {
	job       *jobState
	name      string // the group's name, or "" where pods carry none
	size      int
	created   time.Time // first pod seen
	bindings  []time.Time
	wholeAt   time.Time
	live      int // bound, not ended
	succeeded int
	pods      int // existing, bound or not
	ended     time.Time
}

type podState struct {
	uid       types.UID
	gang      *gangState
	queue     string
	bound     bool
	ended     bool
	deleting  bool
	devices   float64
	requests  corev1.ResourceList
	selector  map[string]string
	succeeded bool
}

// Start watches until ctx ends or Stop is called; it returns when the first lists are in.
func Start(ctx context.Context, kube kubernetes.Interface, o Options) (*Observer, error) {
	if o.Device == "" {
		o.Device = "nvidia.com/gpu"
	}
	if o.QueueOf == nil {
		o.QueueOf = func(j *batchv1.Job) string {
			if queue := j.Labels[queueLabel]; queue != "" {
				return j.Namespace + "/" + queue
			}
			return ""
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	now := time.Now()
	obs := &Observer{
		options: o, start: now, last: now, stop: cancel, changed: make(chan struct{}),
		jobs: map[types.UID]*jobState{}, pods: map[types.UID]*podState{},
		active: map[types.UID]*podState{}, holding: map[types.UID]*jobState{},
		orphans: map[types.UID]*corev1.Pod{}, nodes: map[string]int64{},
	}
	for _, limit := range o.Limits {
		obs.limits = append(obs.limits, newLimitState(limit))
	}
	obs.factory = informers.NewSharedInformerFactory(kube, 0)
	handle := func(informer cache.SharedIndexInformer, update func(object any, gone bool)) error {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { update(object, false) },
			UpdateFunc: func(_, object any) { update(object, false) },
			DeleteFunc: func(object any) {
				if tombstone, isTombstone := object.(cache.DeletedFinalStateUnknown); isTombstone {
					object = tombstone.Obj
				}
				update(object, true)
			},
		})
		return err
	}
	for _, register := range []func() error{
		func() error {
			if o.NoNodes {
				return nil
			}
			return handle(obs.factory.Core().V1().Nodes().Informer(), obs.onNode)
		},
		func() error { return handle(obs.factory.Batch().V1().Jobs().Informer(), obs.onJob) },
		func() error { return handle(obs.factory.Core().V1().Pods().Informer(), obs.onPod) },
	} {
		if err := register(); err != nil {
			cancel()
			return nil, err
		}
	}
	obs.factory.Start(ctx.Done())
	for kind, synced := range obs.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			cancel()
			return nil, fmt.Errorf("observe: no list of %v", kind)
		}
	}
	return obs, nil
}

// Stop ends the watches; reports stay available and count up to now.
func (o *Observer) Stop() {
	o.stop()
	o.factory.Shutdown()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.ended.IsZero() {
		o.advance(time.Now())
		o.ended = o.last
	}
}

func (o *Observer) watched(namespace string) bool {
	if len(o.options.Namespaces) == 0 {
		return true
	}
	for _, name := range o.options.Namespaces {
		if name == namespace {
			return true
		}
	}
	return false
}

// begin locks and brings the integrals up to now; the returned function ends the change.
func (o *Observer) begin() (time.Time, func()) {
	now := time.Now()
	o.mutex.Lock()
	if o.ended.IsZero() {
		o.advance(now)
	}
	return now, func() {
		o.checkLimits(now)
		close(o.changed)
		o.changed = make(chan struct{})
		o.mutex.Unlock()
	}
}

func (o *Observer) onNode(object any, gone bool) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	_, end := o.begin()
	defer end()
	if gone || node.Spec.Unschedulable {
		delete(o.nodes, node.Name)
		return
	}
	devices := node.Status.Allocatable[o.options.Device]
	o.nodes[node.Name] = devices.Value()
}

func (o *Observer) onJob(object any, gone bool) {
	j, ok := object.(*batchv1.Job)
	if !ok || !o.watched(j.Namespace) {
		return
	}
	now, end := o.begin()
	defer end()
	state := o.job(j.UID, j.Namespace, j.Name, now)
	if gone {
		state.deleted = true
		delete(o.holding, j.UID)
		o.endGangs(state, now)
		return
	}
	parallelism, completions := 1, -1
	if j.Spec.Parallelism != nil {
		parallelism = int(*j.Spec.Parallelism)
	}
	if j.Spec.Completions != nil {
		completions = int(*j.Spec.Completions)
	}
	state.size, state.remaining = parallelism, parallelism
	if completions >= 0 {
		state.size = min(parallelism, completions)
		// Pods that have succeeded are over as soon as the Job's status names them, counted or not yet.
		succeeded := int(j.Status.Succeeded)
		if uncounted := j.Status.UncountedTerminatedPods; uncounted != nil {
			succeeded += len(uncounted.Succeeded)
		}
		state.remaining = max(0, min(parallelism, completions-succeeded))
	}
	state.version = j.ResourceVersion
	state.queue = o.options.QueueOf(j)
	state.perPod = podRequests(&j.Spec.Template.Spec)
	state.selector = j.Spec.Template.Spec.NodeSelector
	suspended := j.Spec.Suspend != nil && *j.Spec.Suspend
	switch {
	case !suspended && (!state.known || state.suspended):
		state.released = append(state.released, now)
	case suspended && state.known && !state.suspended:
		state.suspends = append(state.suspends, now)
	}
	state.suspended, state.known = suspended, true
	for _, condition := range j.Status.Conditions {
		if condition.Status == corev1.ConditionTrue &&
			(condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && state.finished.IsZero() {
			state.finished = now
			state.failed = condition.Type == batchv1.JobFailed
		}
	}
	if state.holds() {
		o.holding[j.UID] = state
	} else {
		delete(o.holding, j.UID)
	}
	for uid, pod := range o.orphans {
		if owner(pod) == j.UID {
			delete(o.orphans, uid)
			o.applyPod(pod, now)
		}
	}
}

func (o *Observer) onPod(object any, gone bool) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !o.watched(pod.Namespace) {
		return
	}
	uid := owner(pod)
	if uid == "" {
		return
	}
	now, end := o.begin()
	defer end()
	if gone {
		delete(o.orphans, pod.UID)
		if state := o.pods[pod.UID]; state != nil {
			o.endPod(state, pod.Status.Phase == corev1.PodSucceeded)
			state.gang.pods--
			delete(o.pods, pod.UID)
			if state.gang.pods == 0 && state.gang.ended.IsZero() {
				state.gang.ended = now
			}
		}
		return
	}
	if state := o.jobs[uid]; state == nil || !state.known {
		o.orphans[pod.UID] = pod
		return
	}
	o.applyPod(pod, now)
}

// applyPod takes a pod's present state in; its Job is known.
func (o *Observer) applyPod(pod *corev1.Pod, now time.Time) {
	state := o.pods[pod.UID]
	if state == nil {
		job := o.jobs[owner(pod)]
		requests := podRequests(&pod.Spec)
		devices := requests[o.options.Device]
		state = &podState{
			uid: pod.UID, gang: o.gangOf(job, pod, now), queue: job.queue,
			requests: requests, devices: float64(devices.Value()), selector: pod.Spec.NodeSelector,
		}
		state.gang.pods++
		state.gang.ended = time.Time{}
		o.pods[pod.UID], o.active[pod.UID] = state, state
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	state.deleting = pod.DeletionTimestamp != nil
	gang := state.gang
	if pod.Spec.NodeName != "" && !state.bound {
		state.bound = true
		gang.bindings = append(gang.bindings, now)
		if !ended {
			gang.live++
		} else {
			state.ended = true
			delete(o.active, pod.UID)
			if pod.Status.Phase == corev1.PodSucceeded {
				state.succeeded = true
				gang.succeeded++
			}
		}
		if gang.wholeAt.IsZero() && gang.live+gang.succeeded >= gang.size {
			gang.wholeAt = now
			if gang.job.firstWhole.IsZero() {
				gang.job.firstWhole = now
			}
		}
		return
	}
	if ended {
		o.endPod(state, pod.Status.Phase == corev1.PodSucceeded)
	}
}

func (o *Observer) endPod(state *podState, succeeded bool) {
	if state.ended {
		return
	}
	state.ended = true
	delete(o.active, state.uid)
	if state.bound {
		state.gang.live--
	}
	if succeeded {
		state.succeeded = true
		state.gang.succeeded++
	}
}

// gangOf finds the gang a new pod belongs to: by its group's name where it has one, else by the
// release of its Job that it was made in.
func (o *Observer) gangOf(job *jobState, pod *corev1.Pod, now time.Time) *gangState {
	name := pod.Labels[podGroupLabel]
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		name = *group.PodGroupName
	}
	key := name
	if key == "" {
		life := len(job.released)
		if job.suspended {
			life++ // the Pod watch is ahead of the Job watch
		}
		key = fmt.Sprintf("release %d", life)
	}
	for _, gang := range job.gangs {
		if gang.name == key {
			return gang
		}
	}
	// Members that succeeded in an earlier life of the Job don't come again.
	gang := &gangState{job: job, name: key, size: job.remaining, created: now}
	job.gangs = append(job.gangs, gang)
	return gang
}

func (o *Observer) endGangs(job *jobState, now time.Time) {
	for _, gang := range job.gangs {
		if gang.pods == 0 && gang.ended.IsZero() {
			gang.ended = now
		}
	}
}

func (o *Observer) job(uid types.UID, namespace, name string, now time.Time) *jobState {
	state := o.jobs[uid]
	if state == nil {
		state = &jobState{uid: uid, namespace: namespace, name: name, seen: now}
		o.jobs[uid] = state
		o.order = append(o.order, uid)
	}
	return state
}

// advance adds the time since the last change to the integrals.
func (o *Observer) advance(now time.Time) {
	seconds := now.Sub(o.last).Seconds()
	if seconds <= 0 {
		return
	}
	o.last = now
	d := o.devices()
	o.sums.Useful += d.Useful * seconds
	o.sums.Partial += d.Partial * seconds
	o.sums.Degraded += d.Degraded * seconds
	o.sums.Capacity += d.Capacity * seconds
}

// devices is what the devices do at this moment.
func (o *Observer) devices() Devices {
	var d Devices
	for _, pod := range o.active {
		if !pod.bound {
			continue
		}
		switch gang := pod.gang; {
		case gang.wholeAt.IsZero():
			d.Partial += pod.devices
		case gang.live+gang.succeeded >= gang.size:
			d.Useful += pod.devices
		default:
			d.Degraded += pod.devices
		}
	}
	for _, devices := range o.nodes {
		d.Capacity += float64(devices)
	}
	return d
}

func owner(pod *corev1.Pod) types.UID {
	for _, reference := range pod.OwnerReferences {
		if reference.Kind == "Job" && reference.Controller != nil && *reference.Controller {
			return reference.UID
		}
	}
	return ""
}

// podRequests is what a pod counts for: the sum of its containers and sidecars, or the largest
// moment of its initialisation, plus overhead; pod-level requests take their place.
func podRequests(spec *corev1.PodSpec) corev1.ResourceList {
	running, peak := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		container := &spec.InitContainers[i]
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(running, requests(container))
			largest(peak, running)
			continue
		}
		moment := corev1.ResourceList{}
		add(moment, running)
		add(moment, requests(container))
		largest(peak, moment)
	}
	for i := range spec.Containers {
		add(running, requests(&spec.Containers[i]))
	}
	largest(running, peak)
	if spec.Resources != nil {
		for name, amount := range spec.Resources.Requests {
			running[name] = amount
		}
	}
	add(running, spec.Overhead)
	return running
}

// requests of a container, with limits where only those are given.
func requests(container *corev1.Container) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, amount := range container.Resources.Limits {
		out[name] = amount
	}
	for name, amount := range container.Resources.Requests {
		out[name] = amount
	}
	return out
}

func add(sum, more corev1.ResourceList) {
	for name, amount := range more {
		total := sum[name].DeepCopy()
		total.Add(amount)
		sum[name] = total
	}
}

func largest(have, other corev1.ResourceList) {
	for name, amount := range other {
		if now, found := have[name]; !found || amount.Cmp(now) > 0 {
			have[name] = amount
		}
	}
}

func times(list corev1.ResourceList, name corev1.ResourceName, n int) resource.Quantity {
	amount, found := list[name]
	if !found {
		return resource.Quantity{}
	}
	product := amount.DeepCopy()
	product.Mul(int64(n))
	return product
}
