package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// startedPods is how many pods TestStartCosts starts at once.
const startedPods = 15

// TestStartCosts measures what docs/performance.md counts with: pods started at once, and the memory of what serves each of them. It fails only when
// they do not start.
func TestStartCosts(t *testing.T) {
	installed(t)
	for _, h := range handlers {
		h.apply(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
spec:
  replicas: 0
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      $CLASS
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
      - {name: main, image: "$IMAGE", command: [sleep, "100000"]}
`)
		begin := time.Now()
		h.in(t, "scale", "deployment/many", "--replicas="+strconv.Itoa(startedPods))
		h.in(t, "rollout", "status", "deployment/many", "--timeout=100s")
		took := time.Since(begin)
		fmt.Fprintf(os.Stdout, "%s: %d pods ready in %.1f s, %.1f a second; a shim has %d KiB of its own\n", h.name, startedPods, took.Seconds(), startedPods/took.Seconds(), shimMemory(h.jail()))
		h.in(t, "delete", "deployment/many", "--cascade=foreground", "--timeout=100s")
	}
}

// shimMemory is what the processes of a shim have for themselves alone, on average, in KiB.
func shimMemory(jail bool) int {
	name := "containerd-shim-runc-v2"
	if jail {
		name = "containerd-shim-agentjail-v2"
	}
	sum, n := 0, 0
	for _, pid := range env.Processes(func(pid int) bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		return err == nil && filepath.Base(exe) == name
	}) {
		if m, err := env.Memory(pid); err == nil {
			n++
			sum += env.Private(m)
		}
	}
	return sum / max(n, 1)
}
