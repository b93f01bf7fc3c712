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

var oneTeam = defaultFlavor + cpuQueue("team", "nominalQuota: 4") + localQueue("team", "lq", "team")

func TestMainPath(t *testing.T) {
	c, _ := startTeam(t, false, cluster.NodeSpec{Count: 3}, oneTeam, cluster.TuttiOptions{})
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
