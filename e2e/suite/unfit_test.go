// SPDX-License-Identifier: Apache-2.0

// Gangs that can't fit wait in the queue and cost the scheduler nothing.

package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

// roomyTeam is oneTeam with quota that never runs out.
var roomyTeam = strings.Replace(oneTeam, "nominalQuota: 4", "nominalQuota: 1000", 1)

func TestUnfitHeld(t *testing.T) { runUnfitHeld(t, false) }

func runUnfitHeld(t *testing.T, gatesOff bool) {
	const gangs = 200
	ctx := t.Context()
	c, tutti := startTeam(t, gatesOff, cluster.NodeSpec{Count: 3, CPU: "4"}, roomyTeam, cluster.TuttiOptions{})
	waitForProof(t, c, tutti) // its pods are looked at by the scheduler, too
	// One node's worth is taken, so half of the gangs fit the empty cluster but not this one.
	createJob(t, c, teamJob("holder", 1, "4", ""))
	eventually(t, 20*time.Second, "the holder to run", podsRunning(c, "holder", 1))
	log := followJobs(t, c, "team")
	for i := range gangs / 2 {
		createJob(t, c, teamJob(fmt.Sprintf("never-%03d", i), 4, "3", ""))
		createJob(t, c, teamJob(fmt.Sprintf("not-now-%03d", i), 3, "3", ""))
	}
	waitPending(t, c, "never-099", "Pending", "cpu")
	waitPending(t, c, "not-now-099", "Pending", "cpu")

	attempts, err := c.SchedulingAttempts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := c.Scheduler.CPU()
	if err != nil {
		t.Fatal(err)
	}
	const window = 60 * time.Second
	<-time.After(window) // the measurement itself
	attemptsAfter, err := c.SchedulingAttempts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cpuAfter, err := c.Scheduler.CPU()
	if err != nil {
		t.Fatal(err)
	}
	share := (cpuAfter - cpu).Seconds() / window.Seconds()
	t.Logf("%d unfit gangs for %v: %.0f scheduling attempts, scheduler %.2f %% of a core",
		gangs, window, attemptsAfter-attempts, 100*share)
	if attemptsAfter != attempts {
		t.Errorf("kube-scheduler made %.0f scheduling attempts", attemptsAfter-attempts)
	}
	if share > 0.02 {
		t.Errorf("kube-scheduler used %.1f %% of a core", 100*share)
	}
	jobs, err := c.Kube.BatchV1().Jobs("team").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Items {
		if j.Name != "holder" && !isSuspended(&j) {
			t.Errorf("%s was released", j.Name)
		}
	}
	log.mutex.Lock()
	defer log.mutex.Unlock()
	for name := range log.released {
		if name != "holder" {
			t.Errorf("%s was released for a while", name)
		}
	}
}
