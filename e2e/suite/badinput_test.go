// SPDX-License-Identifier: Apache-2.0

// What users and admins get wrong: refused, or told in a condition that names field and fix; and nobody
// else notices.

package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tutti.dev/e2e/cluster"
)

func TestBadInput(t *testing.T) { runBadInput(t, false) }

func queueWith(name, quota, flavor string) string {
	return fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: %s
      resources:
      - {name: cpu, nominalQuota: %s}
`, name, flavor, quota)
}

func runBadInput(t *testing.T, gatesOff bool) {
	ctx := t.Context()
	c, tutti := startTeam(t, gatesOff, cluster.NodeSpec{Count: 2, CPU: "4"}, oneTeam+`
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: nowhere, namespace: team}
spec: {clusterQueue: missing}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: unflavored, namespace: team}
spec: {clusterQueue: unflavored}
`, cluster.TuttiOptions{})

	t.Run("refused with the field", func(t *testing.T) {
		for _, test := range []struct{ name, manifest, want string }{
			{"malformed quota", queueWith("bad", "four", "default"), "nominalQuota"},
			{"negative quota", queueWith("bad", `"-1"`, "default"), "nominalQuota"},
			{"overflowing quota", queueWith("bad", `"99999999999999999999"`, "default"), "nominalQuota"},
			{"limit without a cohort", strings.Replace(queueWith("bad", "4", "default"), "nominalQuota: 4", "nominalQuota: 4, borrowingLimit: 1", 1), "borrowingLimit"},
			{"queue of another queue's name rules", localQueue("team", "lq", "Not_A_Name"), "clusterQueue"},
		} {
			err := c.ApplyYAML(ctx, test.manifest)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: the answer is %v, must name %s", test.name, err, test.want)
			}
		}
		for _, test := range []struct {
			name, label, value, want string
		}{
			{"time limit that is no number", "kueue.x-k8s.io/max-exec-time-seconds", "soon", "max-exec-time-seconds"},
			{"time limit of nothing", "kueue.x-k8s.io/max-exec-time-seconds", "0", "max-exec-time-seconds"},
		} {
			j := teamJob("refused", 1, "1", "")
			j.Labels[test.label] = test.value
			_, err := c.Kube.BatchV1().Jobs("team").Create(ctx, j, metav1.CreateOptions{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: the answer is %v, must name %s", test.name, err, test.want)
			}
		}
	})

	if err := c.ApplyYAML(ctx, queueWith("unflavored", "4", "missing-flavor")); err != nil {
		t.Fatal(err)
	}
	inQueue := func(name, queue string, pods int32, cpu string) *batchv1.Job {
		j := teamJob(name, pods, cpu, "")
		j.Labels[queueLabel] = queue
		return j
	}
	createJob(t, c, inQueue("no-queue", "absent", 1, "1"))
	createJob(t, c, inQueue("no-cluster-queue", "nowhere", 1, "1"))
	createJob(t, c, inQueue("no-flavor", "unflavored", 1, "1"))
	createJob(t, c, inQueue("above-quota", "lq", 5, "1"))
	createJob(t, c, inQueue("huge", "lq", 1, "9223372036854775807"))
	createJob(t, c, teamJob("zero", 0, "1", ""))
	unknownClass := teamJob("no-class", 1, "1", "")
	unknownClass.Labels["kueue.x-k8s.io/priority-class"] = "absent"
	createJob(t, c, unknownClass)

	t.Run("told in a condition", func(t *testing.T) {
		waitPending(t, c, "no-queue", "Inadmissible", "LocalQueue absent doesn't exist")
		waitPending(t, c, "no-cluster-queue", "Inadmissible", "ClusterQueue missing doesn't exist")
		waitPending(t, c, "no-flavor", "Inadmissible", "ClusterQueue unflavored is inactive")
		waitPending(t, c, "above-quota", "Pending", "cpu", "5", "4")
		waitPending(t, c, "huge", "Inadmissible", "cpu")
		conditionOf := func(resource schema.GroupVersionResource, namespace, name, reason, message string) {
			t.Helper()
			eventually(t, 20*time.Second, name+" to say why", func(ctx context.Context) (bool, error) {
				object, err := c.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				status, haveReason, haveMessage := condition(object, "Active")
				if status != "False" || haveReason != reason || !strings.Contains(haveMessage, message) {
					return false, fmt.Errorf("Active is %s/%s: %s", status, haveReason, haveMessage)
				}
				return true, nil
			})
		}
		conditionOf(clusterQueues, "", "unflavored", "FlavorNotFound", "missing-flavor")
		// Kueue's words, which its specs compare; who is meant stands in the queue's spec and in the Workload's reason.
		conditionOf(localQueues, "team", "nowhere", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
		conditionOf(localQueues, "team", "unflavored", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
		eventually(t, 20*time.Second, "an event about the priority class", func(ctx context.Context) (bool, error) {
			events, err := c.Kube.CoreV1().Events("team").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=no-class"})
			if err != nil {
				return false, err
			}
			for _, event := range events.Items {
				if event.Type == "Warning" && strings.Contains(event.Message, `"absent"`) {
					return true, nil
				}
			}
			return false, nil
		})
	})

	t.Run("a job larger than any node", func(t *testing.T) {
		patchQuota(t, c, "team", "default", "100")
		createJob(t, c, teamJob("above-node", 1, "5", ""))
		waitPending(t, c, "above-node", "Pending", "cpu")
		deleteJob(t, c, "above-node")
		deleteJob(t, c, "above-quota")
	})

	t.Run("nobody else notices", func(t *testing.T) {
		createJob(t, c, teamJob("good", 2, "1", "1s"))
		waitForJob(t, c, "good", batchv1.JobComplete)
		if !tutti.Running() {
			t.Error("the operator ended")
		}
	})

	t.Run("mending the input lets the job go on", func(t *testing.T) {
		if err := c.ApplyYAML(ctx, "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: missing-flavor}}"); err != nil {
			t.Fatal(err)
		}
		if err := c.ApplyYAML(ctx, "{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: absent}, value: 7}"); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the mended jobs to start", podsRunning(c, "no-flavor", 1))
		eventually(t, 20*time.Second, "the mended jobs to start", podsRunning(c, "no-class", 1))
	})
}
