// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"tutti.dev/e2e/randomcase"
)

// elsewhere is said of a claim that another pod of the gang has got a volume for, on other nodes. The
// scheduler had the pod placed all the same (docs/engine.md, section 4).
const elsewhere = "has a volume that other nodes reach"

// patientClient holds writes of volumes and claims back until the whole gang has been decided about: what
// comes into the scheduler's caches while it still decides makes it refuse pods that share a claim, now and
// then. It waits in front of the fake client, which answers one call at a time.
type patientClient struct {
	kubernetes.Interface
	decided <-chan struct{}
}

func (p patientClient) CoreV1() corev1client.CoreV1Interface {
	return patientCore{p.Interface.CoreV1(), p.decided}
}

type patientCore struct {
	corev1client.CoreV1Interface
	decided <-chan struct{}
}

func (p patientCore) PersistentVolumes() corev1client.PersistentVolumeInterface {
	return patientVolumes{p.CoreV1Interface.PersistentVolumes(), p.decided}
}

func (p patientCore) PersistentVolumeClaims(namespace string) corev1client.PersistentVolumeClaimInterface {
	return patientClaims{p.CoreV1Interface.PersistentVolumeClaims(namespace), p.decided}
}

type patientVolumes struct {
	corev1client.PersistentVolumeInterface
	decided <-chan struct{}
}

func (p patientVolumes) Update(ctx context.Context, volume *corev1.PersistentVolume, o metav1.UpdateOptions) (*corev1.PersistentVolume, error) {
	<-p.decided
	return p.PersistentVolumeInterface.Update(ctx, volume, o)
}

type patientClaims struct {
	corev1client.PersistentVolumeClaimInterface
	decided <-chan struct{}
}

func (p patientClaims) Update(ctx context.Context, claim *corev1.PersistentVolumeClaim, o metav1.UpdateOptions) (*corev1.PersistentVolumeClaim, error) {
	<-p.decided
	return p.PersistentVolumeClaimInterface.Update(ctx, claim, o)
}

// volumeController binds what the scheduler has decided: a write of a volume that is to be bound, or of a
// claim for which one is to be made, is answered, and the scheduler's caches show both bound.
type volumeController struct {
	lock    sync.Mutex
	version int
	claims  cache.Indexer
	volumes cache.Indexer
}

// addVolumes puts the volumes of the case into the scheduler's caches, with the claims of the gang's pods,
// and lets `client` bind them.
func addVolumes(c *randomcase.Case, gang []*corev1.Pod, factory informers.SharedInformerFactory, client *fake.Clientset) (*volumeController, error) {
	core, storage := factory.Core().V1(), factory.Storage().V1()
	v := &volumeController{
		version: 1, claims: core.PersistentVolumeClaims().Informer().GetIndexer(), volumes: core.PersistentVolumes().Informer().GetIndexer(),
	}
	var err error
	add := func(indexer cache.Indexer, o any) {
		if err == nil {
			err = indexer.Add(o)
		}
	}
	for _, list := range [][]*corev1.PersistentVolumeClaim{c.Volumes.Claims, c.Volumes.MadeFor(gang)} {
		for _, claim := range list {
			claim = claim.DeepCopy()
			claim.ResourceVersion = "1"
			add(v.claims, claim)
		}
	}
	for _, volume := range c.Volumes.Volumes {
		volume = volume.DeepCopy()
		volume.ResourceVersion = "1"
		add(v.volumes, volume)
	}
	for _, o := range c.Volumes.Classes {
		add(storage.StorageClasses().Informer().GetIndexer(), o.DeepCopy())
	}
	for _, o := range c.Volumes.Nodes {
		add(storage.CSINodes().Informer().GetIndexer(), o.DeepCopy())
	}
	for _, o := range c.Volumes.Drivers {
		add(storage.CSIDrivers().Informer().GetIndexer(), o.DeepCopy())
	}
	for _, o := range c.Volumes.Capacities {
		add(storage.CSIStorageCapacities().Informer().GetIndexer(), o.DeepCopy())
	}
	for _, o := range c.Volumes.Attachments {
		add(storage.VolumeAttachments().Informer().GetIndexer(), o.DeepCopy())
	}
	// What the scheduler looks up while it waits for a binding.
	for _, node := range c.Nodes {
		add(core.Nodes().Informer().GetIndexer(), node.DeepCopy())
	}
	for _, pod := range gang {
		add(core.Pods().Informer().GetIndexer(), pod.DeepCopy())
	}
	client.PrependReactor("update", "persistentvolumes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		volume, err := v.bind(action.(clienttesting.UpdateAction).GetObject().(*corev1.PersistentVolume))
		return true, volume, err
	})
	client.PrependReactor("update", "persistentvolumeclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim, err := v.make(action.(clienttesting.UpdateAction).GetObject().(*corev1.PersistentVolumeClaim))
		return true, claim, err
	})
	return v, err
}

