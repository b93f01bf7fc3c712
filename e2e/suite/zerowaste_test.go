// SPDX-License-Identifier: Apache-2.0

// ZeroWaste: gangs of GPUs from three tenants on a full cluster, while jobs are deleted and nodes come and
// go. Nothing starts in part, nothing is promised twice, and what is released lands at the first attempt,
// unless a node went away underneath.

package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/observe"
)

func TestZeroWaste(t *testing.T) { runZeroWaste(t, false) }

// The same with GPUs that pods ask for by ResourceClaims.
func TestZeroWasteClaims(t *testing.T) { runZeroWaste(t, true) }

func runZeroWaste(t *testing.T, claims bool) {
	const nodes, gpus = 100, 800
	// More quota than there are GPUs: places decide, not quota.
	teams := []trace.Team{
		{Name: "vision", Cohort: "research", Quota: 500, Borrowing: 100, Share: 0.4},
		{Name: "speech", Cohort: "research", Quota: 500, Borrowing: 100, Share: 0.3},
		{Name: "ranking", Cohort: "product", Quota: 700, Share: 0.3},
	}
	config := trace.Config{
		Seed: 20260802, Jobs: 150, Teams: teams, GPUs: gpus, Window: 40 * time.Second, Load: 1.2,
		Shortest: time.Second, Longest: 15 * time.Second, OnlyGangs: true,
	}
	if long() {
		config.Jobs, config.Window = 1000, 260*time.Second
	}
	jobs, err := trace.Generate(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	start, makeJob, options := loadedCluster, loadJob, cluster.TuttiOptions{}
	if claims {
		start, makeJob, options = claimedCluster, claimedJob, cluster.TuttiOptions{Config: mappedDevices}
	}
	c := start(t, cluster.Options{}, nodes, teams)
	observer := startObserver(t, c, nil)
	twins := watchTwins(t, c)
	promises := watchPromises(t, c)
	devices := watchDevices(t, c)
	tutti, err := c.StartTutti(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	before, used := attempts(t, c), cpuOf(t, c.Scheduler)

	begin := time.Now()
	churn := &jobChurn{c: c, observer: observer, random: rand.New(rand.NewPCG(config.Seed, 3))}
	churnCtx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { churn.run(churnCtx, 700*time.Millisecond) })
	for _, j := range jobs {
		select {
		case <-time.After(time.Until(begin.Add(j.At))):
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
		if _, err := c.Kube.BatchV1().Jobs(j.Team).Create(ctx, makeJob(j), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	group.Wait()
	if err := churn.end(ctx); err != nil {
		t.Fatal(err)
	}
	if churn.deleted < config.Jobs/20 || len(churn.nodeChanges) < 4 {
		t.Errorf("too little churn: %s", churn)
	}
	over := func(v observe.View) int {
		n := 0
		for _, j := range v.Jobs {
			if !j.Finished.IsZero() || j.Deleted {
				n++
			}
		}
		return n
	}
	limit := 4 * time.Minute
	if long() {
		limit = 20 * time.Minute
	}
	if view, err := observer.Wait(ctx, limit, "every job to be over", func(v observe.View) bool { return over(v) == len(jobs) }); err != nil {
		t.Fatalf("%v: %d of %d are", err, over(view), len(jobs))
	}
	waitForNoLeftovers(t, c, false)
	duration := time.Since(begin)
	view, report := observer.View(), observer.Report()

	whole, interfered, pods := 0, 0, 0
	for _, j := range view.Jobs {
		if j.Failed {
			t.Errorf("%s/%s has failed", j.Namespace, j.Name)
		}
		for i, g := range j.Gangs {
			pods += g.Bindings
			last := i == len(j.Gangs)-1
			switch {
			case g.Whole:
				whole++
				if g.Span > bindingSpan {
					t.Errorf("%s/%s, %s: %v from the first binding to the last", j.Namespace, j.Name, g.Name, g.Span)
				}
			case last && j.Deleted: // deleted before it had landed
			case churn.nodesChanged(j):
				interfered++
			default:
				t.Errorf("%s/%s, %s: released and not whole: %d of %d pods were bound; released %v, suspended %v",
					j.Namespace, j.Name, g.Name, g.Bindings, g.Size, stamps(j.Released), stamps(j.Suspended))
			}
		}
	}
	if interfered > len(churn.nodeChanges) {
		t.Errorf("%d gangs did not land, with %d nodes cordoned", interfered, len(churn.nodeChanges))
	}
	promises.mutex.Lock()
	t.Logf("most GPUs held or promised, by pods: %v; without those whose Job was deleted: %v", promises.worst, promises.most)
	if promises.most.gpus > gpus {
		t.Errorf("more was promised than there is: %v", promises.most)
	}
	promises.mutex.Unlock()
	twins.check(t)
	devices.check(t)
	if claims && devices.most < gpus*3/4 {
		t.Errorf("at most %d devices were in use: the load is too small to show anything", devices.most)
	}
	metrics, err := tutti.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if bugs := metrics.Sum("tutti_bugs_total", nil); bugs != 0 {
		t.Errorf("tutti_bugs_total is %v", bugs)
	}
	tried := attempts(t, c) - before
	// One attempt for each pod; a few more while places of pods that have just gone are still held, and
	// with claims one more before the claims are made.
	expected := 2 * float64(pods)
	if claims {
		expected += float64(pods)
	}
	if tried > expected+100 {
		t.Errorf("%.0f scheduling attempts for %d bindings", tried, pods)
	}
	t.Logf("%d jobs submitted in %v, all over after %v; churn: %s", len(jobs), config.Window, duration.Round(time.Second), churn)
	t.Logf("result: %d gangs landed whole, %d did not as a node was cordoned; largest span %v (%s)",
		whole, interfered, report.LargestSpan.Round(time.Millisecond), report.LargestSpanOf)
	t.Logf("result: %.0f scheduling attempts for %d bindings; kube-scheduler %.1f s CPU in %v", tried, pods,
		(cpuOf(t, c.Scheduler) - used).Seconds(), duration.Round(time.Second))
	t.Logf("evictions by cause: %v; GPU-seconds: %+v",
		byLabel(metrics, "kueue_evicted_workloads_total", "underlying_cause"), report.DeviceSeconds)
}

// claimedCluster is loadedCluster with the GPUs as devices: 8 on each node, and a template for each number.
func claimedCluster(t *testing.T, o cluster.Options, nodes int, teams []trace.Team) *cluster.Cluster {
	t.Helper()
	manifests := strings.Builder{}
	manifests.WriteString(gpuClass + "---\n" + strings.ReplaceAll(teamQueues(teams), string(gpu), "example.org/gpus"))
	for _, team := range teams {
		for count := 1; count <= 8; count++ {
			fmt.Fprintf(&manifests, `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus-%[1]d, namespace: %[2]s}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, count: %[1]d}}]}}}
`, count, team.Name)
		}
	}
	spec := gpuNodes(nodes)
	spec.Extended = nil
	c := teamsCluster(t, o, spec, teams, manifests.String())
	list, err := c.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range list.Items {
		if _, err := c.Kube.ResourceV1().ResourceSlices().Create(t.Context(), gpuSlice(node.Name, 8, 0), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// claimedJob is loadJob with a claim in place of the extended resource.
func claimedJob(j trace.Job) *batchv1.Job {
	out := loadJob(j)
	out.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	template := fmt.Sprintf("gpus-%d", j.GPUs)
	return withClaim(out, corev1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: &template}, false)
}

// gpusOf is how many GPUs a pod of the load asks for.
func gpusOf(pod *corev1.Pod) int64 {
	for _, claim := range pod.Spec.ResourceClaims {
		var count int64
		if _, err := fmt.Sscanf(*claim.ResourceClaimTemplateName, "gpus-%d", &count); err == nil {
			return count
		}
	}
	request := pod.Spec.Containers[0].Resources.Requests[gpu]
	return request.Value()
}

func stamps(times []time.Time) []string {
	out := make([]string, 0, len(times))
	for _, at := range times {
		out = append(out, at.Format("15:04:05.000"))
	}
	return out
}

// jobChurn deletes running and waiting jobs, and takes nodes out and brings them back.
type jobChurn struct {
	c        *cluster.Cluster
	observer *observe.Observer
	random   *rand.Rand

	deleted     int
	cordoned    []string
	nodeChanges []time.Time // when a node stopped taking pods
	failed      int
	last        error
}

func (m *jobChurn) String() string {
	text := fmt.Sprintf("%d jobs deleted, %d nodes cordoned", m.deleted, len(m.nodeChanges))
	if m.failed > 0 {
		text += fmt.Sprintf(", %d requests failed (last: %v)", m.failed, m.last)
	}
	return text
}

func (m *jobChurn) run(ctx context.Context, pace time.Duration) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for step := 0; ; step++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := m.act(ctx, step); err != nil && ctx.Err() == nil {
			m.failed++
			m.last = err
		}
	}
}

func (m *jobChurn) act(ctx context.Context, step int) error {
	switch step % 6 {
	case 0, 2:
		return m.deleteJob(ctx, false)
	case 4:
		return m.deleteJob(ctx, true)
	}
	switch {
	case step%12 == 3:
		return m.cordon(ctx)
	case step%12 == 9 && len(m.cordoned) > 1:
		node := m.cordoned[0]
		m.cordoned = m.cordoned[1:]
		return m.c.Cordon(ctx, node, false)
	}
	return nil
}

// deleteJob deletes a job that runs whole, or one that waits.
func (m *jobChurn) deleteJob(ctx context.Context, held bool) error {
	var candidates []observe.Job
	for _, j := range m.observer.View().Jobs {
		if j.Finished.IsZero() && !j.Deleted && j.Held == held && (held || !j.Whole.IsZero()) {
			candidates = append(candidates, j)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	victim := candidates[m.random.IntN(len(candidates))]
	err := m.c.Kube.BatchV1().Jobs(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{PropagationPolicy: &background})
	if cluster.IsNotFound(err) {
		return nil
	}
	if err == nil {
		m.deleted++
	}
	return err
}

func (m *jobChurn) cordon(ctx context.Context) error {
	nodes, err := m.c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var names []string
	for _, node := range nodes.Items {
		if !node.Spec.Unschedulable && strings.HasPrefix(node.Name, "gpu") {
			names = append(names, node.Name)
		}
	}
	node := names[m.random.IntN(len(names))]
	m.cordoned = append(m.cordoned, node)
	m.nodeChanges = append(m.nodeChanges, time.Now())
	return m.c.Cordon(ctx, node, true)
}

// nodesChanged tells whether a node was cordoned between a release of the job, as decided a moment before
// it was seen, and the time in which its pods are bound.
func (m *jobChurn) nodesChanged(j observe.Job) bool {
	for _, released := range j.Released {
		for _, at := range m.nodeChanges {
			if after := at.Sub(released); after > -time.Second && after < 2*time.Second {
				return true
			}
		}
	}
	return false
}

func (m *jobChurn) end(ctx context.Context) error {
	for _, node := range m.cordoned {
		if err := m.c.Cordon(ctx, node, false); err != nil {
			return err
		}
	}
	m.cordoned = nil
	return nil
}
