// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sides in the order of the tables. Tutti is measured against each of the others.
var sides = []struct{ name, title string }{
	{"kueue", "Kueue v0.19.2, as its benchmark runs it (50 requests/s)"},
	{"kueue-unlimited", "Kueue v0.19.2 without a client limit"},
	{"tutti", "Tutti"},
	{"floor", "Floor: a bare controller, one write an admission"},
}

// Configurations in the order of the page.
var configs = []struct{ name, title, about string }{
	{"baseline", "Kueue's scheduler benchmark, `baseline`", ""},
	{"large-scale", "Kueue's scheduler benchmark, `large-scale`", ""},
	{"deepqueue", "The deep queue", "10,440 GPUs, 120 tenants of one cohort with fair sharing, 6,960 jobs of 64, 8 and 1 GPUs submitted within seconds " +
		"([deepqueue.yaml](../bench/configs/deepqueue.yaml), after kueue#14477); with every GPU in use it would take 426 s.\n\n"},
}

var writeVerbs = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}

// page is docs/performance.md: of each side the runs of its newest commit, the newest of the engine, and
// what was written by hand about them.
func page(records []record, jobs []jobsRun, engine []engineRun, notes string) string {
	var out strings.Builder
	out.WriteString(`# Performance

Side by side with Kueue v0.19.2 on the same machine, in alternating runs: ` + "`./bench.sh`" + ` ([bench/](../bench/README.md)).
This page is made by ` + "`./bench.sh report`" + ` from ` + "`bench/results`" + `, where every run is kept with its commit.

Two cores starve the API server, and Kueue misses limits of its own benchmark here: absolute numbers say nothing
about either on a real control plane. What counts is the comparison in the same set of runs, and the cost per workload.
`)
	for _, config := range configs {
		var of []record
		for _, r := range records {
			if r.Config == config.name {
				of = append(of, r)
			}
		}
		if len(of) > 0 {
			fmt.Fprintf(&out, "\n## %s\n\n%s", config.title, config.about)
			scheduler(&out, of)
		}
	}
	jobsPart(&out, jobs)
	enginePart(&out, engine)
	if notes != "" {
		out.WriteString("\n" + notes)
	}
	return out.String()
}

// scheduler is the part about one configuration of Kueue's performance runner.
func scheduler(out *strings.Builder, records []record) {
	runs := map[string][]record{}
	for _, side := range sides {
		for _, r := range records {
			if r.Side == side.name {
				runs[side.name] = append(runs[side.name], r)
			}
		}
		runs[side.name] = newest(runs[side.name])
	}
	fmt.Fprintf(out, "Machine: %s. Each figure is the median of n runs, with the least and the most.\n\n", records[len(records)-1].Machine)
	out.WriteString("| |")
	var present []string
	for _, side := range sides {
		if len(runs[side.name]) > 0 {
			present = append(present, side.name)
			one := runs[side.name][0]
			fmt.Fprintf(out, " %s, n = %d, commit %s |", side.title, len(runs[side.name]), one.Commit)
		}
	}
	var others []string
	line := "\n|---|" + strings.Repeat("---|", len(present))
	if slices.Contains(present, "tutti") {
		for _, side := range present {
			if side != "tutti" {
				others = append(others, side)
				fmt.Fprintf(out, " Tutti : %s |", side)
				line += "---|"
			}
		}
	}
	out.WriteString(line + "\n")
	row := func(name string, digits int, value func(record) float64) {
		fmt.Fprintf(out, "| %s |", name)
		middle := map[string]float64{}
		for _, side := range present {
			text, m := spread(runs[side], digits, value)
			middle[side] = m
			out.WriteString(" " + text + " |")
		}
		for _, other := range others {
			out.WriteString(" " + ratio(middle["tutti"], middle[other]) + " |")
		}
		out.WriteString("\n")
	}
	row("Workloads recorded", 0, func(r record) float64 { return float64(r.workloads()) })
	row("Wall, s", 0, func(r record) float64 { return r.WallSeconds })
	for _, name := range slices.Sorted(maps.Keys(runs[present[0]][0].Classes)) {
		row("Admitted after, `"+name+"`, mean s", 1, func(r record) float64 { return r.Classes[name].AdmissionMs / 1000 })
	}
	if !slices.ContainsFunc(present, func(side string) bool { return runs[side][0].Waits == nil }) {
		row("Wait of all, median s", 1, func(r record) float64 { return r.Waits.Median })
		row("9 of 10 waited less than, s", 1, func(r record) float64 { return r.Waits.P90 })
		row("Longest wait, s", 1, func(r record) float64 { return r.Waits.Max })
		row("Median wait in the queue that waited most, s", 1, func(r record) float64 { return r.Waits.MostTenant })
		row("… in the queue that waited least, s", 1, func(r record) float64 { return r.Waits.LeastTenant })
	}
	row("Usage of the quota, %", 0, func(r record) float64 { return r.UsagePercent })
	row("Evictions", 0, func(r record) float64 { return float64(r.evictions()) })
	row("API server CPU, s", 0, func(r record) float64 { return r.APIServerCPU })
	row("etcd CPU, s", 0, func(r record) float64 { return r.EtcdCPU })
	row("Controller CPU, s", 0, func(r record) float64 { return r.ProgramCPU })
	row("Controller memory, peak, MiB", 0, func(r record) float64 { return float64(r.ProgramPeak) / 1024 })
	row("API server CPU per 1,000 workloads, s", 1, func(r record) float64 { return 1000 * r.APIServerCPU / float64(r.workloads()) })

	out.WriteString("\nWrites that the API server answered, whoever sent them (the runner creates each Workload and finishes it):\n\n| |")
	for _, side := range present {
		fmt.Fprintf(out, " %s |", side)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(present)) + "\n")
	names := map[string]bool{}
	for _, side := range present {
		for name := range runs[side][0].Requests {
			if verb, _, _ := strings.Cut(name, " "); slices.Contains(writeVerbs, verb) {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(out, "| %s |", name)
		for _, side := range present {
			text, _ := spread(runs[side], 0, func(r record) float64 { return r.Requests[name] })
			fmt.Fprintf(out, " %s |", text)
		}
		out.WriteString("\n")
	}
}

// newest are the runs of the last commit that was measured.
func newest(records []record) []record {
	var last []record
	for _, r := range records {
		if r.Commit == records[len(records)-1].Commit && r.CRDs == records[len(records)-1].CRDs {
			last = append(last, r)
		}
	}
	return last
}

// spread is "median (least to most)" of a value over the runs, and the median.
func spread[Run any](runs []Run, digits int, value func(Run) float64) (string, float64) {
	var values []float64
	for _, r := range runs {
		values = append(values, value(r))
	}
	slices.Sort(values)
	middle := (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	text := fmt.Sprintf("%.*f", digits, middle)
	if len(values) > 1 {
		text += fmt.Sprintf(" (%.*f to %.*f)", digits, values[0], digits, values[len(values)-1])
	}
	return text, middle
}

func ratio(a, b float64) string {
	switch {
	case b == 0:
		return "–"
	case a == 0:
		return "0"
	case a >= b:
		return fmt.Sprintf("%.2f", a/b)
	default:
		return fmt.Sprintf("1 / %.1f", b/a)
	}
}
