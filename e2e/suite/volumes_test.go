// SPDX-License-Identifier: Apache-2.0

// Volumes: gangs whose pods need PersistentVolumes that are on single nodes, with the real scheduler and
// the real controllers that bind claims.

package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
)

const localVolumes = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`

// localVolume makes a volume of 10Gi on a node.
func localVolume(t *testing.T, c *cluster.Cluster, name, node string) {
	t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "local", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/volumes/" + name},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	if _, err := c.Kube.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func localClaim() corev1.PersistentVolumeClaimSpec {
	class := "local"
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}},
	}
}

// withVolumeClaim makes all pods of a Job use one claim.
func withVolumeClaim(j *batchv1.Job, claim string) *batchv1.Job {
	j.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return j
}

// withOwnVolumes gives each pod of a Job a volume of its own.
func withOwnVolumes(j *batchv1.Job) *batchv1.Job {
	j.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: localClaim()}},
	}}}
	return j
}

// nodesOf counts the pods of a Job by node.
func nodesOf(t *testing.T, c *cluster.Cluster, job string) map[string]int {
	t.Helper()
	pods, err := c.Kube.CoreV1().Pods("team").List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, pod := range pods.Items {
		out[pod.Spec.NodeName]++
	}
	return out
}

func TestVolumes(t *testing.T) {
	ctx := t.Context()
	c, _ := startTeam(t, false, cluster.NodeSpec{}, roomyTeam+"---"+localVolumes, cluster.TuttiOptions{})
	nodes, err := c.AddNodes(ctx, cluster.NodeSpec{Count: 3, CPU: "4"})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("a gang waits for room on the node of its volume", func(t *testing.T) {
		createJob(t, c, withVolumeClaim(teamJob("bound", 2, "2", ""), "data"))
		waitPending(t, c, "bound", "Pending", "PersistentVolumeClaim team/data doesn't exist")
		localVolume(t, c, "data-volume", nodes[1])
		holder := teamJob("holder", 1, "3", "")
		holder.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodes[1]}
		createJob(t, c, holder)
		eventually(t, 20*time.Second, "the holder to run", podsRunning(c, "holder", 1))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "team"}, Spec: localClaim()}
		claim.Spec.VolumeName = "data-volume"
		if _, err := c.Kube.CoreV1().PersistentVolumeClaims("team").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitPending(t, c, "bound", "Pending", "0 of 2 pods fit now",
			fmt.Sprintf("PersistentVolume data-volume of claim team/data is reached by node %s", nodes[1]))
		deleteJob(t, c, "holder")
		eventually(t, 20*time.Second, "the gang to run", podsRunning(c, "bound", 2))
		if got := nodesOf(t, c, "bound"); got[nodes[1]] != 2 {
			t.Errorf("the pods are on %v", got)
		}
		deleteJob(t, c, "bound")
		eventually(t, 20*time.Second, "the gang to be gone", podsRunning(c, "bound", 0))
	})

	t.Run("a volume for each pod", func(t *testing.T) {
		createJob(t, c, withOwnVolumes(teamJob("first", 3, "1", "")))
		waitPending(t, c, "first", "Pending", "StorageClass local")
		for i, node := range []string{nodes[0], nodes[0], nodes[2]} {
			localVolume(t, c, fmt.Sprintf("scratch-%d", i), node)
		}
		eventually(t, 20*time.Second, "the gang to run", podsRunning(c, "first", 3))
		if got := nodesOf(t, c, "first"); got[nodes[0]] != 2 || got[nodes[2]] != 1 {
			t.Errorf("the pods are on %v", got)
		}
		// All volumes are taken: the next gang starts when there are others.
		createJob(t, c, withOwnVolumes(teamJob("second", 2, "1", "")))
		waitPending(t, c, "second", "Pending", "0 of 2 pods fit now", "3 without the volumes")
		localVolume(t, c, "scratch-3", nodes[1])
		waitPending(t, c, "second", "Pending", "1 of 2 pods fit now")
		localVolume(t, c, "scratch-4", nodes[2])
		eventually(t, 20*time.Second, "the second gang to run", podsRunning(c, "second", 2))
		if got := nodesOf(t, c, "second"); got[nodes[1]] != 1 || got[nodes[2]] != 1 {
			t.Errorf("the pods of the second gang are on %v", got)
		}
	})
}

// An installation that may not read volumes starts, and leaves them to the scheduler.
func TestVolumesWithoutRights(t *testing.T) {
	ctx := t.Context()
	c := installTeam(t, false, cluster.NodeSpec{Count: 1, CPU: "4"}, roomyTeam)
	role, err := c.Kube.RbacV1().ClusterRoles().Get(ctx, "tutti-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rule := range role.Rules {
		if len(rule.APIGroups) == 1 && rule.APIGroups[0] == "storage.k8s.io" {
			patch := fmt.Sprintf(`[{"op":"remove","path":"/rules/%d"}]`, i)
			if _, err := c.Kube.RbacV1().ClusterRoles().Patch(ctx, role.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{})
	if err != nil {
		t.Fatal(err)
	}
	createJob(t, c, withVolumeClaim(teamJob("blind", 2, "1", ""), "nowhere"))
	eventually(t, 20*time.Second, "the job to be released", func(ctx context.Context) (bool, error) {
		j, err := c.Kube.BatchV1().Jobs("team").Get(ctx, "blind", metav1.GetOptions{})
		return err == nil && !isSuspended(j), err
	})
	if text := tutti.LogTail(100_000); !strings.Contains(text, "volumes are left to the scheduler: a right is missing") {
		t.Errorf("the log doesn't say which right is missing:\n%s", text)
	}
}
