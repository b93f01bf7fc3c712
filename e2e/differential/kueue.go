// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	_ "unsafe" // go:linkname

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/util/wait"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/evict"
)

// One cycle of the scheduler, and how its writes run. Neither is exported: the link is made by name and needs
// -ldflags=-checklinkname=0.
//
//go:linkname oneCycle sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).schedule
func oneCycle(s *scheduler.Scheduler, ctx context.Context) wait.SpeedSignal

//go:linkname setAdmissionRoutineWrapper sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).setAdmissionRoutineWrapper
func setAdmissionRoutineWrapper(s *scheduler.Scheduler, wrapper routine.Wrapper)

type inline struct{}

func (inline) Run(f func()) { f() }

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// Manner is what the case leaves open, and Kueue's decisions depend on all the same. It collects requests to try
// what it has set aside for a second, cycles take milliseconds; how long an eviction takes is up to the Job.
// And it remembers how far each workload has scanned its flavors, until it is restarted.
type Manner int

const (
	quickEvictions Manner = iota // than the collecting
	slowEvictions
	restarted // between the steps; as quickEvictions for the rest
)

// maxCycles is far more than any of the cases takes that settle.
const maxCycles = 400

var (
	errNotSettled = errors.New("Kueue's scheduler still changes something after the last cycle that is looked at")
	errSpinning   = errors.New("Kueue's scheduler tries the head of a BestEffortFIFO queue for ever")
)

// kueueSide is the scheduler with its caches, and what Kueue's controllers do around it.
type kueueSide struct {
	ctx       context.Context
	log       logr.Logger
	clock     *testingclock.FakeClock
	client    client.Client
	cache     *schdcache.Cache
	queues    *qcache.Manager
	retries   interface{ ProcessRequeues(context.Context) int }
	scheduler *scheduler.Scheduler
	manner    Manner
	seen      map[string]*kueue.Workload // as the controllers have seen it last
	preempted map[string][]string        // in this step: victim to reasons
	trace     func(format string, args ...any)

	bestEffort map[kueue.ClusterQueueReference]bool
	spinning   bool
}

// epoch is when the first step happens. Kueue's times have a resolution of seconds.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func stepTime(step int) time.Time { return epoch.Add(time.Duration(step+1) * time.Hour) }

// scheme has only the kinds that are asked for: the fake client makes a mapper of all of them, for every case.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.LimitRange{}, &corev1.LimitRangeList{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	utilruntime.Must(kueue.AddToScheme(s))
	return s
}()

func newKueueSide(ctx context.Context, c *Case, manner Manner) (*kueueSide, error) {
	log := logr.Discard()
	ctx = ctrl.LoggerInto(ctx, log)
	k := &kueueSide{
		ctx: ctx, log: log, clock: testingclock.NewFakeClock(epoch), manner: manner, seen: map[string]*kueue.Workload{},
		trace: func(string, ...any) {}, bestEffort: map[kueue.ClusterQueueReference]bool{},
	}
	for _, q := range c.Queues {
		k.bestEffort[kueue.ClusterQueueReference(q.Name)] = q.Spec.QueueingStrategy == kueue.BestEffortFIFO
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	locals := c.localQueues()
	for i := range locals {
		objects = append(objects, locals[i].DeepCopy())
	}
	for i := range c.Queues {
		objects = append(objects, c.Queues[i].DeepCopy())
	}
	k.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&kueue.Workload{}).
		WithIndex(&kueue.LocalQueue{}, indexer.QueueClusterQueueKey, indexer.IndexQueueClusterQueue).
		WithIndex(&kueue.Workload{}, indexer.WorkloadQueueKey, indexer.IndexWorkloadQueue).
		WithIndex(&kueue.Workload{}, indexer.WorkloadClusterQueueKey, indexer.IndexWorkloadClusterQueue).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
	return k, k.start(c)
}

