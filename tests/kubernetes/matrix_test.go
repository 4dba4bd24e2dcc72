package kubernetes

import (
	"testing"
)

// A feature is something that pods have, tried with each handler. try returns what the matrix states of it if not "ok".
type feature struct {
	name string
	try  func(*testing.T, handler) string
}

// TestMatrix tries what pods have, over runc and in jails.
func TestMatrix(t *testing.T) {
	installed(t)
	for _, f := range features() {
		order = append(order, f.name)
	}
	for _, f := range features() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for _, h := range handlers {
				t.Run(h.name, func(t *testing.T) {
					t.Parallel()
					verdict := "FAILED"
					defer func() { record(f.name, h.name, verdict) }()
					says := f.try(t, h)
					switch {
					case t.Failed():
					case says != "":
						verdict = says
					default:
						verdict = "ok"
					}
				})
			}
		})
	}
}

// features is the list of them, in the order of the matrix.
func features() []feature {
	return []feature{
		{"kubectl run", runs},
		{"exec, logs, cp", execs},
		{"attach", attaches},
		{"debug (ephemeral container)", debugs},
		{"port-forward", forwards},
		{"probes by exec", execProbes},
		{"probes by HTTP and TCP", netProbes},
		{"init and sidecar containers", inits},
		{"Job", jobs},
		{"Deployment, rolling update", deployments},
		{"StatefulSet", statefulSets},
		{"sandboxes: warm pool, claim, suspend", sandboxes},
		{"emptyDir, subPath, fsGroup", emptyDirs},
		{"ConfigMap, Secret, projected, downward API", projections},
		{"hostPath", hostPaths},
		{"hostPath in a view", hostViews},
		{"CSI: ephemeral and persistent volumes", csiVolumes},
		{"limits, QoS, OOMKilled", limits},
		{"resize in place", resizes},
		{"graceful termination", terminations},
		{"hostUsers: false", hostUsers},
		{"image volume", imageVolumes},
		{"static pod", staticPods},
		{"hostNetwork, hostPID, privileged", loosened},
		{"eviction by an emptyDir's size", evictions},
		{"eviction by a limit of ephemeral-storage", storageLimits},
		{"metrics of kubelet and containerd", metrics},
		{"checkpoint", checkpoints},
	}
}
