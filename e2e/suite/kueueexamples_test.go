// SPDX-License-Identifier: Apache-2.0

// KueueExamples: the manifests of Kueue's documentation, as they are, come to what docs/examples.md says. They are not
// in this tree: TUTTI_KUEUE_EXAMPLES names the folder site/static/examples of Kueue's repository at v0.19.2.

package suite

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tutti.dev/e2e/cluster"
)

// exampleGroup is what a page of the documentation applies together.
type exampleGroup struct {
	name    string
	beside  string // what the page takes for granted: applied first
	files   []string
	config  map[string]any    // beside the frameworks
	gates   string            // of the operator
	runs    int               // how many Workloads are admitted
	waits   map[string]string // the start of the name of another one: part of what it says
	refused string            // the last file is, with this
}

// Devices of the driver that Kueue's pages on claims use: they can be shared, and are parts of one card.
const exampleDevices = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  extendedResourceName: example.com/gpu
  selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  allNodes: true
  pool: {name: gpus, generation: 1, resourceSliceCount: %d}
  devices:
`

var (
	exampleGPUs = fmt.Sprintf(exampleDevices, 1) + `
  - {name: gpu-0}
  - {name: gpu-1}
`
	exampleSharedGPUs = fmt.Sprintf(exampleDevices, 1) + `
  - {name: gpu-0, allowMultipleAllocations: true, capacity: {gpu.example.com/memory: {value: 80Gi}}}
