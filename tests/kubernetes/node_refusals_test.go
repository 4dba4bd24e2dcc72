package kubernetes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/journal/refusal"
)

// TestRefusals: a pod that a kubelet starts, and that is refused forty kinds of things, has them in the journals of its jails on the node, each
// once. The column belongs beside those of tests/journal.
func TestRefusals(t *testing.T) {
	installed(t)
	const config = "/etc/agentjail/config.toml"
	env.Check(t, os.WriteFile(config, []byte(refusalPolicy()), 0o644))
	defer func() { _ = os.WriteFile(config, []byte(policy), 0o644) }()
	refusal.Start(t, exec.Command(filepath.Join(os.Getenv(programsEnv), "agentjail-journal"), "--syscalls", "--no-pins"))

	rows, h := refusal.Of(refusal.Kubernetes), handlers[2]
	h.apply(t, requesting(rows))
	h.ready(t, "pod/refused")
	jails := h.jails(t, "refused")
	if len(jails) != 2 {
		t.Fatalf("the pod's jails are %q", jails)
	}
	run := func(command ...string) error {
		out, err := h.try(t, append([]string{"exec", "refused", "--"}, command...)...)
		if err != nil {
			return errors.Join(err, errors.New(out))
		}
		return nil
	}
	p := &refusal.Place{
		Exec: func(_ []string, command ...string) error { return run(command...) },
		Detached: func(_ []string, command ...string) error {
			return run(append([]string{"sh", "-c", `"$@" </dev/null >/dev/null 2>&1 &`, "detached"}, command...)...)
		},
		Denied: func() (all [][]refusal.Denial) {
			for _, id := range jails {
				all = append(all, refusal.Parse(t, engine.Run(t, "/usr/local/bin/agentjail", "denied", "--json", id)))
			}
			return all
		},
	}
	p.Try(t, rows)
	m := &refusal.Matrix{Drivers: []refusal.Driver{refusal.Kubernetes}}
	p.Check(t, refusal.Kubernetes, rows, m)
	t.Logf("a kubelet's pod:\n%s", m)
	if !t.Failed() {
		record("refusals in the node's journal", h.name, "ok")
	}
}

// refusalPolicy is the test run's, in which the named policy of the pods has a network by name.
func refusalPolicy() string {
	return strings.ReplaceAll(refusal.Policy, "network.", "policies.net.network.") + pool
}

// requesting is a pod that requests everything.
func requesting(rows []refusal.Row) string {
	var ofPod, ofContainer []string
	for _, r := range rows {
		if r.Manifest != "" && !slices.Contains(ofPod, r.Manifest) {
			ofPod = append(ofPod, r.Manifest)
		}
		if r.Container != "" {
			ofContainer = append(ofContainer, r.Container)
		}
	}
	return `
apiVersion: v1
kind: Pod
metadata: {name: refused}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  ` + strings.Join(ofPod, "\n  ") + `
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "100000"], ` + strings.Join(ofContainer, ", ") + `}
`
}

// jails are the ids of a pod's containers at the node's containerd, and its sandbox's.
func (h handler) jails(t *testing.T, pod string) []string {
	t.Helper()
	uid := h.in(t, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	out, err := cluster.ctr(t.Context(), nil, "containers", "ls", "-q", `labels."io.kubernetes.pod.uid"==`+uid)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return containerID.FindAllString(out, -1) // containerd has warnings there, too
}

// containerID is a line with an id as containerd's CRI makes them.
var containerID = regexp.MustCompile(`(?m)^[0-9a-f]{64}$`)
