// SPDX-License-Identifier: Apache-2.0

// MisbehavingWorld: what the decision rested on is gone before the gang lands, or the API server is
// slow or says no. The gang is taken back with a reason, nothing leaks, and it starts once it can.

package suite

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/chaosproxy"
	"tutti.dev/e2e/demo/trace"
)

// wide is a gang that needs both nodes whole.
func (r *crashRig) wide(name string) *batchv1.Job {
	return loadJob(trace.Job{Team: r.team.Name, Name: name, Pods: 2, GPUs: 8, Duration: 500 * time.Millisecond})
}

// beforeRelease runs do once, when the release of the Job is on its way to the server.
func (r *crashRig) beforeRelease(job string, do func()) {
	var once sync.Once
	r.proxy.SetHook(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/jobs/"+job) {
			once.Do(do)
		}
		return false
	})
}

// takenBack waits until the Job is held again, with the cause, and its quota is free.
func (r *crashRig) takenBack(t *testing.T, job string, words string) {
	t.Helper()
	eventually(t, 60*time.Second, job+" to be taken back", func(ctx context.Context) (bool, error) {
		workload, err := workloadOf(ctx, r.Cluster, r.team.Name, job)
		if err != nil {
			return false, err
		}
		status, reason, message := condition(workload, "Evicted")
		if status != "True" || reason != "PodsReadyTimeout" || !strings.Contains(message, words) {
			return false, fmt.Errorf("Evicted is %q/%q: %s", status, reason, message)
		}
		j, err := r.Kube.BatchV1().Jobs(r.team.Name).Get(ctx, job, metav1.GetOptions{})
		if err != nil || !isSuspended(j) || j.Status.Active != 0 {
			return false, err
		}
		have, err := usage(ctx, r.Cluster, r.team.Name)
		return err == nil && have[string(gpu)] == "0", err
	})
}

func (r *crashRig) completes(t *testing.T, job string) {
	t.Helper()
	eventually(t, 60*time.Second, job+" to complete", func(ctx context.Context) (bool, error) {
		j, err := r.Kube.BatchV1().Jobs(r.team.Name).Get(ctx, job, metav1.GetOptions{})
		return err == nil && finished(j), err
	})
}

func TestMisbehavingWorld(t *testing.T) {
	ctx := t.Context()
	r := newCrashRig(t, false, 2, chaosproxy.DefaultCounts)
	tutti := r.start(t, map[string]any{"landing": map[string]any{"timeout": "3s", "backoffBase": "1s"}})
	nodes, err := r.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now, one := int64(0), resource.MustParse("1")

	t.Run("a foreign pod takes a place between the decision and the release", func(t *testing.T) {
		r.beforeRelease("robbed", func() {
			_, err := r.Kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "thief"},
				Spec: corev1.PodSpec{NodeName: nodes.Items[0].Name, TerminationGracePeriodSeconds: &now, Containers: []corev1.Container{{
					Name: "main", Image: "example.org/thief:1",
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{gpu: one}, Limits: corev1.ResourceList{gpu: one},
					},
				}}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
			}
		})
		createJob(t, r.Cluster, r.wide("robbed"))
		r.takenBack(t, "robbed", "0 of 2 pods were placed")
		if err := r.Kube.CoreV1().Pods("default").Delete(ctx, "thief", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		r.completes(t, "robbed")
	})

	t.Run("a node vanishes between the decision and the release", func(t *testing.T) {
		r.beforeRelease("stranded", func() {
			if err := r.RemoveNode(ctx, nodes.Items[1].Name); err != nil {
				t.Error(err)
			}
		})
		createJob(t, r.Cluster, r.wide("stranded"))
		r.takenBack(t, "stranded", "0 of 2 pods were placed")
		spec := gpuNodes(1)
		spec.Prefix = "spare"
		if _, err := r.AddNodes(ctx, spec); err != nil {
			t.Fatal(err)
		}
		r.completes(t, "stranded")
	})

	t.Run("the API server takes its time", func(t *testing.T) {
		r.proxy.SetHook(func(_ http.ResponseWriter, request *http.Request) bool {
			if request.Method != http.MethodGet {
				time.Sleep(time.Second) // the slow server itself
			}
			return false
		})
		for i := range 6 {
			createJob(t, r.Cluster, r.wide(fmt.Sprintf("slow-%d", i)))
		}
		for i := range 6 {
			r.completes(t, fmt.Sprintf("slow-%d", i))
		}
	})

	t.Run("the API server says no for a while", func(t *testing.T) {
		end := time.Now().Add(5 * time.Second)
		refused := 0
		var mutex sync.Mutex
		r.proxy.SetHook(func(w http.ResponseWriter, request *http.Request) bool {
			mutex.Lock()
			defer mutex.Unlock()
			if request.Method == http.MethodGet || time.Now().After(end) {
				return false
			}
			refused++
			if refused%2 == 0 {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "too many requests", http.StatusTooManyRequests)
			} else {
				http.Error(w, "out of order", http.StatusServiceUnavailable)
			}
			return true
		})
		createJob(t, r.Cluster, r.wide("patient"))
		r.completes(t, "patient")
		mutex.Lock()
		defer mutex.Unlock()
		if refused == 0 {
			t.Error("nothing was refused")
		}
	})

	r.proxy.SetHook(nil)
	waitForNoLeftovers(t, r.Cluster, false)
	checkLimits(t, r.observer)
	r.twins.check(t)
	if bugs := sum(t, tutti, "tutti_bugs_total", nil); bugs != 0 {
		t.Errorf("tutti_bugs_total is %v", bugs)
	}
}
