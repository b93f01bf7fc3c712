// SPDX-License-Identifier: Apache-2.0

// A loaded cluster: teams with quotas in cohorts, their jobs, and what must hold at any time, judged
// from outside by package observe and by the watcher of pods below.

package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/observe"
)

const (
	gpu       = corev1.ResourceName("nvidia.com/gpu")
	loadQueue = "jobs" // the LocalQueue of each team
	// bindingSpan is the promise of docs/guarantees.md: from a gang's first binding to its last, or it is
	// taken back; takeBackSlack is what suspending it may take after that.
	bindingSpan   = 10 * time.Second
	takeBackSlack = 5 * time.Second
)

// long tells whether the full sizes are asked for.
func long() bool { return os.Getenv("TUTTI_E2E_LONG") != "" }

// loadedCluster is a cluster with Tutti's chart, GPU nodes and the teams' queues; no operator yet.
func loadedCluster(t *testing.T, o cluster.Options, nodes int, teams []trace.Team) *cluster.Cluster {
	t.Helper()
	return teamsCluster(t, o, gpuNodes(nodes), teams, teamQueues(teams))
}

// teamsCluster has the chart, nodes, a namespace for each team, and the manifests.
func teamsCluster(t *testing.T, o cluster.Options, nodes cluster.NodeSpec, teams []trace.Team, manifests string) *cluster.Cluster {
	t.Helper()
	ctx := t.Context()
	c := cluster.ForTest(t, o)
	if err := c.InstallTutti(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNodes(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	for _, team := range teams {
		if err := c.CreateNamespace(ctx, team.Name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.ApplyYAML(ctx, manifests); err != nil {
		t.Fatal(err)
	}
	return c
}

func gpuNodes(count int) cluster.NodeSpec {
	return cluster.NodeSpec{
		Count: count, Prefix: "gpu", CPU: "64", Memory: "512Gi", Extended: map[string]string{string(gpu): "8"},
	}
}

func teamQueues(teams []trace.Team) string {
	var b strings.Builder
	b.WriteString("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: gpus}}\n")
	for _, team := range teams {
		fmt.Fprintf(&b, `---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  cohortName: %[2]s
  queueingStrategy: BestEffortFIFO
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [%[3]s]
    flavors:
    - name: gpus
      resources:
      - {name: %[3]s, nominalQuota: %[4]d, borrowingLimit: %[5]d}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[6]s, namespace: %[1]s}
spec: {clusterQueue: %[1]s}
`, team.Name, team.Cohort, gpu, team.Quota, team.Borrowing, loadQueue)
	}
	return b.String()
}

// teamLimits are what nobody may see exceeded: each team's quota with what it may borrow, and each
// cohort's sum.
func teamLimits(teams []trace.Team) []observe.Limit {
	amount := func(gpus int) corev1.ResourceList {
		return corev1.ResourceList{gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	}
	var limits []observe.Limit
	cohorts := map[string]int{}
	for _, team := range teams {
		queue := team.Name + "/" + loadQueue
		limits = append(limits, observe.Limit{Name: "team " + team.Name, Queues: []string{queue}, Max: amount(team.Limit())})
		i, known := cohorts[team.Cohort]
		if !known {
			i = len(limits)
			cohorts[team.Cohort] = i
			limits = append(limits, observe.Limit{Name: "cohort " + team.Cohort, Max: amount(0)})
		}
		limits[i].Queues = append(limits[i].Queues, queue)
		sum := limits[i].Max[gpu]
		sum.Add(amount(team.Quota)[gpu])
		limits[i].Max[gpu] = sum
	}
	return limits
}

// loadJob is a Job of the mix. Each of its pods ends by itself, so that a member may be lost after
// others have succeeded.
func loadJob(j trace.Job) *batchv1.Job {
	out := job(j.Name, int32(j.Pods), map[string]string{cluster.RunFor: j.Duration.String()})
	out.Namespace = j.Team
	if j.Generate {
		out.Name, out.GenerateName = "", j.Name
	}
	out.Labels = map[string]string{"kueue.x-k8s.io/queue-name": loadQueue}
	mode, backoff := batchv1.IndexedCompletion, int32(1000) // lost pods count as failed ones
	out.Spec.CompletionMode, out.Spec.BackoffLimit = &mode, &backoff
	gpus := corev1.ResourceList{gpu: *resource.NewQuantity(int64(j.GPUs), resource.DecimalSI)}
	out.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: gpus, Limits: gpus}
	return out
}

// startObserver runs until the end of the test.
func startObserver(t *testing.T, c *cluster.Cluster, limits []observe.Limit) *observe.Observer {
	t.Helper()
	observer, err := observe.Start(context.WithoutCancel(t.Context()), c.Kube, observe.Options{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(observer.Stop)
	return observer
}

// checkGangs fails the test for every gang that broke the promise and returns how many landed and how
// many were taken back.
func checkGangs(t *testing.T, view observe.View) (landed, takenBack int) {
	t.Helper()
	for _, j := range view.Jobs {
		for _, g := range j.Gangs {
			name := fmt.Sprintf("%s/%s, %s", j.Namespace, j.Name, g.Name)
			switch {
			case g.Whole && g.Span > bindingSpan:
				t.Errorf("%s: %v from the first binding to the last of %d", name, g.Span, g.Size)
			case g.Whole:
				landed++
			case g.Bindings == 0:
			case !g.Gone:
				t.Errorf("%s: %d of %d pods were bound, and it is neither whole nor gone", name, g.Bindings, g.Size)
			default:
				takenBack++
				back := slices.IndexFunc(j.Suspended, func(at time.Time) bool { return !at.Before(g.First) })
				if back < 0 {
					t.Errorf("%s: %d of %d pods were bound, but the Job was not suspended", name, g.Bindings, g.Size)
				} else if after := j.Suspended[back].Sub(g.First); after > bindingSpan+takeBackSlack {
					t.Errorf("%s: taken back %v after the first binding", name, after)
				}
			}
		}
	}
	return landed, takenBack
}

// checkLimits fails the test if more than a limit was in use at any moment.
func checkLimits(t *testing.T, observer *observe.Observer) {
	t.Helper()
	for _, over := range observer.Report().OverLimit() {
		t.Errorf("over the limit: %v\n  %s", over, strings.Join(over.Holders, "\n  "))
	}
}

// twins watches that no completion index of a Job has two pods at the same time, other than one that
// is being deleted, and counts the pods of each Job.
type twins struct {
	mutex    sync.Mutex
	active   map[string]map[types.UID]bool // by Job and index
	created  map[types.UID]map[types.UID]bool
	problems []string
}

func watchTwins(t *testing.T, c *cluster.Cluster) *twins {
	t.Helper()
	w := &twins{active: map[string]map[types.UID]bool{}, created: map[types.UID]map[types.UID]bool{}}
	follow(t, c, podsFeed(w.onPod))
	return w
}

func (w *twins) onPod(object any, gone bool) {
	pod, isPod := object.(*corev1.Pod)
	if !isPod {
		return
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.created[owner.UID] == nil {
		w.created[owner.UID] = map[types.UID]bool{}
	}
	w.created[owner.UID][pod.UID] = true
	key := pod.Namespace + "/" + owner.Name + " " + string(owner.UID) + " index " + pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if gone || ended || pod.DeletionTimestamp != nil {
		delete(w.active[key], pod.UID)
		return
	}
	if w.active[key] == nil {
		w.active[key] = map[types.UID]bool{}
	}
	w.active[key][pod.UID] = true
	if n := len(w.active[key]); n > 1 {
		w.problems = append(w.problems, fmt.Sprintf("%d pods at the same time: %s", n, key))
	}
}

func (w *twins) check(t *testing.T) {
	t.Helper()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, problem := range w.problems {
		t.Error(problem)
	}
	w.problems = nil
}

// podsOf is how many pods a Job has had.
func (w *twins) podsOf(uid types.UID) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.created[uid])
}

// waitForNoLeftovers waits until the queues say that nothing is held or waits, and nothing is left of
// groups; with jobsDeleted also until no Workload and no pod is left.
func waitForNoLeftovers(t *testing.T, c *cluster.Cluster, jobsDeleted bool) {
	t.Helper()
	eventually(t, time.Minute, "queues to be empty", func(ctx context.Context) (bool, error) {
		queues, err := c.Dynamic.Resource(clusterQueues).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, queue := range queues.Items {
			status, _ := queue.Object["status"].(map[string]any)
			for _, field := range []string{"pendingWorkloads", "reservingWorkloads", "admittedWorkloads"} {
				if n, _ := status[field].(int64); n != 0 {
					return false, fmt.Errorf("ClusterQueue %s: %s is %d", queue.GetName(), field, n)
				}
			}
		}
		return true, nil
	})
	waitForNoGroups(t, c)
	if jobsDeleted {
		waitForNone(t, c, workloads, "")
		waitForNone(t, c, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, batchv1.JobNameLabel)
	}
}

func waitForNoGroups(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if groups, served := c.PodGroups(); served {
		waitForNone(t, c, groups, "")
	}
}

func waitForNone(t *testing.T, c *cluster.Cluster, resource schema.GroupVersionResource, selector string) {
	t.Helper()
	eventually(t, time.Minute, "all "+resource.Resource+" to be gone", func(ctx context.Context) (bool, error) {
		list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, err
		}
		if n := len(list.Items); n > 0 {
			return false, fmt.Errorf("%d left, one of them %s/%s", n, list.Items[0].GetNamespace(), list.Items[0].GetName())
		}
		return true, nil
	})
}

// sum adds the samples of one metric of the operator.
func sum(t *testing.T, o *cluster.Tutti, name string, labels map[string]string) float64 {
	t.Helper()
	metrics, err := o.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return metrics.Sum(name, labels)
}
