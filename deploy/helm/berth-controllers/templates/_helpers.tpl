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

{{- define "berth.component" -}}controllers{{- end -}}

{{- /* Two releases must not share a lease, or one of them would never do anything. */ -}}
{{- define "berth.lease" -}}
{{- include "berth.fullname" . -}}
{{- end -}}

{{- define "berth.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{- define "berth.eviction" -}}
{{- $given := .Values.eviction -}}
{{- $flags := list -}}
{{- range $flag, $value := dict
  "affinity-violation-grace" $given.affinityViolationGrace
  "domain-eviction-burst" $given.domainBurst
  "domain-eviction-qps" $given.domainQps
  "eviction-burst" $given.burst
  "eviction-domain" $given.domain
  "eviction-qps" $given.qps
  "exclusive-charge" .Values.exclusiveQuota.charge
  "halt-above" $given.haltAbove
  "halt-policy" $given.haltPolicy
  "max-evicted-share" $given.maxEvictedShare
  "pace-by-owner" $given.paceByOwner
  "pace-timeout" $given.paceTimeout
  "rebalance" .Values.rebalance.policy
  "rebalance-delay" .Values.rebalance.delay
  "rebalance-margin" .Values.rebalance.margin
-}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) -}}
{{- $flags = append $flags (printf "--%s=%v" $flag $value) -}}
{{- end -}}
{{- end -}}
{{- if .Values.rebalance.waitsForNodes -}}
{{- $flags = append $flags "--rebalance-waits-for-nodes" -}}
{{- end -}}
{{- if .Values.exclusiveQuota.enabled -}}
{{- $flags = append $flags "--exclusive-quota" -}}
{{- end -}}
{{- if .Values.dryRun -}}
{{- $flags = append $flags "--dry-run" -}}
{{- end -}}
{{- with $flags -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
