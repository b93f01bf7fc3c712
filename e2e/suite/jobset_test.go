// SPDX-License-Identifier: Apache-2.0

// JobSet: JobSets as gangs, on a real control plane with the JobSet controller: held at creation, started whole or not
// at all, drained and back, finished.

package suite

import (
	"context"
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

	h.create(t, "first", 2, "")
	h.waitForPods(t, "first", 5)
	h.checkGang(t, "first")

	// It doesn't fit beside the first one: nothing of it runs.
	h.create(t, "second", 2, "2s")
	eventually(t, 20*time.Second, "the second to say why it waits", func(ctx context.Context) (bool, error) {
		status, _, message := condition(h.workload(ctx, "second"), "QuotaReserved")
		return expect(status == "False" && message != "", "%q: %s", status, message)
	})
	if n := len(h.pods(t, "second")); n != 0 {
		t.Errorf("%d pods of a JobSet that has no quota", n)
	}

	submitted := h.get(t, "second")
	h.stop(t, "HoldAndDrain")
	eventually(t, 30*time.Second, "the first to be drained", func(ctx context.Context) (bool, error) {
		suspended, _, _ := unstructured.NestedBool(h.get(t, "first").Object, "spec", "suspend")
		quota, _, _ := condition(h.workload(ctx, "first"), "QuotaReserved")
		return expect(suspended && quota == "False" && len(h.pods(t, "first")) == 0, "suspended %v, quota %s, %d pods",
			suspended, quota, len(h.pods(t, "first")))
	})
	want, _, _ := unstructured.NestedSlice(submitted.Object, "spec", "replicatedJobs")
	for _, name := range []string{"first", "second"} {
		have, _, _ := unstructured.NestedSlice(h.get(t, name).Object, "spec", "replicatedJobs")
		if name == "second" && !reflect.DeepEqual(have, want) {
			t.Errorf("%s is not as it was submitted", name)
		}
		for _, entry := range have {
			selector, _, _ := unstructured.NestedMap(entry.(map[string]any), "template", "spec", "template", "spec", "nodeSelector")
			if len(selector) != 0 {
				t.Errorf("%s keeps %v", name, selector)
			}
		}
	}
	if err := c.Dynamic.Resource(jobSets).Namespace("team").Delete(t.Context(), "first", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	h.stop(t, "None")
	eventually(t, 60*time.Second, "the second to complete", func(context.Context) (bool, error) {
		status, _, _ := condition(h.get(t, "second"), "Completed")
		return expect(status == "True", "Completed is %q", status)
	})
	eventually(t, 20*time.Second, "its Workload to be finished", func(ctx context.Context) (bool, error) {
		status, reason, _ := condition(h.workload(ctx, "second"), "Finished")
		return expect(status == "True" && reason == "Succeeded", "%s/%s", status, reason)
	})
	waitForNoGroups(t, c)
}

// startJobSetController runs the JobSet controller as its installation would: under its own account, without the webhooks
// of its own (the manifests say what those would fill in).
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
}

// create makes a JobSet of a driver with one pod and so many workers of two pods each, 1 cpu per pod; runFor "" = for ever.
func (h *jobSetTest) create(t *testing.T, name string, workers int, runFor string) {
	t.Helper()
	replicated := func(part string, replicas, pods int) map[string]any {
		annotations := map[string]any{}
		if runFor != "" {
			annotations[cluster.RunFor] = runFor
		}
		return map[string]any{"name": part, "replicas": int64(replicas), "template": map[string]any{"spec": map[string]any{
			"parallelism": int64(pods), "completions": int64(pods), "completionMode": "Indexed", "backoffLimit": int64(0),
			"template": map[string]any{
				"metadata": map[string]any{"annotations": annotations},
				"spec": map[string]any{
					"restartPolicy": "Never", "terminationGracePeriodSeconds": int64(1),
					"containers": []any{map[string]any{
						"name": "main", "image": "example.org/work:1",
						"resources": map[string]any{"requests": map[string]any{"cpu": "1"}},
					}},
				},
			},
		}}}
	}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
		"metadata": map[string]any{"name": name, "namespace": "team", "labels": map[string]any{queueLabel: "lq"}},
		"spec": map[string]any{
			"suspend": false, "network": map[string]any{"enableDNSHostnames": false},
			"successPolicy":  map[string]any{"operator": "All"},
			"startupPolicy":  map[string]any{"startupPolicyOrder": "AnyOrder"},
			"replicatedJobs": []any{replicated("driver", 1, 1), replicated("workers", workers, 2)},
		},
	}}
	created, err := h.Dynamic.Resource(jobSets).Namespace("team").Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if held, _, _ := unstructured.NestedBool(created.Object, "spec", "suspend"); !held {
		t.Errorf("%s was not held at its creation", name)
	}
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
			if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
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

func (h *jobSetTest) stop(t *testing.T, policy string) {
	t.Helper()
	_, err := h.Dynamic.Resource(clusterQueues).Patch(t.Context(), "team", types.MergePatchType,
		[]byte(`{"spec":{"stopPolicy":"`+policy+`"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
