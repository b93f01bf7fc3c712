// SPDX-License-Identifier: Apache-2.0

// What the tests of this package share.

package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

// job is a Job in namespace team with equal pods that each ask for 1 cpu.
func job(name string, pods int32, podAnnotations map[string]string) *batchv1.Job {
	grace := int64(1)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team"},
		Spec: batchv1.JobSpec{
			Parallelism: &pods,
			Completions: &pods,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: podAnnotations},
				Spec: corev1.PodSpec{
					RestartPolicy:                 corev1.RestartPolicyNever,
					TerminationGracePeriodSeconds: &grace,
					Containers: []corev1.Container{{
						Name: "main", Image: "example.org/work:1",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("1"),
						}},
					}},
				},
			},
		},
	}
}

func createJob(t *testing.T, c *cluster.Cluster, j *batchv1.Job) *batchv1.Job {
	t.Helper()
	created, err := c.Kube.BatchV1().Jobs(j.Namespace).Create(t.Context(), j, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func waitForJob(t *testing.T, c *cluster.Cluster, name string, condition batchv1.JobConditionType) {
	t.Helper()
	eventually(t, 40*time.Second, "Job "+name+" to be "+string(condition), func(ctx context.Context) (bool, error) {
		j, err := c.Kube.BatchV1().Jobs("team").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, have := range j.Status.Conditions {
			if have.Type == condition && have.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

func eventually(t *testing.T, timeout time.Duration, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := cluster.Eventually(t.Context(), timeout, what, check); err != nil {
		t.Fatal(err)
	}
}

type apiRequest struct{ Verb, UserAgent, RequestURI string }

// requestsOf are those of whoever calls itself `agent`, from the API server's audit log.
func requestsOf(t *testing.T, c *cluster.Cluster, agent string) []apiRequest {
	t.Helper()
	file, err := os.Open(filepath.Join(c.LogDir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var requests []apiRequest
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event apiRequest
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		if event.UserAgent == agent {
			requests = append(requests, event)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}

// onlyLists: `agent` has sent nothing but lists of pages, and at least `least`.
func onlyLists(t *testing.T, c *cluster.Cluster, agent string, least int) {
	t.Helper()
	requests := requestsOf(t, c, agent)
	for _, request := range requests {
		if request.Verb != "list" || !strings.Contains(request.RequestURI, "limit=500") {
			t.Errorf("%s %s: not the list of a page", request.Verb, request.RequestURI)
		}
	}
	if len(requests) < least {
		t.Errorf("%d requests of %s in the audit log, want %d or more", len(requests), agent, least)
	}
}

func tuttiBinary(t *testing.T) string {
	t.Helper()
	binary, err := cluster.TuttiBinary()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// tuttiJSON runs the command with `-o json` and reads what it prints.
func tuttiJSON(t *testing.T, into any, command string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tuttiBinary(t), append([]string{command, "-o", "json"}, args...)...).Output()
	if err != nil {
		t.Fatalf("tutti %s: %v", command, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatal(err)
	}
}
