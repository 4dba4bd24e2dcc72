package exhaust

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// taken is the probe's word on how much it got.
type taken struct {
	Got   int    `json:"got"`
	Errno string `json:"errno"`
}

// attack starts a container that takes something and holds it, and waits until it has done so. args are docker's options,
// the image left out, and after "--" the probe's.
func attack(t *testing.T, d *engine.T, options []string, probe ...string) (id string, got taken) {
	t.Helper()
	id = d.Detached(append(append(options, engine.Busybox, "probe"), probe...)...)
	return id, answer(t, d, id)
}

// answer waits for what the probe in a container states, or for its end: where what it takes is counted as its memory, it may
// be killed for that.
func answer(t *testing.T, d *engine.T, id string) taken {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), env.CommandWait)
	defer cancel()
	cmd := d.Command(ctx, "logs", "--follow", id)
	out, err := cmd.StdoutPipe()
	env.Check(t, err)
	env.Check(t, cmd.Start())
	got := taken{}
	err = json.NewDecoder(out).Decode(&got)
	if ctx.Err() != nil {
		t.Fatalf("the attack does not end: %v", err)
	}
	cancel()
	_ = cmd.Wait() // it was killed where the container goes on
	if errors.Is(err, io.EOF) {
		return taken{Errno: "killed"}
	}
	env.Check(t, err)
	return got
}

// guest are the attacks that reach a sandbox's own kernel in place of the host's, with what bounds them there.
var guest = map[string]string{
	"TestUnacceptedConnections":         "connections are the sandbox's memory, whose limit ends it",
	"TestTCPSockets":                    "connections are the sandbox's memory, whose limit ends it",
	"TestClosedConnectionsAreBounded":   "closed connections are the sandbox's own; its /proc/net/tcp does not list them",
	"TestUnacceptedInTheEnginesNetwork": "connections are the sandbox's memory; its /proc/net/tcp does not count those that wait",
}

// inGuest reports whether an attack of this test reaches no more than a sandbox's own kernel, and fails where the host's sockets hold memory
// all the same. took is in bytes.
func inGuest(t *testing.T, got taken, took int) bool {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	why, slack := guest[name], 4<<20 // other programs' sockets
	if promise.Sandbox() == "" || why == "" {
		return false
	}
	t.Logf("%s: %+v, and the host's sockets hold %d MiB more", why, got, took>>20)
	if took > slack || strings.Contains(why, "ends it") && got.Errno != "killed" {
		t.Errorf("%+v, and the host's sockets hold %d bytes more", got, took)
	}
	return true
}

// firstPID is the first process of a container, on the host.
func firstPID(t *testing.T, d *engine.T, id string) string {
	t.Helper()
	return d.Must("inspect", "--format", "{{.State.Pid}}", id)
}

// udpMemory is what the datagrams in the queues of all of the host's sockets take, in bytes (proc_pid_net(5), sockstat).
func udpMemory(t *testing.T) int {
	t.Helper()
	return env.Sockstat(t, "UDP", "mem") * os.Getpagesize()
}

// version1 reports whether memory is counted by control groups of version 1.
func version1() bool {
	return unix.Access("/sys/fs/cgroup/memory/memory.limit_in_bytes", unix.F_OK) == nil
}

// hostsOwn are the scores of the processes in this one's PID namespace, by their ids. Processes of other containers on this machine are not among them.
func hostsOwn(t *testing.T) map[string]int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	env.Check(t, err)
	out := map[string]int{}
	ns := namespaceOf("self")
	for _, dir := range dirs {
		pid := filepath.Base(dir)
		text, err := os.ReadFile(filepath.Join(dir, "oom_score"))
		if err != nil || namespaceOf(pid) != ns {
			continue // gone, or a container's
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			out[pid] = n
		}
	}
	return out
}

func namespaceOf(pid string) string {
	link, _ := os.Readlink(filepath.Join("/proc", pid, "ns/pid"))
	return link
}
