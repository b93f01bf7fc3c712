// SPDX-License-Identifier: Apache-2.0

// Package trace makes the demo's jobs: three teams, half one-pod jobs and half gangs, with
// durations and arrivals shaped like the Microsoft Philly GPU trace of 2017 and squeezed into about
// a minute. The same seed gives the same jobs.
//
// Shape taken from the trace (82,247 jobs): durations are close to log-normal, with a logarithmic
// spread of 2.0 for one-GPU jobs and 2.8 for jobs of 4 and 8 GPUs, which also run about ten times
// as long at the median; arrivals come in bursts (three quarters of the gaps are shorter than half
// of the mean gap). The trace itself is over 90 % one-GPU jobs, so the mix of sizes is ours: it is
// there to show gangs.
package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Team is one tenant: a namespace, a LocalQueue and a ClusterQueue.
type Team struct {
	Name      string // also the namespace
	Cohort    string
	Quota     int     // GPUs of its own
	Borrowing int     // GPUs it may borrow in its cohort on top
	Share     float64 // of the submitted work, relative to the other teams
}

// Limit is the most that the team may use.
func (t Team) Limit() int { return t.Quota + t.Borrowing }

// Job is one Job to submit.
type Job struct {
	Team     string
	Name     string // with GenerateName, the prefix
	Generate bool   // submit with metadata.generateName
	At       time.Duration
	Pods     int
	GPUs     int // per pod
	Duration time.Duration
}

// TotalGPUs of all pods.
func (j Job) TotalGPUs() int { return j.Pods * j.GPUs }

// Gang tells whether the job has more than one pod.
func (j Job) Gang() bool { return j.Pods > 1 }

// Config of a trace.
type Config struct {
	Seed   uint64
	Jobs   int
	Teams  []Team
	GPUs   int           // in the cluster
	Window time.Duration // arrivals
	Load   float64       // submitted GPU-seconds per GPU-second of the window
	// The shortest and longest a job may run, after squeezing.
	Shortest, Longest time.Duration
	OnlyGangs         bool // instead of half
}

// DefaultTeams are two teams that lend to each other and one that stands alone, on 320 GPUs.
func DefaultTeams() []Team {
	return []Team{
		{Name: "vision", Cohort: "research", Quota: 96, Borrowing: 64, Share: 0.50},
		{Name: "speech", Cohort: "research", Quota: 96, Borrowing: 64, Share: 0.20},
		{Name: "ranking", Cohort: "product", Quota: 128, Borrowing: 0, Share: 0.30},
	}
}

// Default is the demo's trace.
func Default() Config {
	return Config{
		Seed: 20170803, Jobs: 200, Teams: DefaultTeams(), GPUs: 320,
		Window: 40 * time.Second, Load: 2,
		Shortest: 500 * time.Millisecond, Longest: 25 * time.Second,
	}
}

type weighted struct {
	value  int
	weight float64
}

var (
	gangPods   = []weighted{{2, 30}, {3, 6}, {4, 24}, {6, 8}, {8, 18}, {12, 5}, {16, 9}}
	gangGPUs   = []weighted{{1, 30}, {2, 20}, {4, 25}, {8, 25}}
	singleGPUs = []weighted{{1, 70}, {2, 12}, {4, 10}, {8, 8}}
)

func pick(r *rand.Rand, from []weighted) int {
	sum := 0.0
	for _, w := range from {
		sum += w.weight
	}
	x := r.Float64() * sum
	for _, w := range from {
		if x -= w.weight; x < 0 {
			return w.value
		}
	}
	return from[len(from)-1].value
}

// Generate makes the jobs, in the order of their arrival.
func Generate(c Config) ([]Job, error) {
	if c.Jobs < 2 || len(c.Teams) == 0 || c.GPUs <= 0 || c.Window <= 0 || c.Load <= 0 || c.Shortest <= 0 || c.Longest <= c.Shortest {
		return nil, fmt.Errorf("trace: need two jobs or more, a team, GPUs, a window, a load, and Shortest < Longest")
	}
	r := rand.New(rand.NewPCG(c.Seed, 1))
	jobs := make([]Job, c.Jobs)
	arrivals := arrivalTimes(r, c.Jobs, c.Window)
	// Exactly half are gangs, in random order, or all.
	gang := make([]bool, c.Jobs)
	for i := range gang {
		gang[i] = c.OnlyGangs || i%2 == 0
	}
	r.Shuffle(len(gang), func(i, j int) { gang[i], gang[j] = gang[j], gang[i] })

	raw := make([]float64, c.Jobs) // hours of the trace, up to a factor
	work := make([]float64, len(c.Teams))
	for i := range jobs {
		j := &jobs[i]
		j.At = arrivals[i]
		j.Generate = r.Float64() < 0.4
		// The team that is furthest behind its share of the work.
		team := 0
		for t := range c.Teams {
			if work[t]/c.Teams[t].Share < work[team]/c.Teams[team].Share {
				team = t
			}
		}
		j.Team = c.Teams[team].Name
		median, spread := 1.0, 1.1
		if gang[i] {
			j.Pods, j.GPUs = pick(r, gangPods), pick(r, gangGPUs)
			for j.Pods*j.GPUs > min(c.Teams[team].Limit(), c.GPUs) {
				j.Pods, j.GPUs = pick(r, gangPods), pick(r, gangGPUs)
			}
			median = 2.5
		} else {
			j.Pods, j.GPUs = 1, pick(r, singleGPUs)
		}
		// The logarithmic spread is half of the trace's: with all of it, squeezed into a minute, one
		// job in ten would last longer than the demo.
		raw[i] = median * math.Exp(spread*r.NormFloat64())
		work[team] += float64(j.TotalGPUs()) * raw[i]
		kind := "solo"
		if gang[i] {
			kind = "gang"
		}
		if j.Generate {
			j.Name = fmt.Sprintf("%s-%dx%d-", kind, j.Pods, j.GPUs)
		} else {
			j.Name = fmt.Sprintf("%s-%03d-%dx%d", kind, i, j.Pods, j.GPUs)
		}
	}
	scale(jobs, raw, c)
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	return jobs, nil
}

// arrivalTimes are bursty: most gaps are short, a few are long, as in the trace.
func arrivalTimes(r *rand.Rand, n int, window time.Duration) []time.Duration {
	times := make([]float64, n)
	t := 0.0
	for i := range times {
		gap := r.ExpFloat64() * 0.2
		if r.Float64() < 0.2 {
			gap = r.ExpFloat64() * 3
		}
		if i > 0 {
			t += gap
		}
		times[i] = t
	}
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(times[i] / t * float64(window)).Truncate(time.Millisecond)
	}
	return out
}

// scale turns raw durations into run times so that the jobs' GPU-seconds are Load times what the
// cluster has in the window, with each run time between Shortest and Longest.
func scale(jobs []Job, raw []float64, c Config) {
	target := c.Load * float64(c.GPUs) * c.Window.Seconds()
	apply := func(factor float64) (sum float64) {
		for i := range jobs {
			seconds := min(max(raw[i]*factor, c.Shortest.Seconds()), c.Longest.Seconds())
			jobs[i].Duration = time.Duration(seconds * float64(time.Second)).Truncate(time.Millisecond)
			sum += jobs[i].Duration.Seconds() * float64(jobs[i].TotalGPUs())
		}
		return sum
	}
	low, high := 1e-6, 1e6
	for range 100 { // bisection: the sum grows with the factor
		middle := math.Sqrt(low * high)
		if apply(middle) < target {
			low = middle
		} else {
			high = middle
		}
	}
	apply(low)
}
