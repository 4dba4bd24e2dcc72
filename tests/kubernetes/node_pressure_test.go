package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestPressure: a node that runs out of memory, or of disk, evicts the pods that take it, and states truly what they take. Memory is that of the
// pods' control group, and disk what is free now less a margin, so that other work of the machine does not decide.
func TestPressure(t *testing.T) {
	installed(t)
	config := filepath.Join(cluster.dir, "kubelet.yaml")
	before := env.Read(t, config)
	pressed, err := pressure(string(before))
	env.Check(t, err)
	defer func() {
		reconfigure(t, config, string(before))
		for _, kind := range []string{"MemoryPressure", "DiskPressure"} {
			kubectl(t, "wait", "--for=condition="+kind+"=False", "node/"+nodeName, "--timeout=100s")
		}
		eventually(t, "pods may come again", func() (string, bool) {
			out := kubectl(t, "get", "node", nodeName, "-o", "jsonpath={.spec.taints[*].key}")
			return out, out == ""
		})
	}()
	// Each of them alone is too much, so that each is evicted. They have it before the kubelet looks: it reads what the pods use and what their
	// control group uses one after the other, and would report a pod that still takes more.
	for _, h := range handlers {
		script, what := "dd if=/dev/zero bs=220M count=1 | sleep 100000", "memory of a process"
		if h.name == "agentjail" {
			script, what = "dd if=/dev/zero of=/own bs=1M count=220; exec sleep 100000", "memory of files in the root"
		}
		t.Log(h.name, "uses", what)
		h.hog(t, "memory", script)
	}
	for _, h := range handlers {
		h.ready(t, "pod/memory")
		eventually(t, "the memory of "+h.name, func() (string, bool) {
			held := h.workingSet(t, "memory")
			return fmt.Sprint(held), held >= hogMemory
		})
	}
	reconfigure(t, config, pressed)
	for _, h := range handlers {
		message := h.evicted(t, "memory")
		env.Contain(t, h.name, message, "low on resource: memory")
		used := usage(message)
		if used < hogMemory>>10 || used > (hogMemory+20<<20)>>10 {
			t.Errorf("%s has 220 MiB, and the kubelet states %d KiB: %s", h.name, used, message)
		}
		record("eviction by the node's memory", h.name, "ok")
	}
	// All are there before the first takes its part: a kubelet that is short of disk takes no pod, and none that it finds at its own start.
	for _, h := range handlers {
		h.hog(t, "disk", engine.AfterGo(fmt.Sprintf("fallocate -l %d /v/big && exec sleep 100000", 2*diskMargin)))
	}
	for _, h := range handlers {
		h.ready(t, "pod/disk")
	}
	for _, h := range handlers {
		h.goes(t, "disk") // or it is evicted already
	}
	for _, h := range handlers {
		env.Contain(t, h.name, h.evicted(t, "disk"), "low on resource: ephemeral-storage")
		record("eviction by the node's disk", h.name, "ok")
	}
}

const (
	// hogMemory is what each of the pods takes.
	hogMemory = 220 << 20
	// podsMemory is what the pods' control group may have, and freeMemory what shall be free of it.
	podsMemory, freeMemory = 900 << 20, 700 << 20
	// diskMargin is how much of what is free now may be used.
	diskMargin = 1 << 30
)

// pressure is the kubelet's configuration with thresholds that a pod can reach.
func pressure(config string) (string, error) {
	var info unix.Sysinfo_t
	var fs unix.Statfs_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", err
	}
	if err := unix.Statfs("/var/lib/kubelet", &fs); err != nil {
		return "", err
	}
	total, free := int64(info.Totalram)*int64(info.Unit), int64(fs.Bavail)*fs.Bsize
	if free < 8*diskMargin {
		return "", fmt.Errorf("%d bytes of disk are free, too few to have some of them missed", free)
	}
	var out []string
	for line := range strings.Lines(config) {
		if !strings.HasPrefix(line, "evictionHard:") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "") + fmt.Sprintf(`systemReserved: {memory: "%d"}
evictionHard: {memory.available: "%d", nodefs.available: "%d", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
evictionPressureTransitionPeriod: 1s
imageMinimumGCAge: 24h
`, total-podsMemory, freeMemory, free-diskMargin), nil
}

// reconfigure restarts the kubelet with a configuration.
func reconfigure(t *testing.T, path, text string) {
	t.Helper()
	env.Check(t, os.WriteFile(path, []byte(text), 0o644))
	env.Check(t, cluster.component("kubelet").restart(unix.SIGTERM))
}

// hog is a pod that takes more than there is. It has a request, so that a node short of memory still takes it, and tolerates what the node is short of.
func (h handler) hog(t *testing.T, name, script string) {
	t.Helper()
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "`+script+`"], volumeMounts: [{name: v, mountPath: /v}], resources: {requests: {memory: 1Mi}}}
  volumes: [{name: v, emptyDir: {}}]
`)
}

// evicted waits until a pod was evicted, and returns why.
func (h handler) evicted(t *testing.T, name string) string {
	t.Helper()
	h.waits(t, "jsonpath={.status.reason}=Evicted", "pod/"+name)
	return h.in(t, "get", "pod", name, "-o", "jsonpath={.status.message}")
}

var usedPattern = regexp.MustCompile(`Container main was using (\d+)(Ki|Mi)?,`)

// usage is what the kubelet states that a container used, in KiB.
func usage(message string) int64 {
	m := usedPattern.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	switch m[2] {
	case "Mi":
		return n << 10
	case "Ki":
		return n
	}
	return n >> 10
}
