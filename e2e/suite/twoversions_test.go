// SPDX-License-Identifier: Apache-2.0

// Both versions of the queue API: manifests of v1beta1 work, and what one version writes the other
// reads, with the operator's conversion in between.

package suite

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tutti.dev/e2e/cluster"
)

const oldQueues = `
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  cohort: all
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - {name: cpu, nominalQuota: 4, borrowingLimit: 1}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: cq}
`

func TestTwoVersions(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{})
	installOn(t, c, map[string]any{"crds": map[string]any{"v1beta1": true}}, cluster.NodeSpec{Count: 3}, "")
	if _, err := c.StartTutti(ctx, cluster.TuttiOptions{}); err != nil { // ready: it converts and is trusted
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the queues of v1beta1 to be accepted", func(ctx context.Context) (bool, error) {
		// The API server takes up the CA of a definition a moment after it is stored.
		err := c.ApplyYAML(ctx, oldQueues)
		if err != nil && strings.Contains(err.Error(), "conversion webhook") {
			return false, nil
		}
		return err == nil, err
	})
	old := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: resource}
	}

	t.Run("what is written as v1beta1 is read as v1beta2", func(t *testing.T) {
		queue, err := c.Dynamic.Resource(clusterQueues).Get(ctx, "cq", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if cohort, _, _ := unstructured.NestedString(queue.Object, "spec", "cohortName"); cohort != "all" {
			t.Errorf("cohortName is %q", cohort)
		}
		for _, field := range []string{"whenCanBorrow", "whenCanPreempt"} {
			if value, _, _ := unstructured.NestedString(queue.Object, "spec", "flavorFungibility", field); value != "MayStopSearch" {
				t.Errorf("%s is %q", field, value)
			}
		}
	})
	t.Run("a Job runs through these queues", func(t *testing.T) {
		first := teamJob("first", 4, "1", "1s")
		first.Labels["kueue.x-k8s.io/priority-class"] = "high"
		createJob(t, c, first)
		waitForJob(t, c, "first", batchv1.JobComplete)
	})
	t.Run("a Workload of v1beta2 is read as v1beta1", func(t *testing.T) {
		fresh, err := workloadOf(ctx, c, "team", "first")
		if err != nil || fresh == nil {
			t.Fatal(fresh, err)
		}
		workload, err := c.Dynamic.Resource(old("workloads")).Namespace("team").Get(ctx, fresh.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		source, _, _ := unstructured.NestedString(workload.Object, "spec", "priorityClassSource")
		name, _, _ := unstructured.NestedString(workload.Object, "spec", "priorityClassName")
		if source != "kueue.x-k8s.io/workloadpriorityclass" || name != "high" {
			t.Errorf("class %q of source %q", name, source)
		}
		if status, _, _ := condition(workload, "Finished"); status != "True" {
			t.Errorf("Finished is %q", status)
		}
	})
	t.Run("a round trip through v1beta1 loses nothing", func(t *testing.T) {
		if err := c.ApplyYAML(ctx, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: rich}
spec:
  cohortName: all
  namespaceSelector: {}
  stopPolicy: Hold
  concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission}}
  admissionChecksStrategy: {admissionChecks: [{name: check, onFlavors: [default]}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1500m}]}]
`); err != nil {
			t.Fatal(err)
		}
		before, err := c.Dynamic.Resource(clusterQueues).Get(ctx, "rich", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "an update as v1beta1", func(ctx context.Context) (bool, error) {
			queue, err := c.Dynamic.Resource(old("clusterqueues")).Get(ctx, "rich", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			queue.SetLabels(map[string]string{"touched": "yes"})
			_, err = c.Dynamic.Resource(old("clusterqueues")).Update(ctx, queue, metav1.UpdateOptions{})
			return err == nil, nil // a conflict with the operator's own write
		})
		after, err := c.Dynamic.Resource(clusterQueues).Get(ctx, "rich", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before.Object["spec"], after.Object["spec"]) {
			t.Errorf("before %v\nafter  %v", before.Object["spec"], after.Object["spec"])
		}
	})
	t.Run("bad input of v1beta1 is refused with the field", func(t *testing.T) {
		refusedWith(t, c.ApplyYAML(ctx, `
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: bad}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1, borrowingLimit: 1}]}]
`), "borrowingLimit has no meaning without a cohort: set cohort or remove borrowingLimit")
	})
}
