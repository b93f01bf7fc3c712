// SPDX-License-Identifier: Apache-2.0

package randomcase

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drivers. Pools of two drivers never have one name: kube-scheduler 1.36 mixes up their counters then.
const (
	gpuDriver    = "gpu.example.com"
	nicDriver    = "nic.example.com"
	fabricDriver = "fabric.example.com" // devices that several nodes see
)

// Devices of a case: what resource.k8s.io/v1 has.
type Devices struct {
	Slices    []*resourcev1.ResourceSlice
	Classes   []*resourcev1.DeviceClass
	Templates []*resourcev1.ResourceClaimTemplate
	Claims    []*resourcev1.ResourceClaim // allocated ones of others, and those that the gang shares by name
}

// TakesOneByOne says whether the gang's pods can take places from each other in more ways than by using a
// node up: they share a claim that is not allocated or bound yet, or see devices that other nodes see too.
// Which node the first pod takes then decides about the others.
func (c *Case) TakesOneByOne() bool {
	return c.Uses("shared claim to allocate") || c.Uses("devices of several nodes") || c.Uses("shared claim to bind")
}

func (d *Devices) items() []any {
	var items []any
	for _, o := range d.Slices {
		items = append(items, o)
	}
	for _, o := range d.Classes {
		items = append(items, o)
	}
	for _, o := range d.Templates {
		items = append(items, o)
	}
	for _, o := range d.Claims {
		items = append(items, o)
	}
	return items
}

// describe says in short what a pod's claim asks for.
func (d *Devices) describe(entry corev1.PodResourceClaim) string {
	var spec resourcev1.ResourceClaimSpec
	what := "template"
	if entry.ResourceClaimName != nil {
		what = "shared"
		for _, claim := range d.Claims {
			if claim.Namespace == Namespace && claim.Name == *entry.ResourceClaimName {
				spec = claim.Spec
				if claim.Status.Allocation != nil {
					what = "shared and allocated"
				}
			}
		}
	} else {
		for _, template := range d.Templates {
			if template.Name == *entry.ResourceClaimTemplateName {
				spec = template.Spec.Spec
			}
		}
	}
	data, err := json.Marshal(spec.Devices)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("claim %s (%s): %s", entry.Name, what, data)
}

func devicesType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: kind}
}

func pointer[T any](value T) *T { return &value }

// kind of a node's devices: what a machine type carries.
type kind struct {
	style   string // whole, parts, shares
	devices []resourcev1.Device
	sets    []resourcev1.CounterSet
}

func (g *generator) devices() {
	for _, class := range []struct{ name, expression string }{
		{"gpu", `device.driver == "gpu.example.com"`},
		{"nic", `device.driver == "nic.example.com"`},
		{"fabric", `device.driver == "fabric.example.com"`},
		{"big", `device.driver == "gpu.example.com" && device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`},
		{"local", `device.driver != "fabric.example.com"`},
	} {
		g.c.Devices.Classes = append(g.c.Devices.Classes, &resourcev1.DeviceClass{
			TypeMeta: devicesType("DeviceClass"), ObjectMeta: metav1.ObjectMeta{Name: class.name, UID: uid("class-" + class.name)},
			Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
				CEL: &resourcev1.CELDeviceSelector{Expression: class.expression},
			}}},
		})
	}
	var gpus, nics []kind
	style := pick(g, "whole", "whole", "parts", "shares")
	for range 1 + g.IntN(2) {
		gpus = append(gpus, g.gpus(style))
		nics = append(nics, g.nics())
	}
	withNics := g.chance(45)
	if withNics {
		g.use("two drivers")
	}
	for _, node := range g.c.Nodes {
		if g.chance(5) {
			continue // a node without devices
		}
		g.pool(gpuDriver, node.Name, "", pick(g, gpus...))
		if g.chance(10) {
			g.pool(gpuDriver, node.Name, "-more", pick(g, gpus...))
			g.use("two pools")
		}
		if withNics && g.chance(85) {
			g.pool(nicDriver, node.Name, "-nics", pick(g, nics...))
		}
	}
	if g.chance(12) {
		g.fabric()
	}
	g.allocations()
}

