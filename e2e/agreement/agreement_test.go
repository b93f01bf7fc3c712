// SPDX-License-Identifier: Apache-2.0

// SchedulerAgreement: what Tutti says of a gang is what kube-scheduler does with it.
//
// Reproduce one case with TUTTI_AGREEMENT_SEED=N (and the name of the test): it is run alone and its
// objects are written to a file that `tutti fit -f` reads.

package agreement

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/randomcase"
)

// Classes of a comparison. Only those in `wrong` fail the test.
const (
	agreeFits   = "both: fits"
	agreeNo     = "both: does not fit"
	leftPlaced  = "Tutti leaves it to the scheduler, which places all"
	leftRefused = "Tutti leaves it to the scheduler, which refuses"
	greedyMiss  = "Tutti: fits, and its plan is good; the scheduler's greedy choice misses it"
	keptOut     = "Tutti: fits; anti-affinity of pods that are there keeps a gang without rules of its own out"
	gaveUp      = "Tutti: no within the limit of its search; the scheduler finds a place"
	fitsAstray  = "both: fits; the scheduler binds pods where the claim that they share can't be used"
	strayed     = "Tutti: no; the scheduler binds pods where the claim that they share can't be used"
	errorAhead  = "Tutti: no, a selector ends in an error on a node that is nearly used up; the scheduler gets by without asking it"
	timedOut    = "the scheduler runs out of time: 10 s for the devices of one node"
	wrongFits   = "WRONG: Tutti says fits, and the scheduler refuses even its plan"
	wrongNo     = "WRONG: Tutti says no, and the scheduler places all"
	wrongGreedy = "WRONG: equal pods without affinity to pods, Tutti says fits, the scheduler places none"
	wrongPart   = "WRONG: the scheduler bound a part of the gang"
)

func isWrong(class string) bool { return strings.HasPrefix(class, "WRONG") }

func TestSchedulerAgreement(t *testing.T) { run(t, 1000, 10_000, randomcase.Options{}) }

func TestSchedulerAgreementPodRules(t *testing.T) {
	run(t, 500, 5000, randomcase.Options{PodRules: true})
}

func TestSchedulerAgreementDevices(t *testing.T) {
	run(t, 500, 5000, randomcase.Options{Devices: true})
}

func TestSchedulerAgreementVolumes(t *testing.T) {
	run(t, 300, 3000, randomcase.Options{Volumes: true})
}

func run(t *testing.T, short, long int, options randomcase.Options) {
	fitter := startFitter(t)
	count := short
	if os.Getenv("TUTTI_E2E_LONG") != "" {
		count = long
	}
	seeds := make([]uint64, count)
	for i := range seeds {
		seeds[i] = uint64(i) + 1
	}
	one := os.Getenv("TUTTI_AGREEMENT_SEED")
	if one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatalf("TUTTI_AGREEMENT_SEED: %v", err)
		}
		seeds = []uint64{seed}
	}

	begin := time.Now()
	tally := newTally()
	for i, seed := range seeds {
		started := time.Now()
		r, err := compare(t, fitter, seed, options)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		tally.add(r)
		tally.time(seed, time.Since(started))
		if one != "" {
			t.Log(r.describe())
			t.Logf("the objects are in %s", dump(t, r.c))
		}
		switch {
		case isWrong(r.class) || r.class == gaveUp:
			t.Log(r.describe())
		case r.class == greedyMiss || r.steer == greedyMiss:
			t.Log(r.line())
		}
		if isWrong(r.class) {
			t.Errorf("seed %d: %s", seed, r.class)
		}
		if (i+1)%500 == 0 {
			t.Logf("progress: %d of %d cases, %v", i+1, len(seeds), time.Since(begin).Round(time.Second))
		}
	}
	t.Logf("result: %d cases in %v\n%s", len(seeds), time.Since(begin).Round(time.Second), tally)
	if one == "" {
		tally.checkPower(t)
	}
}

func startFitter(t *testing.T) *randomcase.Fitter {
	t.Helper()
	binary, err := cluster.TuttiBinary()
	if err != nil {
		t.Fatal(err)
	}
	fitter, err := randomcase.StartFitter(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fitter.Close(); err != nil {
			t.Error(err)
		}
	})
	return fitter
}

