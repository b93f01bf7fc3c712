// SPDX-License-Identifier: Apache-2.0

// Package differential plays random sequences of events to Kueue's own scheduler, in this process, and to
// `tutti simulate`, and compares after every step who holds quota, in which flavors, and who had to give way.
package differential

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

const namespace = "ns"

// Case is a set of queues and what happens to them.
type Case struct {
	Seed    uint64
	Options Options
	Flavors []kueue.ResourceFlavor
	Cohorts []kueue.Cohort
	Queues  []kueue.ClusterQueue // each has a LocalQueue of its name
	Steps   []Step
}

// Step is what happens at one moment. Both sides decide after it until nothing changes.
type Step struct {
	End    []string // workloads that end, or are deleted while they wait
	Arrive []kueue.Workload
}

func (c *Case) localQueues() []kueue.LocalQueue {
	queues := make([]kueue.LocalQueue, 0, len(c.Queues))
	for _, q := range c.Queues {
		queues = append(queues, kueue.LocalQueue{
			TypeMeta:   metav1.TypeMeta{APIVersion: kueue.SchemeGroupVersion.String(), Kind: "LocalQueue"},
			ObjectMeta: metav1.ObjectMeta{Name: q.Name, Namespace: namespace},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(q.Name)},
		})
	}
	return queues
}

// batchLine is the case as `tutti simulate --batch` reads it.
func (c *Case) batchLine() map[string]any {
	items := []any{}
	for i := range c.Flavors {
		items = append(items, &c.Flavors[i])
	}
	for i := range c.Cohorts {
		items = append(items, &c.Cohorts[i])
	}
	for i := range c.Queues {
		items = append(items, &c.Queues[i])
	}
	for _, q := range c.localQueues() {
		items = append(items, &q)
	}
	steps := []any{}
	for _, s := range c.Steps {
		end := []string{}
		for _, name := range s.End {
			end = append(end, namespace+"/"+name)
		}
		apply := []any{}
		for i := range s.Arrive {
			apply = append(apply, &s.Arrive[i])
		}
		steps = append(steps, map[string]any{"end": end, "apply": apply})
	}
	line := map[string]any{"items": items, "steps": steps}
	if c.Options.FairSharing {
		line["fairSharing"] = true
	}
	return line
}

// oneByOne is the case with a step for each thing that happens.
func (c *Case) oneByOne() *Case {
	apart := c.clone()
	apart.Steps = nil
	for _, s := range c.Steps {
		for _, name := range s.End {
			apart.Steps = append(apart.Steps, Step{End: []string{name}})
		}
		for _, w := range s.Arrive {
			// Older than whatever comes later, as it will be.
			w.CreationTimestamp = metav1.NewTime(stepTime(len(apart.Steps)))
			apart.Steps = append(apart.Steps, Step{Arrive: []kueue.Workload{w}})
		}
	}
	return apart
}

func (c *Case) clone() *Case {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	copied := &Case{}
	if err := json.Unmarshal(data, copied); err != nil {
		panic(err)
	}
	return copied
}

// String is the case in short, for a person who looks for the reason of a difference.
func (c *Case) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s\n", c.Seed, c.Options)
	for _, f := range c.Flavors {
		fmt.Fprintf(&b, "flavor %s", f.Name)
		if len(f.Spec.NodeLabels) > 0 {
			fmt.Fprintf(&b, " labels %v", f.Spec.NodeLabels)
		}
		for _, t := range f.Spec.NodeTaints {
			fmt.Fprintf(&b, " taint %s=%s:%s", t.Key, t.Value, t.Effect)
		}
		b.WriteByte('\n')
	}
	for _, co := range c.Cohorts {
		fmt.Fprintf(&b, "cohort %s", co.Name)
		if co.Spec.ParentName != "" {
			fmt.Fprintf(&b, " below %s", co.Spec.ParentName)
		}
		if co.Spec.FairSharing != nil {
			fmt.Fprintf(&b, " weight %s", co.Spec.FairSharing.Weight)
		}
		describeGroups(&b, co.Spec.ResourceGroups)
		b.WriteByte('\n')
	}
	for _, q := range c.Queues {
		fmt.Fprintf(&b, "queue %s %s", q.Name, q.Spec.QueueingStrategy)
		if q.Spec.CohortName != "" {
			fmt.Fprintf(&b, " in %s", q.Spec.CohortName)
		}
		if q.Spec.FairSharing != nil {
			fmt.Fprintf(&b, " weight %s", q.Spec.FairSharing.Weight)
		}
		if f := q.Spec.FlavorFungibility; f != nil {
			fmt.Fprintf(&b, " whenCanBorrow %s whenCanPreempt %s", f.WhenCanBorrow, f.WhenCanPreempt)
			if f.Preference != nil {
				fmt.Fprintf(&b, " %s", *f.Preference)
			}
		}
		if p := q.Spec.Preemption; p != nil {
			fmt.Fprintf(&b, " within %s reclaim %s", p.WithinClusterQueue, p.ReclaimWithinCohort)
			if w := p.BorrowWithinCohort; w != nil {
				fmt.Fprintf(&b, " borrowWithin %s", w.Policy)
				if w.MaxPriorityThreshold != nil {
					fmt.Fprintf(&b, "<=%d", *w.MaxPriorityThreshold)
				}
			}
		}
		describeGroups(&b, q.Spec.ResourceGroups)
		b.WriteByte('\n')
	}
	for i, s := range c.Steps {
		fmt.Fprintf(&b, "step %d", i)
		if len(s.End) > 0 {
			fmt.Fprintf(&b, " end %v", s.End)
		}
		b.WriteByte('\n')
		for _, w := range s.Arrive {
			fmt.Fprintf(&b, "  %s", describeWorkload(&w))
		}
	}
	return b.String()
}

func describeWorkload(w *kueue.Workload) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s priority %d:", w.Name, w.Spec.QueueName, *w.Spec.Priority)
	for _, p := range w.Spec.PodSets {
		fmt.Fprintf(&b, " %s %d", p.Name, p.Count)
		if p.MinCount != nil {
			fmt.Fprintf(&b, " (at least %d)", *p.MinCount)
		}
		b.WriteString(" x {")
		requests := p.Template.Spec.Containers[0].Resources.Requests
		for _, name := range sortedKeys(requests) {
			request := requests[name]
			fmt.Fprintf(&b, " %s %s", name, request.String())
		}
		b.WriteString(" }")
		if len(p.Template.Spec.NodeSelector) > 0 {
			fmt.Fprintf(&b, " selects %v", p.Template.Spec.NodeSelector)
		}
		if len(p.Template.Spec.Tolerations) > 0 {
			fmt.Fprintf(&b, " tolerates %s", p.Template.Spec.Tolerations[0].Key)
		}
		b.WriteByte(';')
	}
	b.WriteByte('\n')
	return b.String()
}

func describeGroups(b *strings.Builder, groups []kueue.ResourceGroup) {
	for _, g := range groups {
		fmt.Fprintf(b, "\n    %v:", g.CoveredResources)
		for _, f := range g.Flavors {
			fmt.Fprintf(b, " %s{", f.Name)
			for _, r := range f.Resources {
				fmt.Fprintf(b, " %s", r.NominalQuota.String())
				if r.BorrowingLimit != nil {
					fmt.Fprintf(b, " borrow<=%s", r.BorrowingLimit.String())
				}
				if r.LendingLimit != nil {
					fmt.Fprintf(b, " lend<=%s", r.LendingLimit.String())
				}
				b.WriteByte(',')
			}
			b.WriteString(" }")
		}
	}
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
