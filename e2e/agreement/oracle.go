// SPDX-License-Identifier: Apache-2.0

// Package agreement compares `tutti fit` with kube-scheduler itself: the whole scheduler package of
// Kubernetes 1.36 runs in this process, with native gangs on, and is asked to place the same pods on the
// same cluster. Only its watches are replaced: objects are put into its cache and queue by hand, so that a
// case is one synchronous scheduling cycle.
package agreement

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"tutti.dev/e2e/randomcase"
)

const group = "gang"

var gates = sync.OnceValue(func() error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		"GenericWorkload": true, "GangScheduling": true,
	})
})

// Outcome of one scheduling cycle of a gang.
type Outcome struct {
	Nodes   map[string]string // node by pod, of those that were bound
	Refused map[string]string // what the scheduler said, by pod
	Astray  map[string]string // pods on nodes where a claim of theirs can't be used
}

// Placed says whether every pod was bound.
func (o Outcome) Placed() bool { return len(o.Refused) == 0 }

// Partly says whether some pods were bound and some not.
func (o Outcome) Partly() bool { return len(o.Refused) > 0 && len(o.Nodes) > 0 }

// FirstRefusal is one of the scheduler's messages, the least one by pod name.
func (o Outcome) FirstRefusal() string {
	names := make([]string, 0, len(o.Refused))
	for name := range o.Refused {
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	name := slices.Min(names)
	return name + ": " + o.Refused[name]
}

type event struct{ pod, node, message string }

// Schedule lets the scheduler place `gang` once on the cluster of the case. Pods of a gang of more than one
// must be in the group `gang`; its PodGroup asks for all of them. Pods are defaulted as the API server does,
// and have the claims that the resourceclaim controller would make.
func Schedule(parent context.Context, c *randomcase.Case, gang []*corev1.Pod) (Outcome, error) {
	if err := gates(); err != nil {
		return Outcome{}, err
	}
	logger := logr.Discard()
	ctx, cancel := context.WithTimeout(klog.NewContext(parent, logger), time.Minute)
	defer cancel()

	// Each pod of the gang ends in one event: refused, or bound.
	ends := make(chan event, 2*len(gang))
	client := fake.NewSimpleClientset()
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, isCreate := action.(clienttesting.CreateAction)
		if !isCreate || action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := create.GetObject().(*corev1.Binding)
		ends <- event{pod: binding.Name, node: binding.Target.Name}
		return true, binding, nil
	})
	// Status patches go nowhere.
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetResource().Resource == "podgroups" {
			return true, &schedulingv1alpha2.PodGroup{}, nil
		}
		return true, &corev1.Pod{}, nil
	})

	var lock sync.Mutex
	allocated := map[string]*resourcev1.ResourceClaim{} // of the gang, by name
	for _, claim := range c.Devices.Claims {
		if claim.Namespace == randomcase.Namespace && claim.Status.Allocation != nil {
			allocated[claim.Name] = claim
		}
	}
	acceptClaims(client, func(claim *resourcev1.ResourceClaim) {
		lock.Lock()
		defer lock.Unlock()
		allocated[claim.Name] = claim
	})

	factory := newClaimFactory(scheduler.NewInformerFactory(client, 0))
	decided := make(chan struct{})
	sched, err := scheduler.New(ctx, patientClient{client, decided}, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithParallelism(1)) // nodes are seen in one order: a case has one answer
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = sched.Profiles.Close() }()
	sched.FailureHandler = func(_ context.Context, _ framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		ends <- event{pod: pod.Pod.Name, message: status.Message()}
		sched.SchedulingQueue.Done(pod.Pod.UID)
	}
	if sched.APIDispatcher != nil {
		sched.APIDispatcher.Run(logger)
		defer sched.APIDispatcher.Close()
	}

	namespaces := map[string]bool{}
	namespace := func(name string) error {
		if namespaces[name] {
			return nil
		}
		namespaces[name] = true
		return factory.Core().V1().Namespaces().Informer().GetIndexer().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelMetadataName: name},
		}})
	}
	for _, node := range c.Nodes {
		sched.Cache.AddNode(logger, node.DeepCopy())
	}
	for _, pod := range c.Pods {
		// The scheduler's watch leaves these out.
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		pod = pod.DeepCopy()
		corev1defaults.SetObjectDefaults_Pod(pod)
		if err := sched.Cache.AddPod(logger, pod); err != nil {
			return Outcome{}, err
		}
		if err := namespace(pod.Namespace); err != nil {
			return Outcome{}, err
		}
	}
	if err := factory.addDevices(&c.Devices, c.ClaimsOf(gang)); err != nil {
		return Outcome{}, err
	}
	volumes, err := addVolumes(c, gang, factory, client)
	if err != nil {
		return Outcome{}, err
	}
	if len(gang) > 1 {
		if err := factory.Scheduling().V1alpha2().PodGroups().Informer().GetIndexer().Add(&schedulingv1alpha2.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: group, Namespace: gang[0].Namespace},
			Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
				Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(len(gang))},
			}},
		}); err != nil {
			return Outcome{}, err
		}
	}
	for _, pod := range gang {
		if err := namespace(pod.Namespace); err != nil {
			return Outcome{}, err
		}
		pod = pod.DeepCopy()
		corev1defaults.SetObjectDefaults_Pod(pod)
		// What the scheduler's event handler does with a new pod.
		sched.Cache.AddPodGroupMember(pod)
		sched.SchedulingQueue.Add(ctx, pod)
		sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, framework.EventUnscheduledPodAdd, nil, pod, nil)
	}
	if waiting := len(sched.SchedulingQueue.PodsInActiveQ()); waiting == 0 {
		return Outcome{}, fmt.Errorf("no pod of %d is ready to be scheduled", len(gang))
	}
	sched.ScheduleOne(ctx)
	close(decided)

	out := Outcome{Nodes: map[string]string{}, Refused: map[string]string{}}
	for len(out.Nodes)+len(out.Refused) < len(gang) {
		select {
		case end := <-ends:
			if end.node != "" {
				out.Nodes[end.pod] = end.node
			} else {
				out.Refused[end.pod] = end.message
			}
		case <-ctx.Done():
			return out, fmt.Errorf("%d pods were bound, %d refused, of %d: %w", len(out.Nodes), len(out.Refused), len(gang), ctx.Err())
		}
	}
	lock.Lock()
	defer lock.Unlock()
	if out.Astray, err = astray(c, gang, out.Nodes, allocated); err != nil {
		return out, err
	}
	return out, volumes.astray(c, gang, &out)
}
