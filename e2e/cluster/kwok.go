// SPDX-License-Identifier: Apache-2.0

// The kubelets of the simulated nodes: kwok with stages of our own. A bound pod becomes Running and
// Ready at once. A Job's pod ends when a test says so or after the time in its annotation; a pod
// that is being deleted ends first, as under a kubelet, and then goes.

package cluster

import (
	"os"
	"strings"
)

const (
	// RunFor on a pod (template): it succeeds after this Go duration, e.g. "3s". Without it (and
	// without FailAfter) a pod runs until it is deleted or a test writes its status.
	RunFor = "pod-complete.stage.kwok.x-k8s.io/delay"
	// FailAfter: it fails with exit code 1 after this duration.
	FailAfter = "pod-fail.stage.kwok.x-k8s.io/delay"
	// ReadyAfter: it becomes Ready this long after it is bound.
	ReadyAfter = "pod-ready.stage.kwok.x-k8s.io/delay"
	// TerminateFor: a deleted pod needs this long to end.
	TerminateFor = "pod-terminate.stage.kwok.x-k8s.io/delay"
)

// podStage writes one Stage document. when and status are YAML, already indented by their level.
func podStage(name, when, next string) string {
	return `---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: ` + name + `
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
` + when + `
  delay:
    durationMilliseconds: 0
    durationFrom:
      expressionFrom: '.metadata.annotations["` + name + `.stage.kwok.x-k8s.io/delay"]'
  next:
` + next
}

const (
	whenAlive   = "    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}\n"
	whenDeleted = "    - {key: .metadata.deletionTimestamp, operator: Exists}\n"
	whenPending = "    - {key: .status.phase, operator: In, values: [Pending]}\n"
	whenRunning = "    - {key: .status.phase, operator: In, values: [Running]}\n"
	whenOngoing = "    - {key: .status.phase, operator: NotIn, values: [Succeeded, Failed]}"
	whenEnded   = "    - {key: .status.phase, operator: In, values: [Succeeded, Failed]}"
)

func whenAnnotated(key string) string {
	return "    - {key: '.metadata.annotations[\"" + key + "\"]', operator: Exists}"
}

// ended is the status patch of a pod whose containers have terminated.
func ended(phase, reason, exitCode string) string {
	return `    statusTemplate: |
      {{ $now := Now }}
      phase: ` + phase + `
      conditions:
      - {type: Ready, status: "False", reason: Pod` + reason + `, lastTransitionTime: {{ $now | Quote }}}
      - {type: ContainersReady, status: "False", reason: Pod` + reason + `, lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: false
        started: false
        restartCount: 0
        state:
          terminated:
            exitCode: ` + exitCode + `
            reason: ` + reason + `
            startedAt: {{ $now | Quote }}
            finishedAt: {{ $now | Quote }}
      {{ end }}
`
}

// nodeStage makes nodes Ready that come without the condition (AddNodes sets it itself). Heartbeats
// are left out: the node life-cycle controller is off, so nobody reads them.
const nodeStage = `---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: node-ready
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      conditions:
      - {type: Ready, status: "True", reason: Simulated, lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
`

var defaultStages = strings.Join([]string{
	nodeStage,
	podStage("pod-ready", whenAlive+whenPending+
		"    - {key: .spec.nodeName, operator: Exists}", `    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      startTime: {{ $now | Quote }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) | Quote }}
      conditions:
      - {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: true
        started: true
        restartCount: 0
        state:
          running: {startedAt: {{ $now | Quote }}}
      {{ end }}
      {{ if .spec.initContainers }}
      initContainerStatuses:
      {{ range .spec.initContainers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: true
        restartCount: 0
        {{ if eq .restartPolicy "Always" }}
        started: true
        state:
          running: {startedAt: {{ $now | Quote }}}
        {{ else }}
        started: false
        state:
          terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}
        {{ end }}
      {{ end }}
      {{ end }}
`),
	podStage("pod-complete", whenAlive+whenRunning+whenAnnotated(RunFor), ended("Succeeded", "Completed", "0")),
	podStage("pod-fail", whenAlive+whenRunning+whenAnnotated(FailAfter), ended("Failed", "Error", "1")),
	podStage("pod-terminate", whenDeleted+whenOngoing, ended("Failed", "Error", "143")),
	podStage("pod-delete", whenDeleted+whenEnded, "    delete: true\n"),
}, "")

func (c *Cluster) startKwok() error {
	binaries, err := toolDir("kwok", "TUTTI_KWOK", "")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path("stages.yaml"), []byte(defaultStages+c.Stages), 0o644); err != nil {
		return err
	}
	c.Kwok, err = StartProcess("kwok", c.LogDir, c.Dir, binaries+"/kwok", []string{
		"--kubeconfig=" + c.Kubeconfig, "--config=" + c.path("stages.yaml"), "--manage-all-nodes",
		"--node-lease-duration-seconds=0", "--node-ip=127.0.0.1",
	}, nil)
	return err
}
