// SPDX-License-Identifier: Apache-2.0

// A sample of SchedulerAgreement (e2e/agreement) through the real API: the same random clusters, with pods
// made by the Job controller from what the controller released, and bound by the real scheduler.

package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/randomcase"
)

// anyTeam has quota for everything that random gangs ask for.
const anyTeam = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [pods, cpu, memory, ephemeral-storage, example.com/gpu, example.com/nic, hugepages-2Mi]
    flavors:
    - name: default
      resources:
      - {name: pods, nominalQuota: 100k}
      - {name: cpu, nominalQuota: 100k}
      - {name: memory, nominalQuota: 100Pi}
      - {name: ephemeral-storage, nominalQuota: 100Pi}
      - {name: example.com/gpu, nominalQuota: 100k}
      - {name: example.com/nic, nominalQuota: 100k}
      - {name: hugepages-2Mi, nominalQuota: 100Pi}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: team}
`

func TestAgreementSample(t *testing.T) {
	const sample, ruled = 20, 10
	binary, err := cluster.TuttiBinary()
	if err != nil {
		t.Fatal(err)
	}
	fitter, err := randomcase.StartFitter(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fitter.Close(); err != nil {
			t.Error(err)
		}
	})
	c, tutti := startTeam(t, false, cluster.NodeSpec{}, anyTeam, cluster.TuttiOptions{})
	if err := c.CreateNamespace(t.Context(), "others", nil); err != nil {
		t.Fatal(err)
	}
	play := func(what string, sample int, options randomcase.Options, wanted func(*randomcase.Case) bool) {
		landed, held := 0, 0
		for seed := uint64(1); landed+held < sample; seed++ {
			picture := randomcase.Generate(seed, options)
			// A Job has one podset.
			if picture.Mixed() || picture.Count() > 60 || !wanted(picture) {
				continue
			}
			answer, err := fitter.Ask(picture)
			if err != nil {
				t.Fatal(err)
			}
			if !answer.Fits() && !answer.No() {
				continue
			}
			t.Run(fmt.Sprintf("%s, seed %d", what, seed), func(t *testing.T) {
				if playCase(t, c, tutti, picture, answer) {
					landed++
				} else {
					held++
				}
			})
			if t.Failed() {
				return
			}
		}
		t.Logf("result, %s: %d gangs landed, %d were held, each as `tutti fit` had said", what, landed, held)
		if landed < sample/5 || held < sample/5 {
			t.Errorf("the sample of %s is lopsided: %d landed, %d held", what, landed, held)
		}
	}
	play("no rules about other pods", sample, randomcase.Options{MaxNodes: 12}, func(*randomcase.Case) bool { return true })
	// Pods that are drawn to each other may begin where there is no room for all; terminating ones count
	// otherwise for a spread, and nobody can create them.
	play("rules about other pods", ruled, randomcase.Options{MaxNodes: 12, PodRules: true}, func(c *randomcase.Case) bool {
		return (c.Uses("pod anti-affinity") || c.Uses("topology spread")) && !c.Uses("terminating pods")
	})
}

// playCase builds the cluster of a case, submits the gang as a Job and waits for what the answer says.
func playCase(t *testing.T, c *cluster.Cluster, tutti *cluster.Tutti, picture *randomcase.Case, answer randomcase.Answer) (fits bool) {
	t.Helper()
	ctx := t.Context()
	seen := func() float64 { return sum(t, tutti, "tutti_watch_events_total", map[string]string{"kind": "pods"}) }
	before, last := seen(), -1.0
	for _, node := range picture.Nodes {
		if err := c.CreateNode(ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	pods := 0
	for _, pod := range picture.Pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue // they don't count
		}
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = nil // nobody can create a terminating pod; it counts as a running one
		if _, err := c.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pods++
	}
	eventually(t, 30*time.Second, "the controller to see the pods", func(context.Context) (bool, error) {
		// Each pod is an event or more; then none for a while: all have arrived. A node that it doesn't know
		// yet can only make it wait.
		known := seen()
		settled := known == last && known >= before+float64(pods)
		last = known
		return settled, nil
	})
	name := fmt.Sprintf("gang-%d", picture.Seed)
	j := picture.Job(name)
	j.Labels = map[string]string{queueLabel: "lq"}
	grace := int64(0)
	j.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	createJob(t, c, j)
	if answer.Fits() {
		want := picture.Count()
		eventually(t, 30*time.Second, fmt.Sprintf("all %d pods of %s to be bound", want, picture), podsRunning(c, name, want))
	} else {
		waitPending(t, c, name, "Pending", answer.Message)
		list, err := c.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 0 {
			t.Errorf("%s: held, and there are %d pods", picture, len(list.Items))
		}
	}
	// Away with it all before the next case.
	deleteJob(t, c, name)
	everything := metav1.ListOptions{}
	if err := c.Kube.CoreV1().Pods("others").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &grace}, everything); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "all pods to be gone", func(ctx context.Context) (bool, error) {
		left := 0
		for _, namespace := range []string{"team", "others"} {
			list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, everything)
			if err != nil {
				return false, err
			}
			left += len(list.Items)
		}
		return left == 0, nil
	})
	for _, node := range picture.Nodes {
		if err := c.RemoveNode(ctx, node.Name); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, "the queue to be empty", func(ctx context.Context) (bool, error) {
		list, err := c.Dynamic.Resource(workloads).Namespace("team").List(ctx, everything)
		return err == nil && len(list.Items) == 0, err
	})
	return answer.Fits()
}
