// SPDX-License-Identifier: Apache-2.0

// PodGroups: jobs that are made of pods, on a real control plane: a pod by itself, a pod group, the pods of a
// Deployment or a StatefulSet. They are held by scheduling gates until quota and a place for all of them exist, start together, and
// are deleted when they lose their quota.

package suite

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"tutti.dev/e2e/cluster"
)

const podQueues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - {name: cpu, nominalQuota: 8}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: team}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
`

const (
	admissionGate = "kueue.x-k8s.io/admission"
	managedLabel  = "kueue.x-k8s.io/managed"
	podGroupName  = "kueue.x-k8s.io/pod-group-name"
	podGroupCount = "kueue.x-k8s.io/pod-group-total-count"
)

type podGroups struct {
	*cluster.Cluster
	tutti *cluster.Tutti
}

func TestPodGroups(t *testing.T) {
	ctx := t.Context()
	frameworks := []any{"batch/job", "pod", "deployment", "statefulset"}
	integrations := map[string]any{"integrations": map[string]any{"frameworks": frameworks}}
	c := cluster.ForTest(t, cluster.Options{})
	if err := c.InstallTutti(ctx, map[string]any{"config": map[string]any{"kueue": integrations}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNodes(ctx, cluster.NodeSpec{Count: 2, Prefix: "node", CPU: "4"}); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}
	tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{Config: integrations})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(ctx, podQueues); err != nil {
		t.Fatal(err)
	}
	h := &podGroups{c, tutti}
	for _, one := range []struct {
		name string
		run  func(*podGroups, *testing.T)
	}{
		{"a pod by itself", (*podGroups).single},
		{"unlike pods start together, when quota and a place for all exist", (*podGroups).unlike},
		{"a group without all of its pods waits and says why", (*podGroups).incomplete},
		{"a group that waits can be deleted", (*podGroups).waits},
		{"a group that has to give way is deleted and told why", (*podGroups).givesWay},
		{"a Deployment is scaled", (*podGroups).deployment},
		{"a StatefulSet starts whole, is scaled to zero and back, and updated", (*podGroups).statefulSet},
		{"a StatefulSet is drained and held again", (*podGroups).statefulSetDrained},
		{"while nobody is there pods are held and checked, and nobody else notices", (*podGroups).away},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(h, t) })
		h.clear(t)
	}
}

// queuedPod asks for so many cpu; runFor "" = for ever.
func queuedPod(name, cpu, runFor string) *corev1.Pod {
	grace := int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{queueLabel: "lq"}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "main", Image: "example.org/work:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		},
	}
	if runFor != "" {
		pod.Annotations = map[string]string{cluster.RunFor: runFor}
	}
	return pod
}

// member makes it one of `total` pods.
func member(pod *corev1.Pod, group string, total int) *corev1.Pod {
	pod.Labels[podGroupName] = group
	annotations := map[string]string{podGroupCount: fmt.Sprint(total)}
	maps.Copy(annotations, pod.Annotations)
	pod.Annotations = annotations
	return pod
}

// create them, each held from its first moment.
func (h *podGroups) create(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		created, err := h.Kube.CoreV1().Pods("team").Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !gated(created) || created.Labels[managedLabel] != "true" {
			t.Fatalf("%s was created with gates %v and labels %v", pod.Name, created.Spec.SchedulingGates, created.Labels)
		}
	}
}

func gated(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.SchedulingGates {
		if gate.Name == admissionGate {
			return true
		}
	}
	return false
}

func (h *podGroups) pods(ctx context.Context, selector string) ([]corev1.Pod, error) {
	list, err := h.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func ofGroup(group string) string { return podGroupName + "=" + group }

// waitRunning until so many pods have a node, and no other pod that the selector finds is there.
func (h *podGroups) waitRunning(t *testing.T, selector string, want int) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("%d running pods of %s", want, selector), func(ctx context.Context) (bool, error) {
		pods, err := h.pods(ctx, selector)
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
				running++
			}
		}
		if err != nil {
			return false, err
		}
		return expect(running == want && len(pods) == want, "%d of %d pods run", running, len(pods))
	})
}

// workload of a pod, a StatefulSet, or of the group of that name; nil while there is none.
func (h *podGroups) workload(ctx context.Context, owner string) (*unstructured.Unstructured, error) {
	list, err := h.Dynamic.Resource(workloads).Namespace("team").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].GetName() == owner {
			return &list.Items[i], nil
		}
		for _, ref := range list.Items[i].GetOwnerReferences() {
			if (ref.Kind == "Pod" || ref.Kind == "StatefulSet") && ref.Name == owner {
				return &list.Items[i], nil
			}
		}
	}
	return nil, nil
}

// waitFor a condition of the Workload, with these words in its message.
func (h *podGroups) waitFor(t *testing.T, owner, kind, status, reason string, words ...string) {
	t.Helper()
	eventually(t, 20*time.Second, owner+" to be "+kind+"="+status, func(ctx context.Context) (bool, error) {
		workload, err := h.workload(ctx, owner)
		if err != nil {
			return false, err
		}
		is, why, message := condition(workload, kind)
		said := true
		for _, word := range words {
			said = said && strings.Contains(message, word)
		}
		return expect(is == status && why == reason && said, "it is %q/%q: %s", is, why, message)
	})
}

// letGo waits until the finalizer is off: the pods can be deleted by whom they belong to.
func (h *podGroups) letGo(t *testing.T, selector string) {
	t.Helper()
	eventually(t, 20*time.Second, "pods "+selector+" to be let go", func(ctx context.Context) (bool, error) {
		pods, err := h.pods(ctx, selector)
		for _, pod := range pods {
			if len(pod.Finalizers) > 0 {
				return false, fmt.Errorf("%s has finalizers %v", pod.Name, pod.Finalizers)
			}
		}
		return err == nil, err
	})
}

func (h *podGroups) waitUsed(t *testing.T, cpu string) {
	t.Helper()
	eventually(t, 20*time.Second, cpu+" cpu to be in use", func(ctx context.Context) (bool, error) {
		have, err := usage(ctx, h.Cluster, "team")
		if err != nil {
			return false, err
		}
		return expect(have["cpu"] == cpu, "%s cpu are", have["cpu"])
	})
}

// clear what a part has left, and wait until it is gone.
func (h *podGroups) clear(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for _, err := range []error{
		h.Kube.AppsV1().Deployments("team").DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}),
		h.Kube.AppsV1().StatefulSets("team").DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}),
		h.Kube.CoreV1().Pods("team").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The garbage collector learns of kinds that are new up to half a minute after their CRDs.
	eventually(t, 60*time.Second, "all pods and Workloads to be gone", func(ctx context.Context) (bool, error) {
		pods, err := h.pods(ctx, "")
		if err != nil {
			return false, err
		}
		list, err := h.Dynamic.Resource(workloads).Namespace("team").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		left := len(list.Items)
		return expect(len(pods)+left == 0, "%d pods and %d Workloads are left", len(pods), left)
	})
	h.waitUsed(t, "0")
}

func (h *podGroups) single(t *testing.T) {
	h.create(t, queuedPod("alone", "1", "1s"))
	h.waitFor(t, "alone", "Admitted", "True", "Admitted")
	h.waitFor(t, "alone", "Finished", "True", "Succeeded")
	ungated := map[string]string{"cluster_queue": "team", "is_group": "false", "name": admissionGate}
	if count := sum(t, h.tutti, "kueue_pod_scheduling_gate_removal_seconds_count", ungated); count != 1 {
		t.Errorf("%v gates were counted as removed", count)
	}
	h.letGo(t, "")
	h.waitUsed(t, "0")
}

func (h *podGroups) unlike(t *testing.T) {
	h.create(t, queuedPod("blocker", "4", ""))
	h.waitRunning(t, "", 1)
	blocker, err := h.Kube.CoreV1().Pods("team").Get(t.Context(), "blocker", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.create(t, member(queuedPod("leader", "2", "2s"), "train", 4))
	for i := range 3 {
		h.create(t, member(queuedPod(fmt.Sprintf("worker-%d", i), "1", "2s"), "train", 4))
	}
	h.waitFor(t, "train", "QuotaReserved", "False", "Pending", "cpu")

	// Quota without a place: 5 cpu don't fit the one node that is left.
	if err := h.Cordon(t.Context(), blocker.Spec.NodeName, true); err != nil {
		t.Fatal(err)
	}
	if err := h.Kube.CoreV1().Pods("team").Delete(t.Context(), "blocker", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.waitUsed(t, "0")
	h.waitFor(t, "train", "QuotaReserved", "False", "Pending", "room for 3 of 4 pods")
	pods, err := h.pods(t.Context(), ofGroup("train"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if !gated(&pod) {
			t.Errorf("%s was let go without a place for all", pod.Name)
		}
	}
	if err := h.Cordon(t.Context(), blocker.Spec.NodeName, false); err != nil {
		t.Fatal(err)
	}
	h.waitRunning(t, ofGroup("train"), 4)
	workload, err := h.workload(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	sets, _, _ := unstructured.NestedSlice(workload.Object, "spec", "podSets")
	if owners := workload.GetOwnerReferences(); len(sets) != 2 || len(owners) != 4 {
		t.Errorf("the Workload has %d pod sets and %d owners", len(sets), len(owners))
	}
	h.waitFor(t, "train", "Finished", "True", "Succeeded", "4/4")
	h.letGo(t, ofGroup("train"))
	h.waitUsed(t, "0")
}

func (h *podGroups) incomplete(t *testing.T) {
	h.create(t, member(queuedPod("one", "1", "1s"), "few", 3), member(queuedPod("two", "1", "1s"), "few", 3))
	eventually(t, 20*time.Second, "an event that pods are missing", func(ctx context.Context) (bool, error) {
		events, err := h.Kube.CoreV1().Events("team").List(ctx, metav1.ListOptions{FieldSelector: "reason=ErrWorkloadCompose"})
		if err != nil {
			return false, err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Kind == "Pod" && strings.Contains(event.Message, "'few' group has fewer runnable pods than expected") {
				return true, nil
			}
		}
		return false, fmt.Errorf("%d events", len(events.Items))
	})
	if workload, err := h.workload(t.Context(), "few"); workload != nil || err != nil {
		t.Fatalf("a Workload was made for a part of the group: %v, %v", workload, err)
	}
	h.create(t, member(queuedPod("three", "1", "1s"), "few", 3))
	h.waitFor(t, "few", "Finished", "True", "Succeeded", "3/3")
}

func (h *podGroups) waits(t *testing.T) {
	for i := range 2 {
		h.create(t, member(queuedPod(fmt.Sprintf("large-%d", i), "6", ""), "large", 2))
	}
	h.waitFor(t, "large", "QuotaReserved", "False", "Pending", "cpu")
	h.clear(t) // nothing keeps its pods
}

func (h *podGroups) givesWay(t *testing.T) {
	told := h.lastWords(t, ofGroup("low"))
	for i := range 4 {
		h.create(t, member(queuedPod(fmt.Sprintf("low-%d", i), "2", ""), "low", 4))
	}
	h.waitRunning(t, ofGroup("low"), 4)
	high := queuedPod("high", "4", "")
	high.Labels["kueue.x-k8s.io/priority-class"] = "high"
	h.create(t, high)
	h.waitFor(t, "low", "Evicted", "True", "Preempted")
	h.waitFor(t, "high", "Admitted", "True", "Admitted")
	h.waitFor(t, "low", "WaitingForReplacementPods", "True", "Preempted")
	h.waitRunning(t, "!"+podGroupName, 1)
	for name, why := range told(4) {
		if why != "WorkloadEvictedDueToPreempted" {
			t.Errorf("%s was told %q", name, why)
		}
	}
	// Those that come in their place queue again, with the old Workload.
	for i := range 4 {
		h.create(t, member(queuedPod(fmt.Sprintf("again-%d", i), "2", "1s"), "low", 4))
	}
	h.waitFor(t, "low", "QuotaReserved", "False", "Pending", "cpu")
	if err := h.Kube.CoreV1().Pods("team").Delete(t.Context(), "high", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.waitFor(t, "low", "Finished", "True", "Succeeded", "4/4")
}

// lastWords of pods: the reason that each was given before it was deleted, as soon as so many are in deletion.
func (h *podGroups) lastWords(t *testing.T, selector string) func(want int) map[string]string {
	t.Helper()
	watcher, err := h.Kube.CoreV1().Pods("team").Watch(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	var mutex sync.Mutex
	words := map[string]string{}
	go func() {
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Error || pod.DeletionTimestamp == nil {
				continue
			}
			mutex.Lock()
			words[pod.Name] = ""
			for _, one := range pod.Status.Conditions {
				if one.Type == "TerminationTarget" && one.Status == corev1.ConditionTrue {
					words[pod.Name] = one.Reason
				}
			}
			mutex.Unlock()
		}
	}()
	return func(want int) map[string]string {
		t.Helper()
		eventually(t, 20*time.Second, fmt.Sprintf("%d pods to be deleted", want), func(context.Context) (bool, error) {
			mutex.Lock()
			defer mutex.Unlock()
			return expect(len(words) >= want, "%d are", len(words))
		})
		mutex.Lock()
		defer mutex.Unlock()
		return maps.Clone(words)
	}
}

const ofDeployment = "app=serve"

// createDeployment makes Deployment serve, whose pods ask for 1 cpu each.
func (h *podGroups) createDeployment(t *testing.T, replicas int32) {
	t.Helper()
	template := queuedPod("", "1", "")
	template.Labels = map[string]string{"app": "serve"}
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	created, err := h.Kube.AppsV1().Deployments("team").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "serve", Labels: map[string]string{queueLabel: "lq"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "serve"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := created.Spec.Template
	if pods.Annotations["kueue.x-k8s.io/pod-suspending-parent"] != "deployment" || pods.Labels[queueLabel] != "lq" || pods.Labels[managedLabel] != "true" {
		t.Fatalf("the template was created with %v and %v", pods.Annotations, pods.Labels)
	}
}

func (h *podGroups) patchDeployment(ctx context.Context, patch string) error {
	_, err := h.Kube.AppsV1().Deployments("team").Patch(ctx, "serve", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (h *podGroups) deployment(t *testing.T) {
	h.createDeployment(t, 2)
	for _, want := range []int{2, 8, 3} {
		if err := h.patchDeployment(t.Context(), fmt.Sprintf(`{"spec":{"replicas":%d}}`, want)); err != nil {
			t.Fatal(err)
		}
		h.waitRunning(t, ofDeployment, want)
		h.waitUsed(t, fmt.Sprint(want))
	}
	refusedWith(t, h.patchDeployment(t.Context(), `{"metadata":{"labels":{"`+queueLabel+`":"other"}}}`), "scale to 0 first")
}

// away: the policies in the API server do what has to be done at once.
func (h *podGroups) away(t *testing.T) {
	ctx := t.Context()
	pods := h.Kube.CoreV1().Pods("team")
	h.tutti.Kill9()
	h.create(t, queuedPod("early", "1", "1s"))
	h.create(t, member(queuedPod("leader", "1", "1s"), "train", 2), member(queuedPod("worker", "2", "1s"), "train", 2))
	h.createDeployment(t, 1)
	h.createSet(t, 2, "1", appsv1.ParallelPodManagement)
	h.waitHeld(t, 2)

	plain := queuedPod("plain", "1", "")
	delete(plain.Labels, queueLabel)
	if created, err := pods.Create(ctx, plain, metav1.CreateOptions{}); err != nil || len(created.Spec.SchedulingGates) > 0 || len(created.Finalizers) > 0 {
		t.Errorf("a pod without a queue: %v, gates %v", err, created.Spec.SchedulingGates)
	}
	h.waitRunning(t, "!app,!"+queueLabel, 1)

	create := func(pod *corev1.Pod) error {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	patch := func(name, patch string) error {
		_, err := pods.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	wrong := queuedPod("wrong", "1", "")
	wrong.Labels[queueLabel] = "Upper"
	refusedWith(t, create(wrong), "is not the name of a LocalQueue")
	wrong = queuedPod("wrong", "1", "")
	wrong.Labels[podGroupName] = "train"
	refusedWith(t, create(wrong), podGroupCount+"]: must be set")
	refusedWith(t, create(member(queuedPod("wrong", "1", ""), "train", 0)), "must be a whole number greater than 0")
	refusedWith(t, patch("leader", `{"metadata":{"labels":{"`+podGroupName+`":"other"}}}`), `cannot be changed from "train" to "other"`)
	refusedWith(t, patch("leader", `{"metadata":{"labels":{"`+managedLabel+`":"false"}}}`), `can only be "true"`)
	refusedWith(t, h.patchDeployment(ctx, `{"metadata":{"labels":{"`+queueLabel+`":null}}}`), "or delete the Deployment")
	refusedWith(t, h.patchSet(ctx, `{"metadata":{"labels":{"`+queueLabel+`":null}}}`), "or delete the StatefulSet")
	refusedWith(t, h.patchSet(ctx, `{"spec":{"replicas":3}}`), "scale to 0 first")
	refusedWith(t, h.patchSet(ctx, `{"spec":{"template":{"spec":{"nodeSelector":{"disk":"ssd"}}}}}`), "what the pods ask for")
	if err := h.patchSet(ctx, `{"spec":{"template":{"metadata":{"labels":{"rack":"r1"}}}}}`); err != nil {
		t.Errorf("a change that doesn't matter: %v", err)
	}

	if err := h.tutti.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	h.waitFor(t, "early", "Finished", "True", "Succeeded")
	h.waitFor(t, "train", "Finished", "True", "Succeeded", "2/2")
	h.waitRunning(t, ofDeployment, 1)
	h.waitRunning(t, ofSet, 2)
}
