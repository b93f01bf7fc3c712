// SPDX-License-Identifier: Apache-2.0

// GangChurn: more jobs than the cluster holds, while pods are killed and nodes come and go. Gangs land
// whole or are taken back whole, quota is never exceeded, every job ends.

package suite

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/observe"
)

func TestGangChurn(t *testing.T) { runGangChurn(t, false) }

func runGangChurn(t *testing.T, gatesOff bool) {
	config := trace.Default()
	config.Jobs, config.Window, config.Load, config.Longest = 300, 60*time.Second, 1.4, 15*time.Second
	if long() {
		config.Jobs, config.Window = 1000, 200*time.Second
	}
	jobs, err := trace.Generate(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("mix", func(t *testing.T) { churn(t, gatesOff, config.Teams, jobs) })
	if long() {
		t.Run("philly", func(t *testing.T) {
			jobs := phillySample(t, config.Teams, 1000, 200*time.Second)
			churn(t, gatesOff, config.Teams, jobs)
		})
	}
}

func churn(t *testing.T, gatesOff bool, teams []trace.Team, jobs []trace.Job) {
	ctx := t.Context()
	c := loadedCluster(t, cluster.Options{GatesOff: gatesOff}, 40, teams)
	observer := startObserver(t, c, teamLimits(teams))
	twins := watchTwins(t, c)
	tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{})
	if err != nil {
		t.Fatal(err)
	}
	idle := idleLatencies(t, c, observer, teams[0])
	schedulerBefore := cpuOf(t, c.Scheduler)
	tuttiBefore := cpuOf(t, tutti.Process)

	// The load and the trouble, at their own pace; what they do is checked by the watchers.
	begin := time.Now()
	trouble := newTrouble(c, observer, 20260801)
	stopped := make(chan struct{})
	troubleCtx, stopTrouble := context.WithCancel(ctx)
	defer stopTrouble()
	go func() {
		defer close(stopped)
		trouble.run(troubleCtx, 1200*time.Millisecond)
	}()
	for _, j := range jobs {
		select {
		case <-time.After(time.Until(begin.Add(j.At))):
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
		if _, err := c.Kube.BatchV1().Jobs(j.Team).Create(ctx, loadJob(j), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	submitted := time.Since(begin)
	stopTrouble()
	<-stopped
	if trouble.counts["pods deleted"] == 0 || trouble.counts["pods failed"] == 0 || trouble.counts["nodes cordoned"] == 0 {
		t.Errorf("too little trouble: %s", trouble)
	}
	if err := trouble.end(ctx); err != nil {
		t.Fatal(err)
	}
	limit := 4 * time.Minute
	if long() {
		limit = 20 * time.Minute
	}
	total := len(jobs) + len(idle)
	view, err := observer.Wait(ctx, limit, "every job to end", func(v observe.View) bool { return ended(v) >= total })
	if err != nil {
		for _, j := range view.Jobs {
			if j.Finished.IsZero() {
				t.Logf("not ended: %s/%s, %d pods, released %d times, held %t, gangs %+v", j.Namespace, j.Name, j.Size, len(j.Released), j.Held, j.Gangs)
			}
		}
		t.Fatalf("%v: %d of %d have", err, ended(view), total)
	}
	duration := time.Since(begin)
	waitForNoLeftovers(t, c, false)
	view = observer.View()
	for _, j := range view.Jobs {
		if j.Failed {
			t.Errorf("Job %s/%s has failed", j.Namespace, j.Name)
		}
	}
	landed, takenBack := checkGangs(t, view)
	checkLimits(t, observer)
	twins.check(t)
	if bugs := sum(t, tutti, "tutti_bugs_total", nil); bugs != 0 {
		t.Errorf("tutti_bugs_total is %v", bugs)
	}

	report := observer.Report()
	metrics, err := tutti.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	admitted := metrics.Sum("kueue_admitted_workloads_total", nil)
	writes := map[string]float64{}
	for _, sample := range metrics {
		if sample.Name == "tutti_api_writes_total" {
			writes[strings.SplitN(sample.Labels["resource"], "/", 2)[0]] += sample.Value
		}
	}
	rss, err := tutti.RSS()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d jobs submitted in %v, all ended after %v; trouble: %s", len(jobs), submitted.Round(time.Second), duration.Round(time.Second), trouble)
	t.Logf("gangs: %d landed, %d were bound in part and taken back; largest span %v (%s)", landed, takenBack, report.LargestSpan.Round(time.Millisecond), report.LargestSpanOf)
	t.Logf("most used: %v", report.Worst)
	t.Logf("evictions by cause: %v", byLabel(metrics, "kueue_evicted_workloads_total", "underlying_cause"))
	t.Logf("API writes per admission (%v admitted): %.2f on jobs, workloads and groups, %.2f on queues, %.2f events", admitted,
		(writes["jobs"]+writes["workloads"]+writes["podgroups"])/admitted,
		(writes["clusterqueues"]+writes["localqueues"]+writes["resourceflavors"]+writes["cohorts"])/admitted, writes["events"]/admitted)
	t.Logf("creation to suspend=false: %s on an idle cluster; %s under load", spread(idle), spread(releaseTimes(view)[len(idle):]))
	t.Logf("Tutti: %.1f s CPU, %d MB resident; kube-scheduler: %.1f s CPU", (cpuOf(t, tutti.Process) - tuttiBefore).Seconds(), rss>>20,
		(cpuOf(t, c.Scheduler) - schedulerBefore).Seconds())
}

// idleLatencies submits jobs one by one into the empty cluster, every other one a gang, and returns the
// times from creation to release.
func idleLatencies(t *testing.T, c *cluster.Cluster, observer *observe.Observer, team trace.Team) []time.Duration {
	t.Helper()
	const probes = 12
	for i := range probes {
		j := trace.Job{Team: team.Name, Name: fmt.Sprintf("probe-%02d", i), Pods: 1 + i%2*3, GPUs: 1, Duration: 100 * time.Millisecond}
		createJob(t, c, loadJob(j))
		if _, err := observer.Wait(t.Context(), time.Minute, j.Name+" to end", func(v observe.View) bool { return ended(v) > i }); err != nil {
			t.Fatal(err)
		}
	}
	return releaseTimes(observer.View())
}

// releaseTimes are the times from a Job's creation to its first release, in the order of creation.
func releaseTimes(view observe.View) []time.Duration {
	var times []time.Duration
	for _, j := range view.Jobs {
		if len(j.Released) > 0 {
			times = append(times, j.Released[0].Sub(j.Created))
		}
	}
	return times
}

func ended(v observe.View) int {
	n := 0
	for _, j := range v.Jobs {
		if !j.Finished.IsZero() {
			n++
		}
	}
	return n
}

func spread(times []time.Duration) string {
	sorted := slices.Sorted(slices.Values(times))
	return fmt.Sprintf("p50 %v, p99 %v of %d", observe.Percentile(sorted, 50).Round(time.Millisecond),
		observe.Percentile(sorted, 99).Round(time.Millisecond), len(sorted))
}

func byLabel(metrics cluster.Metrics, name, label string) map[string]float64 {
	out := map[string]float64{}
	for _, sample := range metrics {
		if sample.Name == name {
			out[sample.Labels[label]] += sample.Value
		}
	}
	return out
}

func cpuOf(t *testing.T, p *cluster.Process) time.Duration {
	t.Helper()
	used, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// trouble kills pods of running jobs, takes nodes out and back, adds some and deletes one, all from one
// seed.
type trouble struct {
	c        *cluster.Cluster
	observer *observe.Observer
	random   *rand.Rand
	cordoned []string
	deleted  bool
	counts   map[string]int
	last     error
}

func newTrouble(c *cluster.Cluster, observer *observe.Observer, seed uint64) *trouble {
	return &trouble{c: c, observer: observer, random: rand.New(rand.NewPCG(seed, 2)), counts: map[string]int{}}
}

func (m *trouble) String() string {
	var parts []string
	for _, what := range []string{"pods deleted", "pods failed", "nodes cordoned", "nodes added", "nodes deleted", "requests failed"} {
		parts = append(parts, fmt.Sprintf("%d %s", m.counts[what], what))
	}
	text := strings.Join(parts, ", ")
	if m.last != nil {
		text += fmt.Sprintf(" (last: %v)", m.last)
	}
	return text
}

func (m *trouble) run(ctx context.Context, pace time.Duration) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for step := 0; ; step++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A request that fails (a busy API server) is trouble left out; what was done is counted.
		if err := m.act(ctx, step); err != nil && ctx.Err() == nil {
			m.counts["requests failed"]++
			m.last = err
		}
	}
}

func (m *trouble) act(ctx context.Context, step int) error {
	switch step % 6 {
	case 0, 2, 3:
		return m.killPod(ctx)
	case 1:
		return m.cordon(ctx)
	case 4:
		if len(m.cordoned) < 4 {
			return nil
		}
		node := m.cordoned[0]
		m.cordoned = m.cordoned[1:]
		return m.c.Cordon(ctx, node, false)
	}
	if step%12 == 5 {
		m.counts["nodes added"]++
		_, err := m.c.AddNodes(ctx, gpuNodes(1))
		return err
	}
	if m.deleted || step < 20 {
		return nil
	}
	m.deleted = true
	node, err := m.anyNode(ctx)
	if err != nil {
		return err
	}
	m.counts["nodes deleted"]++
	return m.c.RemoveNode(ctx, node)
}

// killPod kills a pod of a job that runs whole, in one of two ways: deleted, or failed on its node.
func (m *trouble) killPod(ctx context.Context) error {
	var running []observe.Job
	for _, j := range m.observer.View().Jobs {
		if n := len(j.Gangs); n > 0 && j.Gangs[n-1].Whole && j.Finished.IsZero() && !j.Held {
			running = append(running, j)
		}
	}
	if len(running) == 0 {
		return nil
	}
	victim := running[m.random.IntN(len(running))]
	pods, err := m.c.Kube.CoreV1().Pods(victim.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + victim.Name})
	if err != nil {
		return err
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning
	})
	if len(pods.Items) == 0 {
		return nil
	}
	pod := pods.Items[m.random.IntN(len(pods.Items))]
	if m.random.IntN(2) == 0 {
		m.counts["pods deleted"]++
		err = m.c.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	} else {
		m.counts["pods failed"]++
		// The uid makes the patch miss a later pod of the same name.
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Failed","reason":"Killed"}}`, pod.UID)
		_, err = m.c.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	}
	// It has just gone, or a pod of the same name has taken its place.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func (m *trouble) cordon(ctx context.Context) error {
	node, err := m.anyNode(ctx)
	if err != nil {
		return err
	}
	m.counts["nodes cordoned"]++
	m.cordoned = append(m.cordoned, node)
	return m.c.Cordon(ctx, node, true)
}

