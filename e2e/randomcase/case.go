// SPDX-License-Identifier: Apache-2.0

// Package randomcase makes small random clusters with a gang to place, and asks `tutti fit` about them.
// A case is a function of its seed: the same seed gives the same objects, byte for byte.
package randomcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace of the gang.
const Namespace = "team"

// PodSet is a part of the gang: equal pods.
type PodSet struct {
	Name     string
	Count    int32
	Template corev1.PodTemplateSpec
}

// Case is a cluster with a gang to place. All pods are bound: nothing else is in flight.
type Case struct {
	Seed     uint64
	Nodes    []*corev1.Node
	Pods     []*corev1.Pod
	PodSets  []PodSet
	Devices  Devices
	Volumes  Volumes
	Features []string // what the gang or the cluster uses, sorted
}

// Mixed says whether the gang's pods differ.
func (c *Case) Mixed() bool { return len(c.PodSets) > 1 }

// Count of the gang's pods.
func (c *Case) Count() int {
	n := 0
	for _, s := range c.PodSets {
		n += int(s.Count)
	}
	return n
}

func (c *Case) String() string {
	var sets []string
	for _, s := range c.PodSets {
		requests := []string{}
		for name, quantity := range s.Template.Spec.Containers[0].Resources.Requests {
			requests = append(requests, fmt.Sprintf("%s=%s", name, quantity.String()))
		}
		slices.Sort(requests)
		for _, claim := range s.Template.Spec.ResourceClaims {
			requests = append(requests, c.Devices.describe(claim))
		}
		sets = append(sets, fmt.Sprintf("%d x {%s}", s.Count, strings.Join(requests, " ")))
	}
	if len(c.Devices.Slices) > 0 {
		sets = append(sets, fmt.Sprintf("(%d slices, %d claims)", len(c.Devices.Slices), len(c.Devices.Claims)))
	}
	return fmt.Sprintf("seed %d: %d nodes, %d pods on them, gang of %s, uses %s",
		c.Seed, len(c.Nodes), len(c.Pods), strings.Join(sets, " + "), strings.Join(c.Features, ", "))
}

// Uses says whether the case has a feature.
func (c *Case) Uses(feature string) bool { return slices.Contains(c.Features, feature) }

// Items are the objects of the case for `tutti fit`: a Job for equal pods, else a Workload.
func (c *Case) Items() []any {
	items := make([]any, 0, len(c.Nodes)+len(c.Pods)+1)
	for _, node := range c.Nodes {
		items = append(items, node)
	}
	for _, pod := range c.Pods {
		items = append(items, pod)
	}
	items = append(items, c.Devices.items()...)
	items = append(items, c.Volumes.items()...)
	return append(items, c.gang())
}

func (c *Case) gang() any {
	if !c.Mixed() {
		return c.Job("gang")
	}
	var sets []any
	for _, s := range c.PodSets {
		sets = append(sets, map[string]any{"name": s.Name, "count": s.Count, "template": s.Template})
	}
	return map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
		"metadata": map[string]any{"name": "gang", "namespace": Namespace},
		"spec":     map[string]any{"podSets": sets},
	}
}

// Job of the case's first podset.
func (c *Case) Job(name string) *batchv1.Job {
	count := c.PodSets[0].Count
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace},
		Spec: batchv1.JobSpec{
			Parallelism: &count, Completions: &count, Template: *c.PodSets[0].Template.DeepCopy(),
		},
	}
}

// Slot of a plan: so many pods of a podset on a node.
type Slot struct {
	PodSet string `json:"podSet"`
	Node   string `json:"node"`
	Count  int    `json:"count"`
}

// Steering says what the plan does to the pods.
type Steering int

// What a plan does to the pods.
const (
	Unsteered Steering = iota
	Preferred          // as the controller steers: preferred node affinity to all nodes of the podset's plan
	Pinned             // each pod to its planned node
)

// GangPods are the gang's pods as the Job controller would make them, in group `group` ("" = none), not
// defaulted, steered by the plan.
func (c *Case) GangPods(group string, plan []Slot, steering Steering) []*corev1.Pod {
	var out []*corev1.Pod
	for _, s := range c.PodSets {
		var nodes, each []string
		for _, slot := range plan {
			if slot.PodSet == s.Name {
				nodes = append(nodes, slot.Node)
				for range slot.Count {
					each = append(each, slot.Node)
				}
			}
		}
		for i := range int(s.Count) {
			name := fmt.Sprintf("gang-%s-%03d", s.Name, i)
			pod := &corev1.Pod{
				ObjectMeta: *s.Template.ObjectMeta.DeepCopy(),
				Spec:       *s.Template.Spec.DeepCopy(),
			}
			pod.Name, pod.Namespace, pod.UID = name, Namespace, types.UID(name)
			if group != "" {
				pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
			}
			switch {
			case steering == Preferred && len(nodes) > 0:
				prefer(&pod.Spec, nodes)
			case steering == Pinned && i < len(each):
				pin(&pod.Spec, each[i])
			}
			out = append(out, pod)
		}
	}
	// The scheduler takes unlike pods in one of the orders that it may take, a random one of the seed: by
	// itself it takes pods of equal priority in the order of a Go map.
	if c.Mixed() {
		Order(out, rand.New(rand.NewPCG(c.Seed, 20262)).Perm(len(out)))
	}
	return out
}

// Order makes the scheduler take the pods in this order of their indexes. Nobody is preempted for them.
func Order(pods []*corev1.Pod, order []int) {
	never := corev1.PreemptNever
	for place, i := range order {
		priority := -int32(place) - 1
		pods[i].Spec.Priority, pods[i].Spec.PreemptionPolicy = &priority, &never
	}
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	return spec.Affinity.NodeAffinity
}

// prefer adds what Tutti's start patch adds with `steering: Preferred`.
func prefer(spec *corev1.PodSpec, nodes []string) {
	affinity := nodeAffinity(spec)
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
		affinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes,
			}}},
		})
}

func pin(spec *corev1.PodSpec, node string) {
	affinity := nodeAffinity(spec)
	field := corev1.NodeSelectorRequirement{
		Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
	}
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{}},
		}
	}
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchFields = append(terms[i].MatchFields, field)
	}
}
