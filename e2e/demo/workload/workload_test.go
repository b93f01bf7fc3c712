// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"tutti.dev/e2e/cluster"
)

func addPod(t *testing.T, client kubernetes.Interface, job string, number, pods int, runsFor string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("%s-%d", job, number),
			Labels:      map[string]string{batchv1.JobNameLabel: job},
			Annotations: map[string]string{RunsFor: runsFor, Pods: fmt.Sprint(pods)},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func succeeded(t *testing.T, ctx context.Context, client kubernetes.Interface) map[string]bool {
	t.Helper()
	list, err := client.CoreV1().Pods("ns").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			out[pod.Name] = true
		}
	}
	return out
}

func TestOnlyWholeJobsMakeProgress(t *testing.T) {
	client := fake.NewSimpleClientset()
	if err := Run(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	addPod(t, client, "half", 0, 2, "1ms") // its second pod never comes
	addPod(t, client, "gang", 0, 2, "1ms")
	addPod(t, client, "gang", 1, 2, "1ms")
	addPod(t, client, "solo", 0, 1, "1ms")
	addPod(t, client, "other", 0, 1, "not a time")
	err := cluster.Eventually(t.Context(), 20*time.Second, "gang and solo to end", func(ctx context.Context) (bool, error) {
		done := succeeded(t, ctx, client)
		return done["gang-0"] && done["gang-1"] && done["solo-0"], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The half gang was there first and asks for the same time: it would have ended by now.
	if done := succeeded(t, t.Context(), client); done["half-0"] || done["other-0"] {
		t.Errorf("ended: %v", done)
	}
}

func TestALostMemberStartsTheTimeAnew(t *testing.T) {
	r := &runner{jobs: map[jobKey]*job{}, work: make(chan []*corev1.Pod, 10)}
	pod := func(number int, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprint(number), Labels: map[string]string{batchv1.JobNameLabel: "j"},
				Annotations: map[string]string{RunsFor: "1h", Pods: "2"},
			},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	key := jobKey{Namespace: "ns", Name: "j"}
	r.onPod(pod(0, corev1.PodRunning), false)
	if r.jobs[key].timer != nil {
		t.Fatal("half of it runs, and time passes")
	}
	r.onPod(pod(1, corev1.PodRunning), false)
	if r.jobs[key].timer == nil {
		t.Fatal("all of it runs, and no time passes")
	}
	r.onPod(pod(1, corev1.PodRunning), true)
	if r.jobs[key].timer != nil {
		t.Fatal("a member is gone, and time passes")
	}
	r.finish(key) // a timer that fired in that moment
	if len(r.work) != 0 {
		t.Fatal("a job that isn't whole ended")
	}
	r.onPod(pod(2, corev1.PodRunning), false)
	r.finish(key)
	if pods := <-r.work; len(pods) != 2 {
		t.Fatalf("%d pods end, want both", len(pods))
	}
}
