// SPDX-License-Identifier: Apache-2.0

// Why: what is said of a job that waits, and that the remedy starts it while one cpu less doesn't.

package suite

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

type whyAnswer struct {
	Job, State, Reason, Summary, Message string
	Position, Waiting                    int
	Holders                              []struct{ Job string }
	Remedies                             []struct {
		Kind  string
		Jobs  []string
		Quota []struct{ ClusterQueue, Flavor, Resource, More string }
	}
	Notes []string
}

func askWhy(t *testing.T, kubeconfig string, args ...string) whyAnswer {
	t.Helper()
	var answer whyAnswer
	tuttiJSON(t, &answer, "why", append([]string{"-n", "team", "--kubeconfig", kubeconfig}, args...)...)
	return answer
}

func TestWhy(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{AuditPolicy: everyRequest})
	queue := func(cpu string) string { return cpuQueue("team", "nominalQuota: "+cpu) }
	installOn(t, c, nil, cluster.NodeSpec{Count: 2, CPU: "4"}, defaultFlavor+queue("4")+localQueue("team", "lq", "team"))
	if _, err := c.StartTutti(ctx, cluster.TuttiOptions{}); err != nil {
		t.Fatal(err)
	}
	createJob(t, c, teamJob("holds", 4, "1", ""))
	eventually(t, 30*time.Second, "the first job to run", podsRunning(c, "holds", 4))
	createJob(t, c, teamJob("waits", 3, "1", ""))
	// The counts in the queue's status come a moment later than what they count.
	var answer whyAnswer
	eventually(t, 30*time.Second, "remedies for the second job", func(context.Context) (bool, error) {
		answer = askWhy(t, c.Kubeconfig, "job/waits")
		return answer.State == "Waits" && len(answer.Remedies) > 0, nil
	})
	if answer.Reason != "WaitingForQuota" || answer.Position != 1 || answer.Waiting != 1 {
		t.Errorf("%+v, want the first of 1 that waits for quota", answer)
	}
	if len(answer.Holders) != 1 || answer.Holders[0].Job != "Job team/holds" {
		t.Errorf("holders: %+v", answer.Holders)
	}
	ends, more := false, ""
	for _, remedy := range answer.Remedies {
		ends = ends || remedy.Kind == "ends" && slices.Equal(remedy.Jobs, []string{"Job team/holds"})
		if remedy.Kind == "quota" && len(remedy.Quota) == 1 {
			more = remedy.Quota[0].More
		}
	}
	if !ends || more != "3" {
		t.Errorf("remedies: %+v, want the end of the first job, and 3 cpu more", answer.Remedies)
	}
	if of := askWhy(t, c.Kubeconfig, "job/holds"); of.State != "HasQuota" {
		t.Errorf("the job that runs: %+v", of)
	}

	// Who may list only what is in the namespace hears what the status says, and what is missing.
	reader := readerOfTeam(t, c, rbacv1.PolicyRule{
		APIGroups: []string{"", "batch", "kueue.x-k8s.io"},
		Resources: []string{"pods", "jobs", "workloads", "localqueues"},
		Verbs:     []string{"list"},
	})
	var few whyAnswer
	eventually(t, 30*time.Second, "the status to say why the job waits", func(context.Context) (bool, error) {
		few = askWhy(t, reader, "job/waits")
		return few.Message != "", nil
	})
	notes := strings.Join(few.Notes, "\n")
	if few.State != "Waits" || len(few.Remedies) > 0 || !strings.Contains(few.Summary, "ClusterQueue team is not in the input") ||
		!strings.Contains(few.Message, "3 more needed") || !strings.Contains(notes, "clusterqueues can't be listed") ||
		!strings.Contains(notes, "workloads can be listed in namespace team only") {
		t.Errorf("with few rights: %+v", few)
	}

	// One cpu less than it takes: decided on, and refused with another number.
	if err := c.ApplyYAML(ctx, queue("6")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the job to be short of 1 cpu", func(ctx context.Context) (bool, error) {
		list, err := c.Dynamic.Resource(workloads).Namespace("team").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, item := range list.Items {
			text, err := item.MarshalJSON()
			if err == nil && strings.Contains(string(text), "1 more needed") {
				return true, nil
			}
		}
		return false, nil
	})
	if ok, err := podsRunning(c, "waits", 0)(ctx); err != nil || !ok {
		t.Errorf("it runs with one cpu less (%v)", err)
	}
	if err := c.ApplyYAML(ctx, queue("7")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the job to run", podsRunning(c, "waits", 3))

	onlyLists(t, c, "tutti-why", 20)
}