// result of one seed.
type result struct {
	c        *randomcase.Case
	answer   randomcase.Answer
	plain    Outcome // the scheduler by itself
	steered  Outcome // with the preferred nodes of Tutti's plan, if there is a plan
	hasPlan  bool
	boundary bool // the gang is the largest that Tutti says fits, or one more
	class    string
	steer    string // class of the steered run; "" without a plan
}

// line says in short where the scheduler's greedy choice misses a good plan.
func (r *result) line() string {
	landed := func(o Outcome) string {
		if o.Placed() {
			return "lands"
		}
		return fmt.Sprintf("misses %d of %d pods", misfits(o), r.c.Count())
	}
	return fmt.Sprintf("seed %d, %d pods in %d podsets: by itself the scheduler %s, steered it %s",
		r.c.Seed, r.c.Count(), len(r.c.PodSets), landed(r.plain), landed(r.steered))
}

// misfits are the refused pods that found no node, without those that only waited for them.
func misfits(o Outcome) int {
	n := 0
	for _, message := range o.Refused {
		if strings.Contains(message, "nodes are available") {
			n++
		}
	}
	return n
}

func (r *result) describe() string {
	text := fmt.Sprintf("%s\n  %s\n  Tutti: %s %s", r.c, r.class, r.answer.Verdict, r.answer.Message)
	if r.hasPlan {
		text += fmt.Sprintf("\n  plan: %v", r.answer.Placement)
	}
	text += fmt.Sprintf("\n  scheduler: %d bound, %d refused, %d astray; %s", len(r.plain.Nodes), len(r.plain.Refused), len(r.plain.Astray), r.plain.FirstRefusal())
	if len(r.answer.Placement) == 0 && r.plain.Placed() {
		text += fmt.Sprintf("\n  its nodes: %v", r.plain.Nodes)
	}
	if r.hasPlan {
		text += fmt.Sprintf("\n  steered: %d bound, %d refused; %s", len(r.steered.Nodes), len(r.steered.Refused), r.steered.FirstRefusal())
	}
	return text
}

func compare(t *testing.T, fitter *randomcase.Fitter, seed uint64, options randomcase.Options) (*result, error) {
	r := &result{c: randomcase.Generate(seed, options)}
	var err error
	if r.boundary = seed%2 == 0; r.boundary {
		err = toBoundary(fitter, r.c)
	}
	if err != nil {
		return nil, err
	}
	if r.answer, err = fitter.Ask(r.c); err != nil {
		return nil, err
	}
	r.hasPlan = r.answer.Fits()
	name := group
	if r.c.Count() == 1 {
		name = "" // the controller makes no group for one pod
	}
	scheduleBeside := func(pods []*corev1.Pod, steering randomcase.Steering) (Outcome, error) {
		beside := *r.c
		beside.Pods = pods
		return Schedule(t.Context(), &beside, r.c.GangPods(name, r.answer.Placement, steering))
	}
	schedule := func(steering randomcase.Steering) (Outcome, error) { return scheduleBeside(r.c.Pods, steering) }
	if r.plain, err = schedule(randomcase.Unsteered); err != nil {
		return nil, err
	}
	if !r.hasPlan {
		r.class = classWithoutPlan(r)
		return r, nil
	}
	if r.steered, err = schedule(randomcase.Preferred); err != nil {
		return nil, err
	}
	var pinned *Outcome // asked for once, and only if needed
	classOf := func(o Outcome) (string, error) {
		switch {
		case o.Partly():
			return wrongPart, nil
		case len(o.Astray) > 0:
			return fitsAstray, nil
		case o.Placed():
			return agreeFits, nil
		case outOfTime(o):
			return timedOut, nil
		}
		if pinned == nil {
			outcome, err := schedule(randomcase.Pinned)
			for i := 0; err == nil && !outcome.Placed() && ordersMatter(r.c) && i < 20; i++ {
				pods := r.c.GangPods(name, r.answer.Placement, randomcase.Pinned)
				randomcase.Order(pods, orderOf(r.c, i))
				outcome, err = Schedule(t.Context(), r.c, pods)
			}
			if err != nil {
				return "", err
			}
			pinned = &outcome
		}
		if !pinned.Placed() && !rulesOfTheGang(r.c) {
			// Then this is all that may be in the way.
			outcome, err := scheduleBeside(withoutAntiAffinity(r.c.Pods), randomcase.Pinned)
			if err != nil {
				return "", err
			}
			if outcome.Placed() {
				return keptOut, nil
			}
		}
		switch {
		case !pinned.Placed():
			return wrongFits, nil
		// Pods that are drawn to each other may begin where there is no room for all.
		case r.c.Mixed() || r.c.Uses("pod affinity") || r.c.TakesOneByOne():
			return greedyMiss, nil
		}
		return wrongGreedy, nil
	}
	if r.class, err = classOf(r.plain); err != nil {
		return nil, err
	}
	if r.steer, err = classOf(r.steered); err != nil {
		return nil, err
	}
	if isWrong(r.steer) {
		r.class = r.steer
	}
	return r, nil
}

