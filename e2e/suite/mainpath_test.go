// SPDX-License-Identifier: Apache-2.0

// The way of one job on a real control plane, from submission to the next one's turn.

package suite

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

const oneTeam = `
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
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - {name: cpu, nominalQuota: 4}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: team}
`

func TestMainPath(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{})
	if err := c.InstallTutti(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNodes(ctx, cluster.NodeSpec{Count: 3}); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(ctx, oneTeam); err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartTutti(ctx, cluster.TuttiOptions{}); err != nil {
		t.Fatal(err)
	}
	createJob(t, c, teamJob("first", 4, "1", "2s"))
	createJob(t, c, teamJob("second", 2, "1", "2s"))
	waitForJob(t, c, "first", batchv1.JobComplete)
	waitForJob(t, c, "second", batchv1.JobComplete)
	eventually(t, 20*time.Second, "groups to be gone", func(ctx context.Context) (bool, error) {
		resource, ok := c.PodGroups()
		if !ok {
			return true, nil
		}
		list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
}
