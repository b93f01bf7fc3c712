// SPDX-License-Identifier: Apache-2.0

// floor admits the Workloads of Kueue's performance runner with the fewest writes that anybody could:
// one server-side apply per admission, a status of each ClusterQueue once a second where it changed, no
// preemption, no events, no LocalQueue status. It packs a cohort's quota by size, largest first. What it
// takes is what the API server, the runner and the quota leave to any controller.
//
// It knows the shape that the runner's generator makes (one flavor, cpu alone, pod sets without
// limits on lending) and nothing else; it is a measure, not a queue controller.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	writers = 16
	flavor  = "rf"
)

var (
	group     = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}
	workloads = group.WithResource("workloads")
	queues    = group.WithResource("clusterqueues")
)

// job is one Workload that has not ended.
type job struct {
	key      types.NamespacedName
	queue    string // the runner gives a LocalQueue the name of its ClusterQueue
	cpu      int64  // milli
	admitted bool
}

type clusterQueue struct {
	cohort  string
	nominal int64 // milli-cpu
	used    int64
	holding int
	pending int
	changed bool
}

type floor struct {
	client dynamic.Interface
	writes chan func(context.Context) error

	mu      sync.Mutex
	queues  map[string]*clusterQueue
	free    map[string]int64 // by cohort
	jobs    map[types.NamespacedName]*job
	waiting map[string]map[int64][]*job // by cohort and size, oldest first
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the API server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // the API server's own limits are the only ones
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	f := &floor{
		client: client, writes: make(chan func(context.Context) error, 100000),
		queues: map[string]*clusterQueue{}, free: map[string]int64{},
		jobs: map[types.NamespacedName]*job{}, waiting: map[string]map[int64][]*job{},
	}
	failed := make(chan error, writers+1)
	for range writers {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case write := <-f.writes:
					if err := write(ctx); err != nil && ctx.Err() == nil {
						failed <- err
						return
					}
				}
			}
		}()
	}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	if err := watch(informers.ForResource(queues).Informer(), f.queueChanged); err != nil {
		return err
	}
	if err := watch(informers.ForResource(workloads).Informer(), f.workloadChanged); err != nil {
		return err
	}
	informers.Start(ctx.Done())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
			f.tell()
		}
	}
}

func watch(informer cache.SharedIndexInformer, changed func(*unstructured.Unstructured)) error {
	take := func(object any) { changed(object.(*unstructured.Unstructured)) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, object any) { take(object) },
	})
	return err
}

func (f *floor) queueChanged(object *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues[object.GetName()] != nil {
		return
	}
	groups, _, _ := unstructured.NestedSlice(object.Object, "spec", "resourceGroups")
	quota := groups[0].(map[string]any)["flavors"].([]any)[0].(map[string]any)["resources"].([]any)[0].(map[string]any)["nominalQuota"]
	cohort, _, _ := unstructured.NestedString(object.Object, "spec", "cohortName")
	q := &clusterQueue{cohort: cohort, nominal: milli(quota), changed: true}
	f.queues[object.GetName()] = q
	f.free[cohort] += q.nominal
	if f.waiting[cohort] == nil {
		f.waiting[cohort] = map[int64][]*job{}
	}
	// Workloads may have been shown before their queue.
	for _, one := range f.jobs {
		if one.queue == object.GetName() {
			f.enqueue(one)
		}
	}
	f.admit(cohort)
}

func (f *floor) enqueue(j *job) {
	q := f.queues[j.queue]
	f.waiting[q.cohort][j.cpu] = append(f.waiting[q.cohort][j.cpu], j)
	q.pending++
	q.changed = true
}

