package kubernetes

import (
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// execProbes: a probe that is late is one that failed, and a busy machine's may take longer than the second that they have by default.
func execProbes(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: probes}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: "$IMAGE"
    command: [sh, -c, "touch /tmp/started /tmp/ready /tmp/live; exec sleep 100000"]
    startupProbe: {exec: {command: [test, -e, /tmp/started]}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 60}
    readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, timeoutSeconds: 30, periodSeconds: 1}
    livenessProbe: {exec: {command: [test, -e, /tmp/live]}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 1}
`)
	h.ready(t, "pod/probes")
	h.sh(t, "probes", "rm /tmp/ready")
	h.waits(t, "condition=Ready=False", "pod/probes")
	h.sh(t, "probes", "rm /tmp/live")
	h.waits(t, "jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/probes")
	h.ready(t, "pod/probes")
	return ""
}

func netProbes(t *testing.T, h handler) string {
	for name, probe := range map[string]string{"http": "httpGet: {path: /, port: 8080}", "tcp": "tcpSocket: {port: 8080}"} {
		h.server(t, name, "    readinessProbe: {"+probe+", periodSeconds: 1}\n")
	}
	for _, name := range []string{"http", "tcp"} {
		if h.network() {
			h.ready(t, "pod/"+name)
			continue
		}
		eventually(t, "the probe", func() (string, bool) {
			out := h.in(t, "get", "events", "--field-selector=reason=Unhealthy,involvedObject.name="+name, "-o", "jsonpath={.items[*].message}")
			return out, strings.Contains(out, "connect: connection refused")
		})
	}
	if !h.network() {
		return "refused: no network"
	}
	// From another pod, by its address: CNI's.
	h.sleeper(t, "peer")
	ip := h.in(t, "get", "pod", "tcp", "-o", "jsonpath={.status.podIP}")
	env.Contain(t, "pod to pod", h.sh(t, "peer", `printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 20 `+ip+` 8080`), "served")
	return ""
}

func inits(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: inits}
spec:
  $CLASS
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  initContainers:
  - {name: first, image: "$IMAGE", command: [sh, -c, "echo made first >/v/file"], volumeMounts: [{name: v, mountPath: /v}]}
  - name: side
    image: "$IMAGE"
    restartPolicy: Always
    command: [sh, -c, "mkdir /tmp/www; echo sidecar >/tmp/www/index.html; exec httpd -f -p 9000 -h /tmp/www"]
    startupProbe: {exec: {command: [wget, -q, -O, /dev/null, "http://127.0.0.1:9000/"]}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 60}
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "cat /v/file; printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 20 127.0.0.1 9000 | tail -n 1"], volumeMounts: [{name: v, mountPath: /v}]}
  volumes: [{name: v, emptyDir: {}}]
`)
	h.waits(t, "jsonpath={.status.phase}=Succeeded", "pod/inits")
	env.Equal(t, "what it prints", h.in(t, "logs", "inits", "-c", "main"), "made first\nsidecar")
	return ""
}

func jobs(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  completions: 2
  parallelism: 2
  template:
    metadata: {labels: {app: job}}
    spec:
      $CLASS
      restartPolicy: Never
      containers:
      - {name: main, image: "$IMAGE", command: [sh, -c, "echo done"]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: failing}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {app: failing}}
    spec:
      $CLASS
      restartPolicy: Never
      containers:
      - {name: main, image: "$IMAGE", command: [sh, -c, "echo why >/dev/termination-log; exit 5"]}
`)
	h.waits(t, "condition=Complete", "job/job")
	h.waits(t, "condition=Failed", "job/failing")
	env.Equal(t, "exit code and message", h.in(t, "get", "pods", "-l", "job-name=failing", "-o",
		"jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode} {.items[0].status.containerStatuses[0].state.terminated.message}"), "5 why")
	return ""
}

func deployments(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: deployment}
spec:
  replicas: 2
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector: {matchLabels: {app: deployment}}
  template:
    metadata: {labels: {app: deployment}}
    spec:
      $CLASS
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: "$IMAGE", command: [sleep, "100000"], env: [{name: RELEASE, value: "1"}]}
`)
	h.in(t, "rollout", "status", "deployment/deployment", "--timeout=100s")
	h.in(t, "set", "env", "deployment/deployment", "RELEASE=2")
	h.in(t, "rollout", "status", "deployment/deployment", "--timeout=100s")
	env.Equal(t, "release", h.in(t, "exec", "deployment/deployment", "--", "sh", "-c", "echo $RELEASE"), "2")
	h.in(t, "rollout", "undo", "deployment/deployment")
	h.in(t, "rollout", "status", "deployment/deployment", "--timeout=100s")
	return ""
}

