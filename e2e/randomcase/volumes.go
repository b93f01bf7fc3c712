// SPDX-License-Identifier: Apache-2.0

package randomcase

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	diskDriver = "disk.example.com"
	tierLabel  = "example.com/tier"

	// What the controller of volumes writes at a claim and the scheduler at one to be made.
	annBindCompleted = "pv.kubernetes.io/bind-completed"
	annSelectedNode  = "volume.kubernetes.io/selected-node"
)

// Volumes of a case: claims and what they may be bound to.
type Volumes struct {
	Claims      []*corev1.PersistentVolumeClaim // bound ones of others, and those that the gang names
	Volumes     []*corev1.PersistentVolume
	Classes     []*storagev1.StorageClass
	Nodes       []*storagev1.CSINode
	Drivers     []*storagev1.CSIDriver
	Capacities  []*storagev1.CSIStorageCapacity
	Attachments []*storagev1.VolumeAttachment
}

func (v *Volumes) items() []any {
	var items []any
	for _, o := range v.Claims {
		items = append(items, o)
	}
	for _, o := range v.Volumes {
		items = append(items, o)
	}
	for _, o := range v.Classes {
		items = append(items, o)
	}
	for _, o := range v.Nodes {
		items = append(items, o)
	}
	for _, o := range v.Drivers {
		items = append(items, o)
	}
	for _, o := range v.Capacities {
		items = append(items, o)
	}
	for _, o := range v.Attachments {
		items = append(items, o)
	}
	return items
}

// class of a claim that is made for a pod: the default one if it names none.
func (v *Volumes) class(spec corev1.PersistentVolumeClaimSpec) *string {
	if spec.StorageClassName != nil {
		return spec.StorageClassName
	}
	for _, class := range v.Classes {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return &class.Name
		}
	}
	return nil
}

// MadeFor are the claims that the controller of ephemeral volumes makes for these pods.
func (v *Volumes) MadeFor(pods []*corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for _, pod := range pods {
		for _, volume := range pod.Spec.Volumes {
			if volume.Ephemeral == nil {
				continue
			}
			claim := volumeClaim(pod.Namespace, pod.Name+"-"+volume.Name, *volume.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy())
			claim.Spec.StorageClassName = v.class(claim.Spec)
			controller := true
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &controller}}
			out = append(out, claim)
		}
	}
	return out
}

func volumeClaim(namespace, name string, spec corev1.PersistentVolumeClaimSpec) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: uid("pvc-" + namespace + "-" + name)},
		Spec:       spec, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

// Bind makes the claim and the volume each other's, as the controller of volumes does.
func Bind(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
	claim.Spec.VolumeName = volume.Name
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[annBindCompleted] = "yes"
	claim.Status.Phase = corev1.ClaimBound
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	volume.Status.Phase = corev1.VolumeBound
}

// SelectedNode is the node for which the claim's volume is to be made, or "".
func SelectedNode(claim *corev1.PersistentVolumeClaim) string {
	return claim.Annotations[annSelectedNode]
}

// NodeVolume is a volume on one node, as one that was made for a claim there.
func NodeVolume(name, class, node string, size resource.Quantity) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid("pv-" + name)},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: size},
			AccessModes:  []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			NodeAffinity: only(corev1.LabelHostname, node),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/volumes/" + name},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func only(key string, values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
	}}}}
}

func (g *generator) size() resource.Quantity { return quantity("%dGi", pick(g, 1, 5, 10, 20)) }

