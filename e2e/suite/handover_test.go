// SPDX-License-Identifier: Apache-2.0

// HandOver: what happens between the release of a gang and its end when members, groups, claims or other
// controllers don't behave, one experiment each on one control plane.

package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
)

// handOver is a cluster of 3 nodes with 4 cpu each, one queue with 12 cpu, and short deadlines.
type handOver struct {
	*cluster.Cluster
	tutti *cluster.Tutti
}

func newHandOver(t *testing.T, gates map[string]bool) *handOver {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{FeatureGates: gates})
	if _, served := c.PodGroups(); !served {
		t.Skipf("Kubernetes %s has no native gangs", c.Minor)
	}
	installOn(t, c, nil, cluster.NodeSpec{Count: 3, CPU: "4"}, strings.ReplaceAll(oneTeam, "nominalQuota: 4", "nominalQuota: 12"))
	tutti, err := c.StartTutti(t.Context(), cluster.TuttiOptions{
		Tutti: map[string]any{"landing": map[string]any{"timeout": "8s", "backoffBase": "1s"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &handOver{c, tutti}
}

func TestHandOver(t *testing.T) {
	h := newHandOver(t, nil)
	// In this order: the last ones restart components with other gates.
	for _, one := range []struct {
		name string
		run  func(*handOver, *testing.T)
	}{
		{"probe", (*handOver).probe},
		{"quota refuses pods", (*handOver).quotaRefusesPods},
		{"group of another owner", (*handOver).groupOfAnotherOwner},
		{"old pods terminate", (*handOver).oldPodsTerminate},
		{"members restart", (*handOver).membersRestart},
		{"size changes", (*handOver).sizeChanges},
		{"two jobs in one group", (*handOver).twoJobsInOneGroup},
		{"claims of the group", (*handOver).claimsOfTheGroup},
		{"gates in one component", (*handOver).gatesInOneComponent},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(h, t) })
		deleteJobs(t, h.Cluster, "team")
	}
	t.Run("job controller makes groups", jobControllerMakesGroups)
}

// expect is an answer for eventually that says what is wrong.
func expect(ok bool, format string, args ...any) (bool, error) {
	if ok {
		return true, nil
	}
	return false, fmt.Errorf(format, args...)
}

// pods of a Job that are not being deleted.
func (h *handOver) pods(ctx context.Context, job string) ([]corev1.Pod, error) {
	list, err := h.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
	if err != nil {
		return nil, err
	}
	var live []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			live = append(live, pod)
		}
	}
	return live, nil
}

func (h *handOver) running(t *testing.T, job string, want int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, 30*time.Second, fmt.Sprintf("%d running pods of %s", want, job), func(ctx context.Context) (bool, error) {
		var err error
		pods, err = h.pods(ctx, job)
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if err == nil && running != want {
			err = fmt.Errorf("%d are", running)
		}
		return err == nil, err
	})
	return pods
}

