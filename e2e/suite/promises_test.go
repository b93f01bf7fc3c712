// SPDX-License-Identifier: Apache-2.0

// Who holds or has been promised GPUs, by pods: every pod that exists, hasn't ended and isn't being deleted,
// bound or not, was promised its GPUs by whoever released its Job.

package suite

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tutti.dev/e2e/cluster"
)

// promises watches pods and Jobs.
type promises struct {
	mutex sync.Mutex
	pods  map[types.UID]promise
	gone  map[types.UID]time.Time // Jobs that have been deleted
	worst promised                // the moment of the largest sum
	most  promised                // the same without pods of deleted Jobs
}

type promise struct {
	job   types.UID
	name  string // namespace/name of the Job
	gpus  int64
	bound bool
}

type promised struct {
	gpus int64
	at   time.Time
	by   string // what those that aren't bound, and those whose Job is gone, belong to
}

func (p promised) String() string {
	return fmt.Sprintf("%d at %s%s", p.gpus, p.at.Format("15:04:05.000"), p.by)
}

func watchPromises(t *testing.T, c *cluster.Cluster) *promises {
	t.Helper()
	w := &promises{pods: map[types.UID]promise{}, gone: map[types.UID]time.Time{}}
	follow(t, c, podsFeed(w.onPod), jobsFeed(w.onJob))
	return w
}

func (w *promises) onJob(object any, gone bool) {
	if j, isJob := object.(*batchv1.Job); isJob && gone {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.gone[j.UID] = time.Now()
	}
}

func (w *promises) onPod(object any, gone bool) {
	pod, isPod := object.(*corev1.Pod)
	if !isPod {
		return
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if gone || ended || pod.DeletionTimestamp != nil {
		delete(w.pods, pod.UID)
		return
	}
	w.pods[pod.UID] = promise{
		job: owner.UID, name: pod.Namespace + "/" + owner.Name, gpus: gpusOf(pod), bound: pod.Spec.NodeName != "",
	}
	all, kept := int64(0), int64(0)
	for _, p := range w.pods {
		all += p.gpus
		if w.gone[p.job].IsZero() {
			kept += p.gpus
		}
	}
	now := time.Now()
	if all > w.worst.gpus {
		w.worst = promised{all, now, w.describe()}
	}
	if kept > w.most.gpus {
		w.most = promised{kept, now, w.describe()}
	}
}

func (w *promises) describe() string {
	sums := map[string]int64{}
	for _, p := range w.pods {
		at := w.gone[p.job]
		switch {
		case !at.IsZero():
			sums[fmt.Sprintf("%s (deleted %v ago, bound: %t)", p.name, time.Since(at).Round(time.Millisecond), p.bound)] += p.gpus
		case !p.bound:
			sums[p.name+" (waits)"] += p.gpus
		}
	}
	parts := make([]string, 0, len(sums))
	for name, gpus := range sums {
		parts = append(parts, fmt.Sprintf("%s %d", name, gpus))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return ""
	}
	return ", of them: " + strings.Join(parts, ", ")
}
