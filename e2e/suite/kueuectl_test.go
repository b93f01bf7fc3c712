// SPDX-License-Identifier: Apache-2.0

// kubectl-kueue, Kueue's own command line tool, unchanged, against Tutti.

package suite

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tutti.dev/e2e/cluster"
)

func TestKueuectl(t *testing.T) {
	ctx := t.Context()
	program, err := cluster.ToolPath("kueuectl", "kubectl-kueue")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := startTeam(t, false, cluster.NodeSpec{Count: 3}, "", cluster.TuttiOptions{})
	kueue := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl kueue %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	shows := func(out string, words ...string) {
		t.Helper()
		for _, word := range words {
			if !strings.Contains(out, word) {
				t.Errorf("%q is not in:\n%s", word, out)
			}
		}
	}

	shows(kueue("version"), "Client Version")
	kueue("create", "resourceflavor", "default", "--node-labels", "kubernetes.io/os=linux")
	kueue("create", "clusterqueue", "cq", "--namespace-selector", "kubernetes.io/metadata.name=team",
		"--nominal-quota", "default:cpu=4", "--queuing-strategy", "BestEffortFIFO", "--dry-run", "server")
	kueue("create", "clusterqueue", "cq", "--namespace-selector", "kubernetes.io/metadata.name=team",
		"--nominal-quota", "default:cpu=4", "--queuing-strategy", "BestEffortFIFO")
	kueue("create", "localqueue", "lq", "-c", "cq", "-n", "team")
	eventually(t, 20*time.Second, "the queue to be active", func(ctx context.Context) (bool, error) {
		queue, err := c.Dynamic.Resource(clusterQueues).Get(ctx, "cq", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		status, _, _ := condition(queue, "Active")
		return status == "True", nil
	})
	for _, path := range []string{"clusterqueue", "localqueue", "resourceflavor", "workload", "pods --for=job/none"} {
		kueue(append([]string{"list", "-n", "team"}, strings.Fields(path)...)...)
	}
	shows(kueue("list", "clusterqueue"), "cq", "true")
	shows(kueue("list", "localqueue", "-n", "team"), "lq", "cq")
	shows(kueue("list", "resourceflavor"), "default")

	t.Run("a stopped queue keeps its Jobs, a resumed one runs them", func(t *testing.T) {
		kueue("stop", "clusterqueue", "cq", "--keep-already-running")
		createJob(t, c, teamJob("first", 2, "1", "1s"))
		eventually(t, 20*time.Second, "the Workload", func(ctx context.Context) (bool, error) {
			workload, err := workloadOf(ctx, c, "team", "first")
			return workload != nil, err
		})
		shows(kueue("list", "workload", "-n", "team", "--status", "pending"), "job-first", "lq", "PENDING")
		kueue("resume", "clusterqueue", "cq")
		waitForJob(t, c, "first", batchv1.JobComplete)
		shows(kueue("list", "workload", "-n", "team", "--status", "finished"), "job-first", "FINISHED")
	})
	t.Run("so does a LocalQueue", func(t *testing.T) {
		kueue("stop", "localqueue", "lq", "-n", "team", "--keep-already-running")
		createJob(t, c, teamJob("second", 1, "1", "1s"))
		kueue("resume", "localqueue", "lq", "-n", "team")
		waitForJob(t, c, "second", batchv1.JobComplete)
	})
	t.Run("a stopped workload gives its quota back and goes on when it is resumed", func(t *testing.T) {
		createJob(t, c, teamJob("long", 4, "1", ""))
		var name string
		admitted := func(want string) func(context.Context) (bool, error) {
			return func(ctx context.Context) (bool, error) {
				workload, err := workloadOf(ctx, c, "team", "long")
				if err != nil || workload == nil {
					return false, err
				}
				name = workload.GetName()
				status, _, _ := condition(workload, "Admitted")
				return status == want, nil
			}
		}
		eventually(t, 30*time.Second, "the workload to be admitted", admitted("True"))
		shows(kueue("list", "pods", "-n", "team", "--for", "job/long"), "long-")
		kueue("stop", "workload", name, "-n", "team")
		eventually(t, 30*time.Second, "the workload to be stopped", admitted("False"))
		workload, err := c.Dynamic.Resource(workloads).Namespace("team").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if active, found, _ := unstructured.NestedBool(workload.Object, "spec", "active"); !found || active {
			t.Errorf("active is %t", active)
		}
		kueue("resume", "workload", name, "-n", "team")
		eventually(t, 60*time.Second, "the workload to be admitted again", admitted("True"))
		shows(kueue("list", "workload", "-n", "team", "--status", "admitted"), name, "ADMITTED")
		kueue("delete", "workload", name, "-n", "team", "--yes")
		eventually(t, 30*time.Second, "the Job to be gone", func(ctx context.Context) (bool, error) {
			_, err := c.Kube.BatchV1().Jobs("team").Get(ctx, "long", metav1.GetOptions{})
			return cluster.IsNotFound(err), nil
		})
	})
}