func attribute(value any) resourcev1.DeviceAttribute {
	switch v := value.(type) {
	case string:
		return resourcev1.DeviceAttribute{StringValue: &v}
	case int:
		return resourcev1.DeviceAttribute{IntValue: pointer(int64(v))}
	case bool:
		return resourcev1.DeviceAttribute{BoolValue: &v}
	}
	panic(fmt.Sprintf("attribute of type %T", value))
}

func capacityOf(name, value string) map[resourcev1.QualifiedName]resourcev1.DeviceCapacity {
	return map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
		resourcev1.QualifiedName(name): {Value: resource.MustParse(value)},
	}
}

func (g *generator) gpus(style string) kind {
	k := kind{style: style}
	count := pick(g, 0, 1, 2, 4, 8, 8, 8, 8, 16)
	if style == "parts" {
		count = min(count, 3) // each of seven devices
	}
	model, memory := pick(g, "a100", "h100"), pick(g, "40Gi", "80Gi")
	unlike := g.chance(15) // devices of one node differ
	for i := range count {
		if unlike {
			model, memory = pick(g, "a100", "h100"), pick(g, "40Gi", "80Gi")
		}
		device := resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"model": attribute(model), "index": attribute(i), "nvlink": attribute(g.chance(70)),
				"driverVersion": {VersionValue: pointer(pick(g, "1.0.0", "1.2.3", "2.0.0-rc.1"))},
			},
			Capacity: capacityOf("memory", memory),
		}
		if !g.chance(8) {
			device.Attributes["numa"] = attribute(i * 2 / max(count, 1))
		}
		if g.chance(20) { // with the domain of its driver written out, it is the same
			device.Attributes["gpu.example.com/model"] = device.Attributes["model"]
			delete(device.Attributes, "model")
		}
		if g.chance(6) {
			device.Taints = []resourcev1.DeviceTaint{{
				Key: "broken", Value: pick(g, "yes", ""),
				Effect: pick(g, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone),
			}}
			g.use("device taints")
		}
		if g.chance(1) {
			delete(device.Attributes, "nvlink")
			g.use("selectors with errors")
		}
		switch style {
		case "parts":
			g.partition(&k, device, i)
			continue
		case "shares":
			g.share(&device)
		}
		k.devices = append(k.devices, device)
	}
	return k
}

// partition adds a GPU as one device, two halves or four quarters, with the counters of one set.
func (g *generator) partition(k *kind, whole resourcev1.Device, i int) {
	g.use("partitions")
	set := fmt.Sprintf("set-%d", i)
	quantityOf := func(format string, args ...any) resourcev1.Counter {
		return resourcev1.Counter{Value: quantity(format, args...)}
	}
	k.sets = append(k.sets, resourcev1.CounterSet{Name: set, Counters: map[string]resourcev1.Counter{
		"memory": quantityOf("80Gi"), "slices": quantityOf("7"),
	}})
	part := func(name string, memory, slices int) {
		device := *whole.DeepCopy()
		device.Name = name
		device.Capacity = capacityOf("memory", fmt.Sprintf("%dGi", memory))
		device.Attributes["profile"] = attribute(fmt.Sprintf("%dg", slices))
		device.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourcev1.Counter{
			"memory": quantityOf("%dGi", memory), "slices": quantityOf("%d", slices),
		}}}
		k.devices = append(k.devices, device)
	}
	parts := []func(){
		func() { part(whole.Name, 80, 7) },
		func() { part(whole.Name+"-half-0", 40, 3); part(whole.Name+"-half-1", 40, pick(g, 3, 4)) },
		func() {
			for j := range 4 {
				part(fmt.Sprintf("%s-quarter-%d", whole.Name, j), 20, pick(g, 1, 2))
			}
		},
	}
	g.Shuffle(len(parts), func(a, b int) { parts[a], parts[b] = parts[b], parts[a] })
	for _, add := range parts {
		add()
	}
}

// share makes a device one that several claims can use.
func (g *generator) share(device *resourcev1.Device) {
	g.use("shared devices")
	if g.chance(10) {
		return
	}
	device.AllowMultipleAllocations = pointer(true)
	memory := device.Capacity["memory"]
	switch g.IntN(4) {
	case 0: // all of it, or what is asked for
	case 1:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: pointer(quantity("10Gi")), ValidRange: &resourcev1.CapacityRequestPolicyRange{
			Min: pointer(quantity("5Gi")), Step: pointer(quantity("5Gi")), Max: pointer(quantity("40Gi")),
		}}
	case 2:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: pointer(quantity("20Gi")), ValidValues: []resource.Quantity{
			quantity("10Gi"), quantity("20Gi"), quantity("40Gi"),
		}}
	default:
		memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: pointer(quantity("8Gi"))}
	}
	device.Capacity["memory"] = memory
	if g.chance(30) {
		device.Capacity["bandwidth"] = resourcev1.DeviceCapacity{
			Value: quantity("100"), RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: pointer(quantity("%d", pick(g, 1, 30)))},
		}
	}
}

