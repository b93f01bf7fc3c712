// SPDX-License-Identifier: Apache-2.0

// The CRDs and the chart's policies on them, with the cases of crds/testdata.

package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tutti.dev/e2e/cluster"
)

// objectCase is one case of crds/testdata: an object, or its successive versions.
type objectCase struct {
	name     string
	refusal  string // the last version is refused with these words; empty: all are accepted
	versions []*unstructured.Unstructured
}

// readCases reads crds/testdata/<dir>/<kind>.yaml.
func readCases(t *testing.T, path string) []objectCase {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []objectCase
	for i, part := range strings.Split(string(text), "# case: ") {
		if i == 0 {
			continue // the file's head
		}
		name, rest, _ := strings.Cut(part, "\n")
		one := objectCase{name: name}
		if line, below, found := strings.Cut(rest, "\n"); found && strings.HasPrefix(line, "# refused: ") {
			one.refusal, rest = strings.TrimPrefix(line, "# refused: "), below
		}
		if one.versions, err = cluster.ParseManifests([]byte(rest)); err != nil {
			t.Fatalf("%s, case %q: %v", path, name, err)
		}
		if len(one.versions) == 0 {
			t.Fatalf("%s, case %q: no object", path, name)
		}
		cases = append(cases, one)
	}
	if len(cases) == 0 {
		t.Fatalf("%s: no cases", path)
	}
	return cases
}

