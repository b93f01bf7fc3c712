// SPDX-License-Identifier: Apache-2.0

// report keeps runs of Kueue's performance runner in a data file, and makes docs/performance.md of it:
//
//	report add --dir DIR --config NAME --crds NAME --commit ID --machine TEXT --data FILE
//	report add-engine --file FILE --commit ID --machine TEXT --engine FILE
//	report page --data FILE --engine FILE --notes FILE
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
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
		return errors.New("say add, add-engine or page")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "what the runner wrote")
	config := flags.String("config", "", "baseline or large-scale")
	crds := flags.String("crds", "", "lean or kueue")
	commit := flags.String("commit", "", "of the tree that was measured")
	machine := flags.String("machine", "", "cores, model, memory")
	data := flags.String("data", "", "file with one run of the runner a line")
	file := flags.String("file", "", "what Google Benchmark wrote, JSON")
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
		return r.appendTo(*data)
	case "add-engine":
		r, err := readEngine(*file)
		if err != nil {
			return err
		}
		r.Date = time.Now().UTC().Format(time.RFC3339)
		r.Commit, r.Machine = *commit, *machine
		return r.appendTo(*engine)
	case "page":
		records, err := readRecords(*data)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return fmt.Errorf("%s holds no run", *data)
		}
		runs, err := readEngineRuns(*engine)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(*notes)
		if err != nil {
			return err
		}
		fmt.Print(page(records, runs, string(text)))
		return nil
	default:
		return fmt.Errorf("unknown command %q: use add, add-engine or page", args[0])
	}
}
