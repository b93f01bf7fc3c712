// SPDX-License-Identifier: Apache-2.0

// Examples: every file of examples/ is applied as it is, and comes to what docs/examples.md says.

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

// outcome of one example.
type outcome struct {
	run   map[string]int    // namespace/prefix of a Job's name: how many of them run
	pods  map[string]int32  // namespace/Job: with how many pods, where that is less than it asks for
	on    map[string]string // namespace/Job: the value of example.com/pool that its pods ask for
	wait  map[string]string // namespace/Job or StatefulSet: part of what its Workload says
	serve map[string]int32  // namespace/StatefulSet: how many of its pods are ready
}

var exampleOutcomes = map[string]outcome{
	"single-flavor.yaml": {run: map[string]int{"research/first": 1}, wait: map[string]string{"research/second": "insufficient unused quota for cpu"}},
	"two-flavors.yaml": {run: map[string]int{"batch/on-reserved": 1, "batch/on-spot": 1},
		on: map[string]string{"batch/on-reserved": "reserved", "batch/on-spot": "spot"}},
	"cohort.yaml":            {run: map[string]int{"vision/borrows": 1}, wait: map[string]string{"vision/beyond": "insufficient unused quota"}},
	"lending-limit.yaml":     {run: map[string]int{"tenants/guest-fits": 1}, wait: map[string]string{"tenants/guest-waits": "insufficient unused quota"}},
	"priorities.yaml":        {run: map[string]int{"services/hotfix": 1}, wait: map[string]string{"services/nightly": ""}},
	"partial-admission.yaml": {run: map[string]int{"render/frames": 1}, pods: map[string]int32{"render/frames": 3}},
	"fair-sharing.yaml":      {run: map[string]int{"pool/double-": 4, "pool/single-": 2}},
	"stopped-queue.yaml":     {wait: map[string]string{"paused/waits": "is inactive"}},
	"default-queue.yaml":     {run: map[string]int{"defaulted/plain": 1}},
	"provisioning.yaml":      {wait: map[string]string{"elastic/asks": "Quota reserved"}},
	"elastic.yaml":           {run: map[string]int{"tuning/sweep": 1}},
	"statefulset.yaml": {serve: map[string]int32{"serving/search": 3, "serving/canary": 0},
		wait: map[string]string{"serving/canary": "insufficient unused quota for cpu"}},
}

func TestExamples(t *testing.T) {
	integrations := map[string]any{"frameworks": []string{"batch/job", "statefulset"}}
	c := cluster.ForTest(t, cluster.Options{})
	installOn(t, c, map[string]any{
		"config": map[string]any{"kueue": map[string]any{"integrations": integrations}},
	}, cluster.NodeSpec{Count: 2}, "")
	for _, pool := range []string{"reserved", "spot"} {
		if _, err := c.AddNodes(t.Context(), cluster.NodeSpec{Count: 1, Prefix: pool, Labels: map[string]string{"example.com/pool": pool}}); err != nil {
			t.Fatal(err)
		}
	}
	crds, err := cluster.ToolPath("autoscaler", "crds/autoscaling.x-k8s.io_provisioningrequests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyFile(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartTutti(t.Context(), cluster.TuttiOptions{Config: map[string]any{
		"integrations": integrations,
		"fairSharing":  map[string]any{"preemptionStrategies": []string{"LessThanOrEqualToFinalShare", "LessThanInitialShare"}},
	}}); err != nil {
		t.Fatal(err)
	}
	repo, err := cluster.RepoDir()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(repo, "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	if want := slices.Sorted(maps.Keys(exampleOutcomes)); !slices.Equal(names, want) {
		t.Fatalf("examples %v, outcomes for %v", names, want)
	}
	text, err := os.ReadFile(filepath.Join(repo, "docs", "examples.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(text), "examples/"+name) {
				t.Error("docs/examples.md doesn't say what comes of it")
			}
			applyExample(t, c, file)
			eventually(t, 40*time.Second, name+" to come to what the docs say", func(ctx context.Context) (bool, error) {
				return exampleOutcomes[name].check(ctx, c)
			})
		})
	}
}

// applyExample applies one object after the other; each Job is decided on before the next one comes, so that
// the outcome does not depend on how fast they are written.
func applyExample(t *testing.T, c *cluster.Cluster, file string) {
	t.Helper()
	objects, err := cluster.ReadManifests(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := c.Apply(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if object.GetKind() != "Job" && object.GetKind() != "StatefulSet" {
			continue
		}
		eventually(t, 20*time.Second, object.GetName()+" to be decided on", func(ctx context.Context) (bool, error) {
			workload, err := workloadOf(ctx, c, object.GetNamespace(), object.GetName())
			if err != nil {
				return false, err
			}
			status, _, _ := condition(workload, "QuotaReserved")
			return expect(status != "", "no word yet")
		})
	}
}

func (o outcome) check(ctx context.Context, c *cluster.Cluster) (bool, error) {
	for prefix, want := range o.run {
		namespace, name, _ := strings.Cut(prefix, "/")
		jobs, err := c.Kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		running := 0
		for i := range jobs.Items {
			j := &jobs.Items[i]
			if !strings.HasPrefix(j.Name, name) || isSuspended(j) {
				continue
			}
			running++
			key := namespace + "/" + j.Name
			pods, partly := o.pods[key]
			if !partly {
				pods = *j.Spec.Parallelism
			}
			if j.Status.Active != pods || *j.Spec.Parallelism != pods {
				return false, fmt.Errorf("%s: %d of %d pods, not %d", key, j.Status.Active, *j.Spec.Parallelism, pods)
			}
			if pool := j.Spec.Template.Spec.NodeSelector["example.com/pool"]; pool != o.on[key] {
				return false, fmt.Errorf("%s: on nodes %q, not %q", key, pool, o.on[key])
			}
		}
		if running != want {
			return false, fmt.Errorf("%s: %d run, not %d", prefix, running, want)
		}
	}
	for key, want := range o.serve {
		namespace, name, _ := strings.Cut(key, "/")
		set, err := c.Kube.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if set.Status.ReadyReplicas != want {
			return false, fmt.Errorf("%s: %d pods are ready, not %d", key, set.Status.ReadyReplicas, want)
		}
	}
	for key, want := range o.wait {
		namespace, name, _ := strings.Cut(key, "/")
		var workload *unstructured.Unstructured
		workload, err := workloadOf(ctx, c, namespace, name)
		if err != nil {
			return false, err
		}
		_, _, message := condition(workload, "QuotaReserved")
		admitted, _, _ := condition(workload, "Admitted")
		if admitted == "True" || !strings.Contains(message, want) {
			return false, fmt.Errorf("%s: admitted %q, says %q", key, admitted, message)
		}
	}
	return true, nil
}
