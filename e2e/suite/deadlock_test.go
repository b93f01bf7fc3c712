// SPDX-License-Identifier: Apache-2.0

// Deadlock: jobs that each fit and together don't, started in the same moment. With Tutti one runs and the
// other waits and knows why; what happens without Tutti is in the log.

package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/observe"
)

const deadlockNodes = 15 // 120 GPUs

func TestDeadlock(t *testing.T) { runDeadlock(t, false, false) }

func TestDeadlockGatesOff(t *testing.T) { runDeadlock(t, true, false) }

// The GPUs are devices that the pods ask for by claims.
func TestDeadlockClaims(t *testing.T) { runDeadlock(t, false, true) }

func runDeadlock(t *testing.T, gatesOff, claims bool) {
	// Quota never runs out: places do.
	team := trace.Team{Name: "team", Cohort: "all", Quota: 1000, Share: 1}
	start, makeJob, options, short := loadedCluster, loadJob, cluster.TuttiOptions{}, string(gpu)
	if claims {
		start, makeJob, options, short = claimedCluster, claimedJob, cluster.TuttiOptions{Config: mappedDevices}, "class gpu"
	}
	c := start(t, cluster.Options{GatesOff: gatesOff}, deadlockNodes, []trace.Team{team})
	devices := watchDevices(t, c)
	if err := c.CreateNamespace(t.Context(), "other", nil); err != nil {
		t.Fatal(err)
	}
	if !claims {
		t.Run("without Tutti", func(t *testing.T) { nativeDeadlock(t, c) })
	}
	if t.Failed() {
		return
	}
	if _, err := c.StartTutti(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		jobs       int
		pods, gpus int
		together   int    // so many run at a time
		reason     string // of those that wait
	}{
		{"two jobs of 100 GPUs", 2, 100, 1, 1, "20 of 100 pods fit now"},
		{"two jobs of whole nodes", 2, 12, 8, 1, "3 of 12 pods fit now"},
		// 100 of 120 GPUs would do, but a node holds one pod of 5.
		{"enough in total and not in pieces", 2, 10, 5, 1, "5 of 10 pods fit now"},
		{"eight jobs of 40 GPUs", 8, 5, 8, 3, "0 of 5 pods fit now"},
	} {
		t.Run(test.name, func(t *testing.T) {
			observer := startObserver(t, c, nil)
			var jobs []*batchv1.Job
			for i := range test.jobs {
				jobs = append(jobs, makeJob(trace.Job{
					Team: team.Name, Name: fmt.Sprintf("job-%d", i), Pods: test.pods, GPUs: test.gpus, Duration: time.Hour,
				}))
			}
			before := attempts(t, c)
			createTogether(t, c, jobs)
			view := waitWhole(t, observer, 0, test.together)
			checkOneWay(t, c, view, test.together, test.reason, short)
			t.Logf("%d of %d run, the rest waits (%s); %.0f scheduling attempts for %d pods",
				test.together, test.jobs, test.reason, attempts(t, c)-before, test.together*test.pods)
			// Those that waited get their turn when the first ones go.
			for gone := 0; gone < test.jobs; {
				for _, j := range view.Jobs {
					if !j.Deleted && !j.Whole.IsZero() {
						deleteJob(t, c, j.Name)
						gone++
					}
				}
				view = waitWhole(t, observer, gone, min(test.jobs-gone, test.together))
			}
			// From the first moment to the last: no gang was ever started in part.
			if _, takenBack := checkGangs(t, view); takenBack != 0 {
				t.Errorf("%d gangs were bound in part and taken back", takenBack)
			}
			for _, j := range view.Jobs {
				if j.Whole.IsZero() || len(j.Released) != 1 {
					t.Errorf("%s was released %d times, whole: %t", j.Name, len(j.Released), !j.Whole.IsZero())
				}
			}
			eventually(t, time.Minute, "all pods to be gone", func(ctx context.Context) (bool, error) {
				pods, err := c.Kube.CoreV1().Pods(team.Name).List(ctx, metav1.ListOptions{})
				return err == nil && len(pods.Items) == 0, err
			})
			observer.Stop()
		})
	}
	devices.check(t)
}

