package kubernetes

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestPodsOutliveRestarts: pods go on while the kubelet and containerd are killed and come back, and can be used afterwards.
func TestPodsOutliveRestarts(t *testing.T) {
	installed(t)
	state := func(h handler) string {
		return h.in(t, "get", "pod", "lives", "-o", "jsonpath={.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}")
	}
	before := map[handler]string{}
	for _, h := range handlers {
		h.sleeper(t, "lives")
		before[h] = state(h)
	}
	for _, name := range []string{"containerd", "kubelet"} {
		d := cluster.component(name)
		env.Check(t, d.restart(unix.SIGKILL))
		if name == "containerd" {
			env.Check(t, cluster.awaitContainerd(d))
		}
		for _, h := range handlers {
			eventually(t, name+" is there again", func() (string, bool) {
				out, err := h.try(t, "exec", "lives", "--", "echo", "alive")
				return out, err == nil && out == "alive"
			})
			h.ready(t, "pod/lives")
			env.Equal(t, h.name+": container and restarts after "+name, state(h), before[h])
		}
		// A new pod, too.
		for _, h := range handlers {
			h.sleeper(t, "after-"+name)
			record("restart of "+name+" with live pods", h.name, "ok")
		}
	}
}

// TestOnlyJails: in a namespace that reports it, the API server refuses what is no jail, and what requests more than a jail has.
func TestOnlyJails(t *testing.T) {
	installed(t)
	const ns = "only-jails"
	kubectl(t, "create", "namespace", ns)
	kubectl(t, "label", "namespace", ns, "agentjail.dev/only-jails=true")
	pod := func(class, spec, container string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: " + ns + "}\nspec:\n  " + class + "\n  automountServiceAccountToken: false\n" + spec +
			"\n  containers:\n  - {name: main, image: \"" + busyboxImage + "\", command: [sleep, \"100000\"]" + container + "}\n"
	}
	const class = "runtimeClassName: agentjail"
	ask := func(text string) (string, error) {
		return try(t, text, "create", "--dry-run=server", "-f", "-")
	}
	kubectl(t, "wait", "--for=create", "-n", ns, "serviceaccount/default", "--timeout=60s")
	eventually(t, "the policy", func() (string, bool) {
		out, err := ask(pod("", "", ""))
		return out, err != nil && strings.Contains(out, "pods of this namespace are jails")
	})
	for says, text := range map[string]string{
		"no namespace of the node's": pod(class, "  hostNetwork: true", ""),
		"no privileges":              pod(class, "", ", securityContext: {privileged: true}"),
		"capabilities.add":           pod(class, "", ", securityContext: {capabilities: {add: [NET_ADMIN]}}"),
		"volumes of its own":         pod(class, "  volumes: [{name: v, hostPath: {path: /opt}}]", ""),
		"no token of the cluster":    strings.Replace(pod(class, "", ""), "automountServiceAccountToken: false", "automountServiceAccountToken: true", 1),
		"no port of the node's":      pod("runtimeClassName: agentjail-net", "", ", ports: [{containerPort: 80, hostPort: 80}]"),
	} {
		if out, err := ask(text); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v, %s", says, err, out)
		}
	}
	if out, err := ask(pod(class, "  volumes: [{name: v, emptyDir: {}}]", "")); err != nil {
		t.Errorf("a jail is refused: %s", out)
	}
	// A namespace without the label is as it was.
	if out, err := ask(strings.ReplaceAll(pod("", "", ""), ns, handlers[0].namespace)); err != nil {
		t.Errorf("elsewhere: %s", out)
	}
	record("ValidatingAdmissionPolicy", "agentjail", "ok")
	record("ValidatingAdmissionPolicy", "agentjail-net", "ok")
}

// agentImage is an agent with a server at lo.
const agentImage = "localhost/agent:test"

