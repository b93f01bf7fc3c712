// SPDX-License-Identifier: Apache-2.0

// The chart on a real API server, with no operator running.

package suite

import (
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tutti.dev/e2e/cluster"
)

func TestTheChartInstallsAndHoldsJobsWithoutTheOperator(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{})
	if err := c.InstallTutti(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNodes(ctx, cluster.NodeSpec{Count: 2}); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}

	t.Run("the ServiceAccount may do its work and no more", func(t *testing.T) {
		token, err := c.ServiceAccountToken(ctx, cluster.TuttiNamespace, cluster.TuttiServiceAccount, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		kube, err := kubernetes.NewForConfig(c.TokenConfig(c.URL, token))
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			verb, group, resource string
			allowed               bool
		}{
			{"patch", "batch", "jobs", true},
			{"watch", "", "nodes", true},
			{"watch", "", "pods", true},
			{"create", "kueue.x-k8s.io", "workloads", true},
			{"create", "scheduling.k8s.io", "podgroups", true},
			{"delete", "scheduling.k8s.io", "podgroups", true},
			{"create", "apps", "deployments", false},
			{"delete", "", "nodes", false},
			{"list", "", "secrets", false},
			{"create", "rbac.authorization.k8s.io", "clusterrolebindings", false},
		} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: test.verb, Group: test.group, Resource: test.resource, Namespace: "team",
				},
			}}
			answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Status.Allowed != test.allowed {
				t.Errorf("%s %s.%s: allowed = %t", test.verb, test.resource, test.group, answer.Status.Allowed)
			}
		}
	})

	t.Run("a queued Job is held and an unqueued one runs", func(t *testing.T) {
		queued := job("queued", 1, map[string]string{cluster.RunFor: "100ms"})
		queued.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "lq"}
		if created := createJob(t, c, queued); created.Spec.Suspend == nil || !*created.Spec.Suspend {
			t.Error("the queued Job isn't suspended")
		}
		free := createJob(t, c, job("free", 1, map[string]string{cluster.RunFor: "100ms"}))
		if free.Spec.Suspend != nil && *free.Spec.Suspend {
			t.Error("the unqueued Job is suspended")
		}
		waitForJob(t, c, "free", batchv1.JobComplete)
	})
}
