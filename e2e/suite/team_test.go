// SPDX-License-Identifier: Apache-2.0

// A cluster with Tutti on it, and what tests ask it.

package suite

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
)

var (
	workloads     = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
	clusterQueues = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "clusterqueues"}
	localQueues   = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "localqueues"}
	background    = metav1.DeletePropagationBackground
)

// startTeam starts a cluster with the chart, nodes and queues, and the operator on it.
func startTeam(t *testing.T, gatesOff bool, nodes cluster.NodeSpec, queues string, o cluster.TuttiOptions) (*cluster.Cluster, *cluster.Tutti) {
	t.Helper()
	c := installTeam(t, gatesOff, nodes, queues)
	tutti, err := c.StartTutti(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c, tutti
}

// installTeam is startTeam without the operator.
func installTeam(t *testing.T, gatesOff bool, nodes cluster.NodeSpec, queues string) *cluster.Cluster {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{GatesOff: gatesOff})
	installOn(t, c, nil, nodes, queues)
	return c
}

// installOn installs the chart with these values, and adds nodes, both namespaces and what stands in queues.
func installOn(t *testing.T, c *cluster.Cluster, values map[string]any, nodes cluster.NodeSpec, queues string) {
	t.Helper()
	ctx := t.Context()
	if err := c.InstallTutti(ctx, values); err != nil {
		t.Fatal(err)
	}
	if nodes.Count > 0 {
		if _, err := c.AddNodes(ctx, nodes); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"team", "other"} {
		if err := c.CreateNamespace(ctx, namespace, nil); err != nil {
			t.Fatal(err)
		}
	}
	if queues == "" {
		return
	}
	if err := c.ApplyYAML(ctx, queues); err != nil {
		t.Fatal(err)
	}
}

const defaultFlavor = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
`

// cpuQueue is the manifest of a ClusterQueue with cpu of the default flavor; quota is what stands beside the
// name of the resource, more are further fields of its spec, one a line.
func cpuQueue(name, quota string, more ...string) string {
	fields := ""
	for _, field := range more {
		fields += "\n  " + field
	}
	return `---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: ` + name + `}
