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
		o := Options{PodRules: seed%2 == 0}
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
