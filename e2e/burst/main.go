// SPDX-License-Identifier: Apache-2.0

// burst submits thousands of Jobs at once to a real control plane with simulated nodes that have room for all of
// them, and measures how long it takes until all run and what each request cost: as plain Jobs, and with Tutti,
// whose quota admits all. One side a call; one line of JSON on standard output.
//
//	burst --side bare|tutti [--jobs 5000] [--submitters 50]
//
// ./bench.sh jobs runs both in turn and keeps the results.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"tutti.dev/e2e/cluster"
)

const (
	namespace   = "team"
	jobsPerNode = 50
	patience    = 30 * time.Minute
)

// Result of one run.
type Result struct {
	Side             string             `json:"side"`
	Jobs             int                `json:"jobs"`
	Submitters       int                `json:"submitters"`
	SubmittedSeconds float64            `json:"submittedSeconds"` // all Jobs exist
	RunningSeconds   float64            `json:"runningSeconds"`   // each has its pod running; both from the first request on
	CreateP50        float64            `json:"createP50Seconds"` // of creating a Job, as the API server measures it
	CreateP99        float64            `json:"createP99Seconds"`
	PolicyP50        float64            `json:"policyP50Seconds"` // of all policies, for an object that is created
	PolicyP99        float64            `json:"policyP99Seconds"`
	CPU              map[string]float64 `json:"cpuSeconds"` // by component
	Writes           map[string]float64 `json:"writes"`     // "VERB resource/subresource", answered ones
}

func init() {
	klog.SetLogger(logr.Discard())
	// The control plane's processes die with the thread that started them: this one, kept for good.
	runtime.LockOSThread()
}

func main() {
	side := flag.String("side", "tutti", "bare or tutti")
	jobs := flag.Int("jobs", 5000, "how many Jobs of one pod")
	submitters := flag.Int("submitters", 50, "how many clients create them at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := run(ctx, *side, *jobs, *submitters)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "burst:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, side string, jobs, submitters int) (result *Result, err error) {
	if side != "bare" && side != "tutti" {
		return nil, fmt.Errorf("--side %q: use bare or tutti", side)
	}
	if jobs < 1 || submitters < 1 {
		return nil, fmt.Errorf("--jobs and --submitters must be at least 1")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{
		Name: "burst-" + side,
		// A request that waits in line is not what the path of admission costs.
		APIServerArgs: []string{"--max-requests-inflight=5000", "--max-mutating-requests-inflight=2500"},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := c.Stop(err == nil); err == nil {
			err = stopErr
		}
	}()
	parts := map[string]*cluster.Process{"API server": c.APIServer, "etcd": c.Etcd, "controller manager": c.Manager, "scheduler": c.Scheduler}
	if _, err := c.AddNodes(ctx, cluster.NodeSpec{Count: (jobs + jobsPerNode - 1) / jobsPerNode, CPU: strconv.Itoa(jobsPerNode)}); err != nil {
		return nil, err
	}
	if err := c.CreateNamespace(ctx, namespace, nil); err != nil {
		return nil, err
	}
	if side == "tutti" {
		if err := c.InstallTutti(ctx, nil); err != nil {
			return nil, err
		}
		tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{})
		if err != nil {
			return nil, err
		}
		parts["Tutti"] = tutti.Process
		if err := c.ApplyYAML(ctx, fmt.Sprintf(queues, jobs, namespace)); err != nil {
			return nil, err
		}
	}
	count, err := countRunning(ctx, c.Kube, jobs)
	if err != nil {
		return nil, err
	}
	before, err := c.APIServerMetrics(ctx)
	if err != nil {
		return nil, err
	}
	cpuBefore, err := cpu(parts)
	if err != nil {
		return nil, err
	}

	begin := time.Now()
	if err := submit(ctx, c.Config, side, jobs, submitters); err != nil {
		return nil, err
	}
	result = &Result{Side: side, Jobs: jobs, Submitters: submitters, SubmittedSeconds: time.Since(begin).Seconds()}
	select {
	case at := <-count.all:
		result.RunningSeconds = at.Sub(begin).Seconds()
	case <-ctx.Done():
		return nil, fmt.Errorf("%d of %d Jobs run: %w", count.running(), jobs, context.Cause(ctx))
	}
	after, err := c.APIServerMetrics(ctx)
	if err != nil {
		return nil, err
	}
	cpuAfter, err := cpu(parts)
	if err != nil {
		return nil, err
	}
	result.CPU = map[string]float64{}
	for name := range parts {
		result.CPU[name] = cpuAfter[name] - cpuBefore[name]
	}
	create := map[string]string{"verb": "POST", "resource": "jobs", "subresource": ""}
	result.CreateP50 = quantile(before, after, "apiserver_request_duration_seconds", create, 0.5)
	result.CreateP99 = quantile(before, after, "apiserver_request_duration_seconds", create, 0.99)
	if side == "tutti" {
		for _, name := range []string{"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"} {
			labels := map[string]string{"name": name, "operation": "CREATE"}
			result.PolicyP50 += quantile(before, after, "apiserver_admission_controller_admission_duration_seconds", labels, 0.5)
			result.PolicyP99 += quantile(before, after, "apiserver_admission_controller_admission_duration_seconds", labels, 0.99)
		}
	}
	result.Writes = writes(before, after)
	return result, nil
}

const queues = `apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: nodes}
spec: {}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: nodes
      resources: [{name: cpu, nominalQuota: %d}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: %s}
spec: {clusterQueue: all}
`

func newJob(number int, side string) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("job-%05d", number)},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: "example.org/work:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(1, resource.DecimalSI)}},
			}},
		}}},
	}
	if side == "tutti" {
		job.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "jobs"}
	}
	return job
}

