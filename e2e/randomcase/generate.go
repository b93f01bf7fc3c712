// SPDX-License-Identifier: Apache-2.0

package randomcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	gpuResource = corev1.ResourceName("example.com/gpu")
	nicResource = corev1.ResourceName("example.com/nic")
	zoneLabel   = "topology.kubernetes.io/zone"
	poolLabel   = "example.com/pool"
	sizeLabel   = "example.com/size" // a number
	appLabel    = "app"
)

// Options of the generator.
type Options struct {
	MaxNodes int  // default 60
	PodRules bool // rules between pods as well: affinity, spreading; some gangs have none and meet those of others
	Devices  bool // pods ask for devices by claim; the nodes are fewer, and other requests mostly small
	Volumes  bool // pods have volumes; the same
}

type generator struct {
	*rand.Rand
	c        *Case
	options  Options
	features map[string]bool
}

// Generate makes the case of a seed.
func Generate(seed uint64, o Options) *Case {
	if o.MaxNodes == 0 {
		o.MaxNodes = 60
		if o.Devices || o.Volumes {
			o.MaxNodes = 16
		}
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 20261)), c: &Case{Seed: seed}, options: o, features: map[string]bool{}}
	g.nodes()
	g.pods()
	if o.Devices {
		g.devices()
	}
	if o.Volumes {
		g.volumes()
	}
	g.gang()
	for feature := range g.features {
		g.c.Features = append(g.c.Features, feature)
	}
	slices.Sort(g.c.Features)
	return g.c
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) use(feature string) { g.features[feature] = true }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func quantity(format string, args ...any) resource.Quantity {
	return resource.MustParse(fmt.Sprintf(format, args...))
}

func (g *generator) nodes() {
	// Mostly small clusters: there the edges are.
	most := pick(g, 6, 20, g.options.MaxNodes)
	count := 2 + g.IntN(max(min(most, g.options.MaxNodes)-1, 1))
	// A few machine types, as real clusters have.
	var machines []corev1.ResourceList
	for range 1 + g.IntN(3) {
		machines = append(machines, g.machine())
	}
	for i := range count {
		name := fmt.Sprintf("node-%03d", i)
		allocatable := pick(g, machines...).DeepCopy()
		if g.chance(15) {
			allocatable = g.machine()
		}
		node := &corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid(name), Labels: map[string]string{
				corev1.LabelHostname: name,
				zoneLabel:            pick(g, "a", "b", "c"),
			}},
			Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable.DeepCopy()},
		}
		if g.chance(70) {
			node.Labels[poolLabel] = pick(g, "batch", "web")
		}
		if g.chance(50) {
			node.Labels[sizeLabel] = pick(g, "1", "2", "8", "10", "007", "large", "")
		}
		if g.chance(12) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
				Key: "dedicated", Value: pick(g, "batch", "web", ""),
				Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
			})
			g.use("taints")
		}
		if g.chance(8) {
			node.Spec.Unschedulable = true
			g.use("cordon")
			if g.chance(50) { // as the node controller does a moment later
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
					Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule,
				})
			}
		}
		g.c.Nodes = append(g.c.Nodes, node)
	}
}

func uid(name string) types.UID { return types.UID("uid-" + name) }

func (g *generator) machine() corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:    quantity("%dm", pick(g, 2000, 4000, 7910, 16000, 63770)),
		corev1.ResourceMemory: quantity("%dMi", pick(g, 4096, 15000, 32768, 128000)),
		corev1.ResourcePods:   quantity("%d", pick(g, 4, 8, 30, 110, 110)),
	}
	if g.chance(60) {
		out[gpuResource] = quantity("%d", pick(g, 1, 2, 4, 8, 8))
	}
	if g.chance(25) {
		out[nicResource] = quantity("%d", 1+g.IntN(4))
	}
	if g.chance(40) {
		out[corev1.ResourceEphemeralStorage] = quantity("%dGi", pick(g, 10, 100))
	}
	if g.chance(20) {
		out["hugepages-2Mi"] = quantity("%dMi", pick(g, 64, 512))
	}
	return out
}

// pods on the nodes: running ones of others, some terminating, some ended.
func (g *generator) pods() {
	per := pick(g, 0, 1, 3, 6)
	for _, node := range g.c.Nodes {
		if per == 0 {
			continue
		}
		for range g.IntN(per + 1) {
			name := fmt.Sprintf("other-%04d", len(g.c.Pods))
			pod := &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "others", UID: uid(name), Labels: map[string]string{appLabel: pick(g, "web", "db")}},
				Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "main", Image: "example.org/other:1"}}},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning},
			}
			g.requests(&pod.Spec, node.Status.Allocatable, 3)
			g.moreContainers(&pod.Spec)
			if g.chance(10) {
				g.hostPort(&pod.Spec)
			}
			if g.options.PodRules && g.chance(10) {
				nodeAffinity(&pod.Spec)
				pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: "gang"}},
					Namespaces:    []string{Namespace}, TopologyKey: pick(g, corev1.LabelHostname, zoneLabel),
				}}}
				g.use("anti-affinity of others")
			}
			switch g.IntN(12) {
			case 0:
				now := metav1.NewTime(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC))
				pod.DeletionTimestamp = &now
				g.use("terminating pods")
			case 1:
				pod.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
				g.use("ended pods")
			case 2:
				pod.Status.Phase = corev1.PodPending
			}
			g.c.Pods = append(g.c.Pods, pod)
		}
	}
}

