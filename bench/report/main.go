// SPDX-License-Identifier: Apache-2.0

// report keeps runs of Kueue's performance runner, of bursts of Jobs and of the engine in data files, and makes docs/performance.md of them:
//
//	report add --dir DIR --config NAME --crds NAME --commit ID --machine TEXT --data FILE
//	report add-engine --file FILE[,FILE…] --commit ID --machine TEXT --engine FILE
//	report add-jobs --file FILE --commit ID --machine TEXT --jobs FILE
//	report plot --engine FILE
//	report page --data FILE --jobs FILE --engine FILE --notes FILE
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say add, add-jobs, add-engine, page or plot")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "what the runner wrote")
	config := flags.String("config", "", "baseline, large-scale or deepqueue")
	crds := flags.String("crds", "", "lean or kueue")
	commit := flags.String("commit", "", "of the tree that was measured")
	machine := flags.String("machine", "", "cores, model, memory")
	data := flags.String("data", "", "file with one run of the runner a line")
	file := flags.String("file", "", "what Google Benchmark wrote, JSON; several with commas between")
	jobs := flags.String("jobs", "", "file with one run of the burst a line")
	engine := flags.String("engine", "", "file with one run of the engine's benchmarks a line")
	notes := flags.String("notes", "", "Markdown for the end of the page")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "add":
		r, err := readRun(*dir)
		if err != nil {
			return err
		}
		r.Date = time.Now().UTC().Format(time.RFC3339)
		r.Config, r.CRDs, r.Commit, r.Machine = *config, *crds, *commit, *machine
		fmt.Printf("%s: %d workloads in %.0f s; CPU: API server %.0f s, etcd %.0f s, %s %.1f s, %.0f MiB\n", r.Side, r.workloads(), r.WallSeconds,
			r.APIServerCPU, r.EtcdCPU, r.Side, r.ProgramCPU, float64(r.ProgramPeak)/1024)
		return appendLine(*data, r)
	case "add-jobs":
		r, err := readJobs(*file)
		if err != nil {
			return err
		}
		r.Date = time.Now().UTC().Format(time.RFC3339)
		r.Commit, r.Machine = *commit, *machine
		fmt.Printf("%s: %d Jobs of %d clients: all exist after %.1f s, run after %.1f s\n", r.Side, r.Jobs, r.Submitters, r.Submitted, r.Running)
		return appendLine(*jobs, r)
	case "add-engine":
		r, err := readEngine(strings.Split(*file, ","))
		if err != nil {
			return err
		}
		r.Date = time.Now().UTC().Format(time.RFC3339)
		r.Commit, r.Machine = *commit, *machine
		return appendLine(*engine, r)
	case "page":
		records, err := readLines[record](*data)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return fmt.Errorf("%s holds no run", *data)
		}
		runs, err := readLines[engineRun](*engine)
		if err != nil {
			return err
		}
		bursts, err := readLines[jobsRun](*jobs)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(*notes)
		if err != nil {
			return err
		}
		fmt.Print(page(records, bursts, runs, string(text)))
		return nil
	case "plot":
		runs, err := readLines[engineRun](*engine)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return fmt.Errorf("%s holds no run", *engine)
		}
		picture, err := growthPlot(runs[len(runs)-1])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(picture)
		return err
	default:
		return fmt.Errorf("unknown command %q: use add, add-jobs, add-engine, page or plot", args[0])
	}
}
