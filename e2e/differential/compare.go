// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Verdicts of a comparison.
const (
	agree       = "both: the same after every step"
	agreeLate   = "the same as Kueue when evictions take longer than it collects retries"
	notSettled  = "Kueue's scheduler does not settle"
	agreeAfresh = "the same as Kueue when it is restarted after every step, and forgets how far it scanned flavors"
	returned    = "the same but for one that Kueue stops and lets in again at once (kueue#14543)"
	sparedOwn   = "Kueue spares an own victim and takes others by shares that it has no right to then (kueue#14543); the same until then"
	oneMoment   = "somebody is let in and taken back at one moment, or two of a queue preempt; the same when one comes after the other"
	spinning    = "Kueue's scheduler tries the head of a BestEffortFIFO queue for ever; the same until then"
	differFlavs = "DIFFERENT: other flavors or counts for one that both admit"
	differWho   = "DIFFERENT: others hold quota"
	differGone  = "DIFFERENT: others gave way"
)

func isDifferent(verdict string) bool { return strings.HasPrefix(verdict, "DIFFERENT") }

// comparison of one case.
type comparison struct {
	verdict string
	step    int    // of the first difference
	text    string // what differs there
	kueue   []Outcome
	tutti   []Outcome
}

// compare plays the case to both sides. What differs only in decisions of one moment is a verdict of its own.
func compare(ctx context.Context, s *simulator, c *Case) (comparison, error) {
	result, err := compareCase(ctx, s, c)
	if err != nil || !isDifferent(result.verdict) || !ofOneMoment(c, result) {
		return result, err
	}
	single, err := compareCase(ctx, s, c.oneByOne())
	if err != nil {
		return comparison{}, err
	}
	if !isDifferent(single.verdict) && single.verdict != notSettled && single.verdict != spinning {
		result.verdict = oneMoment
	}
	return result, nil
}

// ofOneMoment says whether, in the step where they part, one side takes the quota back from somebody to whom it gave
// it in the same step, or Tutti lets others give way for two workloads of one queue. Tutti decides everything that
// comes at one moment in one pass: nobody that it lets in is a victim in it, and the next of a queue is looked at
// while the first waits for its victims. Kueue decides in cycles, one head of each queue at a time.
func ofOneMoment(c *Case, result comparison) bool {
	for _, side := range [][]Outcome{result.kueue, result.tutti} {
		for name := range side[result.step].Preempted {
			if result.step == 0 {
				return true
			}
			if _, held := side[result.step-1].Holding[name]; !held {
				return true
			}
		}
	}
	preemptors := map[kueue.LocalQueueName]int{}
	for _, s := range c.Steps {
		for i := range s.Arrive {
			if result.tutti[result.step].For[s.Arrive[i].Name] {
				preemptors[s.Arrive[i].Spec.QueueName]++
			}
		}
	}
	for _, count := range preemptors {
		if count > 1 {
			return true
		}
	}
	return false
}

func compareCase(ctx context.Context, s *simulator, c *Case) (comparison, error) {
	ours, err := s.play(c)
	if err == nil && len(ours) != len(c.Steps) {
		err = fmt.Errorf("tutti simulate answered %d of %d steps", len(ours), len(c.Steps))
	}
	if err != nil {
		return comparison{}, err
	}
	first := comparison{}
	for _, manner := range []Manner{quickEvictions, slowEvictions, restarted} {
		theirs, err := playKueue(ctx, c, manner, nil)
		if errors.Is(err, errNotSettled) {
			return comparison{verdict: notSettled, step: len(theirs), kueue: theirs, tutti: ours}, nil
		}
		spins := errors.Is(err, errSpinning)
		if err != nil && !spins {
			return comparison{}, err
		}
		result := compareOutcomes(c, ours[:len(theirs)], theirs)
		switch {
		case isDifferent(result.verdict):
			if manner == quickEvictions {
				first = result
			}
			continue
		case spins:
			result.verdict = spinning
		case result.verdict != agree || manner == quickEvictions:
		case manner == slowEvictions:
			result.verdict = agreeLate
		case manner == restarted:
			result.verdict = agreeAfresh
		}
		return result, nil
	}
	return first, nil
}

