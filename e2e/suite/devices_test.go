// SPDX-License-Identifier: Apache-2.0

// Devices: gangs whose pods ask for GPUs by claim, on the real scheduler, which allocates them.

package suite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

const gpuClass = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.org'"}}]}
`

const deviceTeam = gpuClass + `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two-gpus, namespace: team}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: large-gpu, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, selectors: [{cel: {expression:
  'device.attributes["gpu.example.org"].model == "large" && device.capacity["gpu.example.org"].memory.compareTo(quantity("64Gi")) >= 0'}}]}}]}}}
---
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
  - coveredResources: [cpu, example.org/gpus]
    flavors:
    - name: default
      resources:
      - {name: cpu, nominalQuota: 100}
      - {name: example.org/gpus, nominalQuota: 14}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: team}
`

// gpuSlice publishes GPUs of a node; the first `large` of them are large ones.
func gpuSlice(node string, count, large int) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.org", NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range count {
		model, memory := "small", "32Gi"
		if i < large {
			model, memory = "large", "80Gi"
		}
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}},
		})
	}
	return slice
}

// deviceWatch notes every device that two claims have at the same time.
type deviceWatch struct {
	mutex    sync.Mutex
	holder   map[string]string // device -> claim
	of       map[string][]string
	problems []string
	most     int
}

func watchDevices(t *testing.T, c *cluster.Cluster) *deviceWatch {
	t.Helper()
	w := &deviceWatch{holder: map[string]string{}, of: map[string][]string{}}
	follow(t, c, claimsFeed(w.onClaim))
	return w
}

func (w *deviceWatch) onClaim(object any, gone bool) {
	claim, ok := object.(*resourcev1.ResourceClaim)
	if !ok {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	key := claim.Namespace + "/" + claim.Name
	for _, device := range w.of[key] {
		delete(w.holder, device)
	}
	delete(w.of, key)
	if gone || claim.Status.Allocation == nil {
		return
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		device := result.Driver + "/" + result.Pool + "/" + result.Device
		if other := w.holder[device]; other != "" {
			w.problems = append(w.problems, fmt.Sprintf("%s: %s and %s", device, other, key))
		}
		w.holder[device] = key
		w.of[key] = append(w.of[key], device)
	}
	w.most = max(w.most, len(w.holder))
}

func (w *deviceWatch) check(t *testing.T) {
	t.Helper()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, problem := range w.problems {
		t.Error("two claims have one device: ", problem)
	}
}

func gpuJob(name string, pods int32, template, runFor string) *batchv1.Job {
	return withClaim(teamJob(name, pods, "1", runFor), corev1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: &template}, false)
}

// mappedDevices is the configuration under which a GPU costs one of example.org/gpus.
var mappedDevices = map[string]any{"resources": map[string]any{"deviceClassMappings": []any{
	map[string]any{"name": "example.org/gpus", "deviceClassNames": []any{"gpu"}},
}}}

func TestDevices(t *testing.T)         { runDevices(t, false) }
func TestDevicesGatesOff(t *testing.T) { runDevices(t, true) }

func runDevices(t *testing.T, gatesOff bool) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{GatesOff: gatesOff})
	installOn(t, c, nil, cluster.NodeSpec{Count: 4, CPU: "16"}, deviceTeam)
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices := c.Kube.ResourceV1().ResourceSlices()
	for i, node := range nodes.Items {
		if _, err := slices.Create(ctx, gpuSlice(node.Name, 4, i%2), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	devices := watchDevices(t, c)
	observer := startObserver(t, c, nil)
	tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{Config: mappedDevices})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("one gang runs and the other waits for devices", func(t *testing.T) {
		createJob(t, c, gpuJob("first", 6, "two-gpus", "4s"))
		createJob(t, c, gpuJob("second", 5, "two-gpus", "1s"))
		waitPending(t, c, "second", "Pending", "example.org/gpus")
		waitForJob(t, c, "first", batchv1.JobComplete)
		waitForJob(t, c, "second", batchv1.JobComplete)
	})
	t.Run("places count, not only numbers", func(t *testing.T) {
		// One GPU of each node is gone: three are left, which hold one pair each.
		for i, node := range nodes.Items {
			slice, err := slices.Get(ctx, node.Name+"-gpus", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			slice.Spec = gpuSlice(node.Name, 3, i%2).Spec
			slice.Spec.Pool.Generation = 2
			if _, err := slices.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		createJob(t, c, gpuJob("pairs", 5, "two-gpus", "1s"))
		waitPending(t, c, "pairs", "Pending", "class gpu")
		createJob(t, c, gpuJob("fits", 4, "two-gpus", "1s"))
		waitForJob(t, c, "fits", batchv1.JobComplete)
		slice, err := slices.Get(ctx, nodes.Items[0].Name+"-gpus", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		slice.Spec = gpuSlice(nodes.Items[0].Name, 4, 0).Spec
		slice.Spec.Pool.Generation = 3
		if _, err := slices.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitForJob(t, c, "pairs", batchv1.JobComplete)
	})
	t.Run("selectors are what the scheduler makes of them", func(t *testing.T) {
		createJob(t, c, gpuJob("large", 2, "large-gpu", "1s"))
		createJob(t, c, gpuJob("too-large", 3, "large-gpu", ""))
		waitForJob(t, c, "large", batchv1.JobComplete)
		waitPending(t, c, "too-large", "Pending", "class gpu")
		deleteJob(t, c, "too-large")
	})
	t.Run("a class without a mapping says so", func(t *testing.T) {
		if err := c.ApplyYAML(ctx, fabric); err != nil {
			t.Fatal(err)
		}
		createJob(t, c, gpuJob("unmapped", 2, "net", "1s"))
		waitPending(t, c, "unmapped", "Inadmissible", "DeviceClass fabric is in no deviceClassMappings")
		deleteJob(t, c, "unmapped")
	})
	t.Run("a claim that pods share keeps them on its node", func(t *testing.T) { sharedOnOneNode(t, c) })
	t.Run("many in turn", func(t *testing.T) {
		for i := range 20 {
			createJob(t, c, gpuJob(fmt.Sprintf("many-%02d", i), int32(1+i%5), "two-gpus", "500ms"))
		}
		for i := range 20 {
			name := fmt.Sprintf("many-%02d", i)
			eventually(t, 90*time.Second, name+" to complete", func(ctx context.Context) (bool, error) {
				j, err := c.Kube.BatchV1().Jobs("team").Get(ctx, name, metav1.GetOptions{})
				return err == nil && finished(j), err
			})
		}
	})
	waitForNoLeftovers(t, c, false)
	devices.check(t)
	landed, takenBack := checkGangs(t, observer.View())
	t.Logf("%d gangs landed, %d were taken back; at most %d devices in use", landed, takenBack, devices.most)
	if takenBack != 0 || evictions(t, tutti) != 0 {
		t.Errorf("%d gangs were bound in part, %v evicted, with nobody interfering", takenBack, evictions(t, tutti))
	}
	if bugs := sum(t, tutti, "tutti_bugs_total", nil); bugs != 0 {
		t.Errorf("tutti_bugs_total is %v", bugs)
	}
}

// sharedOnOneNode: kube-scheduler 1.36.3 may bind pods after the first elsewhere
// (kubernetes/kubernetes#140087), so the release names the node.
func sharedOnOneNode(t *testing.T, c *cluster.Cluster) {
	claims := c.Kube.ResourceV1().ResourceClaims("team")
	for i := range 5 {
		name := fmt.Sprintf("ours-%d", i)
		_, err := claims.Create(t.Context(), &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"},
			}}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		createJob(t, c, withClaim(teamJob(name, 4, "1", ""), corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: &name}, false))
		nodes := map[string]int{}
		eventually(t, 30*time.Second, "all pods of "+name+" to be bound", func(ctx context.Context) (bool, error) {
			clear(nodes)
			for _, pod := range podsOf(t, c, name, 4) {
				nodes[pod.Spec.NodeName]++
			}
			return nodes[""] == 0, nil
		})
		claim, err := claims.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if claim.Status.Allocation == nil {
			t.Fatal(name, " has pods on ", nodes, " and no devices")
		}
		on := claim.Status.Allocation.Devices.Results[0].Pool // called as its node
		if nodes[on] != 4 {
			t.Errorf("the claim is on %s, the pods of %s are on %v", on, name, nodes)
		}
		job, err := c.Kube.BatchV1().Jobs("team").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := job.Spec.Template.Spec.NodeSelector[corev1.LabelHostname]; got != on {
			t.Errorf("%s was released for node %q, the claim is on %s", name, got, on)
		}
		deleteJob(t, c, name)
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// evictions is how many workloads were taken back, whatever the reason.
func evictions(t *testing.T, tutti *cluster.Tutti) float64 {
	t.Helper()
	return sum(t, tutti, "kueue_evicted_workloads_total", nil)
}
