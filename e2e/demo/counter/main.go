// SPDX-License-Identifier: Apache-2.0

// The demo's counter: a program of its own that sees only Jobs and Pods (its ServiceAccount may read
// nothing else) and counts what package tally defines. It starts with the first Job, prints a report
// as a JSON line every half second, and ends after --seconds with the last one.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"tutti.dev/e2e/demo/tally"
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
	var limits []tally.Limit
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

	var mutex sync.Mutex
	count := tally.New(limits)
	onJob := func(object any) {
		if job, ok := object.(*batchv1.Job); ok {
			mutex.Lock()
			defer mutex.Unlock()
			count.OnJob(time.Now(), tally.FromJob(job))
		}
	}
	onPod := func(object any, gone bool) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if pod, ok := object.(*corev1.Pod); ok {
			state := tally.FromPod(pod)
			state.Gone = gone
			mutex.Lock()
			defer mutex.Unlock()
			count.OnPod(time.Now(), state)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	handlers := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{factory.Batch().V1().Jobs().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: onJob, UpdateFunc: func(_, now any) { onJob(now) },
		}},
		{factory.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(now any) { onPod(now, false) },
			UpdateFunc: func(_, now any) { onPod(now, false) },
			DeleteFunc: func(old any) { onPod(old, true) },
		}},
	}
	for _, h := range handlers {
		if _, err := h.informer.AddEventHandler(h.handler); err != nil {
			return err
		}
	}
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return fmt.Errorf("could not list %v", kind)
		}
	}

	fmt.Println(`{"seconds":0}`) // ready
	length := time.Duration(*seconds * float64(time.Second))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	out := json.NewEncoder(os.Stdout)
	var printed time.Time
	for now := range tick.C {
		mutex.Lock()
		start, started := count.Started()
		end := start.Add(length)
		if !started || now.Before(end) && now.Sub(printed) < 500*time.Millisecond {
			mutex.Unlock()
			continue
		}
		last := !now.Before(end)
		if last {
			now = end
		}
		report := count.Report(now)
		mutex.Unlock()
		printed = now
		if err := out.Encode(report); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
	return nil
}
