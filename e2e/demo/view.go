// SPDX-License-Identifier: Apache-2.0

// The live view: teams, quotas, what waits and why, and who sits where.

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"tutti.dev/e2e/demo/count"
	"tutti.dev/e2e/demo/trace"
)

var workloads = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}

type view struct {
	way       Way
	teams     []trace.Team
	jobs      batchlisters.JobLister
	pods      corelisters.PodLister
	nodes     []string
	workloads cache.GenericLister
	stop      chan struct{}
}

func newView(ctx context.Context, client kubernetes.Interface, dynamicClient dynamic.Interface, way Way) (*view, error) {
	v := &view{way: way, teams: trace.DefaultTeams(), stop: make(chan struct{})}
	factory := informers.NewSharedInformerFactory(client, 0)
	v.jobs = factory.Batch().V1().Jobs().Lister()
	v.pods = factory.Core().V1().Pods().Lister()
	nodes := factory.Core().V1().Nodes().Lister()
	dynamicFactory := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	if way == Tutti {
		v.workloads = dynamicFactory.ForResource(workloads).Lister()
	}
	// Keep what a lister's first call registers: informers start only if they were asked for.
	factory.Batch().V1().Jobs().Informer()
	factory.Core().V1().Pods().Informer()
	factory.Core().V1().Nodes().Informer()
	factory.Start(v.stop)
	dynamicFactory.Start(v.stop)
	synced := true
	for _, ok := range factory.WaitForCacheSync(ctx.Done()) {
		synced = synced && ok
	}
	for _, ok := range dynamicFactory.WaitForCacheSync(ctx.Done()) {
		synced = synced && ok
	}
	if !synced {
		close(v.stop)
		return nil, fmt.Errorf("could not list jobs, pods and nodes: %v", ctx.Err())
	}
	all, err := nodes.List(labels.Everything())
	if err != nil {
		close(v.stop)
		return nil, err
	}
	for _, node := range all {
		v.nodes = append(v.nodes, node.Name)
	}
	slices.Sort(v.nodes)
	return v, nil
}

func (v *view) close() { close(v.stop) }

// teamView is one team now.
type teamView struct {
	jobs, gpus            int // of whole jobs
	partJobs, partGPUs    int // of jobs that hold GPUs and aren't whole
	heldJobs, waitingJobs int // jobs without a GPU: suspended, and with pods that wait
	finished              int
}

type picture struct {
	teams     map[string]*teamView
	nodes     map[string]string // node -> one letter per GPU taken
	submitted int
}

func (v *view) look() picture {
	p := picture{teams: map[string]*teamView{}, nodes: map[string]string{}}
	letter := map[string]string{}
	for _, t := range v.teams {
		p.teams[t.Name] = &teamView{}
		letter[t.Name] = strings.ToUpper(t.Name[:1])
	}
	type key struct{ namespace, name string }
	pods, _ := v.pods.List(labels.Everything())
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	ofJob := map[key][]*corev1.Pod{}
	for _, pod := range pods {
		if job := pod.Labels[batchv1.JobNameLabel]; job != "" {
			ofJob[key{pod.Namespace, job}] = append(ofJob[key{pod.Namespace, job}], pod)
		}
	}
	jobs, _ := v.jobs.List(labels.Everything())
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, job := range jobs {
		team := p.teams[job.Namespace]
		if team == nil {
			continue
		}
		p.submitted++
		needs, gpus := int(*job.Spec.Parallelism), gpusOf(&job.Spec.Template.Spec)
		together, held := 0, 0
		for _, pod := range ofJob[key{job.Namespace, job.Name}] {
			if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				together++
			}
			if holds(pod) {
				held += gpus
			}
		}
		whole := together >= needs
		switch {
		case whole && held == 0:
			team.finished++
		case whole:
			team.jobs++
			team.gpus += held
		case held > 0:
			team.partJobs++
			team.partGPUs += held
		case job.Spec.Suspend != nil && *job.Spec.Suspend:
			team.heldJobs++
		default:
			team.waitingJobs++
		}
		mark := letter[job.Namespace]
		if !whole {
			mark = strings.ToLower(mark)
		}
		for _, pod := range ofJob[key{job.Namespace, job.Name}] {
			if holds(pod) {
				p.nodes[pod.Spec.NodeName] += strings.Repeat(mark, gpus)
			}
		}
	}
	return p
}