func (g *generator) nics() kind {
	k := kind{style: "whole"}
	count := pick(g, 1, 2, 4, 8)
	for i := range count {
		k.devices = append(k.devices, resourcev1.Device{
			Name: fmt.Sprintf("nic-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"gpu.example.com/numa": attribute(i * 2 / count), "rdma": attribute(g.chance(80)),
			},
		})
	}
	return k
}

// pool of a driver on a node, as its driver publishes it: one slice or several.
func (g *generator) pool(driver, node, suffix string, k kind) {
	pool := node + suffix
	generation := int64(1 + g.IntN(3))
	slice := func(name string) *resourcev1.ResourceSlice {
		name = fmt.Sprintf("%s-%s", pool, name)
		s := &resourcev1.ResourceSlice{
			TypeMeta: devicesType("ResourceSlice"), ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid("slice-" + name)},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, Pool: resourcev1.ResourcePool{Name: pool, Generation: generation}, NodeName: &node,
			},
		}
		g.c.Devices.Slices = append(g.c.Devices.Slices, s)
		return s
	}
	first := len(g.c.Devices.Slices)
	if len(k.sets) > 0 {
		slice("counters").Spec.SharedCounters = k.sets
	}
	devices := slices.Clone(k.devices)
	switch {
	case len(devices) > 1 && g.chance(20):
		half := 1 + g.IntN(len(devices)-1)
		slice("b").Spec.Devices = devices[:half]
		slice("a").Spec.Devices = devices[half:]
		g.use("pools of several slices")
	case len(devices) > 0 && g.chance(5):
		s := slice("each")
		s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, pointer(true)
		for i := range devices {
			devices[i].NodeName = &node
		}
		s.Spec.Devices = devices
		g.use("nodes per device")
	default:
		slice("a").Spec.Devices = devices
	}
	added := g.c.Devices.Slices[first:]
	for _, s := range added {
		s.Spec.Pool.ResourceSliceCount = int64(len(added))
	}
	switch g.IntN(60) {
	case 0: // one is still to come
		for _, s := range added {
			s.Spec.Pool.ResourceSliceCount++
		}
		g.use("incomplete pools")
	case 1: // one of before is still there
		old := slice("old")
		old.Spec.Pool.Generation = 0
		old.Spec.Pool.ResourceSliceCount = 1
		old.Spec.Devices = slices.Clone(k.devices)
		g.use("old slices")
	case 2:
		if s := added[len(added)-1]; len(s.Spec.Devices) > 0 {
			s.Spec.Devices = append(slices.Clone(s.Spec.Devices), s.Spec.Devices[0])
			g.use("invalid pools")
		}
	}
}

