// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"tutti.dev/e2e/cluster"
)

// feed is what a watcher follows.
type feed struct {
	informer func(informers.SharedInformerFactory) cache.SharedIndexInformer
	update   func(object any, gone bool) // one at a time per kind
}

func podsFeed(update func(object any, gone bool)) feed {
	return feed{func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().Pods().Informer()
	}, update}
}

func jobsFeed(update func(object any, gone bool)) feed {
	return feed{func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Batch().V1().Jobs().Informer()
	}, update}
}

func claimsFeed(update func(object any, gone bool)) feed {
	return feed{func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Resource().V1().ResourceClaims().Informer()
	}, update}
}

// follow tells each feed what its objects are and become, until the end of the test; it returns when the
// first lists are in.
func follow(t *testing.T, c *cluster.Cluster, feeds ...feed) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(c.Kube, 0)
	var synced []cache.InformerSynced
	for _, f := range feeds {
		informer := f.informer(factory)
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { f.update(object, false) },
			UpdateFunc: func(_, object any) { f.update(object, false) },
			DeleteFunc: func(object any) {
				if tombstone, isTombstone := object.(cache.DeletedFinalStateUnknown); isTombstone {
					object = tombstone.Obj
				}
				f.update(object, true)
			},
		}); err != nil {
			t.Fatal(err)
		}
		synced = append(synced, informer.HasSynced)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(t.Context().Done(), synced...) {
		t.Fatal("no first lists")
	}
}