// holds tells whether a pod sits on its node's GPUs.
func holds(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// gpusOf is what each of the demo's pods asks for.
func gpusOf(spec *corev1.PodSpec) int {
	gpus := spec.Containers[0].Resources.Requests[count.GPU]
	return int(gpus.Value())
}

type frameInput struct {
	title           string
	elapsed, length float64
	report          count.Report
	schedulerCPU    float64
	width           int
}

var colours = map[byte]string{'V': "36", 'S': "33", 'R': "35", 'v': "31;7", 's': "31;7", 'r': "31;7"}

// render is the whole frame.
func (v *view) render(in frameInput) []string {
	p := v.look()
	lines := []string{
		fmt.Sprintf("\x1b[1m%s\x1b[0m   %s %.0f of %.0f s", in.title, bar(in.elapsed, in.length, 24), min(in.elapsed, in.length), in.length),
		"",
		"  team     cohort   GPUs in use / quota       running in part    held pending    done",
	}
	held, waiting, running, part, finished := 0, 0, 0, 0, 0
	for _, t := range v.teams {
		now := p.teams[t.Name]
		used := now.gpus + now.partGPUs
		quota := fmt.Sprint(t.Quota)
		if t.Borrowing > 0 {
			quota += fmt.Sprintf("+%d", t.Borrowing)
		}
		over := ""
		if used > t.Limit() {
			over = "\x1b[31m over\x1b[0m"
		}
		lines = append(lines, fmt.Sprintf("  \x1b[%sm%-8s\x1b[0m %-8s %s %3d / %-6s %7d %7d %7d %7d %7d%s", colours[t.Name[0]-32], t.Name, t.Cohort,
			bar(float64(used), float64(t.Limit()), 12), used, quota, now.jobs, now.partJobs, now.heldJobs, now.waitingJobs, now.finished, over))
		held += now.heldJobs
		waiting += now.waitingJobs
		running += now.jobs
		part += now.partJobs
		finished += now.finished
	}
	lines = append(lines, fmt.Sprintf("  %-43s %7d %7d %7d %7d %7d of %d", "together", running, part, held, waiting, finished, p.submitted), "")
	lines = append(lines, v.map8(p)...)
	seconds := max(in.report.Seconds, 0.001)
	lines = append(lines, "", fmt.Sprintf("  on average %.0f GPUs at work, %.0f held by jobs that aren't whole; kube-scheduler %.1f CPU-s",
		in.report.UsefulGPUSeconds/seconds, in.report.NotWholeGPUSeconds/seconds, in.schedulerCPU))
	if v.way == Tutti {
		lines = append(lines, "")
		lines = append(lines, v.reasons(in.width)...)
	}
	return lines
}

// map8 draws the nodes, eight to a line, one character per GPU.
func (v *view) map8(p picture) []string {
	lines := []string{"  40 nodes of 8 GPUs (V vision, S speech, R ranking; lower case: its job isn't whole)"}
	line := ""
	for i, node := range v.nodes {
		cells := p.nodes[node]
		if len(cells) > gpusPerNode {
			cells = cells[:gpusPerNode]
		}
		cells += strings.Repeat(".", gpusPerNode-len(cells))
		line += "  "
		for j := 0; j < len(cells); {
			end := j
			for end < len(cells) && cells[end] == cells[j] {
				end++
			}
			if colour := colours[cells[j]]; colour != "" {
				line += "\x1b[" + colour + "m" + cells[j:end] + "\x1b[0m"
			} else {
				line += cells[j:end]
			}
			j = end
		}
		if i%8 == 7 || i == len(v.nodes)-1 {
			lines = append(lines, line)
			line = ""
		}
	}
	return lines
}

// pending is a Workload that waits.
type pending struct {
	name, reason, message string
	since                 time.Time
}

// reasons are what Tutti says of the jobs that wait, the oldest of each queue first.
func (v *view) reasons(width int) []string {
	objects, _ := v.workloads.List(labels.Everything())
	oldest := map[string]pending{}
	byReason := map[string]int{}
	total := 0
	for _, object := range objects {
		workload, ok := object.(*unstructured.Unstructured)
		if !ok || isTrue(workload, "QuotaReserved") || isTrue(workload, "Finished") {
			continue
		}
		total++
		namespace := workload.GetNamespace()
		reason, message := conditionText(workload, "QuotaReserved")
		if message == "" {
			continue
		}
		byReason[reason]++
		name := workload.GetName()
		if owners := workload.GetOwnerReferences(); len(owners) > 0 {
			name = owners[0].Name
		}
		since := workload.GetCreationTimestamp().Time
		have, known := oldest[namespace]
		if !known || since.Before(have.since) || since.Equal(have.since) && name < have.name {
			oldest[namespace] = pending{name: name, reason: reason, message: message, since: since}
		}
	}
	var parts []string
	for _, reason := range sortedKeys(byReason) {
		parts = append(parts, fmt.Sprintf("%d %s", byReason[reason], reason))
	}
	lines := []string{fmt.Sprintf("  %d workloads wait (%s); the oldest of each team:", total, strings.Join(parts, ", "))}
	if total == 0 {
		lines[0] = "  no workload waits"
	}
	for _, t := range v.teams {
		if p, known := oldest[t.Name]; known {
			lines = append(lines, wrap(fmt.Sprintf("  %-8s %s: %s", t.Name, p.name, p.message), width, "           ", 3)...)
		}
	}
	return lines
}

// line is the short form for output that isn't a terminal.
func (v *view) line(title string, elapsed, length float64, r count.Report) string {
	p := v.look()
	held, waiting, running, part, finished := 0, 0, 0, 0, 0
	var used []string
	for _, t := range v.teams {
		now := p.teams[t.Name]
		held += now.heldJobs
		waiting += now.waitingJobs
		running += now.jobs
		part += now.partJobs
		finished += now.finished
		used = append(used, fmt.Sprintf("%s %d/%d", t.Name, now.gpus+now.partGPUs, t.Limit()))
	}
	return fmt.Sprintf("  %3.0f of %.0f s: %d submitted: %d held, %d pending, %d in part, %d running, %d done; GPUs %s",
		min(elapsed, length), length, p.submitted, held, waiting, part, running, finished, strings.Join(used, ", "))
}

func condition(object *unstructured.Unstructured, kind string) map[string]any {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

func isTrue(object *unstructured.Unstructured, kind string) bool {
	return condition(object, kind)["status"] == "True"
}

func conditionText(object *unstructured.Unstructured, kind string) (reason, message string) {
	c := condition(object, kind)
	reason, _ = c["reason"].(string)
	message, _ = c["message"].(string)
	return reason, message
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