func (h *handOver) groups(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	resource, _ := h.PodGroups()
	list, err := h.Dynamic.Resource(resource).Namespace("team").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// evicted waits until a Job's Workload says that it was taken back, with these words.
func (h *handOver) evicted(t *testing.T, job string, words ...string) {
	t.Helper()
	eventually(t, 40*time.Second, job+" to be taken back", func(ctx context.Context) (bool, error) {
		workload, err := workloadOf(ctx, h.Cluster, "team", job)
		if err != nil {
			return false, err
		}
		_, _, message := condition(workload, "Evicted")
		for _, word := range words {
			if !strings.Contains(message, word) {
				return false, fmt.Errorf("the message is %q", message)
			}
		}
		return message != "", nil
	})
}

func (h *handOver) gangCondition(t *testing.T, status string, words ...string) {
	t.Helper()
	eventually(t, 60*time.Second, "the queue to say "+status, func(ctx context.Context) (bool, error) {
		queue, err := h.Dynamic.Resource(clusterQueues).Get(ctx, "team", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		have, reason, message := condition(queue, "tutti.dev/NativeGangs")
		for _, word := range words {
			if !strings.Contains(message, word) {
				return false, fmt.Errorf("%s/%s: %s", have, reason, message)
			}
		}
		return expect(have == status, "%s/%s: %s", have, reason, message)
	})
}

func (h *handOver) restartTutti(t *testing.T) {
	t.Helper()
	if err := h.tutti.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// indexed makes a Job restart lost members, each index once.
func indexed(j *batchv1.Job) *batchv1.Job {
	mode, backoff := batchv1.IndexedCompletion, int32(100)
	j.Spec.CompletionMode, j.Spec.BackoffLimit = &mode, &backoff
	return j
}

func inGroup(j *batchv1.Job, group string) *batchv1.Job {
	j.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return j
}

// setPhase plays the kubelet: a pod's containers end, the failed ones later. The Job controller counts its
// back-off from the time that they give, and only after the last success (in whole seconds).
func (h *handOver) setPhase(t *testing.T, pod string, phase corev1.PodPhase) {
	t.Helper()
	code, at := 0, time.Now().Add(-5*time.Second)
	if phase == corev1.PodFailed {
		code, at = 1, time.Now()
	}
	patch := fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":"main","image":"example.org/work:1","imageID":"","ready":false,
"restartCount":0,"state":{"terminated":{"exitCode":%d,"finishedAt":%q}}}]}}`, phase, code, at.UTC().Format(time.RFC3339))
	if _, err := h.Kube.CoreV1().Pods("team").Patch(t.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// probe: the operator has proved that gangs hold, says so everywhere, and left nothing.
func (h *handOver) probe(t *testing.T) {
	h.gangCondition(t, "True", "holds a pod back")
	if got := sum(t, h.tutti, "tutti_native_gangs", map[string]string{"state": "gating"}); got != 1 {
		t.Errorf("tutti_native_gangs{state=gating} is %v", got)
	}
	h.noProbeLeft(t)
	// A crash in the middle: the next life clears up and asks again.
	h.tutti.Kill9()
	if err := h.tutti.Launch(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the probe's pods", func(ctx context.Context) (bool, error) {
		list, err := h.Kube.CoreV1().Pods(cluster.TuttiNamespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 2, err
	})
	h.tutti.Kill9()
	if err := h.tutti.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the proof", func(ctx context.Context) (bool, error) {
		metrics, err := h.tutti.Metrics(ctx)
		return err == nil && metrics.Sum("tutti_native_gangs", map[string]string{"state": "gating"}) == 1, err
	})
	h.noProbeLeft(t)
}

func (h *handOver) noProbeLeft(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, "nothing of the probe", func(ctx context.Context) (bool, error) {
		pods, err := h.Kube.CoreV1().Pods(cluster.TuttiNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		groups, _ := h.PodGroups()
		left, err := h.Dynamic.Resource(groups).Namespace(cluster.TuttiNamespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items)+len(left.Items) == 0, err
	})
}

func (h *handOver) quotaRefusesPods(t *testing.T) {
	quotas := h.Kube.CoreV1().ResourceQuotas("team")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "two-pods"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}}}
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the quota to count", func(ctx context.Context) (bool, error) {
		got, err := quotas.Get(ctx, "two-pods", metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) > 0, err
	})
	createJob(t, h.Cluster, teamJob("refused", 3, "1", "500ms"))
	h.evicted(t, "refused", "only 2 pods exist", "exceeded quota: two-pods")
	if err := quotas.Delete(t.Context(), "two-pods", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForJob(t, h.Cluster, "refused", batchv1.JobComplete)
}

func (h *handOver) groupOfAnotherOwner(t *testing.T) {
	first := createJob(t, h.Cluster, inGroup(teamJob("owner", 2, "1", ""), "owned"))
	h.running(t, "owner", 2)
	createJob(t, h.Cluster, inGroup(teamJob("intruder", 2, "1", "500ms"), "owned"))
	waitPending(t, h.Cluster, "intruder", "Inadmissible", `PodGroup "owned" belongs to Job "owner"`)
	if len(h.groups(t)) != 1 {
		t.Errorf("groups: %v", h.groups(t))
	}
	// A name of the operator's shape is refused at once.
	shaped := inGroup(teamJob("shaped", 2, "1", ""), "x-0123abcd-1")
	if _, err := h.Kube.BatchV1().Jobs("team").Create(t.Context(), shaped, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "use another name") {
		t.Errorf("a reserved group name: %v", err)
	}
	deleteJob(t, h.Cluster, first.Name)
	waitForJob(t, h.Cluster, "intruder", batchv1.JobComplete)
}

// drain stops the queue until the Job is suspended and opens it again.
func (h *handOver) drain(t *testing.T, job string) {
	t.Helper()
	stop := func(policy string) {
		patch := fmt.Sprintf(`{"spec":{"stopPolicy":%q}}`, policy)
		if _, err := h.Dynamic.Resource(clusterQueues).Patch(t.Context(), "team", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stop("HoldAndDrain")
	eventually(t, 20*time.Second, job+" to be suspended", func(ctx context.Context) (bool, error) {
		workload, err := workloadOf(ctx, h.Cluster, "team", job)
		if err != nil {
			return false, err
		}
		reserved, _, _ := condition(workload, "QuotaReserved")
		return reserved == "False", nil
	})
	stop("None")
}

func (h *handOver) oldPodsTerminate(t *testing.T) {
	slow := func(j *batchv1.Job) *batchv1.Job {
		j.Spec.Template.Annotations = map[string]string{cluster.TerminateFor: "6s"}
		grace := int64(30)
		j.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		return j
	}
	old := func(pods []corev1.Pod) map[types.UID]bool {
		uids := map[types.UID]bool{}
		for _, pod := range pods {
			uids[pod.UID] = true
		}
		return uids
	}
	terminating := func(t *testing.T, uids map[types.UID]bool) int {
		list, err := h.Kube.CoreV1().Pods("team").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, pod := range list.Items {
			if uids[pod.UID] {
				n++
			}
		}
		return n
	}
	t.Run("a fresh name waits for nobody where there is room", func(t *testing.T) {
		createJob(t, h.Cluster, slow(teamJob("roomy", 3, "1", "")))
		uids := old(h.running(t, "roomy", 3))
		h.drain(t, "roomy")
		h.running(t, "roomy", 3)
		if left := terminating(t, uids); left == 0 {
			t.Error("the old pods were gone before the new ones ran")
		}
		deleteJob(t, h.Cluster, "roomy")
		waitForNone(t, h.Cluster, corev1.SchemeGroupVersion.WithResource("pods"), "batch.kubernetes.io/job-name=roomy")
	})
	t.Run("without room it is not released before the places are free", func(t *testing.T) {
		timeouts := sum(t, h.tutti, "tutti_landing_timeouts_total", nil)
		createJob(t, h.Cluster, slow(teamJob("tight", 3, "3", "")))
		uids := old(h.running(t, "tight", 3))
		h.drain(t, "tight")
		eventually(t, 30*time.Second, "tight to be released", func(ctx context.Context) (bool, error) {
			j, err := h.Kube.BatchV1().Jobs("team").Get(ctx, "tight", metav1.GetOptions{})
			if err == nil && !isSuspended(j) && terminating(t, uids) == 3 {
				t.Fatal("released while all of the old pods hold their places")
			}
			return err == nil && !isSuspended(j), err
		})
		h.running(t, "tight", 3)
		if now := sum(t, h.tutti, "tutti_landing_timeouts_total", nil); now != timeouts {
			t.Errorf("taken back %v times", now-timeouts)
		}
		deleteJob(t, h.Cluster, "tight")
		waitForNone(t, h.Cluster, corev1.SchemeGroupVersion.WithResource("pods"), "batch.kubernetes.io/job-name=tight")
	})
	t.Run("a preset group waits for its old pods", func(t *testing.T) {
		createJob(t, h.Cluster, slow(inGroup(teamJob("preset", 3, "1", ""), "fixed")))
		uids := old(h.running(t, "preset", 3))
		h.drain(t, "preset")
		eventually(t, 30*time.Second, "preset to be released", func(ctx context.Context) (bool, error) {
			j, err := h.Kube.BatchV1().Jobs("team").Get(ctx, "preset", metav1.GetOptions{})
			if err == nil && !isSuspended(j) && terminating(t, uids) > 0 {
				t.Fatal("released while old pods are in the group")
			}
			return err == nil && !isSuspended(j), err
		})
		h.running(t, "preset", 3)
	})
}

func (h *handOver) membersRestart(t *testing.T) {
	t.Run("a failed member before any has succeeded", func(t *testing.T) {
		createJob(t, h.Cluster, indexed(teamJob("retry", 3, "1", "")))
		pods := h.running(t, "retry", 3)
		h.setPhase(t, pods[0].Name, corev1.PodFailed)
		eventually(t, 40*time.Second, "a new pod", func(ctx context.Context) (bool, error) {
			now, err := h.pods(ctx, "retry")
			running := 0
			for _, pod := range now {
				if pod.Status.Phase == corev1.PodRunning && pod.Name != pods[0].Name {
					running++
				}
			}
			return running == 3, err
		})
		if groups := h.groups(t); len(groups) != 1 || groups[0].Object["spec"].(map[string]any)["schedulingPolicy"].(map[string]any)["gang"] == nil {
			t.Errorf("the group was touched: %v", groups)
		}
		deleteJob(t, h.Cluster, "retry")
	})
	t.Run("a failed member after another has succeeded", func(t *testing.T) {
		createJob(t, h.Cluster, indexed(teamJob("late", 3, "1", "")))
		pods := h.running(t, "late", 3)
		h.setPhase(t, pods[0].Name, corev1.PodSucceeded)
		h.setPhase(t, pods[1].Name, corev1.PodFailed)
		eventually(t, 40*time.Second, "the replacement to run", func(ctx context.Context) (bool, error) {
			now, err := h.pods(ctx, "late")
			running := 0
			for _, pod := range now {
				if pod.Status.Phase == corev1.PodRunning {
					running++
				}
			}
			return running == 2, err
		})
		for _, pod := range h.running(t, "late", 2) {
			h.setPhase(t, pod.Name, corev1.PodSucceeded)
		}
		waitForJob(t, h.Cluster, "late", batchv1.JobComplete)
	})
}

func (h *handOver) sizeChanges(t *testing.T) {
	createJob(t, h.Cluster, teamJob("elastic", 4, "1", ""))
	h.running(t, "elastic", 4)
	patch := []byte(`{"spec":{"parallelism":2}}`)
	if _, err := h.Kube.BatchV1().Jobs("team").Patch(t.Context(), "elastic", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "a gang of two", func(context.Context) (bool, error) {
		groups := h.groups(t)
		if len(groups) != 1 {
			return false, fmt.Errorf("%d groups", len(groups))
		}
		count, _, _ := unstructured.NestedInt64(groups[0].Object, "spec", "schedulingPolicy", "gang", "minCount")
		return expect(count == 2, "minCount is %d", count)
	})
	h.running(t, "elastic", 2)
	eventually(t, 10*time.Second, "the quota of two", func(ctx context.Context) (bool, error) {
		used, err := usage(ctx, h.Cluster, "team")
		return expect(used["cpu"] == "2", "%v %v", used, err)
	})
}

func (h *handOver) twoJobsInOneGroup(t *testing.T) {
	groups, _ := h.PodGroups()
	if err := h.ApplyYAML(t.Context(), "apiVersion: "+groups.GroupVersion().String()+`
