{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* Names, labels and the CEL fragments that several policies share. */}}

{{- define "tutti.labels" -}}
app.kubernetes.io/name: tutti
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tutti
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tutti.selector" -}}
app.kubernetes.io/name: tutti
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tutti.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{- define "tutti.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* "on" where PodGroups are used: 1.36 serves them as v1alpha2, 1.37 as v1beta1. */}}
{{- define "tutti.gang" -}}
{{- $on := toString .Values.nativeGang.enabled -}}
{{- if eq $on "true" -}}on
{{- else if eq $on "auto" -}}
{{- if or (.Capabilities.APIVersions.Has "scheduling.k8s.io/v1alpha2/PodGroup") (.Capabilities.APIVersions.Has "scheduling.k8s.io/v1beta1/PodGroup") -}}on{{- end -}}
{{- end -}}
{{- end }}

{{/* The version of PodGroups: what is served, else what the Kubernetes version has. */}}
{{- define "tutti.groupApi" -}}
{{- if .Capabilities.APIVersions.Has "scheduling.k8s.io/v1beta1/PodGroup" -}}scheduling.k8s.io/v1beta1
{{- else if .Capabilities.APIVersions.Has "scheduling.k8s.io/v1alpha2/PodGroup" -}}scheduling.k8s.io/v1alpha2
{{- else if semverCompare ">=1.37.0-0" .Capabilities.KubeVersion.Version -}}scheduling.k8s.io/v1beta1
{{- else -}}scheduling.k8s.io/v1alpha2
{{- end -}}
{{- end }}

{{- define "tutti.namespaceSelector" -}}
{{- if .Values.managedJobsNamespaceSelector -}}
{{ toYaml .Values.managedJobsNamespaceSelector }}
{{- else -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: [kube-system, {{ .Release.Namespace }}]
{{- end -}}
{{- end }}

{{/* Names of the operator's groups: job, first 8 of the workload's uid, number of the admission. */}}
{{- define "tutti.groupName" -}}
-[0-9a-f]{8}-[0-9]+$
{{- end }}

{{/* CEL: this is not the operator itself. */}}
{{- define "tutti.notUs" -}}
request.userInfo.username != '{{ include "tutti.user" . }}'
{{- end }}

{{/* CEL: the object isn't a part of a larger one. A CronJob's Jobs stand for themselves. */}}
{{- define "tutti.isRoot" -}}
!VAR.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false) && !(r.kind == 'CronJob' && r.apiVersion.startsWith('batch/')))
{{- end }}

{{/* CEL: the Job is suspended; absent means false. */}}
{{- define "tutti.suspended" -}}
VAR.spec.?suspend.orValue(false) == true
{{- end }}

{{- define "tutti.hasQueue" -}}
VAR.metadata.?labels['kueue.x-k8s.io/queue-name'].orValue('') != ''
{{- end }}

{{/* Policies act unless somebody else holds the Jobs. */}}
{{- define "tutti.policies" -}}
{{- if and .Values.policies.enabled (ne .Values.mode "Observe") -}}on{{- end -}}
{{- end }}

{{- define "tutti.mutatingApi" -}}
admissionregistration.k8s.io/{{ ternary "v1" "v1beta1" (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- end }}

{{/* matchConstraints of a policy on queued Jobs: (list $ operations...). The selector is cheaper than
CEL, and is met if either the old or the new object meets it. */}}
{{- define "tutti.matchJobs" -}}
namespaceSelector:
  {{- include "tutti.namespaceSelector" (first .) | nindent 2 }}
{{- if not (first .).Values.manageJobsWithoutQueueName }}
objectSelector:
  matchExpressions:
  - key: kueue.x-k8s.io/queue-name
    operator: Exists
{{- end }}
resourceRules:
- apiGroups: [batch]
  apiVersions: [v1]
  resources: [jobs]
  operations: [{{ join ", " (rest .) }}]
  scope: "*"
{{- if include "tutti.jobsets" (first .) }}
- apiGroups: [jobset.x-k8s.io]
  apiVersions: [v1alpha2]
  resources: [jobsets]
  operations: [{{ join ", " (rest .) }}]
  scope: "*"
{{- end }}
{{- end }}

{{/* matchConstraints of a policy on other queued objects: a dict of root, group, resource, operations. */}}
{{- define "tutti.matchQueued" -}}
namespaceSelector:
  {{- include "tutti.namespaceSelector" .root | nindent 2 }}
{{- if not .root.Values.manageJobsWithoutQueueName }}
objectSelector:
  matchExpressions:
  - key: kueue.x-k8s.io/queue-name
    operator: Exists
{{- end }}
resourceRules:
- apiGroups: [{{ .group | quote }}]
  apiVersions: [v1]
  resources: [{{ .resource }}]
  operations: [{{ join ", " .operations }}]
  scope: "*"
{{- end }}

{{/* CEL: the new Pod has to be held: by itself, unless it is a Job's, or for what made it. */}}
{{- define "tutti.queuedPod" -}}
'kueue.x-k8s.io/pod-suspending-parent' in object.metadata.?annotations.orValue({})
{{- if has "pod" (dig "integrations" "frameworks" (list) .Values.config.kueue) }}
{{- printf " || %s!object.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false) && r.kind == 'Job' && r.apiVersion.startsWith('batch/'))" (ternary "" (printf "%s && " (include "tutti.hasQueue" . | replace "VAR" "object")) .Values.manageJobsWithoutQueueName) }}
{{- end }}
{{- end }}

{{/* Variables of the rules for queued objects of all kinds. */}}
{{- define "tutti.ruleVariables" -}}
- name: update
  expression: "request.operation == 'UPDATE'"
- name: labels
  expression: "object.metadata.?labels.orValue({})"
- name: notes
  expression: "object.metadata.?annotations.orValue({})"
- name: oldLabels
  expression: "variables.update ? oldObject.metadata.?labels.orValue({}) : {}"
- name: oldNotes
  expression: "variables.update ? oldObject.metadata.?annotations.orValue({}) : {}"
- name: queue
  expression: "variables.labels[?'kueue.x-k8s.io/queue-name'].orValue('')"
- name: oldQueue
  expression: "variables.oldLabels[?'kueue.x-k8s.io/queue-name'].orValue('')"
- name: priority
  expression: "variables.labels[?'kueue.x-k8s.io/priority-class'].orValue('')"
- name: oldPriority
  expression: "variables.oldLabels[?'kueue.x-k8s.io/priority-class'].orValue('')"
- name: gates
  expression: "variables.notes[?'kueue.x-k8s.io/admission-gated-by'].orValue('') == '' ? [] : variables.notes['kueue.x-k8s.io/admission-gated-by'].split(',').map(g, g.trim())"
- name: oldGates
  expression: "variables.oldNotes[?'kueue.x-k8s.io/admission-gated-by'].orValue('') == '' ? [] : variables.oldNotes['kueue.x-k8s.io/admission-gated-by'].split(',').map(g, g.trim())"
{{- end }}

{{- define "tutti.queueRule" -}}
- expression: "!('kueue.x-k8s.io/queue-name' in variables.labels) || !format.dns1123Subdomain().validate(variables.queue).hasValue()"
  reason: Forbidden
  messageExpression: "'metadata.labels[kueue.x-k8s.io/queue-name]: \"' + variables.queue + '\" is not the name of a LocalQueue: use lower case letters, digits, \"-\" and \".\", or remove the label'"
{{- end }}

{{/* Of kinds that are held by the gates of their pods; the variable held: nothing of it runs. */}}
{{- define "tutti.priorityRules" -}}
- expression: "variables.oldPriority == '' || variables.priority != ''"
  reason: Forbidden
  message: "metadata.labels[kueue.x-k8s.io/priority-class]: cannot be removed: set it to another WorkloadPriorityClass"
- expression: "!variables.update || variables.held || variables.oldPriority != '' || variables.priority == ''"
  reason: Forbidden
  message: "metadata.labels[kueue.x-k8s.io/priority-class]: cannot be added to what runs already"
{{- end }}

{{- define "tutti.gateRules" -}}
- expression: "variables.gates.all(g, size(g) <= 63 && g.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9/%:@._~!$&*+=;-]+$')) && variables.gates.all(g, variables.gates.exists_one(h, h == g))"
  reason: Forbidden
  message: "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: must be a list of different names, separated by commas, each of the form example.com/name and at most 63 long"
- expression: "!variables.update || variables.gates.all(g, g in variables.oldGates)"
  reason: Forbidden
  message: "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: gates can be added only at creation; afterwards they can only be removed"
{{- end }}

{{/* "yes" when JobSets are queued. */}}
{{- define "tutti.jobsets" -}}
{{- if has "jobset.x-k8s.io/jobset" (dig "integrations" "frameworks" (list) .Values.config.kueue) }}yes{{ end }}
{{- end }}

{{/* The binding of a policy that changes objects: (list $ name) */}}
{{- define "tutti.mutate" -}}
---
apiVersion: {{ include "tutti.mutatingApi" (index . 0) }}
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "tutti.labels" (index . 0) | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
{{- end }}

{{/* "yes" where Jobs may be elastic (feature gate ElasticJobsViaWorkloadSlices). */}}
{{- define "tutti.elastic" -}}
{{- if dig "ElasticJobsViaWorkloadSlices" true .Values.featureGates }}yes{{ end }}
{{- end }}

{{/* CEL: the Job says that it is elastic. */}}
{{- define "tutti.isElastic" -}}
object.metadata.?annotations['kueue.x-k8s.io/elastic-job'].orValue('') == 'true'
{{- end }}

{{/* A binding that denies: (list $ name) */}}
{{- define "tutti.deny" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "tutti.labels" (index . 0) | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end }}

{{/* Stops the rendering where values contradict each other. */}}
{{- define "tutti.check" -}}
{{- if and .Values.ledger.persistence.enabled (not .Values.ledger.enabled) -}}
{{- fail "ledger.persistence.enabled needs ledger.enabled: true" -}}
{{- end -}}
{{- if and .Values.ledger.persistence.enabled (gt (int .Values.replicaCount) 1) (ne .Values.ledger.persistence.accessMode "ReadWriteMany") -}}
{{- fail "ledger.persistence with replicaCount above 1 needs accessMode ReadWriteMany: set replicaCount: 1, or use the default emptyDir" -}}
{{- end -}}
{{- if and (ne .Values.mode "Greenfield") .Values.crds.install -}}
{{- fail (printf "mode %s uses the CRDs that are there: set crds.install: false" .Values.mode) -}}
{{- end -}}
{{- if and (include "tutti.policies" .) (eq (include "tutti.mutatingApi" .) "admissionregistration.k8s.io/v1beta1") (not .Values.policies.betaApi) -}}
{{- fail "policies.enabled needs MutatingAdmissionPolicy, which this cluster's version doesn't serve by default: set policies.enabled: false, webhook.enabled: true and webhook.jobs: true, or switch the API on and set policies.betaApi: true" -}}
{{- end -}}
{{- if and .Values.webhook.jobs (not .Values.webhook.enabled) -}}
{{- fail "webhook.jobs needs webhook.enabled: true" -}}
{{- end -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "replicaCount above 1 needs leaderElection.enabled: true" -}}
{{- end -}}
{{- range $own := list "namespace" "health" "metrics" "webhook" "visibilityServer" "leaderElection" "internalCertManagement" "managedJobsNamespaceSelector" "manageJobsWithoutQueueName" "featureGates" -}}
{{- if hasKey $.Values.config.kueue $own -}}
{{- fail (printf "config.kueue.%s is set by the chart: use the chart's own values for it (namespace: the release's)" $own) -}}
{{- end -}}
{{- end -}}
{{- range $own := list "mode" "nativeGang" "ledger" -}}
{{- if hasKey $.Values.config.tutti $own -}}
{{- fail (printf "config.tutti.%s is set by the chart: use the value %s" $own $own) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* "on" where pods are queued, by themselves, for a Deployment or a StatefulSet. */ -}}
{{- define "tutti.pods" -}}
{{- $frameworks := dig "integrations" "frameworks" (list) .Values.config.kueue -}}
{{- if or (has "pod" $frameworks) (has "deployment" $frameworks) (include "tutti.statefulsets" .) -}}
{{- if not (or .Values.policies.enabled .Values.webhook.jobs) -}}
{{- fail "config.kueue.integrations.frameworks: nobody would hold pods: set policies.enabled: true, or webhook.enabled: true and webhook.jobs: true" -}}
{{- end -}}
on
{{- end -}}
{{- end }}

{{- /* "yes" where StatefulSets are queued. */ -}}
{{- define "tutti.statefulsets" -}}
{{- if has "statefulset" (dig "integrations" "frameworks" (list) .Values.config.kueue) }}yes{{ end }}
{{- end }}

{{- /* A webhook for pods or for what makes them; only what asks for a queue gets there. */ -}}
{{- define "tutti.webhookPods" -}}
- name: {{ .name }}
  {{- include "tutti.webhookCommon" .root | nindent 2 }}
  clientConfig:
    {{- include "tutti.webhookClient" (dict "root" .root "path" .path) | nindent 4 }}
  namespaceSelector:
    {{- include "tutti.namespaceSelector" .root | nindent 4 }}
  matchConditions:
  - name: not-us
    expression: {{ include "tutti.notUs" .root | quote }}
  {{- if not .root.Values.manageJobsWithoutQueueName }}
  - name: queued
    expression: {{ printf "%s || has(object.metadata.annotations) && 'kueue.x-k8s.io/pod-suspending-parent' in object.metadata.annotations || (oldObject != null && %s)" (include "tutti.hasQueue" .root | replace "VAR" "object") (include "tutti.hasQueue" .root | replace "VAR" "oldObject") | quote }}
  {{- end }}
  rules:
  - apiGroups: [{{ .group | quote }}]
    apiVersions: [v1]
    resources: [{{ .resource }}]
    operations: {{ .operations | toJson }}
    scope: "*"
{{- end }}