// requests of the first container: parts of what a node has.
func (g *generator) requests(spec *corev1.PodSpec, of corev1.ResourceList, divisor int) {
	requests := corev1.ResourceList{}
	cpu, memory := of.Cpu().MilliValue(), of.Memory().Value()>>20
	if g.chance(85) {
		requests[corev1.ResourceCPU] = quantity("%dm", max(cpu/int64(divisor+g.IntN(5))-int64(g.IntN(3)*100), 10))
	}
	if g.chance(60) {
		requests[corev1.ResourceMemory] = quantity("%dMi", max(memory/int64(divisor+g.IntN(6)), 1))
	}
	for _, name := range []corev1.ResourceName{gpuResource, nicResource} {
		if have, ok := of[name]; ok && g.chance(60) {
			requests[name] = quantity("%d", 1+g.IntN(max(int(have.Value())/divisor, 1)))
		}
	}
	if _, ok := of[corev1.ResourceEphemeralStorage]; ok && g.chance(20) {
		requests[corev1.ResourceEphemeralStorage] = quantity("%dGi", 1+g.IntN(4))
	}
	if _, ok := of["hugepages-2Mi"]; ok && g.chance(30) {
		requests["hugepages-2Mi"] = quantity("%dMi", 2*(1+g.IntN(32)))
		if _, ok := requests[corev1.ResourceCPU]; !ok { // the API asks for cpu or memory beside them
			requests[corev1.ResourceCPU] = quantity("10m")
		}
	}
	spec.Containers[0].Resources.Requests = requests
	// What can't be overcommitted needs an equal limit.
	for name, value := range requests {
		if name == gpuResource || name == nicResource || name == "hugepages-2Mi" {
			if spec.Containers[0].Resources.Limits == nil {
				spec.Containers[0].Resources.Limits = corev1.ResourceList{}
			}
			spec.Containers[0].Resources.Limits[name] = value
		}
	}
}

// moreContainers adds init containers, sidecars and a second container now and then.
func (g *generator) moreContainers(spec *corev1.PodSpec) {
	small := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "example.org/small:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("%dm", 50*(1+g.IntN(20)))},
		}}
	}
	if g.chance(10) {
		spec.InitContainers = append(spec.InitContainers, small("init"))
		g.use("init containers")
	}
	if g.chance(10) {
		sidecar := small("sidecar")
		always := corev1.ContainerRestartPolicyAlways
		sidecar.RestartPolicy = &always
		spec.InitContainers = append(spec.InitContainers, sidecar)
		g.use("sidecars")
	}
	if g.chance(10) {
		spec.Containers = append(spec.Containers, small("second"))
	}
}

func (g *generator) hostPort(spec *corev1.PodSpec) {
	spec.Containers[0].Ports = append(spec.Containers[0].Ports, corev1.ContainerPort{
		ContainerPort: 80, HostPort: pick(g, int32(8080), 9090), Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP),
		HostIP: pick(g, "", "", "0.0.0.0", "10.0.0.1", "10.0.0.2"),
	})
	g.use("host ports")
}

func (g *generator) gang() {
	sets := 1
	if g.chance(30) {
		sets = 2 + g.IntN(2)
		g.use("mixed")
	}
	machine := pick(g, g.c.Nodes...).Status.Allocatable
	for i := range sets {
		s := PodSet{Name: fmt.Sprintf("set%d", i), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appLabel: "gang"}},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "main", Image: "example.org/work:1"}},
			},
		}}
		if i == 0 {
			s.Name = "main"
		}
		spec := &s.Template.Spec
		if (g.options.Devices || g.options.Volumes) && g.chance(80) {
			spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity("10m")}
		} else {
			g.requests(spec, machine, pick(g, 1, 2, 4))
			g.moreContainers(spec)
			g.limitsOnly(spec)
			g.placementRules(spec)
		}
		if g.options.Devices {
			g.claims(&s)
		}
		if g.options.Volumes && !g.chance(5) {
			g.podVolumes(&s)
		}
		if g.options.PodRules && !g.chance(15) {
			g.podRules(&s)
		}
		room := g.count(spec)
		if g.options.Devices || g.options.Volumes {
			room = min(room, int32(1+g.IntN(2*len(g.c.Nodes))))
		}
		s.Count = max(room/int32(sets), 1)
		g.c.PodSets = append(g.c.PodSets, s)
	}
}

