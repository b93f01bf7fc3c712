// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func generate(t *testing.T, change func(*Config)) []Job {
	t.Helper()
	c := Default()
	if change != nil {
		change(&c)
	}
	jobs, err := Generate(c)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestSameSeedGivesTheSameJobs(t *testing.T) {
	a, b := generate(t, nil), generate(t, nil)
	if !reflect.DeepEqual(a, b) {
		t.Fatal("two traces of one seed differ")
	}
	if reflect.DeepEqual(a, generate(t, func(c *Config) { c.Seed++ })) {
		t.Fatal("another seed gives the same trace")
	}
}

func TestHalfAreGangsOfTwoToSixteenPods(t *testing.T) {
	jobs := generate(t, nil)
	gangs, generated := 0, 0
	for _, j := range jobs {
		if j.GPUs < 1 || j.GPUs > 8 || j.Pods < 1 || j.Pods > 16 {
			t.Errorf("%s: %d pods with %d GPUs", j.Name, j.Pods, j.GPUs)
		}
		if j.Gang() {
			gangs++
		}
		if j.Generate {
			generated++
		}
		if j.Generate != strings.HasSuffix(j.Name, "-") {
			t.Errorf("%s: generateName is %v", j.Name, j.Generate)
		}
	}
	if len(jobs) != 200 || gangs != 100 {
		t.Errorf("%d jobs, %d gangs; want 200 and 100", len(jobs), gangs)
	}
	if generated < 50 || generated > 150 {
		t.Errorf("%d of 200 use generateName", generated)
	}
}

func TestEveryJobFitsItsTeamsLimitAndNamesAreUnique(t *testing.T) {
	limits := map[string]int{}
	for _, team := range DefaultTeams() {
		limits[team.Name] = team.Limit()
	}
	seen := map[string]bool{}
	for _, j := range generate(t, nil) {
		if limit := limits[j.Team]; j.TotalGPUs() > limit {
			t.Errorf("%s of %s needs %d GPUs, limit %d", j.Name, j.Team, j.TotalGPUs(), limit)
		}
		if !j.Generate && seen[j.Team+"/"+j.Name] {
			t.Errorf("%s/%s twice", j.Team, j.Name)
		}
		seen[j.Team+"/"+j.Name] = true
	}
}

func TestWorkIsAboveCapacityAndSharedAsAsked(t *testing.T) {
	c := Default()
	work := map[string]float64{}
	total := 0.0
	for _, j := range generate(t, nil) {
		if j.Duration < c.Shortest || j.Duration > c.Longest {
			t.Errorf("%s runs %v", j.Name, j.Duration)
		}
		w := j.Duration.Seconds() * float64(j.TotalGPUs())
		work[j.Team] += w
		total += w
	}
	capacity := float64(c.GPUs) * c.Window.Seconds()
	if load := total / capacity; load < 0.95*c.Load || load > 1.05*c.Load {
		t.Errorf("load %.2f, want %.2f", load, c.Load)
	}
	for _, team := range c.Teams {
		if share := work[team.Name] / total; share < team.Share-0.15 || share > team.Share+0.15 {
			t.Errorf("%s has %.2f of the work, want about %.2f", team.Name, share, team.Share)
		}
	}
}

func TestArrivalsAreBurstyAndInOrder(t *testing.T) {
	jobs := generate(t, nil)
	var gaps []time.Duration
	for i := 1; i < len(jobs); i++ {
		gap := jobs[i].At - jobs[i-1].At
		if gap < 0 {
			t.Fatalf("job %d arrives before the one in front of it", i)
		}
		gaps = append(gaps, gap)
	}
	if last := jobs[len(jobs)-1].At; last > Default().Window || last < Default().Window*9/10 {
		t.Errorf("last arrival at %v of %v", last, Default().Window)
	}
	slices.Sort(gaps)
	mean := jobs[len(jobs)-1].At / time.Duration(len(gaps))
	if median := gaps[len(gaps)/2]; median > mean/2 {
		t.Errorf("median gap %v, mean %v: not bursty", median, mean)
	}
}

func TestDurationsHaveALongTailAndGangsRunLonger(t *testing.T) {
	var solo, gang []time.Duration
	for _, j := range generate(t, nil) {
		if j.Gang() {
			gang = append(gang, j.Duration)
		} else {
			solo = append(solo, j.Duration)
		}
	}
	slices.Sort(solo)
	slices.Sort(gang)
	if solo[len(solo)*9/10] < 3*solo[len(solo)/2] {
		t.Errorf("one-pod jobs: median %v, p90 %v: no long tail", solo[len(solo)/2], solo[len(solo)*9/10])
	}
	if gang[len(gang)/2] < solo[len(solo)/2] {
		t.Errorf("median of gangs %v is below that of one-pod jobs %v", gang[len(gang)/2], solo[len(solo)/2])
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no team":       func(c *Config) { c.Teams = nil },
		"no window":     func(c *Config) { c.Window = 0 },
		"longest below": func(c *Config) { c.Longest = c.Shortest },
		"one job":       func(c *Config) { c.Jobs = 1 },
	} {
		c := Default()
		change(&c)
		if _, err := Generate(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