// store creates or replaces the object, then its status if there is one.
func store(ctx context.Context, c *cluster.Cluster, object *unstructured.Unstructured) error {
	resource, err := c.Resource(object)
	if err != nil {
		return err
	}
	wanted := object.DeepCopy()
	stored, err := resource.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		stored, err = resource.Create(ctx, wanted, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	case err == nil:
		wanted.SetResourceVersion(stored.GetResourceVersion())
		stored, err = resource.Update(ctx, wanted, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	}
	if err != nil {
		return err
	}
	status, found := object.Object["status"]
	if !found {
		return nil
	}
	stored.Object["status"] = status
	_, err = resource.UpdateStatus(ctx, stored, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

func remove(t *testing.T, c *cluster.Cluster, object *unstructured.Unstructured) {
	t.Helper()
	resource, err := c.Resource(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := resource.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func (one objectCase) check(ctx context.Context, c *cluster.Cluster) error {
	last := len(one.versions) - 1
	for i, version := range one.versions {
		err := store(ctx, c, version)
		switch {
		case one.refusal == "" || i < last:
			if err != nil {
				return fmt.Errorf("version %d of %d was refused: %w", i+1, last+1, err)
			}
		case err == nil:
			return fmt.Errorf("was accepted, want a refusal with %q", one.refusal)
		case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err):
			return fmt.Errorf("failed in another way: %w", err)
		case !strings.Contains(err.Error(), one.refusal):
			return fmt.Errorf("was refused with other words than %q:\n%w", one.refusal, err)
		}
	}
	return nil
}

func TestCRDsAcceptGoodAndRefuseBadObjects(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoKwok: true})
	repo, err := cluster.RepoDir()
	if err != nil {
		t.Fatal(err)
	}
	crds := filepath.Join(repo, "crds")

	// As users do it, and before the harness has applied them.
	kubectl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), c.Kubectl(), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Run("kubectl applies them, from the client and from the server", func(t *testing.T) {
		for _, flags := range [][]string{{"--dry-run=client"}, {"--server-side", "--dry-run=server"}, {}, {"--server-side", "--force-conflicts"}} {
			out, err := kubectl(append([]string{"apply", "-f", crds}, flags...)...)
			if err != nil {
				t.Fatalf("kubectl apply %v: %v\n%s", flags, err, out)
			}
			if lines := strings.Count(out, "customresourcedefinition"); lines != 11 {
				t.Errorf("kubectl apply %v applied %d objects, not 11:\n%s", flags, lines, out)
			}
		}
	})
	t.Run("they are served under their names", func(t *testing.T) {
		want := map[string]string{
			"AdmissionCheck": "ac", "ClusterQueue": "cq", "Cohort": "co", "LocalQueue": "queue,queues,lq",
			"MultiKueueCluster": "mkc", "MultiKueueConfig": "mkconf", "ProvisioningRequestConfig": "prc",
			"ResourceFlavor": "flavor,flavors,rf", "Topology": "topo", "Workload": "kwl,kueueworkload,kueueworkloads",
			"WorkloadPriorityClass": "wpc",
		}
		eventually(t, 20*time.Second, "eleven kinds", func(context.Context) (bool, error) {
			list, err := c.Kube.Discovery().ServerResourcesForGroupVersion("kueue.x-k8s.io/v1beta2")
			if err != nil {
				return false, err
			}
			have := map[string]string{}
			for _, r := range list.APIResources {
				if !strings.Contains(r.Name, "/") {
					have[r.Kind] = strings.Join(r.ShortNames, ",")
				}
			}
			for kind, names := range want {
				if have[kind] != names {
					return false, fmt.Errorf("%s has short names %q, want %q", kind, have[kind], names)
				}
			}
			if len(have) != len(want) {
				return false, fmt.Errorf("%d kinds", len(have))
			}
			return true, nil
		})
	})

	if err := c.InstallTutti(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	for _, dir := range []string{"good", "bad"} {
		files, err := filepath.Glob(filepath.Join(crds, "testdata", dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 11 {
			t.Errorf("%s has %d files, want one for each of the 11 kinds", dir, len(files))
		}
		for _, file := range files {
			kind := strings.TrimSuffix(filepath.Base(file), ".yaml")
			for _, one := range readCases(t, file) {
				t.Run(dir+"/"+kind+"/"+one.name, func(t *testing.T) {
					if (one.refusal != "") != (dir == "bad") {
						t.Fatalf("refusal %q in the directory %s", one.refusal, dir)
					}
					if err := one.check(t.Context(), c); err != nil {
						t.Error(err)
					}
					remove(t, c, one.versions[0])
				})
			}
		}
	}

	t.Run("defaults are filled in", func(t *testing.T) {
		queue := manifest(t, "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: d}, spec: {fairSharing: {}, preemption: {borrowWithinCohort: {}}}}")
		if err := store(t.Context(), c, queue); err != nil {
			t.Fatal(err)
		}
		defer remove(t, c, queue)
		resource, err := c.Resource(queue)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := resource.Get(t.Context(), "d", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]any{
			"queueingStrategy": "BestEffortFIFO", "stopPolicy": "None", "fairSharing.weight": int64(1),
			"flavorFungibility.whenCanBorrow": "MayStopSearch", "flavorFungibility.whenCanPreempt": "TryNextFlavor",
			"preemption.withinClusterQueue": "Never", "preemption.reclaimWithinCohort": "Never",
			"preemption.borrowWithinCohort.policy": "Never",
		} {
			have, _, err := unstructured.NestedFieldNoCopy(stored.Object, append([]string{"spec"}, strings.Split(path, ".")...)...)
			if err != nil || have != want {
				t.Errorf("spec.%s is %v (%v), want %v", path, have, err, want)
			}
		}
	})
	t.Run("workloads can be listed by their ClusterQueue", func(t *testing.T) {
		var stored []*unstructured.Unstructured
		for _, queue := range []string{"a", "b"} {
			workload := manifest(t, `{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: of-`+queue+`, namespace: default},
				spec: {podSets: [{template: {spec: {containers: [{name: c}]}}}]},
				status: {admission: {clusterQueue: `+queue+`}}}`)
			if err := store(t.Context(), c, workload); err != nil {
				t.Fatal(err)
			}
			stored = append(stored, workload)
		}
		out, err := kubectl("get", "workloads.kueue.x-k8s.io", "-n", "default", "-o", "name", "--field-selector", "status.admission.clusterQueue=b")
		if err != nil || strings.TrimSpace(out) != "workload.kueue.x-k8s.io/of-b" {
			t.Errorf("%v, got %q", err, out)
		}
		for _, workload := range stored {
			remove(t, c, workload)
		}
	})
	t.Run("applying the chart again changes nothing", func(t *testing.T) {
		text, err := cluster.RenderChart(t.Context(), map[string]any{"webhook": map[string]any{"enabled": true, "failurePolicy": "Ignore"}}, "--kube-version", "v"+c.Minor+".0")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "chart.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			out, err := kubectl("apply", "-f", file)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if i == 0 {
				continue
			}
			for line := range strings.Lines(out) {
				if !strings.Contains(line, " unchanged") {
					t.Errorf("apply %d: %s", i+1, line)
				}
			}
		}
	})
	t.Run("kubectl get shows the columns", func(t *testing.T) {
		for kind, want := range map[string][]string{
			"clusterqueues":           {"COHORT", "PENDING WORKLOADS", "STRATEGY", "ADMITTED WORKLOADS"},
			"localqueues":             {"CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"},
			"workloads":               {"QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"},
			"workloadpriorityclasses": {"VALUE"},
			"multikueueclusters":      {"CONNECTED", "AGE"},
		} {
			object := map[string]string{
				"clusterqueues":           "{kind: ClusterQueue, metadata: {name: d}, spec: {}}",
				"localqueues":             "{kind: LocalQueue, metadata: {name: d, namespace: default}, spec: {clusterQueue: d}}",
				"workloads":               "{kind: Workload, metadata: {name: d, namespace: default}, spec: {podSets: [{template: {spec: {containers: [{name: c}]}}}]}}",
				"workloadpriorityclasses": "{kind: WorkloadPriorityClass, metadata: {name: d}, value: 1}",
				"multikueueclusters":      "{kind: MultiKueueCluster, metadata: {name: d}, spec: {clusterSource: {kubeConfig: {location: s}}}}",
			}[kind]
			stored := manifest(t, "{apiVersion: kueue.x-k8s.io/v1beta2, "+object[1:])
			if err := store(t.Context(), c, stored); err != nil {
				t.Fatal(err)
			}
			out, err := kubectl("get", kind+".kueue.x-k8s.io", "-n", "default", "-o", "wide")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			head, _, _ := strings.Cut(out, "\n")
			for _, column := range want {
				if !strings.Contains(head, column) {
					t.Errorf("kubectl get %s has no column %s: %s", kind, column, head)
				}
			}
			remove(t, c, stored)
		}
	})
}

// manifest parses one object.
func manifest(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objects, err := cluster.ParseManifests([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 1 {
		t.Fatalf("%d objects, not one: %s", len(objects), text)
	}
	return objects[0]
}
