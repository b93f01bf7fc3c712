// SPDX-License-Identifier: Apache-2.0

// PodGroups, its part on StatefulSets: held and started whole, scaled to zero and back, updated, drained.

package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const ofSet = "app=db"

// createSet makes StatefulSet db, whose pods ask for so many cpu each.
func (h *podGroups) createSet(t *testing.T, replicas int32, cpu string, policy appsv1.PodManagementPolicyType) {
	t.Helper()
	template := queuedPod("", cpu, "")
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	labels := map[string]string{"app": "db"}
	created, err := h.Kube.AppsV1().StatefulSets("team").Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{queueLabel: "lq"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, PodManagementPolicy: policy,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if parent := created.Spec.Template.Annotations["kueue.x-k8s.io/pod-suspending-parent"]; parent != "statefulset" {
		t.Fatalf("the template was created with %v", created.Spec.Template.Annotations)
	}
}

func (h *podGroups) patchSet(ctx context.Context, patch string, subresource ...string) error {
	_, err := h.Kube.AppsV1().StatefulSets("team").Patch(ctx, "db", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	return err
}

// waitHeld until so many pods of it are there, all held.
func (h *podGroups) waitHeld(t *testing.T, want int) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%d held pods", want), func(ctx context.Context) (bool, error) {
		pods, err := h.pods(ctx, ofSet)
		if err != nil {
			return false, err
		}
		held := 0
		for _, pod := range pods {
			if gated(&pod) && pod.DeletionTimestamp == nil {
				held++
			}
		}
		return expect(held == want && len(pods) == want, "%d of %d pods are held", held, len(pods))
	})
}

func (h *podGroups) statefulSet(t *testing.T) {
	h.create(t, queuedPod("blocker", "4", ""))
	h.waitRunning(t, "", 1)
	h.createSet(t, 3, "2", appsv1.ParallelPodManagement)
	h.waitFor(t, "db", "QuotaReserved", "False", "Pending", "cpu")
	h.waitHeld(t, 3)
	if err := h.Kube.CoreV1().Pods("team").Delete(t.Context(), "blocker", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.waitRunning(t, ofSet, 3)
	h.waitUsed(t, "6")
	h.waitFor(t, "db", "PodsReady", "True", "Started")

	refusedWith(t, h.patchSet(t.Context(), `{"spec":{"replicas":2}}`), "scale to 0 first")
	if err := h.patchSet(t.Context(), `{"spec":{"replicas":0}}`, "scale"); err != nil {
		t.Fatal(err)
	}
	h.waitFor(t, "db", "QuotaReserved", "False", "OnHold")
	h.waitUsed(t, "0")
	eventually(t, 20*time.Second, "db to be scaled up", func(ctx context.Context) (bool, error) {
		err := h.patchSet(ctx, `{"spec":{"replicas":2}}`) // refused until its status says that all pods are gone
		return err == nil, err
	})
	h.waitRunning(t, ofSet, 2)
	h.waitUsed(t, "4")

	before, err := h.workload(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.patchSet(t.Context(), `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":2}}}}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "both pods to be replaced", func(ctx context.Context) (bool, error) {
		set, err := h.Kube.AppsV1().StatefulSets("team").Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return expect(set.Status.UpdatedReplicas == 2 && set.Status.ReadyReplicas == 2, "%d are updated, %d ready",
			set.Status.UpdatedReplicas, set.Status.ReadyReplicas)
	})
	after, err := h.workload(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	if before.GetUID() != after.GetUID() {
		t.Error("an update made another Workload")
	}
	h.waitUsed(t, "4")
}

func (h *podGroups) statefulSetDrained(t *testing.T) {
	h.createSet(t, 2, "1", appsv1.OrderedReadyPodManagement)
	h.waitRunning(t, ofSet, 2)
	h.stop(t, "HoldAndDrain")
	h.waitFor(t, "db", "QuotaReserved", "False", "Pending")
	h.waitUsed(t, "0")
	h.waitHeld(t, 1) // the next comes when it is ready
	h.stop(t, "None")
	h.waitRunning(t, ofSet, 2)
}

func (h *podGroups) stop(t *testing.T, policy string) {
	t.Helper()
	_, err := h.Dynamic.Resource(clusterQueues).Patch(t.Context(), "team", types.MergePatchType,
		[]byte(`{"spec":{"stopPolicy":"`+policy+`"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