func (g *generator) volumes() {
	v := &g.c.Volumes
	late, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	for _, class := range []struct {
		name, provisioner string
		mode              *storagev1.VolumeBindingMode
	}{
		{"local", "kubernetes.io/no-provisioner", &late},
		{"zonal", "kubernetes.io/no-provisioner", &late},
		{"disk", diskDriver, &late},
		{"mixed", "other.example.com", &late},
		{"now", diskDriver, &now},
	} {
		o := &storagev1.StorageClass{
			TypeMeta:    metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
			ObjectMeta:  metav1.ObjectMeta{Name: class.name, UID: uid("class-" + class.name)},
			Provisioner: class.provisioner, VolumeBindingMode: class.mode,
		}
		if (class.name == "disk" || class.name == "mixed") && g.chance(40) {
			o.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{
				Key: zoneLabel, Values: pick(g, []string{"a"}, []string{"a", "b"}, []string{"d"}),
			}}}}
			g.use("allowed topologies")
		}
		if class.name == "local" && g.chance(30) {
			o.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		v.Classes = append(v.Classes, o)
	}
	g.limits()
	g.capacities()
	for i, node := range g.c.Nodes {
		for j := range g.IntN(4) {
			volume := NodeVolume(fmt.Sprintf("local-%03d-%d", i, j), pick(g, "local", "local", "local", "mixed"), node.Name, g.size())
			g.vary(volume)
			v.Volumes = append(v.Volumes, volume)
		}
	}
	for i := range g.IntN(2 * len(g.c.Nodes)) {
		volume := NodeVolume(fmt.Sprintf("zonal-%03d", i), "zonal", "", g.size())
		volume.Spec.NodeAffinity = only(zoneLabel, pick(g, "a", "b", "c"))
		if g.chance(5) {
			volume.Spec.NodeAffinity = only(zoneLabel, "a", "b")
		}
		if g.chance(20) {
			volume.Spec.NodeAffinity = nil
		}
		g.vary(volume)
		v.Volumes = append(v.Volumes, volume)
	}
	for _, pod := range g.c.Pods {
		if g.chance(30) {
			g.held(pod)
		}
	}
}

// vary makes a volume one that not every claim can use.
func (g *generator) vary(volume *corev1.PersistentVolume) {
	if g.chance(30) {
		volume.Labels = map[string]string{tierLabel: pick(g, "1", "2")}
	}
	switch g.IntN(16) {
	case 0:
		volume.Spec.VolumeMode = pointer(corev1.PersistentVolumeBlock)
	case 1:
		volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	case 2:
		volume.Status.Phase = pick(g, corev1.VolumePending, corev1.VolumeReleased, corev1.VolumeFailed)
	case 3:
		now := metav1.NewTime(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC))
		volume.DeletionTimestamp, volume.Finalizers = &now, []string{"kubernetes.io/pv-protection"}
	case 4:
		claim := volumeClaim("others", "gone-"+volume.Name, corev1.PersistentVolumeClaimSpec{})
		Bind(claim, volume)
	}
}

// disk is a volume of the driver, bound to the claim.
func (g *generator) disk(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	volume := NodeVolume("disk-"+claim.Namespace+"-"+claim.Name, "disk", "", g.size())
	volume.Spec.NodeAffinity = nil
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
		Driver: diskDriver, VolumeHandle: "handle-" + volume.Name,
	}}
	Bind(claim, volume)
	g.c.Volumes.Volumes = append(g.c.Volumes.Volumes, volume)
	return volume
}

func (g *generator) limits() {
	for _, node := range g.c.Nodes {
		if !g.chance(60) {
			continue
		}
		o := &storagev1.CSINode{
			TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"},
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: uid("csinode-" + node.Name)},
		}
		driver := storagev1.CSINodeDriver{Name: diskDriver, NodeID: node.Name}
		if g.chance(70) {
			driver.Allocatable = &storagev1.VolumeNodeResources{Count: pointer(int32(1 + g.IntN(5)))}
			g.use("limits of attachment")
		}
		o.Spec.Drivers = []storagev1.CSINodeDriver{driver}
		g.c.Volumes.Nodes = append(g.c.Volumes.Nodes, o)
	}
}

func (g *generator) capacities() {
	v := &g.c.Volumes
	o := &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: diskDriver, UID: uid("driver")},
	}
	v.Drivers = append(v.Drivers, o)
	if !g.chance(30) {
		return
	}
	g.use("storage capacity")
	o.Spec.StorageCapacity = pointer(true)
	for i, zone := range []string{"a", "b", "c"} {
		if g.chance(20) {
			continue
		}
		capacity := &storagev1.CSIStorageCapacity{
			TypeMeta:         metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIStorageCapacity"},
			ObjectMeta:       metav1.ObjectMeta{Name: fmt.Sprintf("capacity-%d", i), Namespace: "others", UID: uid("capacity" + zone)},
			StorageClassName: "disk", NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{zoneLabel: zone}},
			Capacity: pointer(g.size()),
		}
		if g.chance(20) {
			capacity.MaximumVolumeSize = pointer(g.size())
		}
		v.Capacities = append(v.Capacities, capacity)
	}
}

