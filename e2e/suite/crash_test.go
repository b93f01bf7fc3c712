// SPDX-License-Identifier: Apache-2.0

// CrashAnywhere: kill -9 of Tutti around every single write of one admission and of one eviction, and
// at random moments under load. A loopback proxy between Tutti and the API server does the killing.

package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/chaosproxy"
	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/observe"
)

func TestCrashAnywhere(t *testing.T) { runCrashAnywhere(t, false) }

func runCrashAnywhere(t *testing.T, gatesOff bool) {
	t.Run("every write", func(t *testing.T) {
		r := newCrashRig(t, gatesOff, 4, writesOfJobs)
		t.Run("admission", r.everyWriteOfAdmission)
		t.Run("eviction", r.everyWriteOfEviction)
	})
	t.Run("random moments", func(t *testing.T) {
		kills := 20
		if long() {
			kills = 50
		}
		newCrashRig(t, gatesOff, 10, chaosproxy.DefaultCounts).randomMoments(t, kills)
	})
}

// writesOfJobs leaves out the statuses of queues and flavors (written at most once a second each) and
// the probe for native gangs: their place among the writes of a job differs from run to run.
func writesOfJobs(r *http.Request) bool {
	for _, part := range []string{"/clusterqueues/", "/localqueues/", "/resourceflavors/", "/cohorts/", "/namespaces/" + cluster.TuttiNamespace + "/"} {
		if strings.Contains(r.URL.Path, part) {
			return false
		}
	}
	return chaosproxy.DefaultCounts(r)
}

// crashRig is a cluster with Tutti behind the proxy.
type crashRig struct {
	*cluster.Cluster
	team       trace.Team
	proxy      *chaosproxy.Proxy
	observer   *observe.Observer
	twins      *twins
	gangs      bool // native
	jobs       int
	nearAnchor bool
	only       atomic.Value // a kind: the proxy counts only writes of this one; "" = all
}

func newCrashRig(t *testing.T, gatesOff bool, nodes int, counts func(*http.Request) bool) *crashRig {
	t.Helper()
	r := &crashRig{team: trace.Team{Name: "team", Cohort: "all", Quota: 8 * nodes}}
	teams := []trace.Team{r.team}
	r.Cluster = loadedCluster(t, cluster.Options{GatesOff: gatesOff}, nodes, teams)
	_, r.gangs = r.PodGroups()
	certificate, err := r.CA.ServerTLS("proxy")
	if err != nil {
		t.Fatal(err)
	}
	r.proxy, err = chaosproxy.Start(chaosproxy.Options{
		Upstream: r.URL, UpstreamCAs: r.CA.Pool(), Certificate: certificate,
		Counts: func(request *http.Request) bool {
			only, _ := r.only.Load().(string)
			return counts(request) && (only == "" || only == kindOf(request.Method, request.URL.Path))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.proxy.Stop)
	r.observer = startObserver(t, r.Cluster, teamLimits(teams))
	r.twins = watchTwins(t, r.Cluster)
	return r
}

func (r *crashRig) start(t *testing.T, options map[string]any) *cluster.Tutti {
	t.Helper()
	tutti, err := r.StartTutti(t.Context(), cluster.TuttiOptions{APIServer: r.proxy.URL, Tutti: options})
	if err != nil {
		t.Fatal(err)
	}
	return tutti
}

// A rule over a label that differs between the pods of a Job is left to the scheduler: the capacity check
// knows no such label.
var anchorLabels = map[string]string{batchv1.JobCompletionIndexAnnotation: "anchor"}

// gang is the job of which every write is hit: 4 pods of 4 GPUs that run for half a second.
func (r *crashRig) gang() *batchv1.Job {
	r.jobs++
	out := loadJob(trace.Job{Team: r.team.Name, Name: fmt.Sprintf("crash-%03d", r.jobs), Pods: 4, GPUs: 4, Duration: 500 * time.Millisecond})
	if r.nearAnchor {
		out.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: anchorLabels},
				TopologyKey:   "kubernetes.io/os", // the same on all nodes
			}},
		}}
	}
	return out
}