// createTogether creates all jobs at the same time.
func createTogether(t *testing.T, c *cluster.Cluster, jobs []*batchv1.Job) {
	t.Helper()
	errs := make([]error, len(jobs))
	var group sync.WaitGroup
	for i, j := range jobs {
		group.Go(func() {
			_, errs[i] = c.Kube.BatchV1().Jobs(j.Namespace).Create(t.Context(), j, metav1.CreateOptions{})
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// waitWhole waits until so many jobs are gone and exactly so many others run whole.
func waitWhole(t *testing.T, observer *observe.Observer, gone, want int) observe.View {
	t.Helper()
	view, err := observer.Wait(t.Context(), time.Minute, fmt.Sprintf("%d jobs to be gone and %d whole", gone, want), func(v observe.View) bool {
		deleted, whole := 0, 0
		for _, j := range v.Jobs {
			switch {
			case j.Deleted:
				deleted++
			case !j.Whole.IsZero():
				whole++
			}
		}
		return deleted == gone && whole == want
	})
	if err != nil {
		for _, j := range view.Jobs {
			t.Logf("%s: held %t, released %d times, gangs %+v", j.Name, j.Held, len(j.Released), j.Gangs)
		}
		t.Fatal(err)
	}
	return view
}

// checkOneWay fails the test if a job that doesn't run isn't held with the right reason.
func checkOneWay(t *testing.T, c *cluster.Cluster, view observe.View, together int, reason, short string) {
	t.Helper()
	running := 0
	for _, j := range view.Jobs {
		if !j.Held {
			running++
			continue
		}
		waitPending(t, c, j.Name, "Pending", reason, short)
		if len(j.Released) != 0 || len(j.Gangs) != 0 {
			t.Errorf("%s waits and was released %d times, gangs %+v", j.Name, len(j.Released), j.Gangs)
		}
	}
	if running != together {
		t.Errorf("%d jobs are released, not %d", running, together)
	}
}

func attempts(t *testing.T, c *cluster.Cluster) float64 {
	t.Helper()
	n, err := c.SchedulingAttempts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// nativeDeadlock submits the classic without a queue: as plain Jobs, and where the API is served as two
// native gangs. What happens is reported; only that the cluster is full, or a gang whole, is asked for.
func nativeDeadlock(t *testing.T, c *cluster.Cluster) {
	groups, native := c.PodGroups()
	for _, gangs := range []bool{false, true} {
		if gangs && !native {
			continue
		}
		name := "plain"
		if gangs {
			name = "gang"
		}
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			var jobs []*batchv1.Job
			for i := range 2 {
				j := loadJob(trace.Job{Team: "other", Name: fmt.Sprintf("%s-%d", name, i), Pods: 100, GPUs: 1, Duration: time.Hour})
				j.Labels = nil
				if gangs {
					if err := c.ApplyYAML(ctx, fmt.Sprintf("apiVersion: %s\nkind: PodGroup\nmetadata: {name: %s, namespace: other}\n"+
						"spec: {schedulingPolicy: {gang: {minCount: 100}}}\n", groups.GroupVersion(), j.Name)); err != nil {
						t.Fatal(err)
					}
					inGroup(j, j.Name)
				}
				jobs = append(jobs, j)
			}
			createTogether(t, c, jobs)
			want := 120 // every GPU is taken
			if gangs {
				want = 100
			}
			var bound map[string]int
			eventually(t, time.Minute, fmt.Sprintf("%d bound pods of 200", want), func(ctx context.Context) (bool, error) {
				pods, err := c.Kube.CoreV1().Pods("other").List(ctx, metav1.ListOptions{})
				if err != nil {
					return false, err
				}
				bound = map[string]int{}
				sum := 0
				for _, pod := range pods.Items {
					if pod.Spec.NodeName != "" {
						bound[pod.Labels[batchv1.JobNameLabel]]++
						sum++
					}
				}
				return sum == want && len(pods.Items) == 200, nil
			})
			const window = 10 * time.Second
			before, used := attempts(t, c), cpuOf(t, c.Scheduler)
			<-time.After(window) // the measurement itself
			t.Logf("result: without Tutti, %s, %s: bound %d and %d of 100 each; afterwards the scheduler makes %.0f attempts/s with %.0f %% of a core",
				name, c.Minor, bound[jobs[0].Name], bound[jobs[1].Name], (attempts(t, c)-before)/window.Seconds(),
				100*(cpuOf(t, c.Scheduler)-used).Seconds()/window.Seconds())
			for _, j := range jobs {
				if err := c.Kube.BatchV1().Jobs("other").Delete(ctx, j.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, time.Minute, "all pods to be gone", func(ctx context.Context) (bool, error) {
				pods, err := c.Kube.CoreV1().Pods("other").List(ctx, metav1.ListOptions{})
				return err == nil && len(pods.Items) == 0, err
			})
		})
	}
}
