// SPDX-License-Identifier: Apache-2.0

// All replicas are dead while teams submit: nobody is refused, nothing slips through, and afterwards
// everything starts in order.

package suite

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"tutti.dev/e2e/cluster"
)

var twoQueues = oneTeam + cpuQueue("second", "nominalQuota: 8") + localQueue("team", "second", "second")

func TestFailSafe(t *testing.T) { runFailSafe(t, false) }

func runFailSafe(t *testing.T, gatesOff bool) {
	duration, rate := 60*time.Second, 10
	if long() {
		duration, rate = 10*time.Minute, 20
	}
	ctx := t.Context()
	c, tutti := startTeam(t, gatesOff, cluster.NodeSpec{Count: 8, CPU: "16"}, twoQueues, cluster.TuttiOptions{})
	users, err := kubernetes.NewForConfig(c.UserConfig("alice", "system:authenticated"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: alice, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
`); err != nil {
		t.Fatal(err)
	}
	tutti.Kill9()

	// Two of three go to a queue, the third is nobody's business.
	var wait sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	begin := time.Now()
	total := int(duration.Seconds()) * rate
	for i := range total {
		<-tick.C
		wait.Go(func() {
			// Names in no order of age.
			j := teamJob(fmt.Sprintf("job-%04d", (i*7919)%10007), 1, "1", "100ms")
			switch i % 3 {
			case 1:
				j.Labels[queueLabel] = "second"
			case 2:
				delete(j.Labels, queueLabel)
			}
			if _, err := users.BatchV1().Jobs("team").Create(ctx, j, metav1.CreateOptions{}); err != nil {
				t.Errorf("a Job was refused: %v", err)
			}
		})
	}
	wait.Wait()
	t.Logf("%d jobs in %v with no controller", total, time.Since(begin).Round(time.Second))

	list := func() []batchv1.Job {
		t.Helper()
		jobs, err := c.Kube.BatchV1().Jobs("team").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return jobs.Items
	}
	free := 0
	var held []batchv1.Job
	for _, j := range list() {
		switch {
		case j.Labels[queueLabel] == "":
			free++
			if isSuspended(&j) {
				t.Errorf("unmanaged %s is held", j.Name)
			}
		case !isSuspended(&j) || j.Status.Active > 0 || j.Status.StartTime != nil:
			t.Errorf("queued %s was started", j.Name)
		default:
			held = append(held, j)
		}
	}
	if len(held)+free != total {
		t.Errorf("%d held + %d free, must be %d", len(held), free, total)
	}

	t.Run("a user can't resume a held Job", func(t *testing.T) {
		jobs := users.BatchV1().Jobs("team")
		name := held[0].Name
		stillHeld := func(how string, j *batchv1.Job, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: the request fails: %v", how, err)
			} else if !isSuspended(j) {
				t.Errorf("%s resumed the Job", how)
			}
		}
		j, err := jobs.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		stillHeld("merge patch", j, err)
		apply := fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q,"namespace":"team"},"spec":{"suspend":false}}`, name)
		force := true
		j, err = jobs.Patch(ctx, name, types.ApplyPatchType, []byte(apply), metav1.PatchOptions{FieldManager: "alice", Force: &force})
		stillHeld("forced server-side apply", j, err)
	})

	t.Run("unmanaged Jobs run", func(t *testing.T) {
		eventuallyJobs(t, c, "every unmanaged Job to finish", func(j *batchv1.Job) bool {
			return j.Labels[queueLabel] != "" || finished(j)
		})
	})

	if err := tutti.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	eventuallyJobs(t, c, "every Job to finish", finished)

	// Reserved in order of creation, per ClusterQueue, as far as whole seconds can tell.
	type admission struct{ created, reserved time.Time }
	byQueue := map[string][]admission{}
	created := map[types.UID]time.Time{}
	for _, j := range list() {
		created[j.UID] = j.CreationTimestamp.Time
	}
	objects, err := c.Dynamic.Resource(workloads).Namespace("team").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects.Items {
		w := &objects.Items[i]
		conditions, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions")
		for _, entry := range conditions {
			if m := entry.(map[string]any); m["type"] == "QuotaReserved" && m["status"] == "True" {
				at, err := time.Parse(time.RFC3339, m["lastTransitionTime"].(string))
				if err != nil {
					t.Fatal(err)
				}
				queue, _, _ := unstructured.NestedString(w.Object, "spec", "queueName")
				byQueue[queue] = append(byQueue[queue], admission{created[w.GetOwnerReferences()[0].UID], at})
			}
		}
	}
	admitted := 0
	for queue, list := range byQueue {
		admitted += len(list)
		slices.SortStableFunc(list, func(a, b admission) int { return a.created.Compare(b.created) })
		latest := time.Time{}
		for i, a := range list {
			if i > 0 && list[i-1].created.Before(a.created) {
				for _, before := range list[:i] {
					if before.reserved.After(latest) {
						latest = before.reserved
					}
				}
			}
			if a.reserved.Before(latest) {
				t.Errorf("in %s a Job of %v was admitted at %v, before an older one (%v)", queue,
					a.created.Format(time.TimeOnly), a.reserved.Format(time.TimeOnly), latest.Format(time.TimeOnly))
				break
			}
		}
	}
	if admitted != len(held) {
		t.Errorf("%d Workloads were admitted, must be %d", admitted, len(held))
	}
}

// eventuallyJobs waits until every Job of the team is as `done` wants.
func eventuallyJobs(t *testing.T, c *cluster.Cluster, what string, done func(*batchv1.Job) bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for {
		jobs, err := c.Kube.BatchV1().Jobs("team").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var missing []string
		for i := range jobs.Items {
			if !done(&jobs.Items[i]) {
				missing = append(missing, jobs.Items[i].Name)
			}
		}
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s; %d are missing: %s …", what, len(missing), strings.Join(missing[:min(5, len(missing))], ", "))
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
