// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// series is one time series that Mirror has written, and its value in the child.
type series struct {
	labels prometheus.Labels
	value  float64
	count  uint64
	here   bool // the present child has shown it
}

// The gauges that every queue has as long as it exists.
const (
	clusterQueueStatus = "kueue_cluster_queue_status"
	localQueueStatus   = "kueue_local_queue_status"
)

var (
	mirrorMutex sync.Mutex
	mirrored    = map[string]map[string]*series{} // by metric name, then labels
	complained  = map[string]bool{}
	fqName      = regexp.MustCompile(`fqName: "([^"]+)"`)
)

// Mirror takes the metrics of the manager under test into this process's collectors, where the specs
// look. `fresh`: the first text of a child that has just started. As in one process, counters go on
// over a restart, until their queue is gone.
func Mirror(text string, fresh bool) {
	mirrorMutex.Lock()
	defer mirrorMutex.Unlock()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		complain("text", err)
		return
	}
	if fresh {
		for _, all := range mirrored {
			for _, one := range all {
				one.value, one.count, one.here = 0, 0, false
			}
		}
	}
	var gone []prometheus.Labels
	for _, collector := range allCollectors() {
		if collector == nil || reflect.ValueOf(collector).IsNil() {
			continue
		}
		name := nameOf(collector)
		known := mirrored[name]
		if known == nil {
			known = map[string]*series{}
			mirrored[name] = known
		}
		seen := map[string]bool{}
		if family := families[name]; family != nil {
			for _, metric := range family.Metric {
				labels := prometheus.Labels{}
				for _, label := range metric.Label {
					labels[label.GetName()] = label.GetValue()
				}
				key := fmt.Sprint(labels)
				seen[key] = true
				one := known[key]
				if one == nil {
					one = &series{labels: labels}
					known[key] = one
				}
				one.here = true
				if err := one.copy(collector, metric); err != nil {
					complain(name, err)
				}
			}
		}
		_, gauge := collector.(*prometheus.GaugeVec)
		for key, one := range known {
			if seen[key] || fresh || !(one.here || gauge) {
				continue
			}
			forget(collector, one.labels)
			delete(known, key)
			switch {
			case one.here && name == clusterQueueStatus:
				gone = append(gone, prometheus.Labels{"cluster_queue": one.labels["cluster_queue"]})
			case one.here && name == localQueueStatus:
				gone = append(gone, prometheus.Labels{"name": one.labels["name"], "namespace": one.labels["namespace"]})
			}
		}
	}
	for _, queue := range gone {
		forgetQueue(queue)
	}
}

// forgetQueue drops what an earlier child has counted for a queue that doesn't exist any more.
func forgetQueue(queue prometheus.Labels) {
	for _, collector := range allCollectors() {
		if collector == nil || reflect.ValueOf(collector).IsNil() {
			continue
		}
		known := mirrored[nameOf(collector)]
		for key, one := range known {
			matches := !one.here
			for label, value := range queue {
				matches = matches && one.labels[label] == value
			}
			if matches {
				forget(collector, one.labels)
				delete(known, key)
			}
		}
	}
}

func (s *series) copy(collector prometheus.Collector, metric *dto.Metric) error {
	switch vec := collector.(type) {
	case *prometheus.GaugeVec:
		gauge, err := vec.GetMetricWith(s.labels)
		if err == nil {
			gauge.Set(metric.GetGauge().GetValue())
		}
		return err
	case *prometheus.CounterVec:
		counter, err := vec.GetMetricWith(s.labels)
		if err == nil && metric.GetCounter().GetValue() > s.value {
			counter.Add(metric.GetCounter().GetValue() - s.value)
			s.value = metric.GetCounter().GetValue()
		}
		return err
	case *prometheus.HistogramVec:
		histogram, err := vec.GetMetricWith(s.labels)
		if err != nil {
			return err
		}
		count, sum := metric.GetHistogram().GetSampleCount(), metric.GetHistogram().GetSampleSum()
		for added := count - s.count; s.count < count; s.count++ {
			histogram.Observe((sum - s.value) / float64(added))
		}
		s.value = sum
	}
	return nil
}

func forget(collector prometheus.Collector, labels prometheus.Labels) {
	switch vec := collector.(type) {
	case *prometheus.GaugeVec:
		vec.Delete(labels)
	case *prometheus.CounterVec:
		vec.Delete(labels)
	case *prometheus.HistogramVec:
		vec.Delete(labels)
	}
}

func nameOf(collector prometheus.Collector) string {
	descriptions := make(chan *prometheus.Desc, 1)
	collector.Describe(descriptions)
	found := fqName.FindStringSubmatch((<-descriptions).String())
	if found == nil {
		return ""
	}
	return found[1]
}

// complain tells once about a metric that has other labels than Kueue's.
func complain(name string, err error) {
	if !complained[name] {
		complained[name] = true
		fmt.Fprintf(os.Stderr, "metric %s of the manager under test: %v\n", name, err)
	}
}