// TestPodManifests: the example pods start as they are, but for the agent's image.
func TestPodManifests(t *testing.T) {
	installed(t)
	layer := env.Read(t, filepath.Join(cluster.dir, "busybox.tar"))
	serve := []string{"sh", "-c", "mkdir /tmp/www; echo served >/tmp/www/index.html; exec httpd -f -p 127.0.0.1:8080 -h /tmp/www"}
	env.Check(t, cluster.importImage(agentImage, layer, engine.ImageConfig{Cmd: serve, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/sbin"}}))
	const config = "/etc/agentjail/config.toml"
	names := pool + "[policies.net.network]\nmode = \"names\"\nallow = [\"@anthropic\", \"@github\"]\npublish = [\"0.0.0.0:8000-8999\"]\nservers = [\"10.96.0.10\"]\n"
	env.Check(t, os.WriteFile(config, []byte(names), 0o644))
	defer func() { _ = os.WriteFile(config, []byte(policy), 0o644) }()
	for _, m := range []struct{ file, pod string }{{"pod.yaml", "agent"}, {"pod-names.yaml", "agent-by-name"}} {
		text := env.Read(t, manifest(m.file))
		apply(t, strings.Replace(string(text), "image: IMAGE", "image: "+agentImage, 1))
		kubectl(t, "wait", "--for=condition=Ready", "pod/"+m.pod, "--timeout=100s")
		env.Contain(t, m.file, kubectl(t, "exec", m.pod, "--", "cat", "/proc/self/status"), "Seccomp:\t2")
	}
	ip := kubectl(t, "get", "pod", "agent-by-name", "-o", "jsonpath={.status.podIP}")
	eventually(t, "the published port", func() (string, bool) {
		client := http.Client{Timeout: 10 * time.Second}
		resp, err := client.Get("http://" + ip + ":8080/")
		if err != nil {
			return err.Error(), false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text), string(text) == "served\n"
	})
	if out, err := try(t, "", "exec", "agent-by-name", "--", "nslookup", "pypi.org"); err == nil {
		t.Errorf("a name that the policy does not have: %s", out)
	}
	record("network by name (pod-names.yaml)", "agentjail-net", "ok")
}

// TestNodeDrainsOfJails: a node is drained of jails, and fills again.
func TestNodeDrainsOfJails(t *testing.T) {
	installed(t)
	for _, h := range handlers {
		h.apply(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: moved}
spec:
  selector: {matchLabels: {app: moved}}
  template:
    metadata: {labels: {app: moved}}
    spec:
      $CLASS
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: "$IMAGE", command: [sleep, "100000"]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: moved}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: moved}}}
`)
		h.in(t, "rollout", "status", "deployment/moved", "--timeout=100s")
	}
	out := kubectl(t, "drain", nodeName, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=100s")
	env.Contain(t, "drain", out, "drained")
	for _, h := range handlers {
		if left := h.in(t, "get", "pods", "-o", "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}"); left != "" {
			t.Errorf("%s: still run: %s", h.name, left)
		}
	}
	kubectl(t, "uncordon", nodeName)
	for _, h := range handlers {
		h.in(t, "rollout", "status", "deployment/moved", "--timeout=100s")
		record("node drain", h.name, "ok")
	}
}

// TestUpgradeUnderLiveJails: one release takes another's place on the node, up and down, under live jails. Those can be used as before, are
// probed, and their containers start again.
func TestUpgradeUnderLiveJails(t *testing.T) {
	installed(t)
	images := map[string]string{"this": kubectl(t, "-n", "kube-system", "get", "daemonset/agentjail-install", "-o", "jsonpath={.spec.template.spec.initContainers[0].image}")}
	for _, name := range []string{"next", "previous"} {
		images[name] = "agentjail-install:" + name
		layer, entry, err := installer(releaseDir(name))
		env.Check(t, err)
		env.Check(t, cluster.importImage("docker.io/library/"+images[name], layer, engine.ImageConfig{Entrypoint: []string{entry}}))
	}
	var pods []string
	for i, to := range []string{"next", "this", "previous", "this"} {
		pods = append(pods, fmt.Sprint("upgraded-", i))
		for _, h := range handlers {
			h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+pods[i]+`}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: "$IMAGE"
    command: [sh, -c, "until [ -e /tmp/end ]; do sleep 1; done"]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 30}
    lifecycle: {postStart: {exec: {command: ["true"]}}}
