// SPDX-License-Identifier: Apache-2.0

// Terraform: what the stacks of examples/terraform say, with the values of both environments, is applied to a real API
// server; the gangs run, or wait for what they lack.

package suite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/terraform"
)

func applyStack(t *testing.T, c *cluster.Cluster, dir, values string) []terraform.Manifest {
	t.Helper()
	repo, err := cluster.RepoDir()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(repo, "examples", "terraform", dir)
	if values != "" {
		values = filepath.Join(dir, "environments", values)
	}
	manifests, err := terraform.Render(dir, values)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		if err := c.Apply(t.Context(), &unstructured.Unstructured{Object: m.Object}); err != nil {
			t.Fatalf("%s %s: %v", m.Resource, m.Key, err)
		}
	}
	return manifests
}

func TestTerraform(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{})
	if crds := applyStack(t, c, "crds", ""); len(crds) < 10 {
		t.Fatalf("%d CRDs in their stack, want all", len(crds))
	}
	if err := c.InstallTutti(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for gpu, count := range map[string]int{"h100": 4, "a100": 1} {
		spec := cluster.NodeSpec{Prefix: gpu, Count: count, CPU: "16", Labels: map[string]string{"gpu": gpu}, Extended: map[string]string{"nvidia.com/gpu": "8"}}
		if _, err := c.AddNodes(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.StartTutti(ctx, cluster.TuttiOptions{}); err != nil {
		t.Fatal(err)
	}
	running := func(namespace, job string, pods int) {
		t.Helper()
		eventually(t, 60*time.Second, namespace+"/"+job+" to run", podsRunningIn(c, namespace, job, pods))
	}
	applyStack(t, c, "queues", "staging.tfvars")
	running("staging-vision", "smoke", 2)
	// 4 pods of 8 GPUs: more than the team's own 16 of one flavor, the rest is borrowed until it is taken back.
	applyStack(t, c, "queues", "production.tfvars")
	running("production-language", "pretrain", 2)
	eventually(t, 60*time.Second, "production-vision/finetune to be held", func(ctx context.Context) (bool, error) {
		j, err := c.Kube.BatchV1().Jobs("production-vision").Get(ctx, "finetune", metav1.GetOptions{})
		if err != nil || j.Spec.Suspend == nil || !*j.Spec.Suspend {
			return false, err
		}
		return podsRunningIn(c, "production-vision", "finetune", 0)(ctx)
	})
	// Applied again, nothing changes and nothing is refused.
	applyStack(t, c, "queues", "staging.tfvars")
	running("staging-vision", "smoke", 2)
}