// fabric is a pool that several nodes see.
func (g *generator) fabric() {
	g.use("devices of several nodes")
	s := &resourcev1.ResourceSlice{
		TypeMeta: devicesType("ResourceSlice"), ObjectMeta: metav1.ObjectMeta{Name: "fabric", UID: "slice-fabric"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: fabricDriver, Pool: resourcev1.ResourcePool{Name: "fabric", Generation: 1, ResourceSliceCount: 1},
		},
	}
	zone := func(name string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		}}}}}
	}
	each := false
	switch g.IntN(3) {
	case 0:
		s.Spec.AllNodes = pointer(true)
	case 1:
		s.Spec.NodeSelector = zone(pick(g, "a", "b"))
	default:
		s.Spec.PerDeviceNodeSelection = pointer(true)
		each = true
	}
	for i := range 1 + g.IntN(12) {
		device := resourcev1.Device{Name: fmt.Sprintf("port-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"index": attribute(i)}}
		if each {
			if g.chance(20) {
				device.AllNodes = pointer(true)
			} else {
				device.NodeSelector = zone(pick(g, "a", "b", "c"))
			}
		}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	g.c.Devices.Slices = append(g.c.Devices.Slices, s)
}

// allocations of others: each claim holds a device or two of one pool.
func (g *generator) allocations() {
	percent := pick(g, 0, 0, 8, 20, 50)
	overcommit := g.chance(5) // counters that are used beyond what is there
	used := map[string]int64{}
	for _, s := range g.c.Devices.Slices {
		var claim *resourcev1.ResourceClaim
		for _, device := range s.Spec.Devices {
			if !g.chance(percent) {
				continue
			}
			if !overcommit && !g.consume(s.Spec.Pool.Name, device, used) {
				continue
			}
			result := resourcev1.DeviceRequestAllocationResult{
				Request: "main", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: device.Name,
			}
			if device.AllowMultipleAllocations != nil {
				result.ShareID = pointer(uid(fmt.Sprintf("share-%04d", len(g.c.Devices.Claims))))
				result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{}
				for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
					result.ConsumedCapacity[name] = pick(g, quantity("10Gi"), quantity("20Gi"), quantity("7Gi"))
					if name == "bandwidth" {
						result.ConsumedCapacity[name] = quantity("%d", pick(g, 1, 30, 60))
					}
				}
			}
			if g.chance(3) {
				result.AdminAccess = pointer(true)
				g.use("admin access of others")
			}
			if claim == nil || g.chance(60) {
				claim = g.claim("others", fmt.Sprintf("held-%04d", len(g.c.Devices.Claims)))
				claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "main", Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: "local", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				}}}
				claim.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: selectorOf(s)}
				claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: claim.Name, UID: uid("pod-" + claim.Name)}}
				g.use("allocated claims")
			}
			results := &claim.Status.Allocation.Devices.Results
			*results = append(*results, result)
			claim.Spec.Devices.Requests[0].Exactly.Count = int64(len(*results))
		}
	}
}

// consume counts what a device takes from its counters; false if that is too much.
func (g *generator) consume(pool string, device resourcev1.Device, used map[string]int64) bool {
	limits := map[string]int64{"memory": 80, "slices": 7}
	amount := func(name string, value resource.Quantity) int64 {
		if name == "memory" {
			return value.Value() >> 30
		}
		return value.Value()
	}
	for _, consumes := range device.ConsumesCounters {
		for name, counter := range consumes.Counters {
			if used[pool+consumes.CounterSet+name]+amount(name, counter.Value) > limits[name] {
				return false
			}
		}
		for name, counter := range consumes.Counters {
			used[pool+consumes.CounterSet+name] += amount(name, counter.Value)
		}
	}
	return true
}

// selectorOf is the node selector of what is allocated from a slice; nil: usable everywhere.
func selectorOf(s *resourcev1.ResourceSlice) *corev1.NodeSelector {
	node := ""
	switch {
	case s.Spec.NodeName != nil:
		node = *s.Spec.NodeName
	case s.Spec.PerDeviceNodeSelection != nil && s.Spec.Devices[0].NodeName != nil:
		node = *s.Spec.Devices[0].NodeName
	default:
		return s.Spec.NodeSelector
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
		Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
	}}}}}
}

// claim adds one to the case.
func (g *generator) claim(namespace, name string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{
		TypeMeta:   devicesType("ResourceClaim"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: uid("claim-" + name)},
	}
	g.c.Devices.Claims = append(g.c.Devices.Claims, claim)
	return claim
}

// claims of a podset: one or two from templates, now and then one that the gang shares by name. Own
// claims come first: kube-scheduler 1.36 exchanges the results otherwise (docs/devices.md).
func (g *generator) claims(s *PodSet) {
	own := 1
	switch {
	case g.chance(20):
		own = 2
		g.use("two claims")
	case g.chance(8):
		own = 0
	}
	spec := &s.Template.Spec
	for i := range own {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		g.c.Devices.Templates = append(g.c.Devices.Templates, &resourcev1.ResourceClaimTemplate{
			TypeMeta:   devicesType("ResourceClaimTemplate"),
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, UID: uid("template-" + name)},
			Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: g.claimSpec()},
		})
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{
			Name: fmt.Sprintf("own-%d", i), ResourceClaimTemplateName: &name,
		})
	}
	if own == 0 || g.chance(8) {
		name := g.sharedClaim()
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{Name: "ours", ResourceClaimName: &name})
	}
}

