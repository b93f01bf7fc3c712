// SPDX-License-Identifier: Apache-2.0

// Elastic: Jobs that change their size while they run, on a real control plane. What is asked for in addition waits
// for quota, and the pods that run are left alone; what is given up can be used by others at once.

package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tutti.dev/e2e/cluster"
)

const (
	elasticAnnotation = "kueue.x-k8s.io/elastic-job"
	elasticGate       = "kueue.x-k8s.io/elastic-job"
)

type elastic struct{ *cluster.Cluster }

func TestElastic(t *testing.T) {
	queues := defaultFlavor + cpuQueue("team", "nominalQuota: 6", "preemption: {withinClusterQueue: LowerPriority}") +
		localQueue("team", "lq", "team") + priorityClass("high", 100)
	c, _ := startTeam(t, false, cluster.NodeSpec{Count: 2, CPU: "8"}, queues, cluster.TuttiOptions{})
	h := &elastic{c}
	for _, one := range []struct {
		name string
		run  func(*elastic, *testing.T)
	}{
		{"grows when there is quota, shrinks at once", (*elastic).growsAndShrinks},
		{"gives way while it wants to grow", (*elastic).givesWay},
		{"is refused what can't be", (*elastic).refused},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(h, t) })
		deleteJobs(t, c, "team")
	}
}

func elasticJob(name string, pods int32) *batchv1.Job {
	j := teamJob(name, pods, "1", "")
	completions := int32(50)
	j.Spec.Completions = &completions
	j.Annotations = map[string]string{elasticAnnotation: "true"}
	return j
}

func (h *elastic) scale(t *testing.T, name string, pods int) {
	t.Helper()
	if _, err := merge(t.Context(), h.Kube.BatchV1().Jobs("team"), name, fmt.Sprintf(`{"spec":{"parallelism":%d}}`, pods)); err != nil {
		t.Fatal(err)
	}
}

// wait until so many pods of the job run and so many are held, and so much is used.
func (h *elastic) wait(t *testing.T, name string, running, held int, used string) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%s: %d pods that run, %d held", name, running, held), func(ctx context.Context) (bool, error) {
		pods, err := h.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + name})
		if err != nil {
			return false, err
		}
		haveRunning, haveHeld := 0, 0
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp != nil {
				continue
			}
			if len(pod.Spec.SchedulingGates) > 0 && pod.Spec.SchedulingGates[0].Name == elasticGate {
				haveHeld++
			} else if pod.Status.Phase == corev1.PodRunning {
				haveRunning++
			}
		}
		have, err := usage(ctx, h.Cluster, "team")
		if err != nil {
			return false, err
		}
		return expect(haveRunning == running && haveHeld == held && have["cpu"] == used,
			"%d run, %d are held, %s cpu are used", haveRunning, haveHeld, have["cpu"])
	})
}

// slices of a job: names of those that live, and of those that were replaced.
func (h *elastic) slices(t *testing.T, name string) (live, replaced []unstructured.Unstructured) {
	t.Helper()
	list, err := h.Dynamic.Resource(workloads).Namespace("team").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, workload := range list.Items {
		if owners := workload.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != name {
			continue
		}
		if status, reason, _ := condition(&workload, "Finished"); status != "True" {
			live = append(live, workload)
		} else if reason == "WorkloadSliceReplaced" {
			replaced = append(replaced, workload)
		}
	}
	return live, replaced
}

func (h *elastic) podNames(t *testing.T, name string) map[string]bool {
	t.Helper()
	pods, err := h.Kube.CoreV1().Pods("team").List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, pod := range pods.Items {
		names[pod.Name] = true
	}
	return names
}