func classWithoutPlan(r *result) string {
	switch {
	case r.plain.Partly():
		return wrongPart
	case !r.answer.No() && r.plain.Placed():
		return leftPlaced
	case outOfTime(r.plain):
		return timedOut
	case !r.answer.No():
		return leftRefused
	case !r.plain.Placed():
		return agreeNo
	case len(r.plain.Astray) > 0:
		return strayed
	case r.c.Uses("selectors with errors") && strings.Contains(r.answer.Message, "no such key: nvlink"):
		return errorAhead
	case strings.Contains(r.answer.Message, "within the limit of the search"):
		return gaveUp
	}
	return wrongNo
}

func outOfTime(o Outcome) bool {
	for _, message := range o.Refused {
		if strings.Contains(message, "timed out trying to allocate devices") {
			return true
		}
	}
	return false
}

// ordersMatter says whether the order in which the pods come decides which devices they get.
func ordersMatter(c *randomcase.Case) bool {
	return len(c.Devices.Slices) > 0 && (c.Mixed() || c.TakesOneByOne())
}

// orderOf is the order of attempt i: podset after podset as they are, backwards, then shuffled podsets
// and pods. A plan says where, not in which order it was found.
func orderOf(c *randomcase.Case, i int) []int {
	random := rand.New(rand.NewPCG(c.Seed, uint64(i)))
	var blocks [][]int
	next := 0
	for _, s := range c.PodSets {
		var block []int
		for range int(s.Count) {
			block = append(block, next)
			next++
		}
		blocks = append(blocks, block)
	}
	if i >= 2 {
		random.Shuffle(len(blocks), func(a, b int) { blocks[a], blocks[b] = blocks[b], blocks[a] })
	}
	order := slices.Concat(blocks...)
	switch {
	case i == 1:
		slices.Reverse(order)
	case i >= 8:
		random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	return order
}

func rulesOfTheGang(c *randomcase.Case) bool {
	return c.Uses("pod affinity") || c.Uses("pod anti-affinity") || c.Uses("topology spread")
}

// withoutAntiAffinity are the pods as they would be without rules of their own about others.
func withoutAntiAffinity(pods []*corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		pod = pod.DeepCopy()
		if pod.Spec.Affinity != nil {
			pod.Spec.Affinity.PodAntiAffinity = nil
		}
		out = append(out, pod)
	}
	return out
}

// toBoundary makes the gang the largest that Tutti says fits, or one step larger: a pod of equal pods, a
// 32nd of each podset otherwise.
func toBoundary(fitter *randomcase.Fitter, c *randomcase.Case) error {
	counts := make([]int, len(c.PodSets))
	for i, s := range c.PodSets {
		counts[i] = int(s.Count)
	}
	size := func(step int) {
		for i := range c.PodSets {
			if c.Mixed() {
				c.PodSets[i].Count = int32(max(counts[i]*step/32, 1))
			} else {
				c.PodSets[i].Count = int32(step)
			}
		}
	}
	low, high := 0, 200 // fits at low, not at high
	for high-low > 1 {
		middle := (low + high) / 2
		size(middle)
		answer, err := fitter.Ask(c)
		if err != nil {
			return err
		}
		if answer.Fits() {
			low = middle
		} else {
			high = middle
		}
	}
	size(max(low+int(c.Seed/2%2), 1))
	return nil
}