// submit creates all Jobs; each client has a connection of its own, as users have.
func submit(ctx context.Context, base *rest.Config, side string, jobs, submitters int) error {
	numbers := make(chan int)
	failures := make(chan error, submitters)
	var wg sync.WaitGroup
	for range submitters {
		config := rest.CopyConfig(base)
		config.QPS = -1
		// Clients of equal settings share their connection otherwise.
		config.Dial = (&net.Dialer{Timeout: patience}).DialContext
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		wg.Go(func() {
			for number := range numbers {
				if _, err := client.BatchV1().Jobs(namespace).Create(ctx, newJob(number, side), metav1.CreateOptions{}); err != nil {
					failures <- fmt.Errorf("job %d: %w", number, err)
					return
				}
			}
		})
	}
	var failure error
	for number := 0; number < jobs && failure == nil; number++ {
		select {
		case numbers <- number:
		case failure = <-failures:
		case <-ctx.Done():
			failure = context.Cause(ctx)
		}
	}
	close(numbers)
	wg.Wait()
	close(failures)
	if failure == nil {
		failure = <-failures
	}
	return failure
}

// counter of Jobs that have had a running pod.
type counter struct {
	all chan time.Time // when the last one got it

	mutex sync.Mutex
	seen  map[string]bool
}

func (c *counter) running() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.seen)
}

func countRunning(ctx context.Context, client kubernetes.Interface, jobs int) (*counter, error) {
	c := &counter{all: make(chan time.Time, 1), seen: map[string]bool{}}
	look := func(object any) {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Status.Phase != corev1.PodRunning {
			return
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		name := pod.Labels[batchv1.JobNameLabel]
		if name == "" || c.seen[name] {
			return
		}
		c.seen[name] = true
		if len(c.seen) == jobs {
			c.all <- time.Now()
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, now any) { look(now) },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil, fmt.Errorf("pods can't be listed: %w", context.Cause(ctx))
	}
	return c, nil
}

func cpu(parts map[string]*cluster.Process) (map[string]float64, error) {
	seconds := map[string]float64{}
	for name, process := range parts {
		used, err := process.CPU()
		if err != nil {
			return nil, fmt.Errorf("CPU of %s: %w", name, err)
		}
		seconds[name] = used.Seconds()
	}
	return seconds, nil
}

// quantile of a histogram's growth, between the limits of its buckets; 0 when nothing was added.
func quantile(before, after cluster.Metrics, name string, labels map[string]string, part float64) float64 {
	var limits []float64
	counts := map[float64]float64{}
	for _, sample := range after {
		if sample.Name != name+"_bucket" {
			continue
		}
		limit, err := strconv.ParseFloat(strings.Replace(sample.Labels["le"], "+Inf", "Inf", 1), 64)
		if err != nil {
			continue
		}
		if _, known := counts[limit]; known {
			continue
		}
		of := map[string]string{"le": sample.Labels["le"]}
		for key, value := range labels {
			of[key] = value
		}
		counts[limit] = after.Sum(name+"_bucket", of) - before.Sum(name+"_bucket", of)
		limits = append(limits, limit)
	}
	slices.Sort(limits)
	if len(limits) == 0 {
		return 0
	}
	wanted := part * counts[limits[len(limits)-1]]
	low, below := 0.0, 0.0
	for _, limit := range limits {
		if counts[limit] >= wanted && counts[limit] > below {
			if math.IsInf(limit, 1) {
				return low
			}
			return low + (limit-low)*(wanted-below)/(counts[limit]-below)
		}
		low, below = limit, counts[limit]
	}
	return 0
}

func writes(before, after cluster.Metrics) map[string]float64 {
	sums := map[string]float64{}
	add := func(metrics cluster.Metrics, sign float64) {
		for _, sample := range metrics {
			verb := sample.Labels["verb"]
			if sample.Name != "apiserver_request_total" || !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, verb) {
				continue
			}
			name := verb + " " + sample.Labels["resource"]
			if sub := sample.Labels["subresource"]; sub != "" {
				name += "/" + sub
			}
			sums[name] += sign * sample.Value
		}
	}
	add(after, 1)
	add(before, -1)
	for name, n := range sums {
		if n == 0 {
			delete(sums, name)
		}
	}
	return sums
}