`)
		}
		for _, h := range handlers {
			h.ready(t, "pod/"+pods[i])
		}
		kubectl(t, "-n", "kube-system", "set", "image", "daemonset/agentjail-install", "install="+images[to], "installed="+images[to])
		rolledOut(t)
		if !bytes.Equal(env.Read(t, "/usr/local/bin/agentjail"), env.Read(t, filepath.Join(releaseDir(to), "agentjail"))) {
			t.Fatalf("the node has not the programs of release %s", to)
		}
		const restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
		for _, h := range handlers {
			for _, pod := range pods {
				env.Equal(t, h.name+": exec in "+pod+", and now "+to, h.sh(t, pod, "echo alive"), "alive")
			}
			env.Equal(t, h.name+": restarts by a probe", h.in(t, "get", "pod/"+pods[i], "-o", restarts), "0")
			h.sh(t, pods[i], "touch /tmp/end")
		}
		for _, h := range handlers {
			h.waits(t, restarts+"=1", "pod/"+pods[i])
			h.ready(t, "pod/"+pods[i])
			env.Equal(t, h.name+": exec after a restart", h.sh(t, pods[i], "echo alive"), "alive")
		}
	}
	for _, h := range handlers {
		h.in(t, append([]string{"delete", "pod", "--timeout=60s"}, pods...)...)
		h.sleeper(t, "new")
		record("upgrade with live pods", h.name, "ok")
	}
}

// TestUninstallLeavesNoTrace takes agentjail off the node: not before its jails are gone, and then without a trace.
func TestUninstallLeavesNoTrace(t *testing.T) {
	installed(t)
	jail := handlers[1]
	jail.sleeper(t, "last")
	kubectl(t, "delete", "-f", manifest("daemonset.yaml"))
	file(t, "uninstall.yaml")
	pods := []string{"pod", "--namespace=kube-system", "--selector=app=agentjail-uninstall"}
	kubectl(t, append([]string{"wait", "--for=create", "--timeout=60s"}, pods...)...)
	kubectl(t, append([]string{"wait", "--for=jsonpath={.status.initContainerStatuses[0].lastState.terminated.exitCode}=125", "--timeout=90s"}, pods...)...)
	why := kubectl(t, append([]string{"get", "-o", "jsonpath={.items[0].status.initContainerStatuses[0].lastState.terminated.message}{.items[0].status.initContainerStatuses[0].state.terminated.message}"}, pods...)...)
	env.Contain(t, "the pod's status", why, "on the node, and agentjail is what ends them")
	env.Equal(t, "the jail goes on", jail.sh(t, "last", "echo alive"), "alive")
	for _, h := range handlers[1:] {
		h.in(t, "delete", "deployments,statefulsets,jobs,pods", "--all", "--timeout=100s")
	}
	out, err := try(t, "", "-n", "kube-system", "rollout", "status", "daemonset/agentjail-uninstall", "--timeout=110s")
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, kubectl(t, "-n", "kube-system", "describe", "pods"))
	}
	for _, name := range []string{"agentjail", "agentjail-net", engine.ShimName} {
		if _, err := os.Lstat(filepath.Join("/usr/local/bin", name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if text, err := os.ReadFile("/etc/containerd/config.toml"); err != nil || string(text) != containerdConfig {
		t.Errorf("containerd's configuration: %v\n%s", err, text)
	}
	kubectl(t, "delete", "-f", manifest("uninstall.yaml"))
	for _, h := range handlers[1:] {
		record("uninstall, refused while jails live", h.name, "ok")
	}
	nothingLeft(t)
}

// nothingLeft looks for what jails leave behind.
func nothingLeft(t *testing.T) {
	t.Helper()
	if left, _ := os.ReadDir("/run/agentjail/jails"); len(left) > 0 {
		t.Errorf("%d jails are left", len(left))
	}
	after := env.Get(t, jailMounts)
	for place := range after {
		if !mountsBefore[place] {
			t.Error("a mount is left: ", place)
		}
	}
}

// mountsBefore are the mounts that the tests run on: their own state directories.
var mountsBefore map[string]bool

// jailMounts are the places of mounts that have agentjail's name.
func jailMounts() (map[string]bool, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	places := map[string]bool{}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.Contains(f[4], "/agentjail") {
			places[f[4]] = true
		}
	}
	return places, nil
}
