// Package crash kills agentjail in the middle of its work, at every step that
// can be named and at times that cannot, and looks at what is left on the host
// once the engine has cleaned up in its usual way. Bad input is a crash of
// another kind: it too must leave nothing.
package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var (
	bin    string // agentjail built with named crash points
	root   string // the delegate's --root
	bundle string // a busybox bundle whose process sleeps
	work   string // a mounted directory with a repository, whose protected paths need placeholders
	before string // what was in work
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	if os.Args[0] == setKey {
		os.Exit(beHook())
	}
	engine.SuiteNeedsRoot("it runs and kills jails")
	os.Exit(func() int {
		if _, err := exec.LookPath("runc"); err != nil {
			fmt.Println("tests/crash needs runc (hack/deps.sh installs it):", err)
			return 1
		}
		dir, err := os.MkdirTemp("/var/lib", "agentjail-crash-")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := setUp(dir); err != nil {
			fmt.Println(err)
			return 1
		}
		return m.Run()
	}())
}

func setUp(dir string) error {
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	bin = filepath.Join(dir, "agentjail")
	root = filepath.Join(dir, "root")
	bundle = filepath.Join(dir, "bundle")
	if err := engine.BuildAgentjail(bin, "-tags=crashtest"); err != nil {
		return err
	}
	if err := engine.UnpackBusybox(filepath.Join(bundle, "rootfs")); err != nil {
		return err
	}
	spec, err := exec.Command("sh", "-c", "cd "+bundle+" && runc spec && cat config.json").Output()
	if err != nil {
		return fmt.Errorf("runc spec: %w", err)
	}
	var s map[string]any
	if err := json.Unmarshal(spec, &s); err != nil {
		return err
	}
	p := s["process"].(map[string]any)
	p["terminal"] = false
	p["args"] = []string{"sleep", "1000"}
	work = filepath.Join(dir, "work")
	files := engine.Repository()
	files[".git/info/"], files["src/main.go"] = "", "package main\n"
	if err := errors.Join(os.Mkdir(work, 0o755), engine.FillWorkspace(work, files)); err != nil {
		return err
	}
	before = env.Tree(work)
	s["mounts"] = append(s["mounts"].([]any), map[string]any{"destination": "/work", "type": "bind", "source": work, "options": []string{"rbind", "rw"}})
	return writeSpec(bundle, s)
}

func writeSpec(dir string, s any) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
}

// agentjail runs the binary under test and returns its exit status and what it
// wrote to standard error.
func agentjail(t *testing.T, vars []string, args ...string) (int, string) {
	t.Helper()
	cmd := command(vars, args...)
	r := engine.Capture(t.TempDir(), cmd, nil)
	if cmd.ProcessState == nil {
		t.Fatal(r)
	}
	return r.Code, r.Stderr
}

func command(vars []string, args ...string) *exec.Cmd {
	cmd := exec.Command(bin, append([]string{"--root", root}, args...)...)
	cmd.Env = append(os.Environ(), vars...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	return cmd
}

// left lists what on the host still speaks of the container.
func left(id string) []string {
	// What a test itself mounts of the bundle, as an engine would.
	asEngine := "/rootfs " + filepath.Join(bundle, "rootfs") + " "
	var out []string
	info, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.SplitSeq(string(info), "\n") {
		if strings.Contains(line, "-"+id+"/") || strings.Contains(line, bundle) && !strings.Contains(line, asEngine) {
			out = append(out, "mount: "+line)
		}
	}
	for _, glob := range []string{
		"/run/agentjail/jails/*" + id + "*", "/run/agentjail/ids/*/*" + id + "*", "/run/agentjail/sandbox/" + id,
		"/sys/fs/cgroup/" + id, "/sys/fs/cgroup/*/" + id, "/sys/fs/cgroup/*/*/" + id, "/sys/fs/cgroup/*/*/*/" + id,
		"/sys/fs/cgroup/agentjail-egress-*" + id, "/sys/fs/cgroup/*/agentjail-egress-*" + id, "/sys/fs/cgroup/*/*/agentjail-egress-*" + id,
		root + "/" + id,
	} {
		m, _ := filepath.Glob(glob)
		out = append(out, m...)
	}
	if now := env.Tree(work); now != before {
		out = append(out, "in the mounted directory: "+now)
	}
	out = append(out, processes(id)...)
	return out
}

// processes finds those that belong to a container: by its control group, its
// mounts or its arguments.
func processes(id string) []string {
	var out []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if filepath.Base(p) == fmt.Sprint(os.Getpid()) {
			continue
		}
		stat, _ := os.ReadFile(p + "/stat")
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || i+2 >= len(stat) || stat[i+2] == 'Z' || stat[i+2] == 'X' {
			continue
		}
		cg, _ := os.ReadFile(p + "/cgroup")
		args, _ := os.ReadFile(p + "/cmdline")
		mi, _ := os.ReadFile(p + "/mountinfo")
		if bytes.Contains(cg, []byte("/"+id+"\n")) || bytes.Contains(cg, []byte("-"+id+"\n")) || bytes.Contains(args, []byte("\x00"+id+"\x00")) || bytes.Contains(mi, []byte("-"+id+"/layer")) {
			out = append(out, "process: "+p+" "+string(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// waitGone polls, as killed processes take a moment to end.
func waitGone(t *testing.T, id string) {
	t.Helper()
	var l []string
	if !env.Poll(env.Patience, func() bool { l = left(id); return len(l) == 0 }) {
		t.Fatalf("left on the host:\n%s", strings.Join(l, "\n"))
	}
}