// start makes caches, queues and a scheduler that know nothing but the objects, the workloads in the API included.
func (k *kueueSide) start(c *Case) error {
	locals := c.localQueues()
	expectations := preemptexpectations.New()
	var fairSharing *config.FairSharing
	if c.Options.FairSharing {
		fairSharing = &config.FairSharing{
			PreemptionStrategies: []config.PreemptionStrategy{config.LessThanOrEqualToFinalShare, config.LessThanInitialShare},
		}
	}
	k.cache = schdcache.New(k.client, schdcache.WithFairSharing(c.Options.FairSharing))
	k.queues, k.retries = qcache.NewManagerForUnitTestsWithRequeuer(k.client, k.cache, qcache.WithPreemptionExpectations(expectations))
	for i := range c.Flavors {
		k.cache.AddOrUpdateResourceFlavor(k.log, c.Flavors[i].DeepCopy())
	}
	for i := range c.Cohorts {
		if err := k.cache.AddOrUpdateCohort(c.Cohorts[i].DeepCopy()); err != nil {
			return fmt.Errorf("cohort %s: %w", c.Cohorts[i].Name, err)
		}
		k.queues.AddOrUpdateCohort(k.ctx, c.Cohorts[i].DeepCopy())
	}
	for i := range locals {
		if err := k.queues.AddLocalQueue(k.ctx, locals[i].DeepCopy()); err != nil {
			return err
		}
	}
	for i := range c.Queues {
		if err := k.cache.AddClusterQueue(k.ctx, c.Queues[i].DeepCopy()); err != nil {
			return fmt.Errorf("queue %s: %w", c.Queues[i].Name, err)
		}
		if err := k.queues.AddClusterQueue(k.ctx, c.Queues[i].DeepCopy()); err != nil {
			return fmt.Errorf("queue %s: %w", c.Queues[i].Name, err)
		}
	}
	k.scheduler = scheduler.New(k.queues, k.cache, k.client, silent{}, scheduler.WithFairSharing(fairSharing),
		scheduler.WithClock(nil, k.clock), scheduler.WithPreemptionExpectations(expectations))
	setAdmissionRoutineWrapper(k.scheduler, inline{})
	return nil
}

// playKueue plays the case to Kueue's scheduler; `trace`, if there is one, is told what the cycles bring.
func playKueue(ctx context.Context, c *Case, manner Manner, trace func(format string, args ...any)) ([]Outcome, error) {
	k, err := newKueueSide(ctx, c, manner)
	if err != nil {
		return nil, err
	}
	if trace != nil {
		k.trace = trace
	}
	var outcomes []Outcome
	for i := range c.Steps {
		k.trace("step %d\n", i)
		k.clock.SetTime(stepTime(i))
		k.preempted = map[string][]string{}
		if i > 0 && manner == restarted {
			if err := k.start(c); err != nil {
				return outcomes, err
			}
		}
		if err := k.happen(&c.Steps[i]); err != nil {
			return outcomes, err
		}
		if err := k.settle(); err != nil {
			return outcomes, err
		}
		if k.spinning {
			return outcomes, errSpinning
		}
		outcomes = append(outcomes, k.outcome())
	}
	return outcomes, nil
}