`
	exampleGPUParts = fmt.Sprintf(exampleDevices, 2) + `
  - {name: gpu-0, consumesCounters: [{counterSet: card, counters: {memory: {value: 80Gi}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpus-counters}
spec:
  driver: gpu.example.com
  allNodes: true
  pool: {name: gpus, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: card, counters: {memory: {value: 160Gi}}}]
`
)

// exampleDeviceMapping is what the page on device quota configures: source "" counts devices.
func exampleDeviceMapping(name, source, of string) map[string]any {
	mapping := map[string]any{"name": name, "deviceClassNames": []any{"gpu.example.com"}}
	if source != "" {
		mapping["sources"] = []any{map[string]any{source: map[string]any{
			"name": of, "driver": "gpu.example.com",
			"deviceSelector": map[string]any{"cel": map[string]any{"expression": "device.driver == 'gpu.example.com'"}},
		}}}
	}
	return map[string]any{"resources": map[string]any{"deviceClassMappings": []any{mapping}}}
}

const onlyAccepted = -1 // nothing of it is decided here

var kueueExamples = []exampleGroup{
	{name: "quick start", files: []string{"getting-started/quick-start-setup.yaml", "getting-started/quick-start-job.yaml"}, runs: 1},
	{name: "jobs", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml"}, runs: 3},
	{name: "a fourth job that doesn't fit", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml", "jobs/sample-job.yaml"},
		runs: 3, waits: map[string]string{"job-sample-job-": "insufficient unused quota for cpu"}},
	{name: "partial admission", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-job-partial-admission.yaml"}, runs: 1},
	{name: "elastic job", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-scalable-job.yaml"}, runs: 1},
	{name: "cron job", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-cronjob.yaml"}, runs: 1},
	{name: "JobSet", files: []string{"admin/single-clusterqueue-setup.yaml", "jobs/sample-jobset.yaml", "jobs/sample-jobset.yaml", "jobs/sample-jobset.yaml", "jobs/sample-jobset.yaml"},
		runs: 3, waits: map[string]string{"jobset-sleep-job-": "insufficient unused quota for cpu"}},
	{name: "pod", files: []string{"admin/single-clusterqueue-setup.yaml", "pods-kueue/kueue-pod.yaml"}, runs: 1},
	{name: "pod group", files: []string{"admin/single-clusterqueue-setup.yaml", "pods-kueue/kueue-pod-group.yaml"}, runs: 1},
	{name: "serving", files: []string{"admin/single-clusterqueue-setup.yaml", "serving-workloads/sample-deployment.yaml", "serving-workloads/sample-statefulset.yaml"}, runs: 4},
	{name: "flavors", files: []string{"admin/resource-flavor-empty.yaml", "admin/resource-flavor-taints.yaml"}, runs: onlyAccepted},
	{name: "flavor with tolerations", files: []string{"admin/resource-flavor-tolerations.yaml"}, runs: onlyAccepted},
	{name: "policies", files: []string{"sample-validating-policy.yaml", "sample-validating-policy-binding.yaml", "sample-enforce-requests-policy.yaml",
		"sample-enforce-requests-policy-binding.yaml", "sample-admission-check.yaml"}, runs: onlyAccepted},
	{name: "visibility", files: []string{"visibility/cluster-role-and-binding.yaml", "visibility/grafana-cluster-queue-reader.yaml", "visibility/grafana-local-queue-reader.yaml"},
		runs: onlyAccepted},
	{name: "check of a flavor that isn't there", files: []string{"admin/minimal-cq.yaml"}, refused: "onFlavors", runs: onlyAccepted},
	{name: "MultiKueue", files: []string{"multikueue/multikueue-setup.yaml"}, refused: "multikueue is not supported", runs: onlyAccepted},
	{name: "HAMi", files: []string{"serving-workloads/sample-hami.yaml"}, runs: 1,
		config: map[string]any{"resources": map[string]any{"transformations": []any{
			map[string]any{"input": "nvidia.com/gpucores", "strategy": "Replace", "multiplyBy": "nvidia.com/gpu", "outputs": map[string]any{"nvidia.com/total-gpucores": "1"}},
			map[string]any{"input": "nvidia.com/gpumem", "strategy": "Replace", "multiplyBy": "nvidia.com/gpu", "outputs": map[string]any{"nvidia.com/total-gpumem": "1"}},
		}}}},
	{name: "devices by claim", beside: exampleGPUs, files: []string{"dra/sample-dra-queues.yaml", "dra/sample-dra-rct-job.yaml", "dra/sample-dra-rct-job.yaml"},
		config: exampleDeviceMapping("example.com/gpu", "", ""), runs: 2},
	{name: "devices as an extended resource", beside: exampleGPUs, files: []string{"dra/sample-dra-queues.yaml", "dra/sample-dra-extended-resource-job.yaml"}, runs: 1},
	{name: "devices by what they take of a card", beside: exampleGPUParts, files: []string{"dra/sample-dra-counter-queues.yaml", "dra/sample-dra-counter-job.yaml"},
		config: exampleDeviceMapping("gpu.memory", "counter", "memory"), runs: 1},
	{name: "devices that are shared", beside: exampleSharedGPUs, files: []string{"dra/sample-dra-capacity-queues.yaml", "dra/sample-dra-capacity-job.yaml", "dra/sample-dra-capacity-job.yaml"},
		config: exampleDeviceMapping("gpu.memory", "capacity", "gpu.example.com/memory"), gates: "KueueDRAIntegrationConsumableCapacity=true", runs: 2},
	{name: "shared quota", files: []string{"admin/shared-quota-setup.yaml", "admin/shared-quota-sample-job.yaml", "admin/shared-quota-sample-job.yaml",
		"admin/shared-quota-sample-job.yaml", "admin/shared-quota-sample-job.yaml", "admin/shared-quota-sample-job.yaml"},
		config: map[string]any{"resources": map[string]any{"transformations": []any{map[string]any{
			"input": "cpu", "strategy": "Retain", "outputs": map[string]any{"cpu_credits": 1}}}}},
		runs: 4, waits: map[string]string{"job-sample-job-": "cpu_credits"}},
	{name: "admission fair sharing", files: []string{"admission-fs/admission-fair-sharing-setup.yaml", "admission-fs/lq-a-simple-job.yaml",
		"admission-fs/lq-a-simple-job.yaml", "admission-fs/lq-b-simple-job.yaml"},
		config: map[string]any{"admissionFairSharing": map[string]any{"usageHalfLifeTime": "10s", "usageSamplingInterval": "1s"}}, runs: 3},
	{name: "provisioning", files: []string{"provisioning/provisioning-setup.yaml", "provisioning/sample-job.yaml"}, runs: 0,
		waits: map[string]string{"job-sample-job-": ""}},
	{name: "concurrent admission", files: []string{"admin/concurrent-admission-setup.yaml"}, runs: onlyAccepted},
	{name: "topology", files: []string{"tas/sample-queues.yaml", "tas/sample-job-required.yaml", "tas/sample-job-preferred.yaml", "tas/sample-job-unconstrained.yaml"},
		runs: onlyAccepted},
}

func TestKueueExamples(t *testing.T) {
	folder := os.Getenv("TUTTI_KUEUE_EXAMPLES")
	if folder == "" {
		t.Skip("TUTTI_KUEUE_EXAMPLES isn't set: see docs/examples.md")
	}
	ctx := t.Context()
	integrations := map[string]any{"frameworks": []string{"batch/job", "pod", "deployment", "statefulset", "jobset.x-k8s.io/jobset"}}
	c := cluster.ForTest(t, cluster.Options{})
	startJobSetController(t, c)
	autoscaler, err := cluster.ToolPath("autoscaler", "crds/autoscaling.x-k8s.io_provisioningrequests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyFile(ctx, autoscaler); err != nil {
		t.Fatal(err)
	}
	installOn(t, c, map[string]any{
		"webhook": map[string]any{"enabled": true},
		"config":  map[string]any{"kueue": map[string]any{"integrations": integrations}},
	}, cluster.NodeSpec{Count: 2, Extended: map[string]string{"nvidia.com/gpu": "8"}}, "")
	for _, node := range []cluster.NodeSpec{
		{Count: 1, Prefix: "on-demand", Labels: map[string]string{"node-type": "on-demand"}},
		{Count: 1, Prefix: "spot", Labels: map[string]string{"node-type": "spot"}},
		{Count: 1, Prefix: "vgpu", Labels: map[string]string{"gpu": "on"},
			Extended: map[string]string{"nvidia.com/gpu": "8", "nvidia.com/gpucores": "800", "nvidia.com/gpumem": "20480"}},
	} {
		if _, err := c.AddNodes(ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	for _, group := range kueueExamples {
		t.Run(group.name, func(t *testing.T) {
			config := map[string]any{"integrations": integrations}
			maps.Copy(config, group.config)
			options := cluster.TuttiOptions{Config: config}
			if group.gates != "" {
				options.Args = []string{"--feature-gates=" + group.gates}
			}
			tutti, err := c.StartTutti(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			defer tutti.Remove()
			defer func() {
				if err := tutti.Stop(); err != nil {
					t.Error(err)
				}
			}()
			applied := group.apply(t, c, folder)
			defer clearExample(t, c, applied)
			if group.runs != onlyAccepted {
				// A CronJob takes up to a minute for its first Job.
				eventually(t, 90*time.Second, "what the docs say", func(ctx context.Context) (bool, error) { return group.check(ctx, c) })
			}
		})
	}
}

// apply its files in order; what is generated gets names of its own.
func (g exampleGroup) apply(t *testing.T, c *cluster.Cluster, folder string) []*unstructured.Unstructured {
	t.Helper()
	applied, err := cluster.ParseManifests([]byte(g.beside))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), applied...); err != nil {
		t.Fatal(err)
	}
	for i, file := range g.files {
		objects, err := cluster.ReadManifests(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			client, err := c.Resource(object)
			if err != nil {
				t.Fatal(err)
			}
			if object.GetName() != "" {
				err = c.Apply(t.Context(), object)
			} else {
				object, err = client.Create(t.Context(), object, metav1.CreateOptions{})
			}
			if g.refused != "" && i == len(g.files)-1 && err != nil {
				refusedWith(t, err, g.refused)
				return applied
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			applied = append(applied, object)
		}
	}
	if g.refused != "" {
		t.Errorf("%s was accepted", g.files[len(g.files)-1])
	}
	return applied
}

func (g exampleGroup) check(ctx context.Context, c *cluster.Cluster) (bool, error) {
	list, err := c.Dynamic.Resource(workloads).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	running := 0
	missing := maps.Clone(g.waits)
	var said []string
	for i := range list.Items {
		one := &list.Items[i]
		if admitted, _, _ := condition(one, "Admitted"); admitted == "True" {
			running++
			continue
		}
		_, reason, message := condition(one, "QuotaReserved")
		said = append(said, fmt.Sprintf("%s %s: %s", one.GetName(), reason, message))
		for name, want := range g.waits {
			if strings.HasPrefix(one.GetName(), name) && reason != "" && strings.Contains(message, want) {
				delete(missing, name)
			}
		}
	}
	return expect(running == g.runs && len(missing) == 0, "%d of %d are admitted, not %d; %s", running, len(list.Items), g.runs, strings.Join(said, "; "))
}

// clearExample deletes what was applied, the last first, and waits until nothing of it is left.
func clearExample(t *testing.T, c *cluster.Cluster, applied []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range slices.Backward(applied) {
		client, err := c.Resource(object)
		if err != nil {
			t.Fatal(err)
		}
		err = client.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !cluster.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	eventually(t, 60*time.Second, "it to be gone", func(ctx context.Context) (bool, error) {
		list, err := c.Dynamic.Resource(workloads).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, object := range applied {
			client, err := c.Resource(object)
			if err != nil {
				return false, err
			}
			if _, err := client.Get(ctx, object.GetName(), metav1.GetOptions{}); !cluster.IsNotFound(err) {
				return false, fmt.Errorf("%s %s is there: %v", object.GetKind(), object.GetName(), err)
			}
		}
		return expect(len(list.Items) == 0, "%d Workloads are left", len(list.Items))
	})
}
