package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func emptyDirs(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: volumes}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  securityContext: {fsGroup: 3000, runAsUser: 1000, runAsGroup: 1000, supplementalGroups: [4000]}
  containers:
  - name: main
    image: "$IMAGE"
    command: [sh, -c, "echo disk >/disk/file; echo memory >/memory/file; mkdir -p /disk/sub; exec sleep 100000"]
    volumeMounts: [{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}]
  - name: other
    image: "$IMAGE"
    command: [sh, -c, "exec sleep 100000"]
    volumeMounts: [{name: disk, mountPath: /part, subPath: part}, {name: disk, mountPath: /all, readOnly: true}]
  volumes: [{name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory, sizeLimit: 8Mi}}]
`)
	h.ready(t, "pod/volumes")
	eventually(t, "files", func() (string, bool) {
		out, err := h.try(t, "exec", "volumes", "-c", "main", "--", "sh", "-c", "cat /disk/file /memory/file; stat -c %g /disk/file; id -G")
		return out, err == nil && out == "disk\nmemory\n3000\n1000 2000 3000 4000"
	})
	env.Equal(t, "subPath", h.in(t, "exec", "volumes", "-c", "other", "--", "sh", "-c", "echo part >/part/file; cat /all/part/file; touch /all/x 2>/dev/null || echo read-only"), "part\nread-only")
	return ""
}

func projections(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: one}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {password: hidden}
---
apiVersion: v1
kind: Pod
metadata: {name: projections, labels: {app: projections}}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: "$IMAGE"
    command: [sleep, "100000"]
    env:
    - {name: KEY, valueFrom: {configMapKeyRef: {name: settings, key: key}}}
    - {name: WHERE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    envFrom: [{secretRef: {name: secret}}]
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: secret, mountPath: /secret, readOnly: true}
    - {name: all, mountPath: /all}
    - {name: settings, mountPath: /etc/key, subPath: key}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: secret, secret: {secretName: secret, defaultMode: 0400}}
  - name: all
    projected:
      sources:
      - {serviceAccountToken: {path: token, audience: somebody}}
      - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
      - {configMap: {name: settings}}
`)
	h.ready(t, "pod/projections")
	env.Equal(t, "what it sees", h.sh(t, "projections", `echo $KEY $WHERE $password; cat /settings/key; echo; cat /secret/password; echo; cat /etc/key; echo; cat /all/labels; echo; cut -d. -f1 /all/token | wc -w; ls /var/run/secrets/kubernetes.io/serviceaccount`),
		"one "+nodeName+" hidden\none\nhidden\none\napp=\"projections\"\n1\nca.crt\nnamespace\ntoken")
	h.in(t, "patch", "configmap", "settings", "-p", `{"data": {"key": "two"}}`)
	// The kubelet looks at pods again when it syncs them.
	h.in(t, "annotate", "pod", "projections", "look=again")
	eventually(t, "a changed ConfigMap", func() (string, bool) {
		got := h.sh(t, "projections", "cat /settings/key")
		return got, got == "two"
	})
	return ""
}

func hostPaths(t *testing.T, h handler) string {
	dir := "/opt/data-" + h.name
	env.Check(t, os.MkdirAll(dir, 0o755))
	env.Check(t, os.WriteFile(filepath.Join(dir, "file"), []byte("the node's\n"), 0o644))
	pod := func(name, path, more string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], volumeMounts: [{name: v, mountPath: /host` + more + `}]}
  volumes: [{name: v, hostPath: {path: ` + path + `}}]
