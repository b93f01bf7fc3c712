// SPDX-License-Identifier: Apache-2.0

// Audit: partial starts on a cluster without any queue, against a count of the test's own; what a
// user without all rights is told; and that nothing but reading requests arrive.

package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

const everyRequest = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

type auditSpell struct {
	Kind    string
	Seconds int64
	End     *string
}

type auditReport struct {
	At   string
	Jobs []struct {
		Name              string
		StartedPartially  bool
		IdleDeviceSeconds int64
		IdleCost          string
		Spells            []auditSpell
	}
	Summary struct{ StartedPartially, PartialNow int }
	Cluster struct {
		Waiting []struct{ Job, Verdict, Message string }
	}
	Notes []string
}

func runAudit(t *testing.T, args ...string) auditReport {
	t.Helper()
	var report auditReport
	tuttiJSON(t, &report, "audit", args...)
	return report
}

// readerOfTeam is the kubeconfig of somebody who may do no more than this, in namespace team.
func readerOfTeam(t *testing.T, c *cluster.Cluster, rule rbacv1.PolicyRule) string {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: "reader", Namespace: "team"}
	if _, err := c.Kube.CoreV1().ServiceAccounts("team").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := c.Kube.RbacV1().Roles("team").Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "reader", Namespace: "team"}},
	}
	if _, err := c.Kube.RbacV1().RoleBindings("team").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := c.ServiceAccountToken(ctx, "team", "reader", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.WriteKubeconfig("reader", c.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func pluginGPUJob(name string, pods int32) *batchv1.Job {
	j := job(name, pods, nil)
	gpus := resource.MustParse("8")
	requests := &j.Spec.Template.Spec.Containers[0].Resources
	requests.Requests["nvidia.com/gpu"] = gpus
	requests.Limits = corev1.ResourceList{"nvidia.com/gpu": gpus}
	return j
}

// boundTimes are those of a Job's pods that have a node, in order, and how many pods have none.
func boundTimes(ctx context.Context, c *cluster.Cluster, name string) (bound []time.Time, unbound int, err error) {
	pods, err := c.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + name})
	if err != nil {
		return nil, 0, err
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == "" {
			unbound++
			continue
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
				bound = append(bound, condition.LastTransitionTime.Time)
			}
		}
	}
	slices.SortFunc(bound, time.Time.Compare)
	return bound, unbound, nil
}

func waitBound(t *testing.T, c *cluster.Cluster, name string, bound, unbound int) []time.Time {
	t.Helper()
	var times []time.Time
	eventually(t, 30*time.Second, fmt.Sprintf("%d pods of %s with a node", bound, name), func(ctx context.Context) (bool, error) {
		now, without, err := boundTimes(ctx, c, name)
		times = now
		return len(now) == bound && without == unbound, err
	})
	return times
}