// sharedClaim is the gang's one claim by name; all podsets that share use the same.
func (g *generator) sharedClaim() string {
	const name = "ours"
	for _, claim := range g.c.Devices.Claims {
		if claim.Namespace == Namespace {
			return name
		}
	}
	if devices := g.free(); len(devices) > 0 && g.chance(35) {
		taken := pick(g, devices...)
		claim := g.claim(Namespace, name)
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "main", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "local", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		}}}
		claim.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: selectorOf(taken.slice)}
		claim.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{
			Request: "main", Driver: taken.slice.Spec.Driver, Pool: taken.slice.Spec.Pool.Name, Device: taken.device,
		}}
		// Reserved, so that nobody takes it away to try elsewhere.
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "earlier", UID: "pod-earlier"}}
		g.use("shared claim, allocated")
		return name
	}
	spec := g.claimSpec()
	g.claim(Namespace, name).Spec = spec
	g.use("shared claim to allocate")
	return name
}

type freeDevice struct {
	slice  *resourcev1.ResourceSlice
	device string
}

// free devices that are whole: not held, not shared, without counters.
func (g *generator) free() []freeDevice {
	held := map[string]bool{}
	for _, claim := range g.c.Devices.Claims {
		if claim.Status.Allocation != nil {
			for _, result := range claim.Status.Allocation.Devices.Results {
				held[result.Pool+"/"+result.Device] = true
			}
		}
	}
	var out []freeDevice
	for _, s := range g.c.Devices.Slices {
		for _, device := range s.Spec.Devices {
			if !held[s.Spec.Pool.Name+"/"+device.Name] && device.AllowMultipleAllocations == nil &&
				len(device.ConsumesCounters) == 0 && s.Spec.Driver != fabricDriver && s.Spec.Pool.Generation > 0 {
				out = append(out, freeDevice{s, device.Name})
			}
		}
	}
	return out
}

func (g *generator) claimSpec() resourcev1.ResourceClaimSpec {
	var spec resourcev1.ResourceClaimSpec
	requests := 1
	if g.chance(25) {
		requests = 2 + g.IntN(2)
		g.use("several requests")
	}
	for i := range requests {
		spec.Devices.Requests = append(spec.Devices.Requests, g.request(fmt.Sprintf("r%d", i), i > 0))
	}
	if g.chance(18) {
		constraint := resourcev1.DeviceConstraint{MatchAttribute: pointer(resourcev1.FullyQualifiedName("gpu.example.com/numa"))}
		if g.chance(40) { // only GPUs have it
			*constraint.MatchAttribute = "gpu.example.com/model"
			for _, request := range spec.Devices.Requests {
				if request.Exactly != nil && (request.Exactly.DeviceClassName == "gpu" || request.Exactly.DeviceClassName == "big") {
					constraint.Requests = append(constraint.Requests, request.Name)
				}
			}
		}
		spec.Devices.Constraints = append(spec.Devices.Constraints, constraint)
		g.use("match attribute")
	}
	// For one device of each request: of more, kube-scheduler 1.36 compares only the last.
	if len(spec.Devices.Requests) > 1 && g.chance(50) {
		var single []string
		for _, request := range spec.Devices.Requests {
			if request.Exactly != nil && request.Exactly.AllocationMode == resourcev1.DeviceAllocationModeExactCount &&
				request.Exactly.Count == 1 && request.Exactly.DeviceClassName != "nic" {
				single = append(single, request.Name)
			}
		}
		if len(single) > 1 {
			spec.Devices.Constraints = append(spec.Devices.Constraints, resourcev1.DeviceConstraint{
				Requests:          single,
				DistinctAttribute: pointer(pick(g, resourcev1.FullyQualifiedName("gpu.example.com/model"), "gpu.example.com/numa", "gpu.example.com/index")),
			})
			g.use("distinct attribute")
		}
	}
	return spec
}

func (g *generator) className() string {
	switch {
	case g.features["devices of several nodes"]:
		return pick(g, "gpu", "gpu", "fabric", "fabric", "local")
	case g.features["two drivers"]:
		return pick(g, "gpu", "gpu", "gpu", "gpu", "nic", "nic", "nic", "local", "big")
	}
	return pick(g, "gpu", "gpu", "gpu", "gpu", "gpu", "gpu", "big", "local")
}

