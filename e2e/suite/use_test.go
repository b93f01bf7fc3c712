// SPDX-License-Identifier: Apache-2.0

// Who may use a queue or a priority class: whoever has the verb `use` on it.

package suite

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tutti.dev/e2e/cluster"
)

func TestUse(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{})
	installOn(t, c, map[string]any{
		"policies": map[string]any{"use": map[string]any{"localQueues": true, "priorityClasses": true}},
	}, cluster.NodeSpec{Count: 2}, oneTeam+localQueue("team", "reserved", "team")+priorityClass("high", 100)+`---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: jobs, namespace: team}
rules:
- {apiGroups: [batch], resources: [jobs, cronjobs], verbs: [create, get, patch]}
- {apiGroups: [kueue.x-k8s.io], resources: [workloads], verbs: [create]}
- {apiGroups: [kueue.x-k8s.io], resources: [localqueues], resourceNames: [lq], verbs: [use]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jobs, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: jobs}
subjects: [{kind: ServiceAccount, name: default, namespace: team}]
`)
	if _, err := c.StartTutti(ctx, cluster.TuttiOptions{}); err != nil {
		t.Fatal(err)
	}
	var user kubernetes.Interface
	eventually(t, 20*time.Second, "the user", func(ctx context.Context) (bool, error) {
		token, err := c.ServiceAccountToken(ctx, "team", "default", time.Hour)
		if err != nil {
			return false, nil
		}
		user, err = kubernetes.NewForConfig(c.TokenConfig(c.URL, token))
		return err == nil, err
	})
	jobs := user.BatchV1().Jobs("team")
	labelled := func(name, queue, class string) *batchv1.Job {
		j := teamJob(name, 1, "1", "100ms")
		j.Labels[queueLabel] = queue
		if class != "" {
			j.Labels["kueue.x-k8s.io/priority-class"] = class
		}
		return j
	}
	// The API server takes the roles up a moment later.
	eventually(t, 30*time.Second, "a Job in the queue that the user may use", func(ctx context.Context) (bool, error) {
		_, err := jobs.Create(ctx, labelled("allowed", "lq", ""), metav1.CreateOptions{})
		return err == nil, nil
	})
	waitForJob(t, c, "allowed", batchv1.JobComplete)

	t.Run("another queue is refused with the right that is missing", func(t *testing.T) {
		_, err := jobs.Create(ctx, labelled("refused", "reserved", ""), metav1.CreateOptions{})
		refusedWith(t, err, `system:serviceaccount:team:default may not use LocalQueue "reserved": needs the verb use on localqueues.kueue.x-k8s.io`)
	})
	t.Run("so is moving there", func(t *testing.T) {
		held := labelled("moving", "lq", "")
		many := int32(100)
		held.Spec.Parallelism, held.Spec.Completions = &many, &many
		mustCreate(t, jobs, held)
		_, err := merge(ctx, jobs, "moving", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"reserved"}}}`)
		refusedWith(t, err, `may not use LocalQueue "reserved"`)
		if _, err := merge(ctx, jobs, "moving", `{"metadata":{"labels":{"other":"label"}}}`); err != nil {
			t.Error(err)
		}
	})
	t.Run("a priority class", func(t *testing.T) {
		_, err := jobs.Create(ctx, labelled("urgent", "lq", "high"), metav1.CreateOptions{})
		refusedWith(t, err, `may not use WorkloadPriorityClass "high": needs the verb use on workloadpriorityclasses.kueue.x-k8s.io`)
		urgent := labelled("urgent-pods", "lq", "")
		urgent.Spec.Template.Spec.PriorityClassName = "system-cluster-critical"
		_, err = jobs.Create(ctx, urgent, metav1.CreateOptions{})
		refusedWith(t, err, `may not use PriorityClass "system-cluster-critical"`)
	})
	t.Run("a CronJob is asked for, its Jobs are not", func(t *testing.T) {
		cron := func(name, queue string) *batchv1.CronJob {
			j := labelled(name, queue, "")
			return &batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team"},
				Spec: batchv1.CronJobSpec{
					Schedule:    "* * * * *",
					JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: j.Labels}, Spec: j.Spec},
				},
			}
		}
		_, err := user.BatchV1().CronJobs("team").Create(ctx, cron("refused", "reserved"), metav1.CreateOptions{})
		refusedWith(t, err, `may not use LocalQueue "reserved"`)
		if _, err := user.BatchV1().CronJobs("team").Create(ctx, cron("nightly", "lq"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("the role for all queues of a namespace", func(t *testing.T) {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "all-queues", Namespace: "team"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "tutti-queue-user"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "team"}},
		}
		if _, err := c.Kube.RbacV1().RoleBindings("team").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "a Job in the other queue", func(ctx context.Context) (bool, error) {
			_, err := jobs.Create(ctx, labelled("now-allowed", "reserved", ""), metav1.CreateOptions{})
			return err == nil, nil
		})
	})
}