func statefulSets(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stateful}
spec:
  serviceName: stateful
  replicas: 2
  selector: {matchLabels: {app: stateful}}
  template:
    metadata: {labels: {app: stateful}}
    spec:
      $CLASS
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: "$IMAGE", command: [sleep, "100000"]}
`)
	h.in(t, "rollout", "status", "statefulset/stateful", "--timeout=100s")
	env.Equal(t, "its name", h.sh(t, "stateful-1", "hostname"), "stateful-1")
	before := h.in(t, "get", "pod", "stateful-0", "-o", "jsonpath={.metadata.uid}")
	h.in(t, "delete", "pod", "stateful-0", "--wait=false")
	eventually(t, "another of that name", func() (string, bool) {
		uid, _ := h.try(t, "get", "pod", "stateful-0", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
		return uid, uid != "" && uid != before
	})
	h.ready(t, "pod/stateful-0")
	return ""
}

// sandboxes has the shape of kubernetes-sigs/agent-sandbox with what every cluster has: a pool of warm pods, of which one is claimed and goes on
// while another takes its place; and a sandbox that is suspended and comes back by its name, with its volume and nothing else.
func sandboxes(t *testing.T, h handler) string {
	directory := dirOf(cluster.dir, "sandbox-"+h.name) // on a disk: owners cannot be mapped on the node's /opt
	h.apply(t, strings.NewReplacer("$NAME", "sandbox-"+h.name, "$DIRECTORY", directory, "$NODE", nodeName).Replace(sandboxObjects))
	h.in(t, "rollout", "status", "deployment/warm", "--timeout=100s")
	h.in(t, "rollout", "status", "statefulset/sandbox", "--timeout=100s")
	claimed := strings.Fields(h.in(t, "get", "pods", "-l", "pool=warm", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	h.in(t, "label", "pod", claimed, "pool=claimed", "--overwrite")
	defer h.in(t, "delete", "pod", claimed, "--wait=false") // it belongs to no Deployment now
	env.Equal(t, "the claimed pod", h.sh(t, claimed, "echo mine >/root/file; cat /root/file"), "mine")
	eventually(t, "another takes its place", func() (string, bool) {
		out := h.in(t, "get", "deployment", "warm", "-o", "jsonpath={.status.readyReplicas}/{.status.replicas}")
		return out, out == "2/2" && !strings.Contains(h.in(t, "get", "pods", "-l", "pool=warm", "-o", "name"), claimed)
	})
	env.Equal(t, "the claimed pod goes on", h.sh(t, claimed, "cat /root/file"), "mine")

	h.sh(t, "sandbox-0", "echo kept >/data/file; echo gone >/root/file")
	h.in(t, "scale", "statefulset/sandbox", "--replicas=0")
	h.in(t, "wait", "--for=delete", "pod/sandbox-0", "--timeout=100s")
	h.in(t, "scale", "statefulset/sandbox", "--replicas=1")
	h.in(t, "rollout", "status", "statefulset/sandbox", "--timeout=100s")
	env.Equal(t, "after it was suspended", h.sh(t, "sandbox-0", "hostname; cat /data/file; cat /root/file 2>/dev/null || echo anew"), "sandbox-0\nkept\nanew")
	return ""
}

const sandboxObjects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: warm}
spec:
  replicas: 2
  selector: {matchLabels: {pool: warm}}
  template:
    metadata: {labels: {pool: warm}}
    spec:
      $CLASS
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
      - {name: main, image: "$IMAGE", command: [sleep, "100000"]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NAME}
spec:
  capacity: {storage: 16Mi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: $NS, name: data-sandbox-0}
  local: {path: $DIRECTORY}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [$NODE]}]}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: sandbox}
spec:
  serviceName: sandbox
  replicas: 1
  selector: {matchLabels: {app: sandbox}}
  template:
    metadata: {labels: {app: sandbox}}
    spec:
      $CLASS
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
      - {name: main, image: "$IMAGE", command: [sleep, "100000"], volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata:
      name: data
    spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 16Mi}}}
`

func terminations(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: graceful, finalizers: [agentjail.dev/test]}
spec:
  $CLASS
  terminationGracePeriodSeconds: 60
  restartPolicy: Never
  containers:
  - name: main
    image: "$IMAGE"
    command: [sh, -c, "trap 'cat /v/stop >/dev/termination-log; exit 9' TERM; touch /v/up; while :; do sleep 0.2; done"]
    startupProbe: {exec: {command: [test, -e, /v/up]}, periodSeconds: 1, failureThreshold: 60}
    lifecycle:
      preStop: {exec: {command: [sh, -c, "echo the hook ran >/v/stop"]}}
    volumeMounts: [{name: v, mountPath: /v}]
  volumes: [{name: v, emptyDir: {}}]
`)
	defer h.in(t, "patch", "pod", "graceful", "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	h.ready(t, "pod/graceful")
	h.in(t, "delete", "pod", "graceful", "--wait=false")
	h.waits(t, "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=9", "pod/graceful")
	env.Contain(t, "its last words", h.in(t, "get", "pod", "graceful", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.message}"), "the hook ran")
	return ""
}
