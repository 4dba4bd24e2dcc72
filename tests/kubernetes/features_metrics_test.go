package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// Figures are what one source reports of a pod's container, in bytes.
type figures struct {
	memory  uint64 // the working set: what the kernel cannot simply take back
	written uint64 // files of the container's own layer on the disk
}

// metrics compares what the kubelet and containerd report of a pod with what the kernel counts. The pod has 24 MiB in a volume in memory and
// 16 MiB in its root, which are memory in a jail and on the disk elsewhere.
func metrics(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: measured}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "dd if=/dev/zero of=/v/held bs=1M count=24; dd if=/dev/zero of=/own bs=1M count=16; touch /v/done; exec sleep 100000"],
     volumeMounts: [{name: v, mountPath: /v}], startupProbe: {exec: {command: [test, -e, /v/done]}, periodSeconds: 1, failureThreshold: 60}}
  volumes: [{name: v, emptyDir: {medium: Memory}}]
`)
	h.ready(t, "pod/measured")
	for who, ask := range map[string]func(*testing.T, handler, string) (figures, bool){
		"stats/summary": summaryFigures, "metrics/resource": resourceFigures, "crictl stats": criFigures,
	} {
		eventually(t, who, func() (string, bool) {
			got, ok := ask(t, h, "measured")
			true := h.workingSet(t, "measured")
			says := fmt.Sprintf("%v, %+v, where the kernel counts %d", ok, got, true)
			least := uint64(24 << 20)
			if h.jail() {
				least += 16 << 20
			}
			// The kernel counts on while they look one after the other: the shell of a probe is a megabyte or two.
			near := got.memory >= true-min(true, 3<<20) && got.memory <= true+3<<20
			layer := who == "metrics/resource" || (got.written >= 16<<20) != h.jail() // the kubelet looks at disks once a minute
			return says, ok && got.memory >= least && near && layer
		})
	}
	if h.jail() {
		return "files of the root are memory"
	}
	return ""
}

// workingSet is what the kernel counts for a pod's container: usage without the cache that it would drop first.
func (h handler) workingSet(t *testing.T, pod string) uint64 {
	t.Helper()
	usage, err := strconv.ParseUint(h.groupFile(t, pod, "memory.usage_in_bytes", "memory.current"), 10, 64)
	env.Check(t, err)
	// total_ is of version 1, with the groups below.
	stat := map[string]uint64{}
	for line := range strings.Lines(h.groupFile(t, pod, "memory.stat", "memory.stat")) {
		if f := strings.Fields(line); len(f) == 2 {
			stat[f[0]], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	inactive, ok := stat["total_inactive_file"]
	if !ok {
		inactive = stat["inactive_file"]
	}
	return usage - min(usage, inactive)
}

// summaryFigures are of the kubelet's summary, by which it evicts.
func summaryFigures(t *testing.T, h handler, pod string) (figures, bool) {
	var all struct {
		Pods []struct {
			PodRef     struct{ Name, Namespace string }
			Containers []struct {
				Memory struct{ WorkingSetBytes uint64 }
				Rootfs struct{ UsedBytes *uint64 }
			}
		}
	}
	env.Check(t, json.Unmarshal([]byte(kubectl(t, "get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/stats/summary")), &all))
	for _, p := range all.Pods {
		if p.PodRef.Name == pod && p.PodRef.Namespace == h.namespace && len(p.Containers) == 1 && p.Containers[0].Rootfs.UsedBytes != nil {
			return figures{p.Containers[0].Memory.WorkingSetBytes, *p.Containers[0].Rootfs.UsedBytes}, true
		}
	}
	return figures{}, false
}

// resourceFigures are of the kubelet's endpoint for metrics-server. It has nothing about disks.
func resourceFigures(t *testing.T, h handler, pod string) (figures, bool) {
	all := kubectl(t, "get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/metrics/resource")
	for lines := bufio.NewScanner(strings.NewReader(all)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), fmt.Sprintf("container_memory_working_set_bytes{container=\"main\",namespace=%q,pod=%q} ", h.namespace, pod))
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		env.Check(t, err)
		return figures{memory: uint64(value)}, true
	}
	return figures{}, false
}

// criFigures are what containerd answers by its CRI, as `crictl stats` requests it.
func criFigures(t *testing.T, h handler, pod string) (figures, bool) {
	conn, err := grpc.NewClient("unix:///run/containerd/containerd.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	env.Check(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	labels := map[string]string{"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": h.namespace}
	all, err := runtimeapi.NewRuntimeServiceClient(conn).ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: labels}})
	env.Check(t, err)
	if len(all.Stats) != 1 {
		return figures{}, false
	}
	s := all.Stats[0]
	return figures{s.GetMemory().GetWorkingSetBytes().GetValue(), s.GetWritableLayer().GetUsedBytes().GetValue()}, true
}