// held gives a pod of others a disk, by a claim that it names or that was made for it.
func (g *generator) held(pod *corev1.Pod) {
	v := &g.c.Volumes
	name := fmt.Sprintf("held-%s", pod.Name)
	spec := g.claimOf("disk")
	if g.chance(50) {
		spec := *spec.DeepCopy()
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}},
		}})
		for _, claim := range v.MadeFor([]*corev1.Pod{pod}) {
			g.disk(claim)
			v.Claims = append(v.Claims, claim)
		}
		return
	}
	claim := volumeClaim(pod.Namespace, name, spec)
	volume := g.disk(claim)
	v.Claims = append(v.Claims, claim)
	pod.Spec.Volumes = append(pod.Spec.Volumes, named("held", name))
	node := pod.Spec.NodeName
	if g.chance(20) {
		node = pick(g, g.c.Nodes...).Name // attached there still, or already
	}
	if g.chance(60) {
		v.Attachments = append(v.Attachments, &storagev1.VolumeAttachment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"},
			ObjectMeta: metav1.ObjectMeta{Name: "attached-" + name, UID: uid("attached-" + name)},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: diskDriver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume.Name},
			},
		})
	}
}

func named(volume, claim string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

func (g *generator) claimOf(class string) corev1.PersistentVolumeClaimSpec {
	spec := corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: g.size()}},
	}
	switch g.IntN(12) {
	case 0:
		spec.VolumeMode = pointer(corev1.PersistentVolumeBlock)
	case 1:
		spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{tierLabel: pick(g, "1", "2")}}
	}
	return spec
}

// podVolumes gives a podset one or two volumes: of each pod, or shared by all.
func (g *generator) podVolumes(s *PodSet) {
	spec := &s.Template.Spec
	for i := range 1 + g.IntN(6)/4 {
		name := fmt.Sprintf("volume-%d", i)
		if g.chance(55) {
			claim := g.claimOf(pick(g, "local", "local", "zonal", "disk", "disk", "mixed"))
			switch {
			case g.chance(8):
				claim.StorageClassName = nil
			case g.chance(3):
				claim.StorageClassName = pointer(pick(g, "none", "now"))
			}
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim}},
			}})
			g.use("volumes of each pod")
			continue
		}
		claim := fmt.Sprintf("%s-%d", s.Name, i)
		if g.chance(20) {
			claim = "ours" // of all podsets
		}
		spec.Volumes = append(spec.Volumes, named(name, claim))
		g.namedClaim(claim)
	}
}

// namedClaim adds the gang's claim of this name: bound, to be bound, or of no use.
func (g *generator) namedClaim(name string) {
	v := &g.c.Volumes
	for _, claim := range v.Claims {
		if claim.Namespace == Namespace && claim.Name == name {
			return
		}
	}
	claim := volumeClaim(Namespace, name, g.claimOf(pick(g, "local", "zonal", "zonal", "disk", "disk", "mixed")))
	what := g.IntN(20)
	switch {
	case what == 0:
		g.use("claim missing")
		return
	case what == 1:
		claim.Spec.StorageClassName = pointer(pick(g, "now", "none"))
		g.use("claim that is bound at once")
	case what == 2:
		claim.Status.Phase = corev1.ClaimLost
	case what == 3:
		now := metav1.NewTime(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC))
		claim.DeletionTimestamp, claim.Finalizers = &now, []string{"kubernetes.io/pvc-protection"}
	case what == 4:
		claim.Spec.VolumeName = "of-another"
	case what < 8:
		g.disk(claim)
		g.use("shared claim, bound")
	case what < 13:
		volume := NodeVolume("bound-"+name, *claim.Spec.StorageClassName, pick(g, g.c.Nodes...).Name, g.size())
		if g.chance(60) {
			volume.Spec.NodeAffinity = only(zoneLabel, pick(g, []string{"a"}, []string{"a", "b"})...)
		}
		if g.chance(20) {
			volume.Spec.NodeAffinity = nil
			volume.Labels = map[string]string{zoneLabel: pick(g, "a", "a__b", "b")}
		}
		Bind(claim, volume)
		v.Volumes = append(v.Volumes, volume)
		g.use("shared claim, bound")
	case what == 13:
		claim.Annotations = map[string]string{annSelectedNode: pick(g, g.c.Nodes...).Name}
		g.use("shared claim to bind")
	case what == 14 && len(v.Volumes) > 0:
		// A volume that is kept for it.
		volume := pick(g, v.Volumes...)
		if volume.Spec.ClaimRef == nil {
			claim.Spec.StorageClassName = &volume.Spec.StorageClassName
			volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: Namespace, Name: name}
		}
		g.use("shared claim to bind")
	default:
		g.use("shared claim to bind")
	}
	if g.chance(12) {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		g.use("claim for one pod")
	}
	v.Claims = append(v.Claims, claim)
}
