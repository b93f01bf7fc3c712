// SPDX-License-Identifier: Apache-2.0

// Webhooks: what a server without admission policies gets instead, with certificates that the
// operator makes, publishes and replaces itself.

package suite

import (
	"bytes"
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
)

const flavorOfNobody = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: checked}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - {name: cpu, nominalQuota: 4}
  admissionChecksStrategy:
    admissionChecks:
    - {name: some-check, onFlavors: [default, spot]}
`

// trustedCA is the caBundle of every webhook of ours, or nil while they differ.
func trustedCA(ctx context.Context, c *cluster.Cluster) ([]byte, error) {
	mutating, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "tutti-mutating-webhook-configuration", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	validating, err := c.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "tutti-validating-webhook-configuration", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	bundle := mutating.Webhooks[0].ClientConfig.CABundle
	for _, webhook := range validating.Webhooks {
		if !bytes.Equal(webhook.ClientConfig.CABundle, bundle) {
			return nil, nil
		}
	}
	return bundle, nil
}

func TestWebhooks(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{GatesOff: true})
	integrations := map[string]any{"integrations": map[string]any{"frameworks": []any{"batch/job", "pod", "deployment", "statefulset"}}}
	installOn(t, c, map[string]any{
		"policies": map[string]any{"enabled": false},
		"webhook":  map[string]any{"enabled": true, "jobs": true},
		"config":   map[string]any{"kueue": integrations},
	}, cluster.NodeSpec{Count: 3}, "")
	tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{Config: integrations}) // ready means that the API server can call it
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(ctx, oneTeam); err != nil {
		t.Fatal(err)
	}
	jobs := c.Kube.BatchV1().Jobs("team")
	held := func(t *testing.T, j *batchv1.Job) {
		t.Helper()
		suspended(false)(j)
		if created := mustCreate(t, jobs, j); !isSuspended(created) {
			t.Fatalf("%s was created resumed", j.Name)
		}
	}

	t.Run("pods, and those of Deployments and StatefulSets, are held and run", func(t *testing.T) {
		h := &podGroups{c, tutti}
		h.create(t, queuedPod("alone", "1", "1s"))
		h.createDeployment(t, 1)
		h.createSet(t, 2, "1", appsv1.ParallelPodManagement)
		h.waitRunning(t, ofDeployment, 1)
		h.waitRunning(t, ofSet, 2)
		refusedWith(t, h.patchSet(ctx, `{"spec":{"replicas":3}}`), "scale to 0 first")
		h.waitFor(t, "alone", "Finished", "True", "Succeeded")
		h.clear(t)
	})
	t.Run("Jobs are held and run in turn", func(t *testing.T) {
		held(t, teamJob("first", 4, "1", "2s"))
		held(t, teamJob("second", 2, "1", "1s"))
		waitPending(t, c, "second", "Pending", "cpu")
		waitForJob(t, c, "first", batchv1.JobComplete)
		waitForJob(t, c, "second", batchv1.JobComplete)
	})
	t.Run("a user can't resume a held Job", func(t *testing.T) {
		held(t, teamJob("large", 5, "1", ""))
		_, err := merge(ctx, jobs, "large", `{"spec":{"suspend":false}}`)
		refusedWith(t, err, "only the queue controller may resume a queued Job")
		deleteJob(t, c, "large")
	})
	t.Run("what the schema can't say is refused with the field", func(t *testing.T) {
		refusedWith(t, c.ApplyYAML(ctx, flavorOfNobody),
			`spec.admissionChecksStrategy.admissionChecks[0].onFlavors: "spot" is not a flavor of spec.resourceGroups`)
	})
	t.Run("Jobs without a queue are left alone", func(t *testing.T) {
		if created := mustCreate(t, jobs, job("plain", 1, nil)); isSuspended(created) {
			t.Fatal("held")
		}
	})
	t.Run("while the operator is away queued Jobs are refused and others are not", func(t *testing.T) {
		if err := tutti.Stop(); err != nil {
			t.Fatal(err)
		}
		_, err := jobs.Create(ctx, teamJob("early", 1, "1", "1s"), metav1.CreateOptions{})
		if !apierrors.IsInternalError(err) {
			t.Fatalf("got %v, want an error that the webhook can't be called", err)
		}
		mustCreate(t, jobs, job("meanwhile", 1, nil))
	})
	t.Run("it comes back with another certificate after the old one was lost", func(t *testing.T) {
		before, err := trustedCA(ctx, c)
		if err != nil || len(before) == 0 {
			t.Fatal(before, err)
		}
		_, err = c.Kube.CoreV1().Secrets(cluster.TuttiNamespace).Patch(ctx, "tutti-webhook-server-cert",
			types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := tutti.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		now, err := trustedCA(ctx, c)
		if err != nil || len(now) == 0 || bytes.Equal(now, before) {
			t.Fatalf("the webhooks trust %q, %v", now, err)
		}
		held(t, teamJob("late", 1, "1", "1s"))
		waitForJob(t, c, "late", batchv1.JobComplete)
	})
}
