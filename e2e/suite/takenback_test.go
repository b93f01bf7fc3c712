// SPDX-License-Identifier: Apache-2.0

// TakenBack: the ways in which a running gang loses its quota, on a real control plane: its queue is drained,
// it is deactivated, a check wants another try or rejects it, it runs too long, its pods are never ready, another
// needs the room. Each time the Job is stopped, as it was submitted, its quota is free, and it comes back as the
// API says.

package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
)

var takenBackQueues = defaultFlavor + `---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: manual}
spec: {controllerName: example.com/manual}
` +
	cpuQueue("team", "nominalQuota: 4", "preemption: {withinClusterQueue: LowerPriority}") +
	cpuQueue("checked", "nominalQuota: 4", "admissionChecksStrategy: {admissionChecks: [{name: manual}]}") +
	localQueue("team", "lq", "team") + localQueue("team", "checked", "checked") + priorityClass("high", 100)

var admissionChecks = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "admissionchecks"}

type takenBack struct{ *cluster.Cluster }

func TestTakenBack(t *testing.T) {
	c, _ := startTeam(t, false, cluster.NodeSpec{Count: 2, CPU: "8"}, takenBackQueues, cluster.TuttiOptions{})
	h := &takenBack{c}
	for _, one := range []struct {
		name string
		run  func(*takenBack, *testing.T)
	}{
		{"queue is drained", (*takenBack).drained},
		{"deactivated", (*takenBack).deactivated},
		{"checks", (*takenBack).checks},
		{"runs too long", (*takenBack).runsTooLong},
		{"part of a job", (*takenBack).partOfAJob},
		{"another needs the room", (*takenBack).preempted},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(h, t) })
		deleteJobs(t, c, "team")
	}
}

func (h *takenBack) get(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	j, err := h.Kube.BatchV1().Jobs("team").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (h *takenBack) waitReleased(t *testing.T, name string) {
	t.Helper()
	eventually(t, 20*time.Second, name+" to run", func(ctx context.Context) (bool, error) {
		j, err := h.Kube.BatchV1().Jobs("team").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return expect(!isSuspended(j) && j.Status.Active > 0, "%s: suspended %v, active %d", name, isSuspended(j), j.Status.Active)
	})
}

// waitStopped waits until the job has lost its quota for this reason and is as it was submitted.
func (h *takenBack) waitStopped(t *testing.T, name, reason string, template corev1.PodTemplateSpec) {
	t.Helper()
	eventually(t, 30*time.Second, name+" to be taken back: "+reason, func(ctx context.Context) (bool, error) {
		workload, err := workloadOf(ctx, h.Cluster, "team", name)
		if err != nil {
			return false, err
		}
		_, why, _ := condition(workload, "Evicted")
		quota, _, _ := condition(workload, "QuotaReserved")
		admission, _, _ := unstructured.NestedMap(workload.Object, "status", "admission")
		j, err := h.Kube.BatchV1().Jobs("team").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return expect(why == reason && quota == "False" && admission == nil && isSuspended(j) && j.Status.Active == 0 &&
			reflect.DeepEqual(j.Spec.Template, template),
			"evicted %q, quota %q, suspended %v, active %d, template as submitted %v", why, quota, isSuspended(j),
			j.Status.Active, reflect.DeepEqual(j.Spec.Template, template))
	})
	groups, served := h.PodGroups()
	if !served {
		return
	}
	eventually(t, 20*time.Second, "groups of "+name+" to go", func(ctx context.Context) (bool, error) {
		list, err := h.Dynamic.Resource(groups).Namespace("team").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, group := range list.Items {
			for _, owner := range group.GetOwnerReferences() {
				if owner.Name == name {
					return false, fmt.Errorf("%s is left", group.GetName())
				}
			}
		}
		return true, nil
	})
}

func (h *takenBack) patch(t *testing.T, resource schema.GroupVersionResource, namespace, name string, patch map[string]any, sub ...string) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if namespace == "" {
		_, err = h.Dynamic.Resource(resource).Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, sub...)
	} else {
		_, err = h.Dynamic.Resource(resource).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, sub...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (h *takenBack) setActive(t *testing.T, name string, active bool) {
	t.Helper()
	workload, err := workloadOf(t.Context(), h.Cluster, "team", name)
	if err != nil || workload == nil {
		t.Fatal(name, err)
	}
	h.patch(t, workloads, "team", workload.GetName(), map[string]any{"spec": map[string]any{"active": active}})
}

func (h *takenBack) drained(t *testing.T) {
	submitted := createJob(t, h.Cluster, teamJob("drained", 3, "1", ""))
	for _, one := range []struct {
		resource        schema.GroupVersionResource
		namespace, name string
		reason          string
	}{{clusterQueues, "", "team", "ClusterQueueStopped"}, {localQueues, "team", "lq", "LocalQueueStopped"}} {
		h.waitReleased(t, "drained")
		h.patch(t, one.resource, one.namespace, one.name, map[string]any{"spec": map[string]any{"stopPolicy": "HoldAndDrain"}})
		h.waitStopped(t, "drained", one.reason, submitted.Spec.Template)
		h.patch(t, one.resource, one.namespace, one.name, map[string]any{"spec": map[string]any{"stopPolicy": "None"}})
	}
	h.waitReleased(t, "drained")
}

func (h *takenBack) deactivated(t *testing.T) {
	submitted := createJob(t, h.Cluster, teamJob("off", 3, "1", ""))
	h.waitReleased(t, "off")
	h.setActive(t, "off", false)
	h.waitStopped(t, "off", "Deactivated", submitted.Spec.Template)
	h.setActive(t, "off", true)
	h.waitReleased(t, "off")
}

// check writes what the check's controller says of a job.
func (h *takenBack) check(t *testing.T, job, state string, more map[string]any) {
	t.Helper()
	var name string
	eventually(t, 20*time.Second, job+" to wait for its check", func(ctx context.Context) (bool, error) {
		workload, err := workloadOf(ctx, h.Cluster, "team", job)
		if err != nil {
			return false, err
		}
		quota, why, message := condition(workload, "QuotaReserved")
		evicted, _, _ := condition(workload, "Evicted")
		if quota != "True" || evicted == "True" {
			return false, fmt.Errorf("quota %q: %s %s", quota, why, message)
		}
		name = workload.GetName()
		list, _, _ := unstructured.NestedSlice(workload.Object, "status", "admissionChecks")
		return expect(len(list) == 1, "%d checks are listed", len(list))
	})
	entry := map[string]any{"name": "manual", "state": state, "message": "as the test wants",
		"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}
	for key, value := range more {
		entry[key] = value
	}
	h.patch(t, workloads, "team", name, map[string]any{"status": map[string]any{"admissionChecks": []any{entry}}}, "status")
}

func (h *takenBack) checks(t *testing.T) {
	j := teamJob("checked", 3, "1", "")
	j.Labels[queueLabel] = "checked"
	submitted := createJob(t, h.Cluster, j)
	waitPending(t, h.Cluster, "checked", "Inadmissible")
	h.patch(t, admissionChecks, "", "manual", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}}}}, "status")
	h.check(t, "checked", "Retry", map[string]any{"requeueAfterSeconds": 2})
	h.waitStopped(t, "checked", "AdmissionCheck", submitted.Spec.Template)
	h.check(t, "checked", "Ready", map[string]any{"podSetUpdates": []any{map[string]any{"name": "main",
		"annotations": map[string]any{"example.com/by": "check"}}}})
	h.waitReleased(t, "checked")
	if have := h.get(t, "checked").Spec.Template.Annotations["example.com/by"]; have != "check" {
		t.Errorf("the update of the check is missing: %q", have)
	}
	h.check(t, "checked", "Rejected", nil)
	h.waitStopped(t, "checked", "DeactivatedDueToAdmissionCheck", submitted.Spec.Template)
}