func (g *generator) request(name string, small bool) resourcev1.DeviceRequest {
	if g.chance(15) {
		g.use("first available")
		request := resourcev1.DeviceRequest{Name: name}
		for i := range 2 + g.IntN(2) {
			exact := g.exact(small)
			request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: fmt.Sprintf("s%d", i), DeviceClassName: exact.DeviceClassName, Selectors: exact.Selectors,
				AllocationMode: exact.AllocationMode, Count: exact.Count, Tolerations: exact.Tolerations, Capacity: exact.Capacity,
			})
		}
		return request
	}
	exact := g.exact(small)
	if g.chance(2) {
		exact.AdminAccess = pointer(true)
		g.use("admin access")
	}
	return resourcev1.DeviceRequest{Name: name, Exactly: &exact}
}

func (g *generator) exact(small bool) resourcev1.ExactDeviceRequest {
	out := resourcev1.ExactDeviceRequest{
		DeviceClassName: g.className(), AllocationMode: resourcev1.DeviceAllocationModeExactCount,
		Count: pick(g, int64(1), 1, 1, 1, 1, 1, 2, 2, 2, 4, 3, 8),
	}
	if small {
		out.Count = pick(g, int64(1), 1, 2)
	}
	if g.chance(8) {
		out.AllocationMode, out.Count = resourcev1.DeviceAllocationModeAll, 0
		g.use("all devices")
	}
	if (out.DeviceClassName == "gpu" || out.DeviceClassName == "big") && g.chance(30) {
		for range pick(g, 1, 1, 1, 2) {
			out.Selectors = append(out.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: pick(g,
				`device.attributes["gpu.example.com"].model == "a100"`,
				`device.attributes["gpu.example.com"].model != "h100"`,
				`device.attributes["gpu.example.com"].index < 4`,
				`device.attributes["gpu.example.com"].index % 2 == 0`,
				`device.attributes["gpu.example.com"].nvlink`,
				`device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.1.0"))`,
				`device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("39Gi"))`,
				`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) <= 0`,
				`"numa" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].numa == 0`,
				`device.attributes["gpu.example.com"].?profile.orValue("7g") in ["7g", "3g"]`,
			)}})
		}
		g.use("selectors")
	}
	if g.chance(15) {
		out.Tolerations = []resourcev1.DeviceToleration{{
			Key: "broken", Operator: resourcev1.DeviceTolerationOpExists,
			Effect: pick(g, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, ""),
		}}
		if g.chance(30) {
			out.Tolerations[0].Operator, out.Tolerations[0].Value = resourcev1.DeviceTolerationOpEqual, "yes"
		}
		g.use("device tolerations")
	}
	if g.features["shared devices"] && out.DeviceClassName != "nic" && out.DeviceClassName != "fabric" && g.chance(60) {
		out.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			"memory": pick(g, quantity("4Gi"), quantity("10Gi"), quantity("12Gi"), quantity("25Gi"), quantity("41Gi")),
		}}
		g.use("asked capacity")
	} else if g.chance(3) {
		out.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			pick(g, resourcev1.QualifiedName("memory"), "bandwidth"): quantity("60Gi"),
		}}
	}
	return out
}

// ClaimsOf are the claims that the resourceclaim controller makes for the pods: one for each pod and
// template. It names them in the pods' status.
func (c *Case) ClaimsOf(pods []*corev1.Pod) []*resourcev1.ResourceClaim {
	var out []*resourcev1.ResourceClaim
	for _, pod := range pods {
		pod.Status.ResourceClaimStatuses = nil
		for _, entry := range pod.Spec.ResourceClaims {
			if entry.ResourceClaimTemplateName == nil {
				continue
			}
			name := pod.Name + "-" + entry.Name
			claim := &resourcev1.ResourceClaim{
				TypeMeta: devicesType("ResourceClaim"),
				ObjectMeta: metav1.ObjectMeta{
					Name: name, Namespace: pod.Namespace, UID: uid("claim-" + name),
					Annotations: map[string]string{"resource.kubernetes.io/pod-claim-name": entry.Name},
					OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: pointer(true), BlockOwnerDeletion: pointer(true),
					}},
				},
			}
			for _, template := range c.Devices.Templates {
				if template.Name == *entry.ResourceClaimTemplateName {
					claim.Spec = *template.Spec.Spec.DeepCopy()
				}
			}
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{
				Name: entry.Name, ResourceClaimName: &name,
			})
			out = append(out, claim)
		}
	}
	return out
}
