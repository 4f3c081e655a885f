{{- /* A probe of the server's health, with the times of a value. It calls the server localhost, a name to which it answers under any certificate. */ -}}
{{- define "comb.probe" -}}
{{- $root := index . 0 -}}
{{- $scheme := ternary "HTTPS" "HTTP" (ne $root.Values.tls.secret "") -}}
{{- $get := dict "path" "/api/v1/health" "port" "http" "scheme" $scheme "httpHeaders" (list (dict "name" "Host" "value" "localhost")) -}}
{{- toJson (merge (dict "httpGet" $get) (index . 1)) -}}
{{- end -}}