func (h *takenBack) runsTooLong(t *testing.T) {
	j := teamJob("long", 3, "1", "")
	j.Labels["kueue.x-k8s.io/max-exec-time-seconds"] = "4"
	submitted := createJob(t, h.Cluster, j)
	h.waitReleased(t, "long")
	h.waitStopped(t, "long", "DeactivatedDueToMaximumExecutionTimeExceeded", submitted.Spec.Template)
}

func (h *takenBack) partOfAJob(t *testing.T) {
	j := teamJob("part", 6, "1", "")
	j.Annotations = map[string]string{"kueue.x-k8s.io/job-min-parallelism": "2"}
	submitted := createJob(t, h.Cluster, j)
	h.waitReleased(t, "part")
	if have := *h.get(t, "part").Spec.Parallelism; have != 4 {
		t.Fatalf("4 of 6 pods fit the quota, %d run", have)
	}
	h.setActive(t, "part", false)
	h.waitStopped(t, "part", "Deactivated", submitted.Spec.Template)
	if have := *h.get(t, "part").Spec.Parallelism; have != 6 {
		t.Fatalf("parallelism was 6 and is %d", have)
	}
}

func (h *takenBack) preempted(t *testing.T) {
	submitted := createJob(t, h.Cluster, teamJob("low", 3, "1", ""))
	h.waitReleased(t, "low")
	high := teamJob("high", 3, "1", "")
	high.Labels["kueue.x-k8s.io/priority-class"] = "high"
	createJob(t, h.Cluster, high)
	h.waitStopped(t, "low", "Preempted", submitted.Spec.Template)
	h.waitReleased(t, "high")
	workload, err := workloadOf(t.Context(), h.Cluster, "team", "low")
	if err != nil {
		t.Fatal(err)
	}
	if _, reason, _ := condition(workload, "Preempted"); reason != "InClusterQueue" {
		t.Errorf("Preempted is %q", reason)
	}
	deleteJob(t, h.Cluster, "high")
	h.waitReleased(t, "low")
}
