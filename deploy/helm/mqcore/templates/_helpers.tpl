{{- define "mqcore.labels" -}}
app.kubernetes.io/name: mqcore
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "mqcore.selector" -}}
app.kubernetes.io/name: mqcore
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "mqcore.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}

{{/* Name servers, by their names in the headless service: HOST:PORT joined by ; */}}
{{- define "mqcore.namesrvs" -}}
{{- $service := printf "%s-namesrv" .Release.Name -}}
{{- $found := list -}}
{{- range $number := until (int .Values.namesrv.replicas) -}}
{{- $found = append $found (printf "%s-%d.%s.%s.svc:9876" $service $number $service $.Release.Namespace) -}}
{{- end -}}
{{- join ";" $found -}}
{{- end }}

{{- define "mqcore.controllers" -}}
{{- $service := printf "%s-controller" .Release.Name -}}
{{- $found := list -}}
{{- range $number := until (int .Values.controller.replicas) -}}
{{- $found = append $found (printf "%s-%d.%s.%s.svc:9878" $service $number $service $.Release.Namespace) -}}
{{- end -}}
{{- join ";" $found -}}
{{- end }}

{{/* The same as controllerDLegerPeers: each with its id. */}}
{{- define "mqcore.peers" -}}
{{- $service := printf "%s-controller" .Release.Name -}}
{{- $found := list -}}
{{- range $number := until (int .Values.controller.replicas) -}}
{{- $found = append $found (printf "n%d-%s-%d.%s.%s.svc:9878" $number $service $number $service $.Release.Namespace) -}}
{{- end -}}
{{- join ";" $found -}}
{{- end }}

{{- define "mqcore.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10911
runAsGroup: 10911
fsGroup: 10911
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "mqcore.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Alive while the event loop turns; ready while clients are served. A recovery may take its time. */}}
{{- define "mqcore.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "mqcore.apart" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "mqcore.selector" . | nindent 14 }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "mqcore.lines" -}}
{{- range $key, $value := . }}
{{ $key }}={{ $value }}
{{- end }}
{{- end }}