func compareOutcomes(c *Case, ours, theirs []Outcome) comparison {
	result := comparison{verdict: agree, kueue: theirs, tutti: ours}
	for i := range ours {
		one := theirs[i]
		if i > 0 && c.Options.FairSharing {
			if back := inVain(ours[i], theirs[i-1], one); len(back) > 0 {
				one.Preempted = maps.Clone(one.Preempted)
				for _, name := range back {
					delete(one.Preempted, name)
				}
				result.verdict = returned
			}
		}
		if verdict, text := compareStep(ours[i], one); verdict != agree {
			result.verdict, result.step, result.text = verdict, i, text
			if c.Options.FairSharing && sparesOwn(ours[i], one) {
				result.verdict = sparedOwn
			}
			return result
		}
	}
	return result
}

// inVain are those that Kueue stopped once and let in again in the same step, as they were, because their quota was
// not used by the one for which they had to go; Tutti let them run.
func inVain(ours, before, theirs Outcome) []string {
	var names []string
	for name, reasons := range theirs.Preempted {
		was, held := before.Holding[name]
		is, holds := theirs.Holding[name]
		if held && holds && was.String() == is.String() && len(ours.Preempted[name]) == 0 && len(reasons) == 1 {
			names = append(names, name)
		}
	}
	return names
}

// sparesOwn says whether the only difference is that Tutti lets workloads of the preemptor's queue go, and Kueue
// others instead, or nobody, in favour of the shares.
func sparesOwn(ours, theirs Outcome) bool {
	only := map[string]bool{}
	for name, reasons := range ours.Preempted {
		if len(theirs.Preempted[name]) == 0 {
			only[name] = true
			if !slices.Equal(reasons, []string{"InClusterQueue"}) {
				return false
			}
		}
	}
	if len(only) == 0 {
		return false
	}
	for name, reasons := range theirs.Preempted {
		if len(ours.Preempted[name]) == 0 {
			only[name] = true
			if !slices.Equal(reasons, []string{"InCohortFairSharing"}) {
				return false
			}
		} else if !slices.Equal(reasons, ours.Preempted[name]) {
			return false
		}
	}
	same := func(a, b Outcome) bool {
		for name, holds := range a.Holding {
			if other, held := b.Holding[name]; !only[name] && (!held || holds.String() != other.String()) {
				return false
			}
		}
		return true
	}
	return same(ours, theirs) && same(theirs, ours)
}

func compareStep(ours, theirs Outcome) (verdict, text string) {
	verdict = agree
	var b strings.Builder
	names := map[string]bool{}
	for name := range ours.Holding {
		names[name] = true
	}
	for name := range theirs.Holding {
		names[name] = true
	}
	gone := map[string]bool{}
	for name := range ours.Preempted {
		gone[name] = true
	}
	for name := range theirs.Preempted {
		gone[name] = true
	}
	for _, name := range sortedKeys(gone) {
		our, their := fmt.Sprint(ours.Preempted[name]), fmt.Sprint(theirs.Preempted[name])
		if our != their {
			verdict = differGone
			fmt.Fprintf(&b, "  %s preempted: Tutti %s, Kueue %s\n", name, our, their)
		}
	}
	for _, name := range sortedKeys(names) {
		our, weHold := ours.Holding[name]
		their, theyHold := theirs.Holding[name]
		switch {
		case !weHold:
			verdict = differWho
			fmt.Fprintf(&b, "  %s: Kueue: %s\n      Tutti: waits, %s\n", name, their, ours.Waiting[name])
		case !theyHold:
			verdict = differWho
			fmt.Fprintf(&b, "  %s: Tutti: %s\n      Kueue: waits, %s\n", name, our, theirs.Waiting[name])
		case our.String() != their.String():
			if verdict != differWho {
				verdict = differFlavs
			}
			fmt.Fprintf(&b, "  %s: Tutti: %s\n      Kueue: %s\n", name, our, their)
		}
	}
	return verdict, b.String()
}
