// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Options switch policies on in the generated cases.
type Options struct {
	PodSets          bool // several of a workload
	Preemption       bool
	FairSharing      bool
	PartialAdmission bool
}

func (o Options) String() string {
	var on []string
	if o.PodSets {
		on = append(on, "several pod sets")
	}
	if o.Preemption {
		on = append(on, "preemption")
	}
	if o.FairSharing {
		on = append(on, "fair sharing")
	}
	if o.PartialAdmission {
		on = append(on, "partial admission")
	}
	if len(on) == 0 {
		return "no options"
	}
	return strings.Join(on, ", ")
}

type generator struct {
	random   *rand.Rand
	policies *rand.Rand // of the options
	options  Options
	groups   []group
	cohorts  []string
	flavors  []string
}

// group of resources, with the flavors that queues may offer for it.
type group struct {
	resources []corev1.ResourceName
	flavors   []string
}

// generate is a pure function of the seed and the options.
func generate(seed uint64, options Options) *Case {
	g := &generator{
		random: rand.New(rand.NewPCG(seed, 1)), policies: rand.New(rand.NewPCG(seed, 2)), options: options,
	}
	c := &Case{Seed: seed, Options: options}
	g.makeFlavors(c)
	g.makeCohorts(c)
	for i := range 1 + g.random.IntN(5) {
		c.Queues = append(c.Queues, g.queue(fmt.Sprintf("q%d", i)))
	}
	g.makeSteps(c)
	return c
}

func (g *generator) chance(percent int) bool { return g.random.IntN(100) < percent }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kueue.SchemeGroupVersion.String(), Kind: kind}
}

