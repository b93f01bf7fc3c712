// SPDX-License-Identifier: Apache-2.0

// Two teams in a cohort, with limits and priorities: who is admitted, in which order, and what is used,
// against a table computed by hand.
//
// Nominal quotas 4 and 4. team may borrow 2 (so never more than 6). other lends at most 3 (so 1 is its
// own whatever happens), and the cohort can lend 4 + 3 = 7.
//
//	step                         team               other      cohort uses (of 7)
//	all queued at once           high 3             b1 3       3 + (3-1) = 5
//	                             mid 4: 7 > 6, no
//	                             low 2: 5 <= 6, yes            5 + 2     = 7
//	                             late 1: cohort is full
//	b1 ends                      late 1: 6          –          6         (mid still does not fit)
//	b2 (4) arrives               –                  1 + 1 < 4, no
//	high ends                    low 2 + late 1     b2 4       3 + (4-1) = 6
//	                             mid 4: 3 + 4 > 6, no

package suite

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

var twoTeams = defaultFlavor +
	cpuQueue("team", "nominalQuota: 4, borrowingLimit: 2", "cohortName: all") +
	cpuQueue("other", "nominalQuota: 4, lendingLimit: 3", "cohortName: all") +
	cpuQueue("strict", "nominalQuota: 2", "queueingStrategy: StrictFIFO") +
	localQueue("team", "lq", "team") + localQueue("other", "lq", "other") + localQueue("team", "strict", "strict") +
	priorityClass("high", 100) + priorityClass("mid", 50)

func TestOrderAndLimits(t *testing.T) { runOrderAndLimits(t, false) }

func runOrderAndLimits(t *testing.T, gatesOff bool) {
	c := installTeam(t, gatesOff, cluster.NodeSpec{Count: 5, CPU: "8"}, twoTeams)
	ctx := t.Context()
	submit := func(j *batchv1.Job, namespace, class string) {
		t.Helper()
		j.Namespace = namespace
		if class != "" {
			j.Labels["kueue.x-k8s.io/priority-class"] = class
		}
		createJob(t, c, j)
	}
	// creationTimestamps have whole seconds; order by age needs different ones.
	nextSecond := func() { <-time.After(time.Until(time.Now().Truncate(time.Second).Add(1050 * time.Millisecond))) }

	// All are there before anybody decides. Names are in the opposite order of what must happen.
	submit(teamJob("z-low", 2, "1", ""), "team", "")
	submit(teamJob("y-mid", 4, "1", ""), "team", "mid")
	submit(teamJob("x-high", 3, "1", ""), "team", "high")
	submit(teamJob("b1", 3, "1", ""), "other", "")
	strict := func(name, class string) {
		j := teamJob(name, 2, "1", "1s")
		j.Labels[queueLabel] = "strict"
		submit(j, "team", class)
	}
	strict("s-old", "")
	nextSecond()
	submit(teamJob("a-late", 1, "1", ""), "team", "")
	strict("r-young", "")
	strict("q-important", "high")

	log := followJobs(t, c, "team")
	if _, err := c.StartTutti(ctx, cluster.TuttiOptions{}); err != nil {
		t.Fatal(err)
	}
	expect := func(step string, team, other string, running map[string][]string) {
		t.Helper()
		eventually(t, 20*time.Second, step, func(ctx context.Context) (bool, error) {
			for queue, want := range map[string]string{"team": team, "other": other} {
				have, err := usage(ctx, c, queue)
				if err != nil {
					return false, err
				}
				if text := have["cpu"] + " borrowed " + have["cpu borrowed"]; text != want {
					return false, fmt.Errorf("%s uses %s, must be %s", queue, text, want)
				}
			}
			for namespace, want := range running {
				jobs, err := c.Kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: queueLabel + "=lq"})
				if err != nil {
					return false, err
				}
				var have []string
				for _, j := range jobs.Items {
					if !isSuspended(&j) && j.DeletionTimestamp == nil {
						have = append(have, j.Name)
					}
				}
				slices.Sort(have)
				if !slices.Equal(have, want) {
					return false, fmt.Errorf("in %s %v run, must be %v", namespace, have, want)
				}
			}
			return true, nil
		})
	}
	end := func(namespace, name string) {
		t.Helper()
		if err := c.Kube.BatchV1().Jobs(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Fatal(err)
		}
	}
	expect("all queued at once", "5 borrowed 1", "3 borrowed 0",
		map[string][]string{"team": {"x-high", "z-low"}, "other": {"b1"}})
	waitPending(t, c, "y-mid", "Pending", "insufficient unused quota for cpu in flavor default")
	end("other", "b1")
	expect("b1 ended", "6 borrowed 2", "0 borrowed 0",
		map[string][]string{"team": {"a-late", "x-high", "z-low"}, "other": nil})
	submit(teamJob("b2", 4, "1", ""), "other", "")
	eventually(t, 20*time.Second, "b2 to wait", func(ctx context.Context) (bool, error) {
		workload, err := workloadOf(ctx, c, "other", "b2")
		_, reason, message := condition(workload, "QuotaReserved")
		if reason != "Pending" {
			return false, fmt.Errorf("b2: %q %s", reason, message)
		}
		return true, err
	})
	end("team", "x-high")
	expect("x-high ended", "3 borrowed 0", "4 borrowed 0",
		map[string][]string{"team": {"a-late", "z-low"}, "other": {"b2"}})
	waitPending(t, c, "y-mid", "Pending", "insufficient unused quota for cpu in flavor default")

	log.wait(t, 60*time.Second, "end of the strict queue", func() bool { _, ok := log.done["r-young"]; return ok })
	log.mutex.Lock()
	defer log.mutex.Unlock()
	var order []string
	for _, name := range log.order {
		if name == "s-old" || name == "r-young" || name == "q-important" {
			order = append(order, name)
		}
	}
	if want := []string{"q-important", "s-old", "r-young"}; !slices.Equal(order, want) {
		t.Errorf("the strict queue ran %v, must be %v", order, want)
	}
}
