// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

func newObserver(limits ...Limit) *Observer {
	now := time.Now()
	o := &Observer{
		start: now, last: now, changed: make(chan struct{}),
		jobs: map[types.UID]*jobState{}, pods: map[types.UID]*podState{},
		active: map[types.UID]*podState{}, holding: map[types.UID]*jobState{},
		orphans: map[types.UID]*corev1.Pod{}, nodes: map[string]int64{},
	}
	o.options.Device = gpu
	o.options.QueueOf = func(j *batchv1.Job) string { return j.Namespace + "/" + j.Labels[queueLabel] }
	for _, limit := range limits {
		o.limits = append(o.limits, newLimitState(limit))
	}
	return o
}

func makeJob(name string, pods int32, gpus string, suspended bool) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: types.UID(name), Labels: map[string]string{queueLabel: "q"},
	}}
	j.Spec.Parallelism, j.Spec.Completions, j.Spec.Suspend = &pods, &pods, &suspended
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{gpu: resource.MustParse(gpus)},
	}}}
	return j
}

func makePod(j *batchv1.Job, index int, group, node string, phase corev1.PodPhase) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%d", j.Name, index), Namespace: j.Namespace, UID: types.UID(fmt.Sprintf("%s-%d-%s", j.Name, index, group)),
		Labels:          map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: j.UID, Controller: &yes}},
	}}
	if group != "" {
		p.Labels[podGroupLabel] = group
	}
	p.Spec = *j.Spec.Template.Spec.DeepCopy()
	p.Spec.NodeName = node
	p.Status.Phase = phase
	return p
}

func TestAGangIsPartialUntilAllItsPodsAreBound(t *testing.T) {
	o := newObserver()
	j := makeJob("j", 3, "2", false)
	o.onJob(j, false)
	o.onPod(makePod(j, 0, "g1", "n1", corev1.PodRunning), false)
	o.onPod(makePod(j, 1, "g1", "n1", corev1.PodRunning), false)
	o.onPod(makePod(j, 2, "g1", "", corev1.PodPending), false)
	if d := o.devices(); d.Partial != 4 || d.Useful != 0 {
		t.Errorf("two of three bound: %+v", d)
	}
	if g := o.View().Job("ns", "j").Gangs[0]; !g.Partial() || g.Whole || g.Bindings != 2 {
		t.Errorf("two of three bound: %+v", g)
	}
	o.onPod(makePod(j, 2, "g1", "n2", corev1.PodRunning), false)
	if d := o.devices(); d.Partial != 0 || d.Useful != 6 {
		t.Errorf("all bound: %+v", d)
	}
	if wait, whole := o.View().Job("ns", "j").Wait(); !whole || wait <= 0 {
		t.Errorf("wait %v, whole %t", wait, whole)
	}
	// A member is lost: the rest does nothing useful.
	o.onPod(makePod(j, 1, "g1", "n1", corev1.PodFailed), false)
	if d := o.devices(); d.Useful != 0 || d.Degraded != 4 {
		t.Errorf("a member failed: %+v", d)
	}
	// A member that succeeded isn't missing.
	k := makeJob("k", 2, "1", false)
	o.onJob(k, false)
	for i, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning} {
		o.onPod(makePod(k, i, "g2", "n1", phase), false)
	}
	o.onPod(makePod(k, 0, "g2", "n1", corev1.PodSucceeded), false)
	if d := o.devices(); d.Useful != 1 {
		t.Errorf("one of two succeeded: %+v", d)
	}
}

func TestAGangThatGoesBeforeItIsWholeIsTakenBack(t *testing.T) {
	o := newObserver()
	j := makeJob("j", 2, "1", false)
	o.onJob(j, false)
	first := makePod(j, 0, "g1", "n1", corev1.PodRunning)
	o.onPod(first, false)
	held := makeJob("j", 2, "1", true)
	o.onJob(held, false)
	o.onPod(first, true)
	o.onJob(j, false)
	o.onPod(makePod(j, 0, "g2", "n1", corev1.PodRunning), false)
	o.onPod(makePod(j, 1, "g2", "n1", corev1.PodRunning), false)
	r := o.Report()
	if r.TakenBack != 1 || r.WholeGangs != 1 || r.PartialNow != 0 {
		t.Errorf("%+v", r)
	}
	job := o.View().Job("ns", "j")
	if len(job.Released) != 2 || len(job.Suspended) != 1 || len(job.Gangs) != 2 {
		t.Errorf("%+v", job)
	}
}

func TestPodsWithoutAGroupBelongToTheReleaseOfTheirJob(t *testing.T) {
	o := newObserver()
	j := makeJob("j", 1, "1", false)
	// The Pod watch may be ahead of the Job watch.
	pod := makePod(j, 0, "", "n1", corev1.PodRunning)
	o.onPod(pod, false)
	o.onJob(j, false)
	o.onPod(pod, true)
	o.onJob(makeJob("j", 1, "1", true), false)
	next := makePod(j, 1, "", "n1", corev1.PodRunning)
	o.onPod(next, false)
	o.onJob(j, false)
	job := o.View().Job("ns", "j")
	if len(job.Gangs) != 2 || job.Gangs[0].Name != "release 1" || job.Gangs[1].Name != "release 2" || !job.Gangs[1].Whole {
		t.Errorf("%+v", job.Gangs)
	}
}