func (g *generator) makeFlavors(c *Case) {
	resources := []corev1.ResourceName{corev1.ResourceCPU, "example.com/gpu", corev1.ResourceMemory}[:1+g.random.IntN(3)]
	if g.chance(10) {
		resources = append(resources, corev1.ResourcePods)
	}
	split := len(resources)
	if len(resources) > 1 && g.chance(35) {
		split = 1 + g.random.IntN(len(resources)-1)
	}
	add := func(resources []corev1.ResourceName, prefix string) {
		made := group{resources: resources}
		for i := range 1 + g.random.IntN(4) {
			name := fmt.Sprintf("%s%d", prefix, i)
			made.flavors = append(made.flavors, name)
			flavor := kueue.ResourceFlavor{TypeMeta: typeMeta("ResourceFlavor"), ObjectMeta: metav1.ObjectMeta{Name: name}}
			if g.chance(25) {
				flavor.Spec.NodeLabels = map[string]string{"zone": pick(g.random, "a", "b")}
			}
			if g.chance(10) {
				flavor.Spec.NodeTaints = []corev1.Taint{{Key: "spot", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
			}
			c.Flavors = append(c.Flavors, flavor)
		}
		g.groups = append(g.groups, made)
	}
	add(resources[:split], "f")
	if split < len(resources) {
		add(resources[split:], "g")
	}
}

func (g *generator) makeCohorts(c *Case) {
	for i := range g.random.IntN(5) {
		name := fmt.Sprintf("c%d", i)
		parent := ""
		if i > 0 && g.chance(65) {
			parent = fmt.Sprintf("c%d", g.random.IntN(i))
		}
		g.cohorts = append(g.cohorts, name)
		weighted := g.options.FairSharing && g.policies.IntN(100) < 30
		if parent == "" && g.chance(50) && !weighted {
			continue // a name is enough
		}
		cohort := kueue.Cohort{TypeMeta: typeMeta("Cohort"), ObjectMeta: metav1.ObjectMeta{Name: name}}
		cohort.Spec.ParentName = kueue.CohortReference(parent)
		if weighted {
			cohort.Spec.FairSharing = g.weight()
		}
		if g.chance(40) {
			cohort.Spec.ResourceGroups = g.quotas(6, parent != "")
		}
		c.Cohorts = append(c.Cohorts, cohort)
	}
}

func (g *generator) weight() *kueue.FairSharing {
	weight := resource.MustParse(pick(g.policies, "0", "500m", "1", "2", "3"))
	return &kueue.FairSharing{Weight: &weight}
}

// quotas of a queue or a cohort: limits only where there is somebody to borrow from or to lend to.
func (g *generator) quotas(most int, inCohort bool) []kueue.ResourceGroup {
	var groups []kueue.ResourceGroup
	for _, from := range g.groups {
		made := kueue.ResourceGroup{CoveredResources: from.resources}
		order := g.random.Perm(len(from.flavors))[:1+g.random.IntN(len(from.flavors))]
		for _, i := range order {
			flavor := kueue.FlavorQuotas{Name: kueue.ResourceFlavorReference(from.flavors[i])}
			for _, name := range from.resources {
				nominal := g.random.IntN(most + 1)
				quota := kueue.ResourceQuota{Name: name, NominalQuota: amount(nominal)}
				if inCohort && g.chance(25) {
					limit := amount(g.random.IntN(6))
					quota.BorrowingLimit = &limit
				}
				if inCohort && g.chance(25) {
					limit := amount(g.random.IntN(nominal + 1))
					quota.LendingLimit = &limit
				}
				flavor.Resources = append(flavor.Resources, quota)
			}
			made.Flavors = append(made.Flavors, flavor)
		}
		groups = append(groups, made)
	}
	return groups
}

func amount(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

func (g *generator) queue(name string) kueue.ClusterQueue {
	q := kueue.ClusterQueue{TypeMeta: typeMeta("ClusterQueue"), ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	q.Spec.NamespaceSelector = &metav1.LabelSelector{}
	q.Spec.QueueingStrategy = kueue.BestEffortFIFO
	if g.chance(30) {
		q.Spec.QueueingStrategy = kueue.StrictFIFO
	}
	if len(g.cohorts) > 0 && g.chance(85) {
		q.Spec.CohortName = kueue.CohortReference(pick(g.random, g.cohorts...))
	}
	inCohort := q.Spec.CohortName != ""
	q.Spec.ResourceGroups = g.quotas(8, inCohort)
	q.Spec.FlavorFungibility = &kueue.FlavorFungibility{
		WhenCanBorrow:  pick(g.random, kueue.MayStopSearch, kueue.TryNextFlavor),
		WhenCanPreempt: kueue.TryNextFlavor,
	}
	q.Spec.Preemption = &kueue.ClusterQueuePreemption{
		WithinClusterQueue: kueue.PreemptionPolicyNever, ReclaimWithinCohort: kueue.PreemptionPolicyNever,
		BorrowWithinCohort: &kueue.BorrowWithinCohort{Policy: kueue.BorrowWithinCohortPolicyNever},
	}
	if g.options.Preemption {
		g.addPreemption(&q)
	}
	if g.options.FairSharing && g.policies.IntN(100) < 40 {
		q.Spec.FairSharing = g.weight()
	}
	return q
}

func (g *generator) addPreemption(q *kueue.ClusterQueue) {
	r := g.policies
	f := q.Spec.FlavorFungibility
	f.WhenCanPreempt = pick(r, kueue.MayStopSearch, kueue.TryNextFlavor)
	if f.WhenCanBorrow == kueue.TryNextFlavor && f.WhenCanPreempt == kueue.TryNextFlavor {
		if preference := pick(r, "", kueue.BorrowingOverPreemption, kueue.PreemptionOverBorrowing); preference != "" {
			f.Preference = &preference
		}
	}
	p := q.Spec.Preemption
	p.WithinClusterQueue = pick(r, kueue.PreemptionPolicyNever, kueue.PreemptionPolicyLowerPriority, kueue.PreemptionPolicyLowerPriority, kueue.PreemptionPolicyLowerOrNewerEqualPriority)
	p.ReclaimWithinCohort = pick(r, kueue.PreemptionPolicyNever, kueue.PreemptionPolicyLowerPriority, kueue.PreemptionPolicyAny, kueue.PreemptionPolicyAny)
	if p.ReclaimWithinCohort != kueue.PreemptionPolicyNever && r.IntN(100) < 40 {
		p.BorrowWithinCohort.Policy = kueue.BorrowWithinCohortPolicyLowerPriority
		if r.IntN(2) == 0 {
			threshold := int32(r.IntN(4))
			p.BorrowWithinCohort.MaxPriorityThreshold = &threshold
		}
	}
}

func (g *generator) makeSteps(c *Case) {
	var known []string
	total := 0
	for step := range 3 + g.random.IntN(6) {
		var s Step
		if step > 0 {
			for range g.random.IntN(4) {
				if len(known) > 0 {
					i := g.random.IntN(len(known))
					s.End = append(s.End, known[i])
					known = append(known[:i], known[i+1:]...)
				}
			}
		}
		for range g.random.IntN(6) {
			name := fmt.Sprintf("w%02d", total)
			known = append(known, name)
			total++
			s.Arrive = append(s.Arrive, g.workload(name, pick(g.random, c.Queues...), stepTime(step).Add(time.Duration(len(s.Arrive)-100)*time.Second)))
		}
		c.Steps = append(c.Steps, s)
	}
}

func (g *generator) workload(name string, queue kueue.ClusterQueue, created time.Time) kueue.Workload {
	w := kueue.Workload{
		TypeMeta:   typeMeta("Workload"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created), Generation: 1},
	}
	priority := pick(g.random, int32(0), 0, 0, 1, 2, 3)
	if g.options.Preemption && g.policies.IntN(3) == 0 {
		priority += int32(created.Sub(epoch) / time.Hour) // who comes later is more important
	}
	w.Spec.Priority = &priority
	w.Spec.QueueName = kueue.LocalQueueName(queue.Name)
	pods := 1
	if g.chance(30) && g.options.PodSets {
		pods += 1 + g.random.IntN(2)
	}
	least := false // at most one of a workload
	for i := range pods {
		name := "main"
		if pods > 1 {
			name = fmt.Sprintf("p%d", i)
		}
		p := g.podSet(name)
		if least {
			p.MinCount = nil
		}
		least = least || p.MinCount != nil
		w.Spec.PodSets = append(w.Spec.PodSets, p)
	}
	return w
}

func (g *generator) podSet(name string) kueue.PodSet {
	p := kueue.PodSet{Name: kueue.PodSetReference(name), Count: int32(1 + g.random.IntN(3))}
	requests := corev1.ResourceList{}
	for _, from := range g.groups {
		for _, name := range from.resources {
			if name != corev1.ResourcePods && g.chance(75) {
				requests[name] = amount(pick(g.random, 0, 1, 1, 1, 2, 2, 3, 4))
			}
		}
	}
	spec := &p.Template.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests}}}
	if g.chance(10) {
		spec.NodeSelector = map[string]string{"zone": pick(g.random, "a", "b")}
	}
	if g.chance(40) {
		spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	}
	if g.options.PartialAdmission && p.Count > 1 && g.policies.IntN(100) < 50 {
		least := int32(1 + g.policies.IntN(int(p.Count-1)))
		p.MinCount = &least
	}
	return p
}
