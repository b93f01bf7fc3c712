// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/resource"
	informersv1 "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"tutti.dev/e2e/randomcase"
)

// claimFactory is an informer factory whose informer of ResourceClaims doesn't watch: claims are handed
// to its handlers, which are those of the scheduler's own cache of claims, at once and in order.
type claimFactory struct {
	informers.SharedInformerFactory
	claims *claimInformer
}

func newClaimFactory(factory informers.SharedInformerFactory) *claimFactory {
	return &claimFactory{factory, &claimInformer{
		SharedIndexInformer: factory.Resource().V1().ResourceClaims().Informer(),
	}}
}

func (f *claimFactory) Resource() resource.Interface {
	return claimGroup{f.SharedInformerFactory.Resource(), f.claims}
}

type claimGroup struct {
	resource.Interface
	claims *claimInformer
}

func (g claimGroup) V1() informersv1.Interface { return claimVersion{g.Interface.V1(), g.claims} }

type claimVersion struct {
	informersv1.Interface
	claims *claimInformer
}

func (v claimVersion) ResourceClaims() informersv1.ResourceClaimInformer {
	return claimInformers{v.Interface.ResourceClaims(), v.claims}
}

type claimInformers struct {
	informersv1.ResourceClaimInformer
	claims *claimInformer
}

func (i claimInformers) Informer() cache.SharedIndexInformer { return i.claims }

type claimInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (i *claimInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandler(handler)
}

func (i *claimInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
}

func (i *claimInformer) add(claim *resourcev1.ResourceClaim) error {
	if err := i.GetIndexer().Add(claim); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnAdd(claim, true)
	}
	return nil
}

// addDevices puts everything of resource.k8s.io into the scheduler's caches, with the claims of the gang.
func (f *claimFactory) addDevices(devices *randomcase.Devices, claims []*resourcev1.ResourceClaim) error {
	v1 := f.Resource().V1()
	for _, slice := range devices.Slices {
		if err := v1.ResourceSlices().Informer().GetIndexer().Add(slice.DeepCopy()); err != nil {
			return err
		}
	}
	for _, class := range devices.Classes {
		if err := v1.DeviceClasses().Informer().GetIndexer().Add(class.DeepCopy()); err != nil {
			return err
		}
	}
	for _, list := range [][]*resourcev1.ResourceClaim{devices.Claims, claims} {
		for _, claim := range list {
			claim = claim.DeepCopy()
			claim.ResourceVersion = "1" // the scheduler's cache compares it
			if err := f.claims.add(claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// acceptClaims makes the client take every write of a claim, and tells of each allocation.
func acceptClaims(client *fake.Clientset, allocated func(*resourcev1.ResourceClaim)) {
	var version atomic.Int64
	version.Store(1)
	client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.UpdateAction).GetObject().(*resourcev1.ResourceClaim).DeepCopy()
		claim.ResourceVersion = strconv.FormatInt(version.Add(1), 10)
		if claim.Status.Allocation != nil {
			allocated(claim)
		}
		return true, claim, nil
	})
}

// astray are the pods that were bound to a node where a claim of theirs can't be used, by pod.
func astray(c *randomcase.Case, gang []*corev1.Pod, nodes map[string]string, allocated map[string]*resourcev1.ResourceClaim) (map[string]string, error) {
	labels := map[string]*corev1.Node{}
	for _, node := range c.Nodes {
		labels[node.Name] = node
	}
	out := map[string]string{}
	for _, pod := range gang {
		node, bound := nodes[pod.Name]
		if !bound {
			continue
		}
		for _, entry := range pod.Spec.ResourceClaims {
			name := pod.Name + "-" + entry.Name
			if entry.ResourceClaimName != nil {
				name = *entry.ResourceClaimName
			}
			claim := allocated[name]
			if claim == nil {
				return nil, fmt.Errorf("pod %s is bound and its claim %s has no allocation", pod.Name, name)
			}
			if claim.Status.Allocation.NodeSelector == nil {
				continue
			}
			selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
			if err != nil {
				return nil, err
			}
			if !selector.Match(labels[node]) {
				out[pod.Name] = fmt.Sprintf("on %s, claim %s", node, name)
			}
		}
	}
	return out, nil
}
