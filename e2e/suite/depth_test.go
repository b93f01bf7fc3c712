// SPDX-License-Identifier: Apache-2.0

// A deep queue: what ten thousand waiting jobs cost, and that the next one still starts at once.

package suite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

func TestDeepQueue(t *testing.T) {
	ctx := t.Context()
	depth := 300
	if long() {
		depth = 10_000
	}
	c, tutti := startTeam(t, false, cluster.NodeSpec{Count: 3}, oneTeam, cluster.TuttiOptions{})
	idle, err := tutti.RSS()
	if err != nil {
		t.Fatal(err)
	}
	log := followJobs(t, c, "team")
	createJob(t, c, teamJob("first", 4, "1", "10m"))
	eventually(t, 30*time.Second, "the first job to start", func(ctx context.Context) (bool, error) {
		j, err := c.Kube.BatchV1().Jobs("team").Get(ctx, "first", metav1.GetOptions{})
		return err == nil && j.Status.Active == 4, err
	})
	begin := time.Now()
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := next.Add(1); i <= int64(depth); i = next.Add(1) {
				j := teamJob(fmt.Sprintf("waiting-%05d", i), 1+int32(i%4), "1", "10m")
				if _, err := c.Kube.BatchV1().Jobs("team").Create(ctx, j, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	created := time.Since(begin)
	eventually(t, 10*time.Minute, "all Workloads to be pending with a reason", func(ctx context.Context) (bool, error) {
		metrics, err := tutti.Metrics(ctx)
		if err != nil {
			return false, err
		}
		pending := metrics.Sum("kueue_pending_workloads", map[string]string{"cluster_queue": "team"})
		writes := metrics.Sum("tutti_api_writes_total", map[string]string{"resource": "workloads/status"})
		return int(pending) == depth && int(writes) >= depth, nil
	})
	settled := time.Since(begin)
	full, err := tutti.RSS()
	if err != nil {
		t.Fatal(err)
	}
	cpuBefore, err := tutti.CPU()
	if err != nil {
		t.Fatal(err)
	}
	released := time.Now()
	if err := c.Kube.BatchV1().Jobs("team").Delete(ctx, "first", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	log.wait(t, 60*time.Second, "next job", func() bool { return len(log.order) > 1 })
	started := log.releasedAt(log.order[1]).Sub(released)
	cpuAfter, err := tutti.CPU()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d waiting jobs: created in %v, all told why after %v; RSS idle %d MiB, full %d MiB; "+
		"next start %v after the deletion; operator CPU %v before, %v for the start",
		depth, created.Round(time.Millisecond), settled.Round(time.Millisecond), idle>>20, full>>20,
		started.Round(time.Millisecond), cpuBefore, cpuAfter-cpuBefore)
}