func addGPUNodes(t *testing.T, c *cluster.Cluster, prefix string, count int) {
	t.Helper()
	spec := cluster.NodeSpec{Prefix: prefix, Count: count, CPU: "16", Extended: map[string]string{"nvidia.com/gpu": "8"}}
	if _, err := c.AddNodes(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

func TestAudit(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{AuditPolicy: everyRequest})
	ctx := t.Context()
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}
	addGPUNodes(t, c, "first", 2)
	createJob(t, c, pluginGPUJob("late", 3))
	early := waitBound(t, c, "late", 2, 1)
	eventually(t, 30*time.Second, "the early pods to have waited", func(context.Context) (bool, error) {
		return time.Since(early[1]) > 4*time.Second, nil
	})
	addGPUNodes(t, c, "second", 1)
	late := waitBound(t, c, "late", 3, 0)
	addGPUNodes(t, c, "third", 1)
	createJob(t, c, pluginGPUJob("stuck", 2))
	stuck := waitBound(t, c, "stuck", 1, 1)
	createJob(t, c, job("whole", 3, nil))
	waitBound(t, c, "whole", 3, 0)
	eventually(t, 30*time.Second, "the stuck pod to have waited", func(context.Context) (bool, error) {
		return time.Since(stuck[0]) > 4*time.Second, nil
	})

	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("currency: EUR\nprices:\n- {resource: nvidia.com/gpu, perHour: \"36.00\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// 8 GPUs at 36 an hour: a cent for each GPU and second.
	check := func(t *testing.T, report auditReport) {
		t.Helper()
		at, err := time.Parse(time.RFC3339, report.At)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][2]int64{ // seconds, GPU-seconds
			"late": {
				int64(late[2].Sub(late[0]).Seconds()),
				8 * int64(late[2].Sub(late[0]).Seconds()+late[2].Sub(late[1]).Seconds()),
			},
			"stuck": {int64(at.Sub(stuck[0]).Seconds()), 8 * int64(at.Sub(stuck[0]).Seconds())},
		}
		if report.Summary.StartedPartially != 2 || report.Summary.PartialNow != 1 {
			t.Errorf("%d started partially, %d are partial now, want 2 and 1", report.Summary.StartedPartially, report.Summary.PartialNow)
		}
		for _, j := range report.Jobs {
			expected, planted := want[j.Name]
			if j.StartedPartially != planted {
				t.Errorf("%s started partially: %v, want %v", j.Name, j.StartedPartially, planted)
			}
			if !planted {
				continue
			}
			if len(j.Spells) != 1 || j.Spells[0].Seconds != expected[0] || j.IdleDeviceSeconds != expected[1] {
				t.Errorf("%s: spells %v, %d GPU-seconds, want %d seconds and %d", j.Name, j.Spells, j.IdleDeviceSeconds, expected[0], expected[1])
			}
			if cost := fmt.Sprintf("%d.%02d", expected[1]/100, expected[1]%100); j.IdleCost != cost {
				t.Errorf("%s costs %s, want %s", j.Name, j.IdleCost, cost)
			}
			if ongoing := j.Spells[0].End == nil; ongoing != (j.Name == "stuck") {
				t.Errorf("%s is partial now: %v", j.Name, ongoing)
			}
		}
		if len(report.Cluster.Waiting) != 1 || report.Cluster.Waiting[0].Job != "Job team/stuck" ||
			report.Cluster.Waiting[0].Verdict != "no room now" || !strings.Contains(report.Cluster.Waiting[0].Message, "nvidia.com/gpu") {
			t.Errorf("waiting: %+v", report.Cluster.Waiting)
		}
	}

	t.Run("of the cluster", func(t *testing.T) {
		check(t, runAudit(t, "--kubeconfig", c.Kubeconfig, "--tolerance", "1s", "--prices", prices))
	})

	t.Run("of a dump", func(t *testing.T) {
		dump := filepath.Join(t.TempDir(), "dump.json")
		out, err := exec.CommandContext(ctx, c.Kubectl(), "--kubeconfig", c.Kubeconfig, "get", "nodes,pods,jobs", "-A", "-o", "json").Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dump, out, 0o644); err != nil {
			t.Fatal(err)
		}
		check(t, runAudit(t, dump, "--at", time.Now().UTC().Format(time.RFC3339), "--tolerance", "1s", "--prices", prices))
	})

	t.Run("with few rights", func(t *testing.T) {
		kubeconfig := readerOfTeam(t, c, rbacv1.PolicyRule{APIGroups: []string{"", "batch"}, Resources: []string{"pods", "jobs"}, Verbs: []string{"list"}})
		report := runAudit(t, "--kubeconfig", kubeconfig, "-n", "team", "--tolerance", "1s")
		if report.Summary.StartedPartially != 2 {
			t.Errorf("%d started partially, want 2", report.Summary.StartedPartially)
		}
		notes := strings.Join(report.Notes, "\n")
		for _, want := range []string{"nodes can't be listed", "no Node in the input"} {
			if !strings.Contains(notes, want) {
				t.Errorf("no %q in the notes:\n%s", want, notes)
			}
		}
	})

	t.Run("only reads", func(t *testing.T) {
		onlyLists(t, c, "tutti-audit", 20)
	})
}
