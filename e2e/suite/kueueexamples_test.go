// SPDX-License-Identifier: Apache-2.0

// KueueExamples: the manifests of Kueue's documentation, as they are, come to what docs/examples.md says. They are not
// in this tree: TUTTI_KUEUE_EXAMPLES names the folder site/static/examples of Kueue's repository at v0.19.2.

package suite

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tutti.dev/e2e/cluster"
)

// exampleGroup is what a page of the documentation applies together.
type exampleGroup struct {
	name   string
	files  []string
	config map[string]any    // beside the frameworks
	runs   int               // how many Workloads are admitted
	waits  map[string]string // the start of the name of another one: part of what it says
}

const onlyAccepted = -1 // nothing of it is decided here

var kueueExamples = []exampleGroup{
	{name: "quick start", files: []string{"getting-started/quick-start-setup.yaml", "getting-started/quick-start-job.yaml"}, runs: 1},
	{name: "jobs", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml"}, runs: 3},
	{name: "a fourth job that doesn't fit", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml"},
		runs: 3, waits: map[string]string{"job-sample-job-": "insufficient unused quota for cpu"}},
	{name: "partial admission", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-job-partial-admission.yaml"}, runs: 1},
	{name: "elastic job", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-scalable-job.yaml"}, runs: 1},
	{name: "cron job", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-cronjob.yaml"}, runs: onlyAccepted},
	{name: "pod", files: []string{"admin/single-clusterqueue-setup.yaml", "pods-kueue/kueue-pod.yaml"}, runs: 1},
	{name: "pod group", files: []string{"admin/single-clusterqueue-setup.yaml", "pods-kueue/kueue-pod-group.yaml"}, runs: 1},
	{name: "serving", files: []string{"admin/single-clusterqueue-setup.yaml", "serving-workloads/sample-deployment.yaml", "serving-workloads/sample-statefulset.yaml"}, runs: 4},
	{name: "flavors", files: []string{"admin/resource-flavor-empty.yaml", "admin/resource-flavor-taints.yaml"}, runs: onlyAccepted},
	{name: "flavor with tolerations", files: []string{"admin/resource-flavor-tolerations.yaml"}, runs: onlyAccepted},
	{name: "policies", files: []string{"sample-validating-policy.yaml", "sample-validating-policy-binding.yaml", "sample-enforce-requests-policy.yaml",
		"sample-enforce-requests-policy-binding.yaml", "sample-admission-check.yaml", "visibility/cluster-role-and-binding.yaml"}, runs: onlyAccepted},
	{name: "shared quota", files: []string{"admin/shared-quota-setup.yaml", "admin/shared-quota-sample-job.yaml", "admin/shared-quota-sample-job.yaml",
		"admin/shared-quota-sample-job.yaml", "admin/shared-quota-sample-job.yaml", "admin/shared-quota-sample-job.yaml"},
		config: map[string]any{"resources": map[string]any{"transformations": []any{map[string]any{
			"input": "cpu", "strategy": "Retain", "outputs": map[string]any{"cpu_credits": 1}}}}},
		runs: 4, waits: map[string]string{"job-sample-job-": "cpu_credits"}},
	{name: "admission fair sharing", files: []string{"admission-fs/admission-fair-sharing-setup.yaml", "admission-fs/lq-a-simple-job.yaml",
		"admission-fs/lq-a-simple-job.yaml", "admission-fs/lq-b-simple-job.yaml"},
		config: map[string]any{"admissionFairSharing": map[string]any{"usageHalfLifeTime": "10s", "usageSamplingInterval": "1s"}}, runs: 3},
	{name: "provisioning", files: []string{"provisioning/provisioning-setup.yaml", "provisioning/sample-job.yaml"}, runs: 0,
		waits: map[string]string{"job-sample-job-": ""}},
	{name: "concurrent admission", files: []string{"admin/concurrent-admission-setup.yaml"}, runs: onlyAccepted},
	{name: "topology", files: []string{"tas/sample-queues.yaml", "tas/sample-job-required.yaml", "tas/sample-job-preferred.yaml", "tas/sample-job-unconstrained.yaml"},
		runs: onlyAccepted},
}

func TestKueueExamples(t *testing.T) {
	folder := os.Getenv("TUTTI_KUEUE_EXAMPLES")
	if folder == "" {
		t.Skip("TUTTI_KUEUE_EXAMPLES isn't set: see docs/examples.md")
	}
	ctx := t.Context()
	integrations := map[string]any{"frameworks": []string{"batch/job", "pod", "deployment", "statefulset"}}
	c := cluster.ForTest(t, cluster.Options{})
	autoscaler, err := cluster.ToolPath("autoscaler", "crds/autoscaling.x-k8s.io_provisioningrequests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyFile(ctx, autoscaler); err != nil {
		t.Fatal(err)
	}
	installOn(t, c, map[string]any{
		"webhook": map[string]any{"enabled": true},
		"config":  map[string]any{"kueue": map[string]any{"integrations": integrations}},
	}, cluster.NodeSpec{Count: 2, Extended: map[string]string{"nvidia.com/gpu": "8"}}, "")
	for _, kind := range []string{"on-demand", "spot"} {
		if _, err := c.AddNodes(ctx, cluster.NodeSpec{Count: 1, Prefix: kind, Labels: map[string]string{"node-type": kind}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, group := range kueueExamples {
		t.Run(group.name, func(t *testing.T) {
			config := map[string]any{"integrations": integrations}
			maps.Copy(config, group.config)
			tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{Config: config})
			if err != nil {
				t.Fatal(err)
			}
			defer tutti.Remove()
			applied := group.apply(t, c, folder)
			if group.runs != onlyAccepted {
				eventually(t, 40*time.Second, "what the docs say", func(ctx context.Context) (bool, error) { return group.check(ctx, c) })
			}
			clearExample(t, c, applied)
			if err := tutti.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// apply its files in order; what is generated gets names of its own.
func (g exampleGroup) apply(t *testing.T, c *cluster.Cluster, folder string) []*unstructured.Unstructured {
	t.Helper()
	var applied []*unstructured.Unstructured
	for _, file := range g.files {
		objects, err := cluster.ReadManifests(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			client, err := c.Resource(object)
			if err != nil {
				t.Fatal(err)
			}
			if object.GetName() != "" {
				err = c.Apply(t.Context(), object)
			} else {
				object, err = client.Create(t.Context(), object, metav1.CreateOptions{})
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			applied = append(applied, object)
		}
	}
	return applied
}

func (g exampleGroup) check(ctx context.Context, c *cluster.Cluster) (bool, error) {
	list, err := c.Dynamic.Resource(workloads).Namespace("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	running := 0
	missing := maps.Clone(g.waits)
	var said []string
	for i := range list.Items {
		one := &list.Items[i]
		if admitted, _, _ := condition(one, "Admitted"); admitted == "True" {
			running++
			continue
		}
		_, reason, message := condition(one, "QuotaReserved")
		said = append(said, fmt.Sprintf("%s %s: %s", one.GetName(), reason, message))
		for name, want := range g.waits {
			if strings.HasPrefix(one.GetName(), name) && reason != "" && strings.Contains(message, want) {
				delete(missing, name)
			}
		}
	}
	return expect(running == g.runs && len(missing) == 0, "%d of %d are admitted, not %d; %s", running, len(list.Items), g.runs, strings.Join(said, "; "))
}

// clearExample deletes what was applied, the last first, and waits until nothing of it is left.
func clearExample(t *testing.T, c *cluster.Cluster, applied []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range slices.Backward(applied) {
		client, err := c.Resource(object)
		if err != nil {
			t.Fatal(err)
		}
		err = client.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !cluster.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	eventually(t, 60*time.Second, "it to be gone", func(ctx context.Context) (bool, error) {
		list, err := c.Dynamic.Resource(workloads).Namespace("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, object := range applied {
			client, err := c.Resource(object)
			if err != nil {
				return false, err
			}
			if _, err := client.Get(ctx, object.GetName(), metav1.GetOptions{}); !cluster.IsNotFound(err) {
				return false, fmt.Errorf("%s %s is there: %v", object.GetKind(), object.GetName(), err)
			}
		}
		return expect(len(list.Items) == 0, "%d Workloads are left", len(list.Items))
	})
}
