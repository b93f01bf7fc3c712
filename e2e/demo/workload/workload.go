// SPDX-License-Identifier: Apache-2.0

// Package workload is the simulated work inside the pods. A Job with the annotation RunsFor on its
// pods makes progress only while all of its pods run at the same time, as a training job does; when
// that has lasted for the annotation's duration, all of its pods succeed. If a pod is lost before,
// the time starts again.
package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Annotations on the pods of a simulated job.
const (
	RunsFor = "demo.tutti.dev/runs-for" // a Go duration
	Pods    = "demo.tutti.dev/pods"     // how many have to run together; default 1
)

type jobKey = types.NamespacedName

type job struct {
	running map[string]*corev1.Pod
	timer   *time.Timer
}

type runner struct {
	client kubernetes.Interface
	mutex  sync.Mutex
	jobs   map[jobKey]*job
	work   chan []*corev1.Pod
}

// Run plays the work of all jobs until the context ends.
func Run(ctx context.Context, client kubernetes.Interface) error {
	r := &runner{client: client, jobs: map[jobKey]*job{}, work: make(chan []*corev1.Pod, 1024)}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = batchv1.JobNameLabel }))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { r.onPod(now, false) },
		UpdateFunc: func(_, now any) { r.onPod(now, false) },
		DeleteFunc: func(old any) { r.onPod(old, true) },
	}); err != nil {
		return err
	}
	for range 8 {
		go func() {
			for {
				select {
				case pods := <-r.work:
					for _, pod := range pods {
						r.succeed(ctx, pod)
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("workload: could not list pods")
	}
	return nil
}

func (r *runner) onPod(object any, gone bool) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	length, err := time.ParseDuration(pod.Annotations[RunsFor])
	if err != nil {
		return
	}
	needs := 1
	if _, err := fmt.Sscan(pod.Annotations[Pods], &needs); err != nil {
		needs = 1
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	key := jobKey{Namespace: pod.Namespace, Name: pod.Labels[batchv1.JobNameLabel]}
	j := r.jobs[key]
	if j == nil {
		j = &job{running: map[string]*corev1.Pod{}}
		r.jobs[key] = j
	}
	runs := !gone && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
	if runs {
		j.running[pod.Name] = pod
	} else {
		delete(j.running, pod.Name)
	}
	whole := len(j.running) >= needs
	switch {
	case whole && j.timer == nil:
		j.timer = time.AfterFunc(length, func() { r.finish(key) })
	case !whole && j.timer != nil:
		j.timer.Stop()
		j.timer = nil
	}
	if len(j.running) == 0 {
		delete(r.jobs, key)
	}
}

// finish lets all pods of a job succeed, if it is still whole.
func (r *runner) finish(key jobKey) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	j := r.jobs[key]
	if j == nil || j.timer == nil {
		return
	}
	pods := make([]*corev1.Pod, 0, len(j.running))
	for _, pod := range j.running {
		pods = append(pods, pod)
	}
	r.work <- pods
}

func (r *runner) succeed(ctx context.Context, pod *corev1.Pod) {
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase: corev1.PodSucceeded,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now},
		},
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 0, Reason: "Completed", StartedAt: now, FinishedAt: now,
			}},
		})
	}
	// The uid makes the patch miss a later pod of the same name.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return
	}
	for attempt := range 5 {
		_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
			return
		}
		time.Sleep(time.Duration(attempt+1) * 100 * time.Millisecond)
	}
}
