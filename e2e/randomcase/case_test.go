// SPDX-License-Identifier: Apache-2.0

package randomcase

import (
	"encoding/json"
	"testing"
)

func text(t *testing.T, c *Case) string {
	t.Helper()
	data, err := json.Marshal(c.Items())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestASeedIsOneCase(t *testing.T) {
	for seed := range uint64(50) {
		o := Options{PodRules: seed%2 == 0, Devices: seed%3 == 0, Volumes: seed%5 == 0}
		if first, second := text(t, Generate(seed, o)), text(t, Generate(seed, o)); first != second {
			t.Fatalf("seed %d gave two cases:\n%s\n%s", seed, first, second)
		}
	}
}

func TestCasesUseEveryFeature(t *testing.T) {
	have := map[string]int{}
	nodes := map[int]bool{}
	for seed := range uint64(500) {
		c := Generate(seed, Options{PodRules: true})
		for _, feature := range c.Features {
			have[feature]++
		}
		nodes[len(c.Nodes)] = true
		if len(c.Nodes) < 2 || len(c.Nodes) > 60 || c.Count() < 1 {
			t.Fatalf("%s", c)
		}
	}
	for _, feature := range []string{
		"taints", "tolerations", "cordon", "host ports", "host network", "node selector", "required node affinity",
		"preferred node affinity", "terminating pods", "ended pods", "init containers", "sidecars", "limits only", "mixed",
		"pod anti-affinity", "pod affinity", "topology spread", "anti-affinity of others",
	} {
		if have[feature] < 10 {
			t.Errorf("%d of 500 cases use %s", have[feature], feature)
		}
	}
	if !nodes[2] || len(nodes) < 30 {
		t.Errorf("only %d sizes of cluster, 2 nodes: %t", len(nodes), nodes[2])
	}
}

func TestCasesWithDevicesUseEveryFeature(t *testing.T) {
	have := map[string]int{}
	for seed := range uint64(1000) {
		c := Generate(seed, Options{Devices: true})
		for _, feature := range c.Features {
			have[feature]++
		}
		claims := 0
		for _, s := range c.PodSets {
			claims += len(s.Template.Spec.ResourceClaims)
		}
		if claims == 0 || len(c.Nodes) > 16 {
			t.Fatalf("%s", c)
		}
		pools := map[string]string{} // driver by pool
		for _, s := range c.Devices.Slices {
			if driver, have := pools[s.Spec.Pool.Name]; have && driver != s.Spec.Driver {
				t.Fatalf("seed %d: pool %s is one of %s and of %s", seed, s.Spec.Pool.Name, driver, s.Spec.Driver)
			}
			pools[s.Spec.Pool.Name] = s.Spec.Driver
		}
	}
	for _, feature := range []string{
		"two drivers", "two pools", "pools of several slices", "nodes per device", "devices of several nodes",
		"incomplete pools", "invalid pools", "old slices", "device taints", "device tolerations", "partitions",
		"shared devices", "asked capacity", "allocated claims", "admin access", "admin access of others",
		"all devices", "first available", "selectors", "selectors with errors", "several requests", "two claims",
		"match attribute", "distinct attribute", "shared claim to allocate", "shared claim, allocated", "mixed",
	} {
		if have[feature] < 10 {
			t.Errorf("%d of 1000 cases use %s", have[feature], feature)
		}
	}
}

// One claim for each pod and template, as the resourceclaim controller makes them.
func TestPodsGetClaimsOfTheirOwn(t *testing.T) {
	for seed := range uint64(100) {
		c := Generate(seed, Options{Devices: true})
		pods := c.GangPods("g", nil, Unsteered)
		made := map[string]bool{}
		for _, claim := range c.ClaimsOf(pods) {
			if made[claim.Name] || len(claim.Spec.Devices.Requests) == 0 {
				t.Fatalf("seed %d: claim %s is there twice, or empty", seed, claim.Name)
			}
			made[claim.Name] = true
		}
		named := 0
		for _, pod := range pods {
			for _, status := range pod.Status.ResourceClaimStatuses {
				if !made[*status.ResourceClaimName] {
					t.Fatalf("seed %d: pod %s has claim %s, which nobody made", seed, pod.Name, *status.ResourceClaimName)
				}
				named++
			}
		}
		if named != len(made) {
			t.Fatalf("seed %d: %d claims for %d uses", seed, len(made), named)
		}
	}
}

func TestSteeringChangesOnlyAffinity(t *testing.T) {
	c := Generate(3, Options{})
	var plan []Slot
	for _, s := range c.PodSets {
		plan = append(plan, Slot{PodSet: s.Name, Node: c.Nodes[0].Name, Count: int(s.Count)})
	}
	plain := c.GangPods("g", plan, Unsteered)
	for _, steering := range []Steering{Preferred, Pinned} {
		for i, pod := range c.GangPods("g", plan, steering) {
			want := plain[i].DeepCopy()
			if equalJSON(t, want, pod) {
				t.Errorf("pod %s isn't steered", pod.Name)
			}
			want.Spec.Affinity, pod.Spec.Affinity = nil, nil
			if !equalJSON(t, want, pod) {
				t.Errorf("pod %s differs in more than its affinity", pod.Name)
			}
		}
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	left, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	right, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(left) == string(right)
}