// anyNode is one that isn't cordoned.
func (m *trouble) anyNode(ctx context.Context) (string, error) {
	nodes, err := m.c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var names []string
	for _, node := range nodes.Items {
		if !node.Spec.Unschedulable {
			names = append(names, node.Name)
		}
	}
	if len(names) == 0 {
		return "", errors.New("no node is left")
	}
	return names[m.random.IntN(len(names))], nil
}

// end brings the cordoned nodes back, so that the largest job can run.
func (m *trouble) end(ctx context.Context) error {
	for _, node := range m.cordoned {
		if err := m.c.Cordon(ctx, node, false); err != nil {
			return err
		}
	}
	m.cordoned = nil
	return nil
}

// phillySample are jobs of the Microsoft Philly trace as they are: nothing is done for the share of
// gangs. Arrivals and run times are scaled down by the same two factors for all.
func phillySample(t *testing.T, teams []trace.Team, count int, window time.Duration) []trace.Job {
	t.Helper()
	path := os.Getenv("TUTTI_TRACE")
	if path == "" {
		repo, err := cluster.RepoDir()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(filepath.Dir(repo), "shared", "data", "philly.csv.gz")
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no trace at %s: set TUTTI_TRACE to a gzipped CSV file with timestamp, duration, num_gpus", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		at      time.Time
		seconds float64
		gpus    int
	}
	var rows []row
	reader := csv.NewReader(unzipped)
	for line := 1; ; line++ {
		fields, err := reader.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if line == 1 {
			continue // names of the columns
		}
		at, err1 := time.Parse(time.DateTime, fields[0])
		seconds, err2 := strconv.ParseFloat(fields[1], 64)
		gpus, err3 := strconv.Atoi(fields[2])
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatalf("%s, line %d: %v", path, line, err)
		}
		if gpus > 0 {
			rows = append(rows, row{at, seconds, gpus})
		}
	}
	if len(rows) < count {
		t.Fatalf("%s has %d jobs, not %d", path, len(rows), count)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.at.Compare(b.at) })
	// A stretch from the middle, so that arrivals keep their bursts.
	rows = rows[len(rows)/2-count/2:][:count]
	first, whole := rows[0].at, rows[count-1].at.Sub(rows[0].at)
	// One factor for all run times, such that the cluster is asked for a little more than it has in the
	// window; the longest are cut off at two minutes.
	const most, load, gpusInCluster = 120.0, 1.2, 320
	scaled := func(seconds, factor float64) float64 { return min(max(seconds*factor, 0.2), most) }
	low, high := 0.0, 1.0
	for range 60 {
		factor, work := (low+high)/2, 0.0
		for _, r := range rows {
			work += scaled(r.seconds, factor) * float64(r.gpus)
		}
		if work < load*gpusInCluster*window.Seconds() {
			low = factor
		} else {
			high = factor
		}
	}
	var jobs []trace.Job
	for i, r := range rows {
		team := teams[i%len(teams)]
		pods, gpus := 1, r.gpus
		if gpus > 8 {
			pods, gpus = (r.gpus+7)/8, 8
		}
		pods = min(pods, team.Limit()/gpus)
		jobs = append(jobs, trace.Job{
			Team: team.Name, Name: fmt.Sprintf("philly-%04d-%dx%d", i, pods, gpus), Pods: pods, GPUs: gpus,
			At:       time.Duration(float64(r.at.Sub(first)) / float64(whole) * float64(window)),
			Duration: time.Duration(scaled(r.seconds, low) * float64(time.Second)).Truncate(time.Millisecond),
		})
	}
	return jobs
}