spec:
  namespaceSelector: {}` + fields + `
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - {name: cpu, ` + quota + `}
`
}

// localQueue is the manifest of a LocalQueue.
func localQueue(namespace, name, clusterQueue string) string {
	return fmt.Sprintf("---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: %s, namespace: %s}\nspec: {clusterQueue: %s}\n", name, namespace, clusterQueue)
}

// priorityClass is the manifest of a WorkloadPriorityClass.
func priorityClass(name string, value int) string {
	return fmt.Sprintf("---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: %s}\nvalue: %d\n", name, value)
}

// teamJob is a Job of the team's queue "lq" whose pods ask for so many cpu each; runFor "" = for ever.
func teamJob(name string, pods int32, cpu, runFor string) *batchv1.Job {
	var annotations map[string]string
	if runFor != "" {
		annotations = map[string]string{cluster.RunFor: runFor}
	}
	j := job(name, pods, annotations)
	j.Labels = map[string]string{queueLabel: "lq"}
	j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	return j
}

func finished(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// workloadOf finds the Workload of a Job; nil while there is none.
func workloadOf(ctx context.Context, c *cluster.Cluster, namespace, jobName string) (*unstructured.Unstructured, error) {
	list, err := c.Dynamic.Resource(workloads).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		for _, owner := range list.Items[i].GetOwnerReferences() {
			if (owner.Kind == "Job" || owner.Kind == "StatefulSet") && owner.Name == jobName {
				return &list.Items[i], nil
			}
		}
	}
	return nil, nil
}

// condition of an object: status, reason, message; empty when absent.
func condition(object *unstructured.Unstructured, kind string) (status, reason, message string) {
	if object == nil {
		return "", "", ""
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if m, ok := entry.(map[string]any); ok && m["type"] == kind {
			status, _ = m["status"].(string)
			reason, _ = m["reason"].(string)
			message, _ = m["message"].(string)
			return status, reason, message
		}
	}
	return "", "", ""
}

// waitPending waits until the Workload of a Job is told so.
func waitPending(t *testing.T, c *cluster.Cluster, name, wantReason string, wantInMessage ...string) {
	t.Helper()
	eventually(t, 20*time.Second, "a reason for "+name, func(ctx context.Context) (bool, error) {
		workload, err := workloadOf(ctx, c, "team", name)
		if err != nil {
			return false, err
		}
		status, reason, message := condition(workload, "QuotaReserved")
		if status != "False" || reason != wantReason {
			return false, fmt.Errorf("QuotaReserved is %q/%q: %s", status, reason, message)
		}
		for _, want := range wantInMessage {
			if !strings.Contains(message, want) {
				return false, fmt.Errorf("the message %q doesn't say %q", message, want)
			}
		}
		return true, nil
	})
}

// usage of a ClusterQueue's first flavor: "cpu" -> total, from flavorsReservation.
func usage(ctx context.Context, c *cluster.Cluster, queue string) (map[string]string, error) {
	object, err := c.Dynamic.Resource(clusterQueues).Get(ctx, queue, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	flavors, _, _ := unstructured.NestedSlice(object.Object, "status", "flavorsReservation")
	out := map[string]string{}
	for _, flavor := range flavors {
		resources, _, _ := unstructured.NestedSlice(flavor.(map[string]any), "resources")
		for _, entry := range resources {
			m := entry.(map[string]any)
			out[fmt.Sprint(m["name"])] = fmt.Sprint(m["total"])
			out[fmt.Sprint(m["name"])+" borrowed"] = fmt.Sprint(m["borrowed"])
		}
	}
	return out, nil
}

func patchQuota(t *testing.T, c *cluster.Cluster, queue, flavor, cpu string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":%q,"resources":[{"name":"cpu","nominalQuota":%q}]}]}]}}`, flavor, cpu)
	if _, err := c.Dynamic.Resource(clusterQueues).Patch(t.Context(), queue, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitSeen waits until the operator has seen the ClusterQueue as it is: jobs and queues come by different
// watches, so a job made right after a change of its queue may be decided first.
func waitSeen(t *testing.T, c *cluster.Cluster, queue string) {
	t.Helper()
	eventually(t, 20*time.Second, "the change of ClusterQueue "+queue+" to be seen", func(ctx context.Context) (bool, error) {
		object, err := c.Dynamic.Resource(clusterQueues).Get(ctx, queue, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, condition := range conditions {
			if is, ok := condition.(map[string]any); ok && is["type"] == "Active" {
				return is["observedGeneration"] == object.GetGeneration(), err
			}
		}
		return false, err
	})
}

func deleteJob(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	err := c.Kube.BatchV1().Jobs("team").Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !cluster.IsNotFound(err) {
		t.Fatal(err)
	}
}

// jobLog follows the Jobs of a namespace and remembers when each was first seen released and when its
// last pod had ended.
type jobLog struct {
	mutex    sync.Mutex
	changed  chan struct{}
	released map[string]time.Time
	order    []string
	done     map[string]time.Time
}

func followJobs(t *testing.T, c *cluster.Cluster, namespace string) *jobLog {
	t.Helper()
	log := &jobLog{changed: make(chan struct{}), released: map[string]time.Time{}, done: map[string]time.Time{}}
	watch, err := c.Kube.BatchV1().Jobs(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	go func() {
		for event := range watch.ResultChan() {
			j, ok := event.Object.(*batchv1.Job)
			if !ok {
				continue
			}
			now := time.Now()
			log.mutex.Lock()
			if _, seen := log.released[j.Name]; !seen && !isSuspended(j) {
				log.released[j.Name] = now
				log.order = append(log.order, j.Name)
			}
			// Quota is free when no pod is left to run, which is a moment before the Job says Complete.
			succeeded := int(j.Status.Succeeded)
			if uncounted := j.Status.UncountedTerminatedPods; uncounted != nil {
				succeeded += len(uncounted.Succeeded)
			}
			ended := finished(j) || j.Spec.Completions != nil && succeeded >= int(*j.Spec.Completions)
			if _, seen := log.done[j.Name]; !seen && ended {
				log.done[j.Name] = now
			}
			close(log.changed)
			log.changed = make(chan struct{})
			log.mutex.Unlock()
		}
	}()
	return log
}

// wait until `when` holds for the log; it is called with the mutex held.
func (l *jobLog) wait(t *testing.T, timeout time.Duration, what string, when func() bool) {
	t.Helper()
	deadline := time.After(timeout)
	for {
		l.mutex.Lock()
		ok, changed := when(), l.changed
		l.mutex.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no %s within %v", what, timeout)
		}
	}
}

func (l *jobLog) releasedAt(name string) time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.released[name]
}

// waitForProof waits until the operator knows whether native gangs hold and has cleared up after asking.
func waitForProof(t *testing.T, c *cluster.Cluster, tutti *cluster.Tutti) {
	t.Helper()
	eventually(t, 60*time.Second, "an answer about native gangs", func(ctx context.Context) (bool, error) {
		metrics, err := tutti.Metrics(ctx)
		if err != nil {
			return false, err
		}
		known := metrics.Sum("tutti_native_gangs", nil) - metrics.Sum("tutti_native_gangs", map[string]string{"state": "unproven"})
		pods, err := c.Kube.CoreV1().Pods(cluster.TuttiNamespace).List(ctx, metav1.ListOptions{})
		return err == nil && known == 1 && len(pods.Items) == 0, err
	})
}
