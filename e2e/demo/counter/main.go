// SPDX-License-Identifier: Apache-2.0

// The demo's counter: a program of its own that sees only Jobs and Pods (its ServiceAccount may read
// nothing else). It starts with the first Job, prints a report (package count) as a JSON line every
// half second, and ends after --seconds with the last one.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"tutti.dev/e2e/demo/count"
	"tutti.dev/e2e/observe"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "file with the credentials")
	seconds := flag.Float64("seconds", 60, "how long to count, from the first Job on")
	limitsText := flag.String("limits", "[]", "JSON list of limits: name, namespaces, gpus")
	flag.Parse()
	var limits []count.Limit
	if err := json.Unmarshal([]byte(*limitsText), &limits); err != nil {
		return fmt.Errorf("--limits: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	observer, err := observe.Start(context.Background(), client, count.Options(limits))
	if err != nil {
		return err
	}
	defer observer.Stop()
	fmt.Println(`{"seconds":0}`) // ready

	first, err := observer.Wait(context.Background(), time.Hour, "the first Job", func(v observe.View) bool {
		_, started := count.Started(v)
		return started
	})
	if err != nil {
		return err
	}
	start, _ := count.Started(first)
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	out := json.NewEncoder(os.Stdout)
	for {
		time.Sleep(min(500*time.Millisecond, max(0, time.Until(end))))
		last := !time.Now().Before(end)
		report := observer.Report()
		if err := out.Encode(count.Make(observer.View(), report.DeviceSeconds, report.Worst)); err != nil || last {
			return err
		}
	}
}