func (h *elastic) growsAndShrinks(t *testing.T) {
	created := createJob(t, h.Cluster, elasticJob("grows", 2))
	if gates := created.Spec.Template.Spec.SchedulingGates; len(gates) != 1 || gates[0].Name != elasticGate || !isSuspended(created) {
		t.Errorf("created with the gates %v, suspended = %t", gates, isSuspended(created))
	}
	h.wait(t, "grows", 2, 0, "2")
	first := h.podNames(t, "grows")
	createJob(t, h.Cluster, teamJob("other", 2, "1", ""))
	eventually(t, 20*time.Second, "other to run", func(ctx context.Context) (bool, error) {
		have, err := usage(ctx, h.Cluster, "team")
		return have["cpu"] == "4", err
	})

	// 6 are there, 4 are used, 3 more are asked for.
	h.scale(t, "grows", 5)
	h.wait(t, "grows", 2, 3, "4")
	live, replaced := h.slices(t, "grows")
	if len(live) != 2 || len(replaced) != 0 {
		t.Fatalf("%d slices live, %d were replaced", len(live), len(replaced))
	}

	deleteJob(t, h.Cluster, "other")
	h.wait(t, "grows", 5, 0, "5")
	eventually(t, 20*time.Second, "the first slice to be replaced", func(context.Context) (bool, error) {
		live, replaced = h.slices(t, "grows")
		return expect(len(live) == 1 && len(replaced) == 1, "%d live, %d were replaced", len(live), len(replaced))
	})
	if got, want := live[0].GetAnnotations()["kueue.x-k8s.io/workload-slice-replacement-for"], "team/"+replaced[0].GetName(); got != want {
		t.Errorf("it takes the place of %q, want %q", got, want)
	}
	now := h.podNames(t, "grows")
	for name := range first {
		if !now[name] {
			t.Errorf("pod %s was stopped", name)
		}
	}

	createJob(t, h.Cluster, teamJob("waits", 4, "1", ""))
	waitPending(t, h.Cluster, "waits", "Pending", "cpu")
	h.scale(t, "grows", 1)
	h.wait(t, "grows", 1, 0, "5")
	if live, _ = h.slices(t, "grows"); len(live) != 1 {
		t.Errorf("%d slices live", len(live))
	}
}

func (h *elastic) givesWay(t *testing.T) {
	createJob(t, h.Cluster, elasticJob("low", 4))
	h.wait(t, "low", 4, 0, "4")
	h.scale(t, "low", 8)
	h.wait(t, "low", 4, 4, "4")
	urgent := teamJob("urgent", 4, "1", "")
	urgent.Labels["kueue.x-k8s.io/priority-class"] = "high"
	createJob(t, h.Cluster, urgent)
	h.wait(t, "urgent", 4, 0, "4")
	h.wait(t, "low", 0, 0, "4")
	live, replaced := h.slices(t, "low")
	if len(live) != 1 || len(replaced) != 1 {
		t.Errorf("%d slices live, %d were replaced", len(live), len(replaced))
	}
	// It waits in its new size, and may take less.
	h.scale(t, "low", 2)
	h.wait(t, "low", 2, 0, "6")
}

func (h *elastic) refused(t *testing.T) {
	jobs := h.Kube.BatchV1().Jobs("team")
	partly := elasticJob("partly", 4)
	partly.Annotations["kueue.x-k8s.io/job-min-parallelism"] = "2"
	_, err := jobs.Create(t.Context(), partly, metav1.CreateOptions{})
	refusedWith(t, err, "can't be admitted in part")
	createJob(t, h.Cluster, teamJob("plain", 1, "1", ""))
	_, err = merge(t.Context(), jobs, "plain", `{"metadata":{"annotations":{"`+elasticAnnotation+`":"true"}}}`)
	refusedWith(t, err, "can be set only at creation")
	unqueued := elasticJob("unqueued", 1)
	unqueued.Labels = nil
	if created := createJob(t, h.Cluster, unqueued); len(created.Spec.Template.Spec.SchedulingGates) != 0 {
		t.Errorf("a Job without a queue got the gates %v", created.Spec.Template.Spec.SchedulingGates)
	}
}