kind: PodGroup
metadata: {name: both, namespace: team}
spec: {schedulingPolicy: {gang: {minCount: 4}}}
`); err != nil {
		t.Fatal(err)
	}
	createJob(t, h.Cluster, inGroup(teamJob("one", 2, "1", "3s"), "both"))
	eventually(t, 20*time.Second, "two waiting pods", func(ctx context.Context) (bool, error) {
		pods, err := h.pods(ctx, "one")
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				t.Fatal("half of the group has a node")
			}
		}
		return len(pods) == 2, err
	})
	createJob(t, h.Cluster, inGroup(teamJob("two", 2, "1", "3s"), "both"))
	waitForJob(t, h.Cluster, "one", batchv1.JobComplete)
	waitForJob(t, h.Cluster, "two", batchv1.JobComplete)
	if err := h.Dynamic.Resource(groups).Namespace("team").Delete(t.Context(), "both", metav1.DeleteOptions{}); err != nil {
		t.Fatal("the user's group is gone: ", err)
	}
}

const fabric = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fabric}
spec: {selectors: [{cel: {expression: "device.driver == 'fabric.example.org'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec:
  driver: fabric.example.org
  pool: {name: fabric, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices: [{name: net-0}, {name: net-1}, {name: net-2}, {name: net-3}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: net, namespace: team}
spec: {spec: {devices: {requests: [{name: net, exactly: {deviceClassName: fabric}}]}}}
`