func (f *floor) workloadChanged(object *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	j := f.jobs[key]
	if finished(object) {
		if j == nil {
			return
		}
		delete(f.jobs, key)
		if q := f.queues[j.queue]; q != nil && j.admitted {
			f.free[q.cohort] += j.cpu
			q.used -= j.cpu
			q.holding--
			q.changed = true
			f.admit(q.cohort)
		}
		return
	}
	if j != nil {
		return
	}
	sets, _, _ := unstructured.NestedSlice(object.Object, "spec", "podSets")
	containers, _, _ := unstructured.NestedSlice(sets[0].(map[string]any), "template", "spec", "containers")
	requests, _, _ := unstructured.NestedMap(containers[0].(map[string]any), "resources", "requests")
	queue, _, _ := unstructured.NestedString(object.Object, "spec", "queueName")
	j = &job{key: key, queue: queue, cpu: milli(requests["cpu"])}
	f.jobs[key] = j
	if q := f.queues[queue]; q != nil {
		f.enqueue(j)
		f.admit(q.cohort)
	}
}

func milli(value any) int64 {
	quantity := resource.MustParse(fmt.Sprint(value))
	return quantity.MilliValue()
}

func finished(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["type"] == "Finished" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// admit fills the cohort, largest first.
func (f *floor) admit(cohort string) {
	var sizes []int64
	for size, list := range f.waiting[cohort] {
		if len(list) > 0 && size <= f.free[cohort] {
			sizes = append(sizes, size)
		}
	}
	sort.Slice(sizes, func(i, j int) bool { return sizes[i] > sizes[j] })
	for _, size := range sizes {
		for list := f.waiting[cohort][size]; len(list) > 0 && size <= f.free[cohort]; list = f.waiting[cohort][size] {
			j := list[0]
			f.waiting[cohort][size] = list[1:]
			f.free[cohort] -= size
			q := f.queues[j.queue]
			q.used += size
			q.holding++
			q.pending--
			q.changed = true
			j.admitted = true
			key, queue := j.key, j.queue
			f.writes <- func(ctx context.Context) error { return f.write(ctx, key, queue, size) }
		}
	}
}

func (f *floor) write(ctx context.Context, key types.NamespacedName, queue string, cpu int64) error {
	now := metav1.Now().UTC().Format(time.RFC3339)
	condition := func(kind, reason string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "message": "by the floor", "lastTransitionTime": now}
	}
	amount := resource.NewMilliQuantity(cpu, resource.DecimalSI).String()
	return f.apply(ctx, workloads, key, "kueue-admission", map[string]any{
		"admission": map[string]any{
			"clusterQueue": queue,
			"podSetAssignments": []any{map[string]any{
				"name": "main", "count": 1, "flavors": map[string]any{"cpu": flavor}, "resourceUsage": map[string]any{"cpu": amount},
			}},
		},
		"conditions": []any{condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted")},
	})
}

// tell writes the statuses of ClusterQueues that changed; the runner ends by them.
func (f *floor) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, q := range f.queues {
		if !q.changed {
			continue
		}
		q.changed = false
		total := resource.NewMilliQuantity(q.used, resource.DecimalSI).String()
		borrowed := resource.NewMilliQuantity(max(0, q.used-q.nominal), resource.DecimalSI).String()
		usage := []any{map[string]any{"name": flavor, "resources": []any{map[string]any{"name": "cpu", "total": total, "borrowed": borrowed}}}}
		status := map[string]any{
			"pendingWorkloads": q.pending, "reservingWorkloads": q.holding, "admittedWorkloads": q.holding,
			"flavorsReservation": usage, "flavorsUsage": usage,
			"conditions": []any{map[string]any{
				"type": "Active", "status": "True", "reason": "Ready", "message": "by the floor",
				"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
			}},
		}
		f.writes <- func(ctx context.Context) error {
			return f.apply(ctx, queues, types.NamespacedName{Name: name}, "floor", status)
		}
	}
}

func (f *floor) apply(ctx context.Context, kind schema.GroupVersionResource, key types.NamespacedName, manager string, status map[string]any) error {
	names := map[schema.GroupVersionResource]string{workloads: "Workload", queues: "ClusterQueue"}
	metadata := map[string]any{"name": key.Name}
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	body, err := json.Marshal(map[string]any{"apiVersion": group.String(), "kind": names[kind], "metadata": metadata, "status": status})
	if err != nil {
		return err
	}
	force := true
	_, err = f.client.Resource(kind).Namespace(key.Namespace).Patch(ctx, key.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: manager, Force: &force}, "status")
	return err
}