func (k *kueueSide) happen(s *Step) error {
	for _, name := range s.End {
		w := k.seen[name]
		if w == nil {
			continue
		}
		if err := k.client.Delete(k.ctx, w); err != nil {
			return err
		}
		delete(k.seen, name)
		key := workload.Key(w)
		k.queues.QueueAssociatedInadmissibleWorkloadsAfter(k.ctx, key, func() {
			if workload.HasQuotaReservation(w) {
				_ = k.cache.DeleteWorkload(k.log, key)
			}
		})
		k.queues.DeleteAndForgetWorkload(k.log, key)
	}
	k.retries.ProcessRequeues(k.ctx)
	for i := range s.Arrive {
		w := s.Arrive[i].DeepCopy()
		if err := k.client.Create(k.ctx, w); err != nil {
			return err
		}
		k.seen[w.Name] = w.DeepCopy()
		if err := k.queues.AddOrUpdateWorkload(k.log, w); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	return nil
}

// settle runs cycles until nothing changes. A StrictFIFO head is tried for ever, and a workload may need
// as many cycles as it has flavors to scan: it is over after more quiet ones than that.
func (k *kueueSide) settle() error {
	// Pod sets that scan four and three flavors try all pairs in twelve cycles. Whole rounds, since
	// Kueue goes on scanning where it was: how often a head was tried is no part of the case.
	const quietCycles = 24
	quiet := 0
	for cycle := range maxCycles {
		active := k.active()
		if active == nil || quiet == quietCycles {
			k.noteSpinning(active)
			if k.retries.ProcessRequeues(k.ctx) == 0 {
				return nil
			}
			quiet = 0
			continue
		}
		k.trace("  cycle %d of %v\n", cycle, active)
		oneCycle(k.scheduler, k.ctx)
		changed, err := k.follow()
		if err != nil {
			return err
		}
		quiet++
		if changed || !maps.EqualFunc(active, k.active(), slices.Equal) {
			quiet = 0
		}
	}
	return errNotSettled
}

// noteSpinning remembers that a BestEffortFIFO queue does not set its head aside, so that nobody behind it is
// ever tried. Two mistakes of 0.19.2 lead there: a head of several pod sets that has flavors left to scan for one
// of them and none for another; and, with PreemptionOverBorrowing, a head of which one resource fits by
// borrowing and another only after a preemption, which is taken for one that fits.
func (k *kueueSide) noteSpinning(active map[kueue.ClusterQueueReference][]workload.Reference) {
	for name := range active {
		k.spinning = k.spinning || k.bestEffort[name]
	}
}

// active are the workloads that the next cycles will try, by queue; nil if there are none.
func (k *kueueSide) active() map[kueue.ClusterQueueReference][]workload.Reference {
	dump := k.queues.Dump()
	for _, workloads := range dump {
		slices.Sort(workloads)
	}
	return dump
}

// follow does what Kueue's controllers do after the writes of a cycle: caches are told, and evicted workloads
// give their quota back. It says whether somebody got quota or lost it.
func (k *kueueSide) follow() (bool, error) {
	var list kueue.WorkloadList
	if err := k.client.List(k.ctx, &list); err != nil {
		return false, err
	}
	changed := false
	for i := range list.Items {
		w := &list.Items[i]
		old := k.seen[w.Name]
		if old == nil || old.ResourceVersion == w.ResourceVersion {
			continue
		}
		k.seen[w.Name] = w.DeepCopy()
		switch had, has := workload.HasQuotaReservation(old), workload.HasQuotaReservation(w); {
		case !had && !has:
			k.trace("    %s: %s\n", w.Name, waitsFor(w))
			if err := k.queues.AddOrUpdateWorkload(k.log, w); err != nil {
				return false, err
			}
		case !had && has:
			changed = true
			k.trace("    %s gets %s\n", w.Name, admissionOf(w))
			k.queues.DeleteWorkload(k.log, workload.Key(w))
			k.cache.AddOrUpdateWorkload(k.log, w)
		default:
			k.cache.AddOrUpdateWorkload(k.log, w)
		}
	}
	for i := range list.Items {
		w := list.Items[i].DeepCopy()
		if !evict.IsEvicted(w) || !workload.HasQuotaReservation(w) {
			continue
		}
		changed = true
		if err := k.stop(w); err != nil {
			return false, err
		}
	}
	if changed && k.manner == slowEvictions {
		k.retries.ProcessRequeues(k.ctx)
	}
	return changed, nil
}

// stop is the end of an eviction: the pods are gone, the workload is queued again.
func (k *kueueSide) stop(w *kueue.Workload) error {
	preempted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadPreempted)
	if preempted == nil || preempted.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s is evicted and not preempted", w.Name)
	}
	k.preempted[w.Name] = append(k.preempted[w.Name], preempted.Reason)
	k.trace("    %s gives way: %s\n", w.Name, preempted.Message)
	now := k.clock.Now()
	workload.UnsetQuotaReservationWithCondition(w, "Pending", "Preempted", now)
	workload.SetRequeuedCondition(w, kueue.WorkloadEvictedByPreemption, "Preempted", true)
	if err := k.client.Status().Update(k.ctx, w); err != nil {
		return err
	}
	k.seen[w.Name] = w.DeepCopy()
	key := workload.Key(w)
	var queued error
	k.queues.QueueAssociatedInadmissibleWorkloadsAfter(k.ctx, key, func() {
		_ = k.cache.DeleteWorkload(k.log, key)
		queued = k.queues.AddOrUpdateWorkloadWithoutLock(k.log, w)
	})
	return queued
}

func (k *kueueSide) outcome() Outcome {
	out := Outcome{Holding: map[string]Admission{}, Preempted: map[string][]string{}, Waiting: map[string]string{}}
	for name, w := range k.seen {
		if workload.HasQuotaReservation(w) {
			out.Holding[name] = admissionOf(w)
		} else {
			out.Waiting[name] = waitsFor(w)
		}
	}
	for name, reasons := range k.preempted {
		slices.Sort(reasons)
		out.Preempted[name] = reasons
	}
	return out
}

func waitsFor(w *kueue.Workload) string {
	if cond := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved); cond != nil {
		return cond.Message
	}
	return "not tried"
}

func admissionOf(w *kueue.Workload) Admission {
	admission := Admission{ClusterQueue: string(w.Status.Admission.ClusterQueue)}
	for _, p := range w.Status.Admission.PodSetAssignments {
		flavors := map[string]string{}
		for resource, flavor := range p.Flavors {
			flavors[string(resource)] = string(flavor)
		}
		admission.PodSets = append(admission.PodSets, PodSet{Name: string(p.Name), Count: *p.Count, Flavors: flavors})
	}
	return admission
}
