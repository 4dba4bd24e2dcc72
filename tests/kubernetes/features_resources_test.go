package kubernetes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func limits(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], resources: {limits: {memory: 64Mi, cpu: 200m}}}
---
apiVersion: v1
kind: Pod
metadata: {name: burstable}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], resources: {requests: {memory: 16Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: killed}
spec:
  $CLASS
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "dd if=/dev/zero of=/dev/null bs=128M count=1; echo $?; `+engine.AfterGo("exit 137")+`"], resources: {limits: {memory: 32Mi}}}
`)
	h.ready(t, "pod/limited", "pod/burstable")
	env.Equal(t, "classes", h.in(t, "get", "pod", "limited", "burstable", "-o", "jsonpath={.items[*].status.qosClass}"), "Guaranteed Burstable")
	env.Equal(t, "memory", h.memory(t, "limited"), "67108864")
	h.endsKilled(t, "killed")
	return ""
}

// endsKilled waits until a pod has printed the exit status of a process that ran out of memory, has the pod end, and waits until the kubelet
// reports why. Its first process ends later: what reports memory and what reports an end do not wait for each other.
func (h handler) endsKilled(t *testing.T, pod string) {
	t.Helper()
	h.ready(t, "pod/"+pod)
	eventually(t, "the killed process", func() (string, bool) {
		out := h.in(t, "logs", pod)
		return out, slices.Contains(strings.Fields(out), "137") // before or after what the shell states on standard error
	})
	h.goes(t, pod)
	h.waits(t, "jsonpath={.status.containerStatuses[0].state.terminated.reason}=OOMKilled", "pod/"+pod)
}

// goes makes the file for which a pod's engine.AfterGo waits.
func (h handler) goes(t *testing.T, pod string) {
	t.Helper()
	_, _ = h.try(t, "exec", pod, "--", "touch", engine.GoFile) // which may end with the container
}

// memory is the limit of a pod's container, as the kernel has it; a jail must see it, too.
func (h handler) memory(t *testing.T, pod string) string {
	t.Helper()
	if h.jail() {
		env.Contain(t, "what it sees", h.sh(t, pod, "grep MemTotal /proc/meminfo"), "kB")
	}
	return h.groupFile(t, pod, "memory.limit_in_bytes", "memory.max")
}

// groupFile is what the kernel reports in a file of the control group of a pod's container; the file has one name in each version of control groups.
func (h handler) groupFile(t *testing.T, pod, v1, v2 string) string {
	t.Helper()
	return groupFile(t, h.groups(t, pod), v1, v2)
}

func groupFile(t *testing.T, groups []string, v1, v2 string) string {
	t.Helper()
	for _, dir := range groups {
		for _, file := range []string{v1, v2} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			env.Check(t, err)
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("no control group of %q has %s or %s", groups, v1, v2)
	return ""
}

// groups are the control group of a pod's container: one directory for each hierarchy.
func (h handler) groups(t *testing.T, pod string) []string {
	t.Helper()
	id := h.in(t, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}/{.status.containerStatuses[0].containerID}")
	uid, container, _ := strings.Cut(id, "/containerd://")
	below, of := filepath.Join(filepath.Base(cluster.dir), "kubepods"), filepath.Join("pod"+uid, container)
	if *bySystemd {
		below, of = "kubepods.slice", filepath.Join("*pod"+strings.ReplaceAll(uid, "-", "_")+".slice", "cri-containerd-"+container+".scope")
	}
	var dirs []string
	for _, root := range groupRoots() {
		for _, class := range []string{"", "*"} { // pods whose requests are their limits are in none
			found, _ := filepath.Glob(filepath.Join(root, below, class, of))
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

func resizes(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: resized}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], resources: {limits: {memory: 128Mi, cpu: 200m}}}
`)
	h.ready(t, "pod/resized")
	h.in(t, "patch", "pod", "resized", "--subresource=resize", "-p", `{"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": "200Mi"}, "limits": {"memory": "200Mi"}}}]}}`)
	eventually(t, "the limit", func() (string, bool) {
		got := h.memory(t, "resized")
		return got, got == "209715200"
	})
	env.Equal(t, "restarts", h.in(t, "get", "pod", "resized", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"), "0")
	if h.jail() {
		env.Contain(t, "what it sees", h.sh(t, "resized", "cat /proc/meminfo"), "204800 kB")
	}
	return ""
}

func hostUsers(t *testing.T, h handler) string {
	if !h.jail() {
		return "needs a newer runc"
	}
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: users}
spec:
  $CLASS
  hostUsers: false
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "echo mine >/v/new; mv /v/new /v/file; exec sleep 100000"], volumeMounts: [{name: v, mountPath: /v}]}
  volumes: [{name: v, emptyDir: {}}]
`)
	h.ready(t, "pod/users")
	env.Contain(t, "the kubelet's ids", h.sh(t, "users", "cat /proc/self/uid_map"), " 10")
	f := strings.Fields(h.sh(t, "users", "cat /proc/self/uid_map; until [ -e /v/file ]; do sleep 0.1; done; stat -c %u /v/file"))
	if len(f) != 4 || f[0] != "0" || f[2] != "65536" || f[3] != "0" {
		t.Errorf("ids: %v", f)
	}
	return ""
}

func loosened(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: loosened}
spec:
  $CLASS
  hostNetwork: true
  hostPID: true
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], securityContext: {privileged: true}}
`)
	h.ready(t, "pod/loosened")
	got := h.sh(t, "loosened", "ip -o link | wc -l; grep CapEff /proc/self/status; ls /proc | grep -c '^[0-9]'")
	env.Equal(t, "its address for the cluster", h.in(t, "get", "pod", "loosened", "-o", "jsonpath={.status.podIP}"), nodeAddress)
	if !h.jail() {
		env.Contain(t, "the node's processes", h.sh(t, "loosened", "ps"), "kubelet")
		return ""
	}
	f := strings.Fields(got)
	if len(f) != 4 || f[0] != "1" || f[2] != "0000000000000000" || len(f[3]) > 1 {
		t.Errorf("links, capabilities, processes: %q", got)
	}
	return "denied: only lo, no rights"
}

func staticPods(t *testing.T, h handler) string {
	name := "static-" + h.name
	path := filepath.Join("/etc/kubernetes/manifests", name+".yaml")
	overhead := ""
	if h.jail() { // the mirror of a static pod must have what its class states
		overhead = "overhead: {memory: " + kubectl(t, "get", "runtimeclass", h.name, "-o", "jsonpath={.overhead.podFixed.memory}") + "}"
	}
	text := h.fill(`
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  $CLASS
  ` + overhead + `
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"]}
`)
	env.Check(t, os.WriteFile(path, []byte(text), 0o644))
	t.Cleanup(func() { _ = os.Remove(path) })
	h.waits(t, "create", "pod/"+name+"-"+nodeName)
	h.ready(t, "pod/"+name+"-"+nodeName)
	env.Equal(t, "a jail", h.sh(t, name+"-"+nodeName, "grep -c 'Seccomp:.*2' /proc/self/status || true"), map[bool]string{true: "1", false: "0"}[h.jail()])
	return ""
}