// dump writes the case as a List that `tutti fit -f` reads.
func dump(t *testing.T, c *randomcase.Case) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("tutti-agreement-%d.json", c.Seed))
	data, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": c.Items()}, "", " ")
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tally counts classes over all cases and over the mixed ones, and remembers some seeds of each.
type tally struct {
	cases            int
	classes          map[string]int
	steered          map[string]int
	mixed            map[string]int
	boundary         map[string]int
	examples         map[string][]uint64
	plans, sameNodes int
	slowest          time.Duration
	slowestSeed      uint64
}

func newTally() *tally {
	return &tally{
		classes: map[string]int{}, steered: map[string]int{}, mixed: map[string]int{}, boundary: map[string]int{},
		examples: map[string][]uint64{},
	}
}

func (y *tally) add(r *result) {
	y.cases++
	y.classes[r.class]++
	if r.steer != "" {
		y.steered[r.steer]++
	}
	if r.c.Mixed() {
		y.mixed[r.class]++
	}
	if r.boundary {
		y.boundary[r.class]++
	}
	if len(y.examples[r.class]) < 20 {
		y.examples[r.class] = append(y.examples[r.class], r.c.Seed)
	}
	if r.hasPlan && r.steered.Placed() {
		y.plans++
		if onPlan(r) {
			y.sameNodes++
		}
	}
}

func (y *tally) time(seed uint64, took time.Duration) {
	if took > y.slowest {
		y.slowest, y.slowestSeed = took, seed
	}
}

// onPlan says whether the steered gang took no node outside of the plan.
func onPlan(r *result) bool {
	planned := map[string]bool{}
	for _, slot := range r.answer.Placement {
		planned[slot.Node] = true
	}
	for _, node := range r.steered.Nodes {
		if !planned[node] {
			return false
		}
	}
	return true
}

func (y *tally) String() string {
	var b strings.Builder
	section := func(title string, counts map[string]int) {
		fmt.Fprintf(&b, "%s\n", title)
		classes := make([]string, 0, len(counts))
		for class := range counts {
			classes = append(classes, class)
		}
		slices.Sort(classes)
		for _, class := range classes {
			fmt.Fprintf(&b, "  %6d  %s\n", counts[class], class)
		}
	}
	section("all, without steering:", y.classes)
	section("those with a plan, steered by preferred node affinity:", y.steered)
	section("of all, gangs of unlike pods:", y.mixed)
	section("of all, gangs at Tutti's own limit or one step larger:", y.boundary)
	fmt.Fprintf(&b, "steered gangs that landed on planned nodes only: %d of %d\n", y.sameNodes, y.plans)
	fmt.Fprintf(&b, "slowest: seed %d, %v\n", y.slowestSeed, y.slowest.Round(time.Millisecond))
	for class, seeds := range y.examples {
		if class != agreeFits && class != agreeNo {
			fmt.Fprintf(&b, "seeds, %s: %v\n", class, seeds)
		}
	}
	return b.String()
}

// checkPower fails the test if the cases are too easy to tell anything.
func (y *tally) checkPower(t *testing.T) {
	t.Helper()
	// What is left to the scheduler counts as a yes: it is released.
	yes := y.classes[agreeFits] + y.classes[fitsAstray] + y.classes[leftPlaced] + y.classes[leftRefused]
	if no := y.classes[agreeNo]; yes < y.cases/5 || no < y.cases/5 {
		t.Errorf("of %d cases only %d can be placed and %d can't", y.cases, yes, no)
	}
}