func (v *volumeController) claim(namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	o, exists, err := v.claims.GetByKey(namespace + "/" + name)
	if err == nil && !exists {
		err = fmt.Errorf("claim %s/%s does not exist", namespace, name)
	}
	if err != nil {
		return nil, err
	}
	return o.(*corev1.PersistentVolumeClaim), nil
}

func (v *volumeController) store(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	v.version++
	claim.ResourceVersion = strconv.Itoa(v.version)
	volume.ResourceVersion = claim.ResourceVersion
	if err := v.claims.Update(claim); err != nil {
		return err
	}
	return v.volumes.Update(volume)
}

// bind a volume that the scheduler has chosen for a claim.
func (v *volumeController) bind(chosen *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	v.lock.Lock()
	defer v.lock.Unlock()
	o, exists, err := v.volumes.GetByKey(chosen.Name)
	if err != nil || !exists {
		return nil, fmt.Errorf("volume %s: exists: %t: %w", chosen.Name, exists, err)
	}
	volume := o.(*corev1.PersistentVolume).DeepCopy()
	if of := volume.Spec.ClaimRef; of != nil && of.UID != "" && of.UID != chosen.Spec.ClaimRef.UID {
		return nil, fmt.Errorf("volume %s has been bound to %s/%s", volume.Name, of.Namespace, of.Name)
	}
	claim, err := v.claim(chosen.Spec.ClaimRef.Namespace, chosen.Spec.ClaimRef.Name)
	if err != nil {
		return nil, err
	}
	claim = claim.DeepCopy()
	randomcase.Bind(claim, volume)
	return volume, v.store(claim, volume)
}

// make a volume for a claim on the node that the scheduler has selected.
func (v *volumeController) make(wanted *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	v.lock.Lock()
	defer v.lock.Unlock()
	known, err := v.claim(wanted.Namespace, wanted.Name)
	if err != nil {
		return nil, err
	}
	if known.Spec.VolumeName != "" {
		if randomcase.SelectedNode(known) != randomcase.SelectedNode(wanted) {
			return nil, fmt.Errorf("claim %s %s", wanted.Name, elsewhere)
		}
		return known, nil // another pod of the gang was first
	}
	claim := wanted.DeepCopy()
	volume := randomcase.NodeVolume("made-"+claim.Namespace+"-"+claim.Name, *claim.Spec.StorageClassName, randomcase.SelectedNode(claim),
		claim.Spec.Resources.Requests[corev1.ResourceStorage])
	randomcase.Bind(claim, volume)
	return claim, v.store(claim, volume)
}

// astray adds the pods that the scheduler put where a volume of theirs can't be used: the node doesn't reach
// it, or it is for one pod only and another has it.
func (v *volumeController) astray(c *randomcase.Case, gang []*corev1.Pod, o *Outcome) error {
	nodes, out := o.Nodes, o.Astray
	for pod, message := range o.Refused {
		if strings.Contains(message, elsewhere) {
			delete(o.Refused, pod)
			out[pod] = message
		}
	}
	byName := map[string]*corev1.Node{}
	for _, node := range c.Nodes {
		byName[node.Name] = node
	}
	users := map[string]string{}
	for _, pod := range gang {
		node, bound := nodes[pod.Name]
		if !bound {
			continue
		}
		for _, entry := range pod.Spec.Volumes {
			name := pod.Name + "-" + entry.Name
			if entry.PersistentVolumeClaim != nil {
				name = entry.PersistentVolumeClaim.ClaimName
			}
			claim, err := v.claim(pod.Namespace, name)
			if err != nil {
				return err
			}
			if claim.Spec.AccessModes[0] == corev1.ReadWriteOncePod {
				if other := users[name]; other != "" {
					out[pod.Name] = fmt.Sprintf("claim %s is used by %s", name, other)
				}
				users[name] = pod.Name
			}
			o, exists, err := v.volumes.GetByKey(claim.Spec.VolumeName)
			if err != nil || !exists {
				return fmt.Errorf("pod %s is bound, and its claim %s is not: %w", pod.Name, name, err)
			}
			affinity := o.(*corev1.PersistentVolume).Spec.NodeAffinity
			if affinity == nil {
				continue
			}
			selector, err := nodeaffinity.NewNodeSelector(affinity.Required)
			if err != nil {
				return err
			}
			if !selector.Match(byName[node]) {
				out[pod.Name] = fmt.Sprintf("on %s, volume %s", node, claim.Spec.VolumeName)
			}
		}
	}
	return nil
}
