package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// csiDriver is the driver of hack/tools/kubernetes/csi.go.
const csiDriver = "test.csi.agentjail.dev"

// startCSI starts the driver and registers it with the cluster.
func (c *nodeCluster) startCSI() error {
	if _, err := c.start(filepath.Join(c.programs, "csi-driver"), nodeName, "/var/lib/kubelet"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient(readyWait))
	defer cancel()
	if out, err := c.kubectl(ctx, []byte(csiObject), "create", "-f", "-"); err != nil {
		return fmt.Errorf("create the CSIDriver: %w: %s", err, out)
	}
	return nil
}

// csiVolumes has pods with each kind of volume that drivers make: one of the pod's own, one that is staged on the node for several pods, and a
// directory of the node, which may not be one of the system's.
func csiVolumes(t *testing.T, h handler) string {
	eventually(t, "the driver is registered with the kubelet", func() (string, bool) {
		out := kubectl(t, "get", "csinode", nodeName, "-o", "jsonpath={.spec.drivers[*].name}")
		return out, strings.Contains(out, csiDriver)
	})
	pod := func(name, mount, volume string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  securityContext: {fsGroup: 3000}
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], volumeMounts: [` + mount + `]}
  volumes: [{name: v, ` + volume + `}]
`
	}
	directory := dirOf(cluster.dir, "csi-"+h.name) // on a disk
	env.Check(t, os.WriteFile(filepath.Join(directory, "file"), []byte("the node's\n"), 0o644))
	inline := "csi: {driver: " + csiDriver + "}"
	system := dirOf("/etc/csi-" + h.name)
	ofNode := func(directory, more string) string {
		return "csi: {driver: " + csiDriver + more + ", volumeAttributes: {directory: " + directory + "}}"
	}
	claim := "persistentVolumeClaim: {claimName: claim}"
	h.apply(t, strings.ReplaceAll(csiClaim, "$NAME", "csi-"+h.name)+
		"---"+pod("csi-inline", "{name: v, mountPath: /v}, {name: v, mountPath: /again, readOnly: true}", inline)+
		"---"+pod("csi-claim", "{name: v, mountPath: /v}", claim)+
		"---"+pod("csi-read", "{name: v, mountPath: /v, subPath: sub, readOnly: true}", claim)+
		"---"+pod("csi-directory", "{name: v, mountPath: /v}", ofNode(directory, ""))+
		"---"+pod("csi-directory-read", "{name: v, mountPath: /v, readOnly: true}", ofNode(directory, ", readOnly: true"))+
		"---"+pod("csi-system", "{name: v, mountPath: /v, readOnly: true}", ofNode(system, ", readOnly: true")))
	h.ready(t, "pod/csi-inline", "pod/csi-claim", "pod/csi-read", "pod/csi-directory", "pod/csi-directory-read")
	env.Equal(t, "the pod's own volume", h.sh(t, "csi-inline", "echo written >/v/file && cat /again/file; stat -c %u:%g /v/file; touch /again/x 2>/dev/null || echo read-only"), "written\n0:3000\nread-only")
	env.Equal(t, "a persistent volume", h.sh(t, "csi-claim", "echo shared >/v/sub/file; stat -c %u:%g /v/sub/file"), "0:3000")
	env.Equal(t, "the same, of another pod", h.sh(t, "csi-read", "cat /v/file; touch /v/x 2>/dev/null || echo read-only"), "shared\nread-only")
	env.Equal(t, "a directory of the node, read-only", h.sh(t, "csi-directory-read", "cat /v/file; touch /v/x 2>/dev/null || echo read-only"), "the node's\nread-only")
	env.Equal(t, "a directory of the node", h.sh(t, "csi-directory", "echo pod >/v/new && cat /v/new"), "pod")
	if !h.jail() {
		h.ready(t, "pod/csi-system")
		return ""
	}
	eventually(t, "the refusal of "+system, func() (string, bool) {
		out := h.in(t, "get", "pod", "csi-system", "-o", "jsonpath={.status.containerStatuses[0].state}{.status.containerStatuses[0].lastState}")
		return out, strings.Contains(out, "refused:") && strings.Contains(out, system)
	})
	return "a directory of the system's refused"
}

// csiObject registers the driver with the cluster.
const csiObject = `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: ` + csiDriver + `}
spec: {attachRequired: false, fsGroupPolicy: File, volumeLifecycleModes: [Persistent, Ephemeral]}
`

// csiClaim is a persistent volume and the claim that has it.
const csiClaim = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NAME}
spec:
  capacity: {storage: 16Mi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: $NS, name: claim}
  csi: {driver: ` + csiDriver + `, volumeHandle: $NAME}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: $NAME
  resources: {requests: {storage: 16Mi}}
`
