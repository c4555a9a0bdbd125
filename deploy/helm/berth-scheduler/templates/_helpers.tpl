{{- define "berth.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "berth.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/component: {{ include "berth.component" . }}
app.kubernetes.io/part-of: berth
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "berth.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "berth.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "berth.component" -}}scheduler{{- end -}}

{{- /* Two releases must not share a lease, or one of them would never do anything. */ -}}
{{- define "berth.lease" -}}
{{- dig "leaderElection" "resourceName" (include "berth.fullname" .) .Values.config -}}
{{- end -}}

{{- define "berth.config" -}}
{{- $election := dict
  "leaderElect" true
  "resourceLock" "leases"
  "resourceName" (include "berth.lease" .)
  "resourceNamespace" .Release.Namespace
  "leaseDuration" "15s"
  "renewDeadline" "10s"
  "retryPeriod" "2s"
-}}
{{- $config := dict
  "apiVersion" "kubescheduler.config.k8s.io/v1"
  "kind" "KubeSchedulerConfiguration"
  "clientConnection" (dict "qps" 1000 "burst" 1000)
  "leaderElection" $election
  "profiles" (list (dict "schedulerName" .Values.schedulerName))
-}}
{{- mustMergeOverwrite $config (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{- define "berth.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{- define "berth.webhook.fullname" -}}
{{- printf "%s-webhook" (include "berth.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{- define "berth.webhook.selector" -}}
app.kubernetes.io/name: {{ printf "%s-webhook" (default .Chart.Name .Values.nameOverride) }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "berth.webhook.labels" -}}
{{ include "berth.webhook.selector" . }}
app.kubernetes.io/component: webhook
app.kubernetes.io/part-of: berth
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "berth.webhook.secret" -}}
{{- default (printf "%s-tls" (include "berth.webhook.fullname" .)) .Values.webhook.secretName -}}
{{- end -}}
