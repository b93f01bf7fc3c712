// SPDX-License-Identifier: Apache-2.0

// What the tests of this package share.

package suite

import (
	"context"
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
