// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/evict"
)

// A Workload's age counts in seconds: those of a case come at least so far apart.
const apart = 1100 * time.Millisecond

// live plays a case to the operator, through the API: its own names, its own namespace.
type live struct {
	client client.Client
	c      *Case
	gone   map[string][]string // evictions that were carried out in this step: the reasons, by workload
	last   time.Time           // when the youngest Workload was made
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := kueue.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	return client.New(config, client.Options{Scheme: scheme})
}

// named is the case with `prefix` before the names of what has no namespace.
func (c *Case) named(prefix string) *Case {
	named := c.clone()
	flavors := func(groups []kueue.ResourceGroup) {
		for i := range groups {
			for j := range groups[i].Flavors {
				groups[i].Flavors[j].Name = kueue.ResourceFlavorReference(prefix) + groups[i].Flavors[j].Name
			}
		}
	}
	for i := range named.Flavors {
		named.Flavors[i].Name = prefix + named.Flavors[i].Name
	}
	cohort := func(name *kueue.CohortReference) {
		if *name != "" {
			*name = kueue.CohortReference(prefix) + *name
		}
	}
	for i := range named.Cohorts {
		named.Cohorts[i].Name = prefix + named.Cohorts[i].Name
		cohort(&named.Cohorts[i].Spec.ParentName)
		flavors(named.Cohorts[i].Spec.ResourceGroups)
	}
	for i := range named.Queues {
		named.Queues[i].Name = prefix + named.Queues[i].Name
		cohort(&named.Queues[i].Spec.CohortName)
		flavors(named.Queues[i].Spec.ResourceGroups)
	}
	for i := range named.Steps {
		for j := range named.Steps[i].Arrive {
			w := &named.Steps[i].Arrive[j]
			w.Spec.QueueName = kueue.LocalQueueName(prefix) + w.Spec.QueueName
		}
	}
	return named
}

// playLive plays the case to the operator behind `client` and compares after every step with what Kueue's
// scheduler did: within `patience` the state must be the same, and then nothing else may have happened.
func playLive(ctx context.Context, client client.Client, c *Case, expected []Outcome, patience time.Duration) (string, error) {
	l := &live{client: client, c: c}
	if err := l.install(ctx); err != nil {
		return "", err
	}
	for i, step := range c.Steps {
		l.gone = map[string][]string{}
		if err := l.happen(ctx, step); err != nil {
			return "", fmt.Errorf("step %d: %w", i, err)
		}
		text, err := l.await(ctx, expected[i], patience)
		if err != nil {
			return "", fmt.Errorf("step %d: %w", i, err)
		}
		if text != "" {
			return fmt.Sprintf("step %d\n%s", i, text), nil
		}
	}
	return "", nil
}

func (l *live) namespace() string { return fmt.Sprintf("case-%d", l.c.Seed) }

func (l *live) install(ctx context.Context) error {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace()}}}
	for i := range l.c.Flavors {
		objects = append(objects, &l.c.Flavors[i])
	}
	for i := range l.c.Cohorts {
		objects = append(objects, &l.c.Cohorts[i])
	}
	for i := range l.c.Queues {
		l.c.Queues[i].UID = ""
		objects = append(objects, &l.c.Queues[i])
	}
	locals := l.c.localQueues()
	for i := range locals {
		locals[i].Namespace = l.namespace()
		objects = append(objects, &locals[i])
	}
	for _, object := range objects {
		if err := l.client.Create(ctx, object); err != nil {
			return fmt.Errorf("%T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func (l *live) happen(ctx context.Context, step Step) error {
	for _, name := range step.End {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.namespace()}}
		if err := l.client.Delete(ctx, w); err != nil {
			return err
		}
	}
	for i := range step.Arrive {
		if wait := time.Until(l.last.Add(apart)); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case <-timer.C:
			}
		}
		w := step.Arrive[i].DeepCopy()
		w.Namespace, w.UID, w.CreationTimestamp, w.Generation = l.namespace(), "", metav1.Time{}, 0
		if err := l.client.Create(ctx, w); err != nil {
			return err
		}
		l.last = time.Now()
	}
	return nil
}

// await looks until the state is as expected, and carries evictions out meanwhile; what differs in the end
// otherwise. Evictions that nobody expects show when they are carried out, here or in the next step.
func (l *live) await(ctx context.Context, expected Outcome, patience time.Duration) (string, error) {
	deadline := time.Now().Add(patience)
	for {
		now, err := l.look(ctx)
		if err != nil {
			return "", err
		}
		verdict, text := compareStep(now, expected)
		if verdict == agree {
			return "", nil
		}
		if time.Now().After(deadline) {
			return verdict + "\n" + text, nil
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", ctx.Err()
		case <-timer.C:
		}
	}
}

// look is the state now. A Workload without a Job has nobody who stops its pods: it gives its quota back here.
func (l *live) look(ctx context.Context) (Outcome, error) {
	var list kueue.WorkloadList
	if err := l.client.List(ctx, &list, client.InNamespace(l.namespace())); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Holding: map[string]Admission{}, Waiting: map[string]string{}}
	for i := range list.Items {
		w := &list.Items[i]
		if !w.DeletionTimestamp.IsZero() {
			continue
		}
		switch {
		case !workload.HasQuotaReservation(w):
			out.Waiting[w.Name] = waitsFor(w)
		case evict.IsEvicted(w):
			if err := l.stop(ctx, w); err != nil {
				return Outcome{}, err
			}
		default:
			out.Holding[w.Name] = admissionOf(w)
		}
	}
	out.Preempted = maps.Clone(l.gone)
	for _, reasons := range out.Preempted {
		slices.Sort(reasons)
	}
	return out, nil
}

func (l *live) stop(ctx context.Context, w *kueue.Workload) error {
	preempted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadPreempted)
	if preempted == nil || preempted.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s is evicted and not preempted", w.Name)
	}
	conditions := []metav1.Condition{}
	for _, condition := range w.Status.Conditions {
		switch condition.Type {
		case kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted:
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Pending", "evicted"
			condition.LastTransitionTime = metav1.Now()
		}
		conditions = append(conditions, condition)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": kueue.SchemeGroupVersion.String(), "kind": "Workload",
		"metadata": map[string]any{"name": w.Name, "namespace": w.Namespace, "uid": w.UID, "resourceVersion": w.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return err
	}
	err = l.client.Status().Patch(ctx, w, client.RawPatch(types.ApplyPatchType, body), client.ForceOwnership, client.FieldOwner("kueue-admission"))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it has changed: the next look sees how
	}
	if err == nil {
		l.gone[w.Name] = append(l.gone[w.Name], preempted.Reason)
	}
	return err
}
