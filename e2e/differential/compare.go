// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Verdicts of a comparison.
const (
	agree       = "both: the same after every step"
	agreeLate   = "the same as Kueue when evictions take longer than it collects retries"
	notSettled  = "Kueue's scheduler does not settle"
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

func compare(ctx context.Context, s *simulator, c *Case) (comparison, error) {
	ours, err := s.play(c)
	if err == nil && len(ours) != len(c.Steps) {
		err = fmt.Errorf("tutti simulate answered %d of %d steps", len(ours), len(c.Steps))
	}
	if err != nil {
		return comparison{}, err
	}
	first := comparison{}
	for _, retry := range []Retry{retryWhenSettled, retryAfterEvictions} {
		theirs, err := playKueue(ctx, c, retry, nil)
		if errors.Is(err, errNotSettled) {
			return comparison{verdict: notSettled, step: len(theirs), kueue: theirs, tutti: ours}, nil
		}
		spins := errors.Is(err, errSpinning)
		if err != nil && !spins {
			return comparison{}, err
		}
		result := compareOutcomes(ours[:len(theirs)], theirs)
		if spins && result.verdict == agree {
			result.verdict = spinning
			return result, nil
		}
		switch {
		case result.verdict != agree:
			if retry == retryWhenSettled {
				first = result
			}
		case retry == retryWhenSettled:
			return result, nil
		default:
			result.verdict = agreeLate
			return result, nil
		}
	}
	return first, nil
}

func compareOutcomes(ours, theirs []Outcome) comparison {
	result := comparison{verdict: agree, kueue: theirs, tutti: ours}
	for i := range ours {
		if verdict, text := compareStep(ours[i], theirs[i]); verdict != agree {
			result.verdict, result.step, result.text = verdict, i, text
			return result
		}
	}
	return result
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