// The oracle itself: it tells a gang that fits from one that doesn't, for each reason that matters.
func TestOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name   string
		change func(c *randomcase.Case)
		placed bool
	}{
		{"enough", func(*randomcase.Case) {}, true},
		{"one too many", func(c *randomcase.Case) { c.PodSets[0].Count++ }, false},
		{"cordoned", func(c *randomcase.Case) { c.Nodes[random.IntN(2)].Spec.Unschedulable = true }, false},
		{"node gone", func(c *randomcase.Case) { c.Nodes = c.Nodes[1:] }, false},
		{"ended pod", func(c *randomcase.Case) { c.Pods[0].Status.Phase = "Succeeded"; c.PodSets[0].Count++ }, true},
		{"no such node", func(c *randomcase.Case) {
			c.PodSets[0].Template.Spec.NodeSelector = map[string]string{"no": "such"}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := smallCase()
			test.change(c)
			outcome, err := Schedule(t.Context(), c, c.GangPods(group, nil, randomcase.Unsteered))
			if err != nil {
				t.Fatal(err)
			}
			if outcome.Placed() != test.placed || outcome.Partly() {
				t.Errorf("%d bound, %d refused: %s", len(outcome.Nodes), len(outcome.Refused), outcome.FirstRefusal())
			}
		})
	}
}

// The same for devices: two nodes with four of them, of which one is taken, and pods that want two each.
func TestOracleOfDevices(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(c *randomcase.Case)
		placed bool
		astray int
	}{
		{"enough", func(*randomcase.Case) {}, true, 0},
		{"one too many", func(c *randomcase.Case) { c.PodSets[0].Count++ }, false, 0},
		{"claim of others gone", func(c *randomcase.Case) {
			c.Devices.Claims = c.Devices.Claims[1:]
			c.PodSets[0].Count++
		}, true, 0},
		{"slice gone", func(c *randomcase.Case) { c.Devices.Slices = c.Devices.Slices[1:] }, false, 0},
		{"slice missing in its pool", func(c *randomcase.Case) { c.Devices.Slices[1].Spec.Pool.ResourceSliceCount++ }, false, 0},
		{"no class", func(c *randomcase.Case) { c.Devices.Classes = nil }, false, 0},
		{"tainted device", func(c *randomcase.Case) {
			c.Devices.Slices[1].Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}, false, 0},
		{"selector", func(c *randomcase.Case) {
			c.Devices.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{
				CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "another.example.com"`},
			}}
		}, false, 0},
		// kubernetes/kubernetes#140087: beyond the first pod, 1.36.3 forgets where a claim that is being
		// allocated can be used.
		{"a claim for all", func(c *randomcase.Case) {
			name := "ours"
			c.Devices.Claims = append(c.Devices.Claims, &resourcev1.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: randomcase.Namespace, UID: "ours"},
				Spec:       c.Devices.Templates[0].Spec.Spec,
			})
			c.PodSets[0].Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &name}}
			c.Nodes[1].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
			c.Devices.Slices = c.Devices.Slices[1:]
			c.PodSets[0].Count = 2
		}, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := smallCaseOfDevices()
			test.change(c)
			outcome, err := Schedule(t.Context(), c, c.GangPods(group, nil, randomcase.Unsteered))
			if err != nil {
				t.Fatal(err)
			}
			if outcome.Placed() != test.placed || outcome.Partly() || len(outcome.Astray) != test.astray {
				t.Errorf("%d bound, %d astray, %d refused: %s", len(outcome.Nodes), len(outcome.Astray), len(outcome.Refused), outcome.FirstRefusal())
			}
		})
	}
}

// The scheduler spreads by itself; a plan of one node pulls the gang there.
func TestOracleFollowsPreferredNodes(t *testing.T) {
	c := smallCase()
	c.Pods = nil
	c.PodSets[0].Count = 2
	plan := []randomcase.Slot{{PodSet: "main", Node: "b", Count: 2}}
	plain, err := Schedule(t.Context(), c, c.GangPods(group, plan, randomcase.Unsteered))
	steered, err2 := Schedule(t.Context(), c, c.GangPods(group, plan, randomcase.Preferred))
	pinned, err3 := Schedule(t.Context(), c, c.GangPods(group, plan, randomcase.Pinned))
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if plain.Nodes["gang-main-000"] == plain.Nodes["gang-main-001"] {
		t.Errorf("unsteered: %v", plain.Nodes)
	}
	for what, nodes := range map[string]map[string]string{"steered": steered.Nodes, "pinned": pinned.Nodes} {
		if nodes["gang-main-000"] != "b" || nodes["gang-main-001"] != "b" {
			t.Errorf("%s: %v", what, nodes)
		}
	}
}