`
	}
	h.apply(t, pod("host-read", dir, ", readOnly: true"))
	h.ready(t, "pod/host-read")
	env.Equal(t, "a directory of the node", h.sh(t, "host-read", "cat /host/file; touch /host/new 2>/dev/null || echo read-only"), "the node's\nread-only")
	h.apply(t, pod("host-write", dir, ""))
	h.apply(t, pod("host-etc", "/etc", ", readOnly: true"))
	if !h.jail() {
		h.ready(t, "pod/host-write", "pod/host-etc")
		return ""
	}
	for name, path := range map[string]string{"host-write": dir, "host-etc": "/etc"} {
		eventually(t, "the refusal of "+path, func() (string, bool) {
			out := h.in(t, "get", "pod", name, "-o", "jsonpath={.status.containerStatuses[0].state}{.status.containerStatuses[0].lastState}")
			return out, strings.Contains(out, "refused:") && strings.Contains(out, path)
		})
	}
	return "read-only; /etc refused"
}

// hostViews: by an annotation of the pod's, its container writes into a view of a directory of the node's.
func hostViews(t *testing.T, h handler) string {
	if !h.jail() {
		return "direct"
	}
	if why := engine.WithoutViews(); why != "" {
		return why
	}
	ask := func(t testing.TB, args ...string) engine.Result {
		return engine.Run(t, "/usr/local/bin/agentjail", args...)
	}
	err := promise.View(t, ask, func(t testing.TB, dir string, command ...string) func() engine.Result {
		return func() (r engine.Result) {
			h.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: host-view, annotations: {%s}}
spec:
  $CLASS
  restartPolicy: Never
  containers:
  - {name: main, image: "$IMAGE", command: [%q, %q, %q], volumeMounts: [{name: v, mountPath: /w}]}
  volumes: [{name: v, hostPath: {path: %s}}]
`, strings.ReplaceAll(strings.Join(promise.ViewAnnotations, ", "), "=", ": "), command[0], command[1], command[2], dir))
			h.waits(t, "jsonpath={.status.phase}=Succeeded", "pod/host-view")
			return r
		}
	}, 1) // a pod's container is not started again: another one takes its place
	if err != nil {
		t.Error(err)
	}
	return ""
}

func imageVolumes(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: image-volume}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], volumeMounts: [{name: v, mountPath: /image}]}
  volumes: [{name: v, image: {reference: "$IMAGE", pullPolicy: IfNotPresent}}]
`)
	h.ready(t, "pod/image-volume")
	env.Equal(t, "the image's files", h.sh(t, "image-volume", "cat /image/etc/not-executable; touch /image/new 2>/dev/null || echo read-only"), "no program\nread-only")
	return ""
}

func evictions(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: evicted}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "dd if=/dev/zero of=/v/big bs=1M count=32; exec sleep 100000"], volumeMounts: [{name: v, mountPath: /v}]}
  volumes: [{name: v, emptyDir: {sizeLimit: 4Mi}}]
`)
	h.waits(t, "jsonpath={.status.reason}=Evicted", "pod/evicted")
	return ""
}

// storageLimits: files of the root count against a limit of ephemeral-storage where they are on the disk. In a jail they are memory, and count
// against its limit of memory; a volume counts everywhere.
func storageLimits(t *testing.T, h handler) string {
	pod := func(name, file, then, more string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "dd if=/dev/zero of=` + file + ` bs=1M count=32` + then + `"], volumeMounts: [{name: v, mountPath: /v}], resources: {limits: {` + more + `}}}
  volumes: [{name: v, emptyDir: {}}]
`
	}
	const stays = " && exec sleep 100000"
	// Its first process ends later, as that of limits does, and gives back what the files took, so that it can go on.
	ends := "; echo $?; : >/big; " + engine.AfterGo("exit 137")
	h.apply(t, pod("storage-volume", "/v/big", stays, "ephemeral-storage: 8Mi")+"---"+pod("storage-root", "/big", stays, "ephemeral-storage: 8Mi")+
		"---"+pod("storage-memory", "/big", ends, "ephemeral-storage: 8Mi, memory: 24Mi"))
	h.waits(t, "jsonpath={.status.reason}=Evicted", "pod/storage-volume")
	if !h.jail() {
		h.waits(t, "jsonpath={.status.reason}=Evicted", "pod/storage-root")
		return ""
	}
	h.endsKilled(t, "storage-memory")
	h.ready(t, "pod/storage-root")
	env.Equal(t, "a jail with files in its root", h.in(t, "get", "pod", "storage-root", "-o", "jsonpath={.status.phase}"), "Running")
	return "files of the root are memory"
}