// limitsOnly leaves requests to the API server's defaulting now and then.
func (g *generator) limitsOnly(spec *corev1.PodSpec) {
	if !g.chance(10) {
		return
	}
	resources := &spec.Containers[0].Resources
	if resources.Limits == nil {
		resources.Limits = corev1.ResourceList{}
	}
	for name, value := range resources.Requests {
		resources.Limits[name] = value
	}
	resources.Requests = nil
	g.use("limits only")
}

func (g *generator) placementRules(spec *corev1.PodSpec) {
	if g.chance(20) {
		spec.NodeSelector = map[string]string{}
		if g.chance(60) {
			spec.NodeSelector[poolLabel] = pick(g, "batch", "web")
		} else {
			spec.NodeSelector[zoneLabel] = pick(g, "a", "b", "c")
		}
		g.use("node selector")
	}
	if g.chance(20) {
		affinity := nodeAffinity(spec)
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		for range 1 + g.IntN(2) {
			term := corev1.NodeSelectorTerm{}
			for range 1 + g.IntN(2) {
				term.MatchExpressions = append(term.MatchExpressions, g.requirement())
			}
			if g.chance(15) {
				term.MatchFields = []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
					Values: []string{pick(g, g.c.Nodes...).Name},
				}}
			}
			required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
		}
		g.use("required node affinity")
	}
	if g.chance(15) {
		affinity := nodeAffinity(spec)
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{
			Weight:     int32(1 + g.IntN(100)),
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{g.requirement()}},
		}}
		g.use("preferred node affinity")
	}
	if g.chance(30) {
		toleration := corev1.Toleration{
			Key: "dedicated", Operator: pick(g, corev1.TolerationOpEqual, corev1.TolerationOpExists, ""),
			Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, ""),
		}
		if toleration.Operator != corev1.TolerationOpExists {
			toleration.Value = pick(g, "batch", "web")
		}
		if g.chance(20) {
			toleration = corev1.Toleration{Operator: corev1.TolerationOpExists}
		}
		spec.Tolerations = append(spec.Tolerations, toleration)
		g.use("tolerations")
	}
	if g.chance(8) {
		g.hostPort(spec)
	}
	if g.chance(4) {
		spec.HostNetwork = true
		for i := range spec.Containers[0].Ports { // the API asks for both to be equal
			spec.Containers[0].Ports[i].ContainerPort = spec.Containers[0].Ports[i].HostPort
		}
		spec.Containers[0].Ports = append(spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 7070})
		g.use("host network")
	}
}

func (g *generator) requirement() corev1.NodeSelectorRequirement {
	key := pick(g, zoneLabel, poolLabel, sizeLabel)
	operator := pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
		corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
	requirement := corev1.NodeSelectorRequirement{Key: key, Operator: operator}
	switch operator {
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		requirement.Key = sizeLabel
		requirement.Values = []string{pick(g, "0", "2", "9")}
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		switch key {
		case zoneLabel:
			requirement.Values = pick(g, []string{"a"}, []string{"a", "b"}, []string{"d"})
		case poolLabel:
			requirement.Values = pick(g, []string{"batch"}, []string{"batch", "web"})
		default:
			requirement.Values = pick(g, []string{"1"}, []string{"2", "8", ""})
		}
	}
	return requirement
}

// podRules adds a rule between pods.
func (g *generator) podRules(s *PodSet) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: pick(g, "gang", "gang", "web")}}
	topology := pick(g, corev1.LabelHostname, zoneLabel)
	term := corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: topology}
	if selector.MatchLabels[appLabel] == "web" {
		term.Namespaces = []string{"others"}
	}
	spec := &s.Template.Spec
	switch g.IntN(3) {
	case 0:
		nodeAffinity(spec)
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
		g.use("pod anti-affinity")
	case 1:
		nodeAffinity(spec)
		spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
		g.use("pod affinity")
	default:
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: int32(1 + g.IntN(2)), TopologyKey: topology, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: "gang"}},
		}}
		g.use("topology spread")
	}
}

// count is near what a rough estimate of the free room holds, so that both answers are frequent.
func (g *generator) count(spec *corev1.PodSpec) int32 {
	room := 0
	for _, node := range g.c.Nodes {
		fits := 110
		for _, container := range spec.Containers {
			for _, list := range []corev1.ResourceList{container.Resources.Requests, container.Resources.Limits} {
				for name, want := range list {
					have := node.Status.Allocatable[name]
					if w := want.MilliValue(); w > 0 {
						fits = min(fits, int(have.MilliValue()/w))
					}
				}
			}
		}
		room += min(fits, int(node.Status.Allocatable.Pods().Value()))
	}
	return int32(min(max(room*(5+g.IntN(80))/100, 1), 120))
}
