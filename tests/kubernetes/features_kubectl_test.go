package kubernetes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// sleeper is a pod that does nothing.
func (h handler) sleeper(t *testing.T, name string) {
	t.Helper()
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "echo hello; exec sleep 100000"]}
`)
	h.ready(t, "pod/"+name)
}

func runs(t *testing.T, h handler) string {
	overrides := `{"spec": {"terminationGracePeriodSeconds": 0}}`
	if h.jail() {
		overrides = fmt.Sprintf(`{"spec": {"runtimeClassName": %q, "terminationGracePeriodSeconds": 0}}`, h.name)
	}
	out, err := try(t, "a line\n", "--namespace="+h.namespace, "run", "run", "--image="+busyboxImage, "--restart=Never", "--rm", "-i", "--quiet", "--overrides="+overrides,
		"--command", "--", "sh", "-c", "read -r l; echo got $l; grep Seccomp: /proc/self/status; exit 3")
	if err == nil || !strings.Contains(out, "got a line") {
		t.Errorf("%v: %s", err, out)
	}
	if jailed := strings.Contains(out, "Seccomp:\t2"); jailed != h.jail() {
		t.Errorf("a jail: %v: %s", jailed, out)
	}
	return ""
}

func execs(t *testing.T, h handler) string {
	h.sleeper(t, "exec")
	eventually(t, "logs", func() (string, bool) {
		out := h.in(t, "logs", "exec")
		return out, out == "hello"
	})
	if out, err := h.try(t, "exec", "exec", "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(out, "exit code 7") {
		t.Errorf("exit code: %v, %s", err, out)
	}
	out, err := try(t, "from outside", "--namespace="+h.namespace, "exec", "-i", "exec", "--", "cat")
	if err != nil {
		t.Error(err)
	}
	env.Equal(t, "stdin", out, "from outside")
	from := filepath.Join(t.TempDir(), "file")
	env.Check(t, os.WriteFile(from, []byte("copied"), 0o644))
	h.in(t, "cp", from, "exec:/root/file")
	env.Equal(t, "copied in", h.sh(t, "exec", "cat /root/file"), "copied")
	h.in(t, "cp", "exec:/root/file", from+".back")
	if text, err := os.ReadFile(from + ".back"); err != nil || string(text) != "copied" {
		t.Errorf("copied back: %v, %q", err, text)
	}
	return ""
}

func attaches(t *testing.T, h handler) string {
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: attach}
spec:
  $CLASS
  restartPolicy: Never
  containers:
  - {name: main, image: "$IMAGE", stdin: true, stdinOnce: true, command: [sh, -c, "read -r l; echo attached to $l"]}
`)
	h.ready(t, "pod/attach")
	if out, err := try(t, "me\n", "--namespace="+h.namespace, "attach", "-i", "attach"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	h.waits(t, "jsonpath={.status.phase}=Succeeded", "pod/attach")
	env.Contain(t, "what it prints", h.in(t, "logs", "attach"), "attached to me")
	return ""
}

func debugs(t *testing.T, h handler) string {
	h.sleeper(t, "debugged")
	h.in(t, "debug", "debugged", "--quiet", "--image="+busyboxImage, "--target=main", "--profile=general", "--container=look",
		"--", "sh", "-c", "ps; grep -e CapEff -e Seccomp: /proc/self/status")
	h.waits(t, "jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0", "pod/debugged")
	out := h.in(t, "logs", "debugged", "-c", "look")
	env.Contain(t, "processes", out, "sleep 100000")
	if h.jail() {
		env.Contain(t, "capabilities", out, "CapEff:\t0000000000000000")
		env.Contain(t, "filter", out, "Seccomp:\t2")
	}
	return ""
}

var forwarding = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:(\d+)`)

func forwards(t *testing.T, h handler) string {
	h.server(t, "forward", "")
	ctx, cancel := context.WithTimeout(context.Background(), commandWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(cluster.programs, "kubectl"), "--namespace="+h.namespace, "port-forward", "pod/forward", ":8080")
	cmd.Env = cluster.env
	out := env.Get(t, cmd.StdoutPipe)
	var errs strings.Builder
	cmd.Stderr = &errs
	env.Check(t, cmd.Start())
	defer func() { cancel(); _ = cmd.Wait() }()
	line, _ := bufio.NewReader(out).ReadString('\n')
	m := forwarding.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("port-forward states %q, %s", line, errs.String())
	}
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Get("http://127.0.0.1:" + m[1] + "/")
	if !h.network() {
		if err == nil {
			t.Errorf("a jail without a network answers: %s", resp.Status)
		}
		return "refused: no network"
	}
	env.Check(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || string(text) != "served\n" {
		t.Errorf("%v: %q", err, text)
	}
	return ""
}

// server is a pod that serves a page at port 8080, ready when more reports it.
func (h handler) server(t *testing.T, name, more string) {
	t.Helper()
	h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`, labels: {app: `+name+`}}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: "$IMAGE"
    command: [sh, -c, "mkdir /tmp/www; echo served >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"]
    startupProbe: {exec: {command: [wget, -q, -O, /dev/null, "http://127.0.0.1:8080/"]}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 60}
`+more)
	if more == "" {
		h.ready(t, "pod/"+name)
	}
}

func checkpoints(t *testing.T, h handler) string {
	h.sleeper(t, "checkpoint")
	out, err := try(t, "", "create", "--raw", fmt.Sprintf("/api/v1/nodes/%s/proxy/checkpoint/%s/checkpoint/main", nodeName, h.namespace), "-f", "-")
	if err == nil {
		t.Errorf("a checkpoint was made: %s", out)
	}
	env.Equal(t, "after the refusal", h.sh(t, "checkpoint", "echo alive"), "alive")
	return "none: no criu"
}
