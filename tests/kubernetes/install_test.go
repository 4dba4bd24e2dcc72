package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// file applies a manifest of hack/kubernetes.
func file(t testing.TB, name string) {
	t.Helper()
	if _, err := os.Stat(manifest(name)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", manifest(name))
}

// typed runs a command of docs/install/kubernetes.md.
func typed(t testing.TB, command string, more ...string) string {
	t.Helper()
	words := strings.Fields(strings.NewReplacer(" NODE ", " "+nodeName+" ", "hack/kubernetes", filepath.Dir(manifest("kustomization.yaml")), "'", "").Replace(command))
	out, err := try(t, "", append(words[1:], more...)...)
	if err != nil {
		t.Fatalf("%s: %v: %s\n%s", command, err, out, kubectl(t, "-n", "kube-system", "describe", "pods"))
	}
	return out
}

// onceInstalled is whether agentjail is on the node.
var (
	onceInstalled sync.Mutex
	isInstalled   bool
)

// installed has agentjail on the node, as an operator installs it.
func installed(t testing.TB) {
	t.Helper()
	onceInstalled.Lock()
	defer onceInstalled.Unlock()
	if isInstalled {
		return
	}
	typed(t, "kubectl label node NODE agentjail.dev/node=true", "--overwrite")
	typed(t, "kubectl apply -k hack/kubernetes")
	rolledOut(t)
	var namespaces strings.Builder
	for _, h := range handlers {
		fmt.Fprintf(&namespaces, "---\n{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", h.namespace)
	}
	if out, err := try(t, namespaces.String(), "create", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, h := range handlers {
		env.Check(t, cluster.usable(h.namespace))
	}
	isInstalled = true
}

// rolledOut waits until the DaemonSet is ready everywhere.
func rolledOut(t testing.TB) {
	t.Helper()
	typed(t, "kubectl -n kube-system rollout status daemonset/agentjail-install", timeout(90*time.Second))
}

// TestInstall: the manifests put agentjail on a node that has nothing of it. A restart of containerd that fails is in the pod's status,
// `kubectl rollout status` does not take it for a success, and it is made good.
func TestInstall(t *testing.T) {
	const fails = "/run/systemctl.fails"
	env.Check(t, os.WriteFile(fails, nil, 0o600))
	kubectl(t, "label", "node", nodeName, "agentjail.dev/node=true", "--overwrite")
	file(t, "daemonset.yaml")
	const pods = "pod --namespace=kube-system --selector=app=agentjail-install"
	kubectl(t, append([]string{"wait", "--for=create", timeout(time.Minute)}, strings.Fields(pods)...)...)
	kubectl(t, append([]string{"wait", "--for=jsonpath={.status.initContainerStatuses[0].lastState.terminated.exitCode}=125", timeout(90 * time.Second)}, strings.Fields(pods)...)...)
	if out, err := try(t, "", "-n", "kube-system", "rollout", "status", "daemonset/agentjail-install", "--timeout=2s"); err == nil {
		t.Errorf("containerd was not restarted, and kubectl states: %s", out)
	}
	why := typed(t, "kubectl -n kube-system get pods -l app=agentjail-install -o custom-columns='NODE:.spec.nodeName,WHY:.status.initContainerStatuses[0].lastState.terminated.message'")
	env.Contain(t, "the pod's status", why, "systemctl on the node: exit status 1")
	env.Check(t, os.Remove(fails))
	installed(t)
	eventually(t, "the node's handlers", func() (string, bool) {
		got := typed(t, "kubectl get nodes -o custom-columns='NODE:.metadata.name,HANDLERS:.status.runtimeHandlers[*].name'")
		return got, strings.Contains(got, "agentjail-net")
	})
	if left, err := os.Stat("/run/agentjail-restart-owed"); err == nil {
		t.Errorf("a restart is still owed: %v", left.Name())
	}
}

// TestInstallerIsSmall: the installer has of the node no more than its files.
func TestInstallerIsSmall(t *testing.T) {
	text := env.Read(t, manifest("daemonset.yaml"))
	for _, no := range []string{"privileged: true", "hostPID", "hostNetwork", "hostIPC", "serviceAccountName", "SYS_ADMIN"} {
		if strings.Contains(string(text), no) {
			t.Errorf("daemonset.yaml has %s", no)
		}
	}
}