func withClaim(j *batchv1.Job, claim corev1.PodResourceClaim, shared bool) *batchv1.Job {
	if shared {
		j.Annotations = map[string]string{"tutti.dev/gang-claims": claim.Name}
	}
	spec := &j.Spec.Template.Spec
	spec.ResourceClaims = append(spec.ResourceClaims, claim)
	spec.Containers[0].Resources.Claims = append(spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
	return j
}

func (h *handOver) claimsOfTheGroup(t *testing.T) {
	if err := h.ApplyYAML(t.Context(), fabric); err != nil {
		t.Fatal(err)
	}
	template, named := "net", "fabric-1"
	fromTemplate := corev1.PodResourceClaim{Name: "net", ResourceClaimTemplateName: &template}
	byName := corev1.PodResourceClaim{Name: "net", ResourceClaimName: &named}
	claims := func() int {
		list, err := h.Kube.ResourceV1().ResourceClaims("team").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	t.Run("one claim for the whole gang", func(t *testing.T) {
		createJob(t, h.Cluster, indexed(withClaim(teamJob("shared", 3, "1", ""), fromTemplate, true)))
		pods := h.running(t, "shared", 3)
		if n := claims(); n != 1 {
			t.Errorf("%d claims", n)
		}
		// A member lost after another has succeeded: the whole gang starts again.
		h.setPhase(t, pods[0].Name, corev1.PodSucceeded)
		h.setPhase(t, pods[1].Name, corev1.PodFailed)
		h.evicted(t, "shared", "replaces a lost member", "claims would not survive")
		for _, pod := range h.running(t, "shared", 2) {
			h.setPhase(t, pod.Name, corev1.PodSucceeded)
		}
		waitForJob(t, h.Cluster, "shared", batchv1.JobComplete)
		eventually(t, 20*time.Second, "the claim to go with its group", func(context.Context) (bool, error) { return claims() == 0, nil })
	})
	t.Run("a claim by name", func(t *testing.T) {
		createJob(t, h.Cluster, indexed(withClaim(teamJob("named", 3, "1", ""), byName, true)))
		waitPending(t, h.Cluster, "named", "Pending", "ResourceClaim team/fabric-1 does not exist")
		if err := h.ApplyYAML(t.Context(), `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: fabric-1, namespace: team}
spec: {devices: {requests: [{name: net, exactly: {deviceClassName: fabric}}]}}
`); err != nil {
			t.Fatal(err)
		}
		pods := h.running(t, "named", 3)
		group := h.groups(t)[0].GetUID()
		h.setPhase(t, pods[0].Name, corev1.PodSucceeded)
		h.setPhase(t, pods[1].Name, corev1.PodFailed)
		eventually(t, 20*time.Second, "the group to be closed", func(context.Context) (bool, error) {
			return h.groups(t)[0].GetLabels()["tutti.dev/started"] == "true", nil
		})
		eventually(t, 40*time.Second, "the replacement to run outside of the group", func(ctx context.Context) (bool, error) {
			now, err := h.pods(ctx, "named")
			for _, pod := range now {
				if pod.Status.Phase == corev1.PodRunning && pod.Spec.SchedulingGroup == nil {
					return true, err
				}
			}
			return false, err
		})
		if h.groups(t)[0].GetUID() != group {
			t.Error("the group was made anew under the claim")
		}
		for _, pod := range h.running(t, "named", 2) {
			h.setPhase(t, pod.Name, corev1.PodSucceeded)
		}
		waitForJob(t, h.Cluster, "named", batchv1.JobComplete)
	})
	t.Run("own claims come first", func(t *testing.T) {
		j := withClaim(teamJob("swapped", 2, "1", ""), fromTemplate, true)
		own := fromTemplate
		own.Name = "own"
		createJob(t, h.Cluster, withClaim(j, own, false))
		waitPending(t, h.Cluster, "swapped", "Inadmissible", `spec.template.spec.resourceClaims[1]: "own"`)
	})
}

// restartManager stops the controller manager and starts it with other gates.
func (h *handOver) restartManager(t *testing.T, gates map[string]bool) {
	t.Helper()
	h.Manager.Kill9()
	h.ManagerGates = gates
	if err := h.StartManager(); err != nil {
		t.Fatal(err)
	}
}

func (h *handOver) restartScheduler(t *testing.T, gates map[string]bool) {
	t.Helper()
	h.Scheduler.Kill9()
	h.SchedulerGates = gates
	if err := h.StartScheduler(); err != nil {
		t.Fatal(err)
	}
}

func jobControllerMakesGroups(t *testing.T) {
	h := newHandOver(t, map[string]bool{"WorkloadWithJob": true})
	quorums := h.Minor == "1.36"
	for i := range 5 {
		createJob(t, h.Cluster, indexed(teamJob(fmt.Sprintf("native-%d", i), 2, "1", "")))
	}
	for i := range 5 {
		name := fmt.Sprintf("native-%d", i)
		for _, pod := range h.running(t, name, 2) {
			label, group := pod.Labels["tutti.dev/pod-group"], pod.Spec.SchedulingGroup
			// Where it makes groups without a quorum for every Job, they give way to ours.
			if group == nil || (quorums && label != "") || (!quorums && label != *group.PodGroupName) {
				t.Errorf("pod %s has label %q and group %v", pod.Name, label, group)
			}
		}
	}
	if n := len(h.groups(t)); n != 5 {
		t.Errorf("%d groups of 5 gangs", n)
	}
	if again := sum(t, h.tutti, "kueue_evicted_workloads_total", nil); again != 0 {
		t.Errorf("%v gangs were started again", again)
	}
	gang := "native-0"
	if !quorums {
		gang = "asks"
		if err := h.ApplyYAML(t.Context(), `
apiVersion: batch/v1
kind: Job
metadata: {name: asks, namespace: team, labels: {kueue.x-k8s.io/queue-name: lq}}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  scheduling: {schedulingPolicy: {gang: {minCount: 2}}}
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.org/work:1", resources: {requests: {cpu: 1}}}]
`); err != nil {
			t.Fatal(err)
		}
		for _, pod := range h.running(t, gang, 2) {
			if pod.Labels["tutti.dev/pod-group"] != "" || pod.Spec.SchedulingGroup == nil {
				t.Errorf("pod %s has label %q and group %v", pod.Name, pod.Labels["tutti.dev/pod-group"], pod.Spec.SchedulingGroup)
			}
		}
		deleteJob(t, h.Cluster, "native-4") // room for one more
		createJob(t, h.Cluster, teamJob("single", 1, "1", "500ms"))
		waitForJob(t, h.Cluster, "single", batchv1.JobComplete)
	}
	// Its quorum out of reach, such a group gives way to one of ours.
	pods, err := h.pods(t.Context(), gang)
	if err != nil {
		t.Fatal(err)
	}
	h.setPhase(t, pods[0].Name, corev1.PodSucceeded)
	h.setPhase(t, pods[1].Name, corev1.PodFailed)
	h.evicted(t, gang, "which the Job controller made")
	for _, pod := range h.running(t, gang, 1) {
		h.setPhase(t, pod.Name, corev1.PodSucceeded)
	}
	waitForJob(t, h.Cluster, gang, batchv1.JobComplete)
}

func (h *handOver) gatesInOneComponent(t *testing.T) {
	t.Run("controller manager", func(t *testing.T) {
		h.restartManager(t, h.GangGates(false))
		defer h.restartManager(t, nil)
		createJob(t, h.Cluster, teamJob("kept", 3, "1", "500ms"))
		waitForJob(t, h.Cluster, "kept", batchv1.JobComplete)
		eventually(t, 40*time.Second, "the group to be freed and said so", func(ctx context.Context) (bool, error) {
			events, err := h.Kube.CoreV1().Events("team").List(ctx, metav1.ListOptions{FieldSelector: "reason=GroupFinalizerRemoved"})
			return err == nil && len(h.groups(t)) == 0 && len(events.Items) > 0, err
		})
		h.restartTutti(t)
		// Of this life: the condition may be of the one before.
		eventually(t, 40*time.Second, "the log to name the controller manager", func(context.Context) (bool, error) {
			text := h.tutti.LogTail(100000)
			return strings.Contains(text, "kube-controller-manager") && strings.Contains(text, "GenericWorkload is off"), nil
		})
		h.gangCondition(t, "True")
		h.noProbeLeft(t)
	})
	for _, one := range []struct {
		name  string
		gates map[string]bool
		word  string
	}{
		{"scheduler without gangs", map[string]bool{"GangScheduling": false}, "GangScheduling is off"},
		{"scheduler without groups", h.GangGates(false), "GenericWorkload is off"},
	} {
		t.Run(one.name, func(t *testing.T) {
			for gate := range one.gates {
				if _, known := h.GangGates(false)[gate]; !known {
					t.Skipf("Kubernetes %s has no gate %s", h.Minor, gate)
				}
			}
			h.restartScheduler(t, one.gates)
			h.restartTutti(t)
			h.gangCondition(t, "False", "kube-scheduler", one.word)
			createJob(t, h.Cluster, teamJob("plain", 3, "1", "500ms"))
			waitForJob(t, h.Cluster, "plain", batchv1.JobComplete)
			if n := sum(t, h.tutti, "tutti_api_writes_total", map[string]string{"resource": "podgroups", "verb": "create"}); n != 0 {
				t.Errorf("%v groups were made", n)
			}
			deleteJob(t, h.Cluster, "plain")
		})
	}
	h.restartScheduler(t, nil)
	h.restartTutti(t)
	h.gangCondition(t, "True")
}