// anchor makes the gangs land, or not.
func (r *crashRig) anchor(t *testing.T, present bool) {
	t.Helper()
	pods := r.Kube.CoreV1().Pods(r.team.Name)
	if !present {
		now := int64(0)
		if err := pods.Delete(t.Context(), "anchor", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		return
	}
	nodes, err := r.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "anchor", Labels: anchorLabels},
		Spec: corev1.PodSpec{
			NodeName:   nodes.Items[0].Name,
			Containers: []corev1.Container{{Name: "main", Image: "example.org/anchor:1"}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// job is what the observer has seen of one.
func (r *crashRig) job(name string) observe.Job {
	if j := r.observer.View().Job(r.team.Name, name); j != nil {
		return *j
	}
	return observe.Job{}
}

func (r *crashRig) waitForEnd(t *testing.T, name string) {
	t.Helper()
	_, err := r.observer.Wait(t.Context(), time.Minute, name+" to end", func(v observe.View) bool {
		j := v.Job(r.team.Name, name)
		return j != nil && !j.Finished.IsZero()
	})
	if err != nil {
		t.Fatalf("%v: %+v; writes %s", err, r.job(name), describe(r.proxy.Writes()))
	}
	if r.job(name).Failed {
		t.Fatalf("Job %s has failed", name)
	}
}

// settle waits until Tutti has done its last write for a job that has ended, checks what must hold at
// any time, and deletes the job.
func (r *crashRig) settle(t *testing.T, tutti *cluster.Tutti, created *batchv1.Job) {
	t.Helper()
	eventually(t, time.Minute, "the Workload of "+created.Name+" to be let go", func(ctx context.Context) (bool, error) {
		list, err := r.Dynamic.Resource(workloads).Namespace(created.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: "kueue.x-k8s.io/job-uid=" + string(created.UID),
		})
		if err != nil {
			return false, err
		}
		if len(list.Items) != 1 {
			return false, fmt.Errorf("%d Workloads", len(list.Items))
		}
		finished, _, _ := condition(&list.Items[0], "Finished")
		return finished == "True" && len(list.Items[0].GetFinalizers()) == 0, nil
	})
	waitForNoGroups(t, r.Cluster)
	r.twins.check(t)
	checkLimits(t, r.observer)
	if bugs := sum(t, tutti, "tutti_bugs_total", nil); bugs != 0 {
		t.Errorf("tutti_bugs_total is %v", bugs)
	}
	deleteJobs(t, r.Cluster, created.Namespace)
}

// kindOf names a write without the names of objects: "POST workloads", "PATCH workloads/status", ….
func kindOf(method, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		if part == "namespaces" && i+2 < len(parts) {
			parts = parts[i+2:]
			if len(parts) == 3 {
				return method + " " + parts[0] + "/" + parts[2]
			}
			return method + " " + parts[0]
		}
	}
	return method + " " + path
}

func kind(w chaosproxy.Write) string { return kindOf(w.Method, w.Path) }

// target is one write of a life: the n-th of its kind.
type target struct {
	kind string
	n    int
}

// targets are the writes of a calm life from number `from` to `to`. What the server refused counts for
// nothing: whether a patch meets a newer version of its object differs from run to run.
func targets(writes []chaosproxy.Write, from, to int) []target {
	var list []target
	seen := map[string]int{}
	for i, w := range writes {
		if w.Status >= 300 {
			continue
		}
		seen[kind(w)]++
		if i >= from && i < to {
			list = append(list, target{kind(w), seen[kind(w)]})
		}
	}
	return list
}

// killAt arms the proxy and submits a gang; it returns when Tutti has been killed.
func (r *crashRig) killAt(t *testing.T, tutti *cluster.Tutti, at target, moment chaosproxy.Moment) (*batchv1.Job, string) {
	t.Helper()
	r.only.Store(at.kind)
	defer r.only.Store("")
	fired, err := r.proxy.Arm(at.n, moment, tutti.Kill9)
	if err != nil {
		t.Fatal(err)
	}
	created := createJob(t, r.Cluster, r.gang())
	r.waitForKill(t, fired, fmt.Sprintf("%s number %d of %s", at.kind, at.n, created.Name))
	return created, fmt.Sprintf("killed %v of %s number %d", moment, at.kind, at.n)
}

func describe(writes []chaosproxy.Write) string {
	var list []string
	for _, w := range writes {
		list = append(list, fmt.Sprintf("%s %d", kind(w), w.Status))
	}
	return strings.Join(list, ", ")
}

// moments are those at which Tutti is killed around a write.
var moments = []chaosproxy.Moment{chaosproxy.BeforeRequest, chaosproxy.BeforeResponse, chaosproxy.AfterResponse}

func (r *crashRig) everyWriteOfAdmission(t *testing.T) {
	tutti := r.start(t, nil)
	defer tutti.Remove()
	calm := r.calmRun(t, tutti)
	t.Logf("%d writes: %s", len(calm), describe(calm))
	for _, moment := range moments {
		for i, at := range targets(calm, 0, len(calm)) {
			before := r.proxy.Count()
			created, name := r.killAt(t, tutti, at, moment)
			// Half of the lives end before the job moves on, half after it has run without us.
			if j := r.job(created.Name); i%2 == 0 && len(j.Released) > 0 {
				r.waitForEnd(t, created.Name)
			}
			if err := tutti.Restart(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r.waitForEnd(t, created.Name)
			r.settle(t, tutti, created)
			if j := r.job(created.Name); len(j.Released) != 1 || len(j.Suspended) != 0 {
				t.Errorf("%s: the Job was released at %v and suspended at %v", name, j.Released, j.Suspended)
			}
			if pods := r.twins.podsOf(created.UID); pods != 4 {
				t.Errorf("%s: the Job had %d pods", name, pods)
			}
			if t.Failed() {
				t.Fatalf("%s: writes %s", name, describe(r.proxy.Writes()[before:]))
			}
		}
	}
	waitForNoLeftovers(t, r.Cluster, true)
}

// calmRun lets one gang live undisturbed and returns its writes.
func (r *crashRig) calmRun(t *testing.T, tutti *cluster.Tutti) []chaosproxy.Write {
	t.Helper()
	before := r.proxy.Count()
	created := createJob(t, r.Cluster, r.gang())
	r.waitForEnd(t, created.Name)
	r.settle(t, tutti, created)
	writes := r.proxy.Writes()[before:]
	if j := r.job(created.Name); len(j.Released) != 1 || len(j.Suspended) != 0 {
		t.Fatalf("undisturbed, the Job was released at %v and suspended at %v", j.Released, j.Suspended)
	}
	return writes
}

func (r *crashRig) waitForKill(t *testing.T, fired <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-fired:
	case <-time.After(time.Minute):
		t.Fatalf("%s did not come; writes %s", what, describe(r.proxy.Writes()))
	}
}

// everyWriteOfEviction: the pods want to be near an anchor, a rule that is left to the scheduler. While there
// is none the gang is released, doesn't land and is taken back.
func (r *crashRig) everyWriteOfEviction(t *testing.T) {
	tutti := r.start(t, map[string]any{"landing": map[string]any{"timeout": "2s", "backoffBase": "1s"}})
	defer tutti.Remove()
	r.nearAnchor = true

	// Undisturbed: from the release to the next one.
	before := r.proxy.Count()
	created := createJob(t, r.Cluster, r.gang())
	r.waitForReleases(t, created.Name, 2)
	r.anchor(t, true)
	r.waitForEnd(t, created.Name)
	r.settle(t, tutti, created)
	r.anchor(t, false)
	calm := r.proxy.Writes()[before:]
	// Patches of the Job: released, suspended, restored, released again.
	var patches []int
	for i, w := range calm {
		if kind(w) == "PATCH jobs" && w.Status < 300 {
			patches = append(patches, i+1)
		}
	}
	if len(patches) < 4 {
		t.Fatalf("not taken back: writes %s", describe(calm))
	}
	t.Logf("writes: %s", describe(calm[patches[0]:patches[3]]))

	for _, moment := range moments {
		for i, at := range targets(calm, patches[0], patches[3]) {
			before := r.proxy.Count()
			created, name := r.killAt(t, tutti, at, moment)
			// Half of the lives find pods that were bound while nobody looked.
			if i%2 == 0 {
				r.anchor(t, true)
			}
			if err := tutti.Restart(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r.anchor(t, true)
			r.waitForEnd(t, created.Name)
			r.settle(t, tutti, created)
			r.anchor(t, false)
			j := r.job(created.Name)
			// Its last pods may have succeeded while it was being suspended.
			if again := len(j.Released) - len(j.Suspended); again != 1 && again != 0 {
				t.Errorf("%s: the Job was released at %v and suspended at %v", name, j.Released, j.Suspended)
			}
			if t.Failed() {
				t.Fatalf("%s: writes %s", name, describe(r.proxy.Writes()[before:]))
			}
		}
	}
	checkGangs(t, r.observer.View())
	waitForNoLeftovers(t, r.Cluster, true)
}

func (r *crashRig) waitForReleases(t *testing.T, name string, times int) {
	t.Helper()
	if _, err := r.observer.Wait(t.Context(), time.Minute, fmt.Sprintf("release %d of %s", times, name), func(v observe.View) bool {
		j := v.Job(r.team.Name, name)
		return j != nil && len(j.Released) >= times
	}); err != nil {
		t.Fatalf("%v; writes %s", err, describe(r.proxy.Writes()))
	}
}

// randomMoments kills Tutti again and again while a queue of jobs runs dry.
func (r *crashRig) randomMoments(t *testing.T, kills int) {
	ctx := t.Context()
	tutti := r.start(t, nil)
	random := rand.New(rand.NewPCG(20260802, 3))
	config := trace.Default()
	config.Teams, config.GPUs = []trace.Team{r.team}, r.team.Quota
	config.Jobs, config.Window, config.Load, config.Longest = 40, time.Minute, 1, 5*time.Second
	total := 0
	batch := func() {
		t.Helper()
		config.Seed++
		jobs, err := trace.Generate(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			j.Name = fmt.Sprintf("b%d-%s", config.Seed, j.Name)
			if _, err := r.Kube.BatchV1().Jobs(j.Team).Create(ctx, loadJob(j), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			total++
		}
	}
	begin := time.Now()
	for i := range kills {
		if total-ended(r.observer.View()) < 20 {
			batch()
		}
		if i%2 == 0 {
			fired, err := r.proxy.Arm(1+random.IntN(20), moments[random.IntN(len(moments))], tutti.Kill9)
			if err != nil {
				t.Fatal(err)
			}
			r.waitForKill(t, fired, "a write under load")
		} else {
			// From before it is ready to well under way.
			select {
			case <-time.After(time.Duration(random.IntN(1000)) * time.Millisecond):
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
			tutti.Kill9()
		}
		if err := tutti.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tutti.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	view, err := r.observer.Wait(ctx, 5*time.Minute, "every job to end", func(v observe.View) bool { return ended(v) >= total })
	if err != nil {
		for _, j := range view.Jobs {
			if j.Finished.IsZero() {
				t.Logf("not ended: %+v", j)
			}
		}
		t.Fatalf("%v: %d of %d have", err, ended(view), total)
	}
	t.Logf("%d kills, %d jobs in %v", kills, total, time.Since(begin).Round(time.Second))
	waitForNoLeftovers(t, r.Cluster, false)
	for _, j := range r.observer.View().Jobs {
		if j.Failed || len(j.Released) != 1 || len(j.Suspended) != 0 {
			t.Errorf("Job %s: failed %t, released at %v, suspended at %v", j.Name, j.Failed, j.Released, j.Suspended)
		}
	}
	landed, takenBack := checkGangs(t, r.observer.View())
	report := r.observer.Report()
	t.Logf("gangs: %d landed, %d taken back, largest span %v; most used: %v", landed, takenBack, report.LargestSpan.Round(time.Millisecond), report.Worst)
	checkLimits(t, r.observer)
	r.twins.check(t)
	deleteJobs(t, r.Cluster, r.team.Name)
	waitForNoLeftovers(t, r.Cluster, true)
}

func deleteJobs(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	err := c.Kube.BatchV1().Jobs(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