func TestTheWorstMomentOverALimitIsKept(t *testing.T) {
	limit := Limit{Name: "q", Queues: []string{"ns/q"}, Max: corev1.ResourceList{gpu: resource.MustParse("4")}}
	o := newObserver(limit)
	a, b := makeJob("a", 2, "2", false), makeJob("b", 1, "1", true)
	o.onJob(a, false)
	o.onJob(b, false)
	if over := o.Report().OverLimit(); len(over) != 0 {
		t.Errorf("4 of 4 used, one held: %v", over)
	}
	o.onJob(makeJob("b", 1, "1", false), false)
	done := makeJob("a", 2, "2", false)
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	o.onJob(done, false)
	over := o.Report().OverLimit()
	if len(over) != 1 || over[0].Reading != "jobs" || over[0].Used.Value() != 5 {
		t.Errorf("5 of 4 used for a moment: %v", over)
	}
	for i := range 5 {
		o.onPod(makePod(b, i, "g", "n1", corev1.PodRunning), false)
	}
	if over := o.Report().OverLimit(); len(over) != 2 || over[1].Reading != "pods" || over[1].Used.Value() != 5 {
		t.Errorf("5 pods: %v", over)
	}
	o.SetLimits([]Limit{limit})
	for i := range 5 {
		o.onPod(makePod(b, i, "g", "n1", corev1.PodSucceeded), false)
	}
	over = o.Report().OverLimit()
	if len(over) != 1 || over[0].Reading != "pods" {
		t.Errorf("new limits start from what is used then: %v", over)
	}
}

func TestPodsThatHaveSucceededHoldNoQuotaBeforeTheyAreCounted(t *testing.T) {
	o := newObserver(Limit{Name: "q", Queues: []string{"ns/q"}, Max: corev1.ResourceList{gpu: resource.MustParse("4")}})
	a := makeJob("a", 2, "2", false)
	o.onJob(a, false)
	ending := makeJob("a", 2, "2", false)
	ending.Status.Succeeded = 1
	ending.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a-1"}}
	o.onJob(ending, false)
	o.onJob(makeJob("b", 2, "2", false), false)
	if over := o.Report().OverLimit(); len(over) != 0 {
		t.Errorf("a has no pod left: %v", over)
	}
	o.onJob(makeJob("c", 1, "1", false), false)
	over := o.Report().OverLimit()
	if len(over) != 1 || over[0].Used.Value() != 5 || len(over[0].Holders) != 3 {
		t.Errorf("want 5 of 4, with the three jobs that make it up: %v %v", over, over[0].Holders)
	}
}

func TestPodsThatWaitForANodeAreLeftOutOnRequest(t *testing.T) {
	most := corev1.ResourceList{gpu: resource.MustParse("0")}
	o := newObserver(
		Limit{Name: "all", Queues: []string{"ns/q"}, Max: most},
		Limit{Name: "bound", Queues: []string{"ns/q"}, Max: most, BoundOnly: true},
	)
	j := makeJob("a", 2, "1", false)
	o.onJob(j, false)
	o.onPod(makePod(j, 0, "g", "", corev1.PodPending), false)
	o.onPod(makePod(j, 1, "g", "n1", corev1.PodRunning), false)
	used := map[string]int64{}
	for _, worst := range o.Report().Worst {
		if worst.Reading == "pods" {
			used[worst.Limit] = worst.Used.Value()
		}
	}
	if used["all"] != 2 || used["bound"] != 1 {
		t.Errorf("used: %v, want 2 of all and 1 of bound", used)
	}
}

func TestLimitsOfAFlavorCountOnlyItsPods(t *testing.T) {
	o := newObserver(Limit{
		Name: "q on spot", Queues: []string{"ns/q"}, NodeSelector: map[string]string{"tier": "spot"},
		Max: corev1.ResourceList{gpu: resource.MustParse("1")},
	})
	o.onJob(makeJob("a", 4, "1", false), false)
	if over := o.Report().OverLimit(); len(over) != 0 {
		t.Errorf("%v", over)
	}
	spot := makeJob("b", 2, "1", false)
	spot.Spec.Template.Spec.NodeSelector = map[string]string{"tier": "spot"}
	o.onJob(spot, false)
	if over := o.Report().OverLimit(); len(over) != 1 || over[0].Used.Value() != 2 {
		t.Errorf("%v", over)
	}
}

func TestRequestsOfAPod(t *testing.T) {
	cpu := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"containers add up": {corev1.PodSpec{Containers: []corev1.Container{{Resources: cpu("1")}, {Resources: cpu("2")}}}, "3"},
		"a large init container counts alone": {corev1.PodSpec{
			InitContainers: []corev1.Container{{Resources: cpu("5")}}, Containers: []corev1.Container{{Resources: cpu("2")}},
		}, "5"},
		"a sidecar counts with both": {corev1.PodSpec{
			InitContainers: []corev1.Container{{Resources: cpu("1"), RestartPolicy: &always}, {Resources: cpu("3")}},
			Containers:     []corev1.Container{{Resources: cpu("2")}},
		}, "4"},
		"overhead": {corev1.PodSpec{
			Containers: []corev1.Container{{Resources: cpu("2")}},
			Overhead:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
		}, "2500m"},
		"pod level": {corev1.PodSpec{
			Containers: []corev1.Container{{Resources: cpu("2")}},
			Resources:  &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}},
		}, "7"},
	} {
		got := podRequests(&test.spec)[corev1.ResourceCPU]
		if got.String() != test.want {
			t.Errorf("%s: %s, want %s", name, got.String(), test.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	list := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for percent, want := range map[int]time.Duration{50: 5, 90: 9, 95: 10, 100: 10, 0: 1} {
		if got := Percentile(list, percent); got != want {
			t.Errorf("p%d: %d, want %d", percent, got, want)
		}
	}
	if Percentile(nil, 50) != 0 {
		t.Error("percentile of nothing")
	}
}
