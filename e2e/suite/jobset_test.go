// SPDX-License-Identifier: Apache-2.0

// JobSet: JobSets as gangs, on a real control plane with the JobSet controller and its webhooks: held at creation, started
// whole or not at all, drained and back, in order, restarted, finished, deleted.

package suite

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
)

const jobSetQueues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gang}
spec: {nodeLabels: {pool: gang}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: gang
      resources:
      - {name: cpu, nominalQuota: 6}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: team}
`

const jobSetAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: jobset-controller-manager, namespace: jobset-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jobset-controller-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: jobset-controller-manager, namespace: jobset-system}]
`

var jobSets = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}

type jobSetTest struct{ *cluster.Cluster }

func TestJobSet(t *testing.T) {
	if !long() {
		t.Skip("a long test: the JobSet controller takes minutes to build; ./test.sh e2e JobSet --long")
	}
	frameworks := map[string]any{"frameworks": []any{"batch/job", "jobset.x-k8s.io/jobset"}}
	c := cluster.ForTest(t, cluster.Options{})
	startJobSetController(t, c)
	if err := c.InstallTutti(t.Context(), map[string]any{
		"config": map[string]any{"kueue": map[string]any{"integrations": frameworks}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNodes(t.Context(), cluster.NodeSpec{Count: 2, CPU: "4", Labels: map[string]string{"pool": "gang"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNamespace(t.Context(), "team", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(t.Context(), jobSetQueues); err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartTutti(t.Context(), cluster.TuttiOptions{Config: map[string]any{"integrations": frameworks}}); err != nil {
		t.Fatal(err)
	}
	h := &jobSetTest{c}
	for _, one := range []struct {
		name string
		run  func(*jobSetTest, *testing.T)
	}{
		{"it starts whole or not at all, is drained as it was submitted, and runs to its end", (*jobSetTest).drained},
		{"parts that start one after the other", (*jobSetTest).inOrder},
		{"one that its controller restarts keeps its quota and stays one gang", (*jobSetTest).restarted},
		{"nothing keeps one, or its namespace, from being deleted", (*jobSetTest).deleted},
	} {
		if !t.Run(one.name, func(t *testing.T) { one.run(h, t) }) {
			return
		}
	}
	waitForNoGroups(t, c)
}

func (h *jobSetTest) drained(t *testing.T) {
	submitted := h.create(t, jobSet("first", "", part("driver", 1, 1, ""), part("workers", 2, 2, "")))
	h.waitForPods(t, "first", 5)
	h.checkGang(t, "first")

	// It doesn't fit beside the first one: nothing of it runs.
	h.create(t, jobSet("second", "", part("driver", 1, 1, "2s"), part("workers", 2, 2, "2s")))
	eventually(t, 20*time.Second, "the second to say why it waits", func(ctx context.Context) (bool, error) {
		status, _, message := condition(h.workload(ctx, "second"), "QuotaReserved")
		return expect(status == "False" && message != "", "%q: %s", status, message)
	})
	if n := len(h.pods(t, "second")); n != 0 {
		t.Errorf("%d pods of a JobSet that has no quota", n)
	}

	h.stop(t, "HoldAndDrain")
	eventually(t, 30*time.Second, "the first to be drained", func(ctx context.Context) (bool, error) {
		suspended, _, _ := unstructured.NestedBool(h.get(t, "first").Object, "spec", "suspend")
		quota, _, _ := condition(h.workload(ctx, "first"), "QuotaReserved")
		return expect(suspended && quota == "False" && len(h.pods(t, "first")) == 0, "suspended %v, quota %s, %d pods",
			suspended, quota, len(h.pods(t, "first")))
	})
	if have := h.get(t, "first").Object["spec"]; !reflect.DeepEqual(have, submitted.Object["spec"]) {
		t.Errorf("the first is not as it was submitted:\n%v\n%v", have, submitted.Object["spec"])
	}
	h.stop(t, "None")
	h.waitForPods(t, "first", 5)
	h.checkGang(t, "first")
	if err := h.Dynamic.Resource(jobSets).Namespace("team").Delete(t.Context(), "first", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	h.waitForEnd(t, "second", "Completed", "Succeeded")
}

func (h *jobSetTest) inOrder(t *testing.T) {
	set := jobSet("in-order", "InOrder", part("driver", 1, 1, "12s"), part("workers", 2, 2, "5s"))
	h.create(t, set)
	h.waitForPods(t, "in-order", 5)
	for _, pod := range h.pods(t, "in-order") {
		if pod.Spec.SchedulingGroup != nil {
			t.Errorf("%s is in a group: parts that start one after the other never fill one", pod.Name)
		}
	}
	h.waitForEnd(t, "in-order", "Completed", "Succeeded")
}

func (h *jobSetTest) restarted(t *testing.T) {
	driver := part("driver", 1, 1, "")
	annotate(driver, cluster.FailAfter, "8s")
	set := jobSet("restarts", "", driver, part("workers", 2, 2, ""))
	set.Object["spec"].(map[string]any)["failurePolicy"] = map[string]any{"maxRestarts": int64(1)}
	h.create(t, set)
	h.waitForPods(t, "restarts", 5)
	before := h.workload(t.Context(), "restarts").GetUID()
	eventually(t, 60*time.Second, "it to be started again", func(context.Context) (bool, error) {
		restarts, _, _ := unstructured.NestedInt64(h.get(t, "restarts").Object, "status", "restarts")
		return expect(restarts == 1, "%d restarts", restarts)
	})
	h.waitForPods(t, "restarts", 5)
	h.checkGang(t, "restarts")
	h.waitForEnd(t, "restarts", "Failed", "Failed")
	workload := h.workload(t.Context(), "restarts")
	if evicted, _, message := condition(workload, "Evicted"); workload.GetUID() != before || evicted != "" {
		t.Errorf("it has lost its quota: %q, %s", evicted, message)
	}
}

// deleted: kueue#13857 and its like.
func (h *jobSetTest) deleted(t *testing.T) {
	h.create(t, jobSet("runs", "", part("driver", 1, 1, ""), part("workers", 2, 2, "")))
	h.waitForPods(t, "runs", 5)
	h.create(t, jobSet("waits", "", part("driver", 1, 1, ""), part("workers", 2, 2, "")))
	foreground := metav1.DeletePropagationForeground
	if err := h.Dynamic.Resource(jobSets).Namespace("team").Delete(t.Context(), "runs", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	if err := h.Kube.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 90*time.Second, "the namespace to be gone", func(ctx context.Context) (bool, error) {
		namespace, err := h.Kube.CoreV1().Namespaces().Get(ctx, "team", metav1.GetOptions{})
		if cluster.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("%v, %v", namespace.Status.Conditions, err)
	})
}

// startJobSetController runs the JobSet controller as its installation would: under its own account, with the webhooks
// that fill in and check JobSets.
func startJobSetController(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx := t.Context()
	crds, err := cluster.ToolPath("jobset", "crds/jobset.x-k8s.io_jobsets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	program, err := cluster.ToolPath("jobset", "jobset")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyFile(ctx, crds); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNamespace(ctx, "jobset-system", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(ctx, jobSetAccount); err != nil {
		t.Fatal(err)
	}
	token, err := c.ServiceAccountToken(ctx, "jobset-system", "jobset-controller-manager", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.WriteKubeconfig("jobset", c.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key, err := c.CA.Server("jobset")
	if err != nil {
		t.Fatal(err)
	}
	webhook, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "0"}
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
`, webhook, dir)
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "config.yaml": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	process, err := cluster.StartProcess("jobset", c.LogDir, c.Dir, program, []string{"--config=" + filepath.Join(dir, "config.yaml")},
		[]string{"KUBECONFIG=" + kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(5 * time.Second) })
	if err := c.ApplyYAML(ctx, jobSetWebhooks(webhook, c.CA.CAPEM)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the JobSet controller to answer", func(ctx context.Context) (bool, error) {
		_, err := c.Dynamic.Resource(jobSets).Namespace("default").Create(ctx, jobSet("probe", "", part("one", 1, 1, "")),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, err
	})
}

// jobSetWebhooks are the configurations of the JobSet controller's own webhooks.
func jobSetWebhooks(port int, ca []byte) string {
	text := ""
	for _, one := range []struct{ kind, path, operations string }{
		{"Mutating", "mutate", "[CREATE]"}, {"Validating", "validate", "[CREATE, UPDATE]"},
	} {
		text += fmt.Sprintf(`---
apiVersion: admissionregistration.k8s.io/v1
kind: %sWebhookConfiguration
metadata: {name: jobset-%s}
webhooks:
- name: %s.jobset.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig:
    url: https://127.0.0.1:%d/%s-jobset-x-k8s-io-v1alpha2-jobset
    caBundle: %s
  rules:
  - {apiGroups: [jobset.x-k8s.io], apiVersions: [v1alpha2], resources: [jobsets], operations: %s}
`, one.kind, one.path, one.path, port, one.path, base64.StdEncoding.EncodeToString(ca), one.operations)
	}
	return text
}

// part of a JobSet: so many Jobs of so many pods of 1 cpu; runFor "" = for ever.
func part(name string, jobs, pods int, runFor string) map[string]any {
	made := map[string]any{"name": name, "replicas": int64(jobs), "template": map[string]any{"spec": map[string]any{
		"parallelism": int64(pods), "completions": int64(pods), "backoffLimit": int64(0),
		"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"example.com/kept": "yes"}},
			"spec": map[string]any{
				"restartPolicy": "Never", "terminationGracePeriodSeconds": int64(1),
				"containers": []any{map[string]any{
					"name": "main", "image": "example.org/work:1",
					"resources": map[string]any{"requests": map[string]any{"cpu": "1"}},
				}},
			},
		},
	}}}
	if runFor != "" {
		annotate(made, cluster.RunFor, runFor)
	}
	return made
}

// annotate the pods of a part.
func annotate(part map[string]any, key, value string) {
	if err := unstructured.SetNestedField(part, value, "template", "spec", "template", "metadata", "annotations", key); err != nil {
		panic(err)
	}
}

// jobSet that is resumed from the start, if it were not held; order "" = all parts at once.
func jobSet(name, order string, parts ...map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"suspend": false}
	var list []any
	for _, one := range parts {
		list = append(list, one)
	}
	spec["replicatedJobs"] = list
	if order != "" {
		spec["startupPolicy"] = map[string]any{"startupPolicyOrder": order}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
		"metadata": map[string]any{"name": name, "labels": map[string]any{queueLabel: "lq"}},
		"spec":     spec,
	}}
}

// create it, as it is then: held.
func (h *jobSetTest) create(t *testing.T, set *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := h.Dynamic.Resource(jobSets).Namespace("team").Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if held, _, _ := unstructured.NestedBool(created.Object, "spec", "suspend"); !held {
		t.Errorf("%s was not held at its creation", set.GetName())
	}
	return created
}

func (h *jobSetTest) get(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	set, err := h.Dynamic.Resource(jobSets).Namespace("team").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// workload of a JobSet; nil while there is none.
func (h *jobSetTest) workload(ctx context.Context, name string) *unstructured.Unstructured {
	list, err := h.Dynamic.Resource(workloads).Namespace("team").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		for _, owner := range list.Items[i].GetOwnerReferences() {
			if owner.Kind == "JobSet" && owner.Name == name {
				return &list.Items[i]
			}
		}
	}
	return nil
}

func (h *jobSetTest) pods(t *testing.T, name string) []corev1.Pod {
	t.Helper()
	list, err := h.Kube.CoreV1().Pods("team").List(t.Context(), metav1.ListOptions{LabelSelector: "jobset.sigs.k8s.io/jobset-name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (h *jobSetTest) waitForPods(t *testing.T, name string, want int) {
	t.Helper()
	eventually(t, 40*time.Second, name+" to run", func(context.Context) (bool, error) {
		running := 0
		for _, pod := range h.pods(t, name) {
			if pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return expect(running == want, "%d of %d pods run", running, want)
	})
}

// checkGang finds all pods of a JobSet in one group where groups are served.
func (h *jobSetTest) checkGang(t *testing.T, name string) {
	t.Helper()
	if _, served := h.PodGroups(); !served {
		return
	}
	groups := map[string]int{}
	for _, pod := range h.pods(t, name) {
		group := "none"
		if pod.Spec.SchedulingGroup != nil && pod.Spec.SchedulingGroup.PodGroupName != nil {
			group = *pod.Spec.SchedulingGroup.PodGroupName
		}
		groups[group]++
	}
	if len(groups) != 1 || groups["none"] != 0 {
		t.Errorf("groups of the pods: %v", groups)
	}
}

// waitForEnd until the JobSet has this condition and its Workload has ended for this reason.
func (h *jobSetTest) waitForEnd(t *testing.T, name, how, reason string) {
	t.Helper()
	eventually(t, 60*time.Second, name+" to be "+how, func(context.Context) (bool, error) {
		status, _, _ := condition(h.get(t, name), how)
		return expect(status == "True", "%s is %q", how, status)
	})
	eventually(t, 20*time.Second, "its Workload to be finished", func(ctx context.Context) (bool, error) {
		status, why, _ := condition(h.workload(ctx, name), "Finished")
		return expect(status == "True" && why == reason, "%s/%s", status, why)
	})
}

func (h *jobSetTest) stop(t *testing.T, policy string) {
	t.Helper()
	_, err := h.Dynamic.Resource(clusterQueues).Patch(t.Context(), "team", types.MergePatchType,
		[]byte(`{"spec":{"stopPolicy":"`+policy+`"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
