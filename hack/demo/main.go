// Demo shows agentjail on a real Docker: it starts one of its own, runs useful and hostile work through
// docker run --runtime=agentjail, shows the ring report of a running jail, and removes everything again.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/tests/engine"
)

func main() {
	engine.IfJanitor()
	binary := flag.String("runtime", "bin/agentjail", "the agentjail to show")
	flag.Parse()
	if err := show(*binary); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// A demo is a Docker with agentjail, and the means to talk to it.
type demo struct {
	*engine.Engine
	runtime string // agentjail, in a place that only root can write
}

func show(binary string) error {
	runtime, remove, err := install(binary)
	if err != nil {
		return err
	}
	defer remove()
	say("Starting a Docker of its own, beside whatever runs on this machine.")
	e, err := engine.Start(engine.Options{
		Runtimes: map[string]engine.Runtime{engine.Name: {Path: runtime}},
		Log:      func(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	stop := func() error { return e.Close() }
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = stop()
		remove()
		os.Exit(130)
	}()
	err = demo{e, runtime}.acts()
	if cerr := stop(); err == nil {
		err = cerr
	}
	if err == nil {
		say("Everything is removed again. To use agentjail with this machine's own Docker:")
		fmt.Println("  sudo agentjail install docker")
	}
	return err
}

// install copies agentjail to where only root can write: what runs as root must not come from a folder that others can
// change.
func install(binary string) (path string, remove func(), err error) {
	text, err := os.ReadFile(binary)
	if err != nil {
		return "", nil, fmt.Errorf("no agentjail to show (make build makes it): %w", err)
	}
	if err := os.MkdirAll(engine.CacheDir, 0o755); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp(engine.CacheDir, "demo-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir); _ = engine.RemoveBuilt() }
	if err = os.Chmod(dir, 0o755); err == nil {
		path = filepath.Join(dir, "agentjail")
		err = os.WriteFile(path, text, 0o755)
	}
	if err != nil {
		remove()
	}
	return path, remove, err
}

// acts are the parts of the show.
func (d demo) acts() error {
	if err := d.ImportBusybox(); err != nil {
		return err
	}
	fmt.Println("  " + d.Versions())
	for _, act := range []func() error{d.useful, d.hostile, d.limits, d.report} {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

func say(format string, args ...any) { fmt.Printf("\n"+format+"\n", args...) }

// run shows and runs a docker command. A command may fail: the show goes on with what it said.
func (d demo) run(args ...string) engine.Result {
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = a
		if strings.ContainsAny(a, " ;&|$'") {
			shown[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	fmt.Println("  $ docker " + strings.Join(shown, " "))
	return d.quiet(args...)
}

func (d demo) quiet(args ...string) engine.Result {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return d.Docker(ctx, args...)
}

func indent(s string) {
	for _, line := range strings.Split(strings.TrimSpace(s), "\n") {
		fmt.Println("    " + line)
	}
}

const jail = "--runtime=" + engine.Name

// useful: work on a folder of the developer's.
func (d demo) useful() error {
	say("1. Useful work. The project belongs to uid 1000; what the jail's root makes there belongs to 1000 too.")
	dir := filepath.Join(d.Dir, "project")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "hello.sh"), []byte("echo hello from $(whoami)\n"), 0o644); err != nil {
		return err
	}
	for _, p := range []string{dir, filepath.Join(dir, "hello.sh")} {
		if err := os.Chown(p, 1000, 1000); err != nil {
			return err
		}
	}
	r := d.run("run", "--rm", jail, "-v", dir+":/work", "-w", "/work", engine.Busybox, "sh", "-c", "sh hello.sh | tee result; ls -ln")
	indent(r.Stdout)
	if r.Code != 0 {
		return fmt.Errorf("%s", r)
	}
	out, err := exec.Command("ls", "-ln", dir).Output()
	if err != nil {
		return err
	}
	fmt.Println("  $ ls -ln project        # on the host")
	indent(string(out))
	return nil
}

// tries are hostile attempts: the probe's names and what they are about.
var tries = []struct{ name, about string }{
	{"unshare_user", "make a user namespace, the way to most kernel exploits"},
	{"mount_tmpfs", "mount a file system"},
	{"io_uring_setup", "io_uring"},
	{"bpf", "load an eBPF program"},
	{"socket_packet", "read raw packets"},
	{"socket_netfilter", "talk to the packet filter"},
	{"socket_vsock_high_bits", "a socket family that filters forget, with a high bit set"},
	{"int80_socket_vsock", "the same through the 32-bit entry"},
	{"ptrace_attach", "take over another process"},
	{"mknod_block", "make a device node of the disk"},
	{"chmod_setuid", "leave a set-user-id file"},
	{"open_by_handle_at", "open files of the host by their number"},
	{"keyctl", "look into the kernel's keyrings"},
	{"perf_event_open", "watch the machine's performance counters"},
}

// generous are options with which a container of runc has nearly everything.
var generous = []string{"--cap-add", "SYS_ADMIN", "--cap-add", "DAC_READ_SEARCH", "--security-opt", "seccomp=unconfined", "--pid", "host", "--network", "host"}

// hostile: the same attempts, with the same generous options, under runc and in a jail.
func (d demo) hostile() error {
	say("2. Hostile work, with options that give a container nearly everything. Under runc they do; a jail starts without.")
	args := append(append([]string{"run", "--rm"}, generous...), "--runtime=RUNTIME", engine.Busybox, "probe", "attempts")
	for _, t := range tries {
		args = append(args, t.name)
	}
	fmt.Println("  $ docker " + strings.Join(args[:len(args)-len(tries)], " ") + " ...")
	results := map[string]map[string]struct{ Errno string }{}
	for _, rt := range []string{"runc", engine.Name} {
		for i := range args {
			if strings.HasPrefix(args[i], "--runtime=") {
				args[i] = "--runtime=" + rt
			}
		}
		r := d.quiet(args...)
		var got map[string]struct{ Errno string }
		if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
			return fmt.Errorf("%s", r)
		}
		results[rt] = got
	}
	word := func(rt, name string) string {
		if e := results[rt][name].Errno; e != "" {
			return e
		}
		return "works"
	}
	fmt.Printf("    %-58s %-10s %s\n", "attempt", "runc", engine.Name)
	var through []string
	for _, t := range tries {
		fmt.Printf("    %-58s %-10s %s\n", t.about, word("runc", t.name), word(engine.Name, t.name))
		if results[engine.Name][t.name].Errno == "" {
			through = append(through, t.name)
		}
	}
	if len(through) > 0 {
		return fmt.Errorf("in the jail these worked: %v", through)
	}
	for _, mount := range []string{"/:/host", d.Socket() + ":/var/run/docker.sock"} {
		r := d.run("run", "--rm", jail, "-v", mount, engine.Busybox, "true")
		if r.Code == 0 {
			return fmt.Errorf("the mount %s was not refused", mount)
		}
		reason, _, _ := strings.Cut(r.Stderr, "\n") // docker's own echo of it follows
		indent(reason)
	}
	return nil
}

// limits: what the agent can use up.
func (d demo) limits() error {
	say("3. Greedy work: processes, memory and disk end where policy says; rm -rf / costs the jail only its own files.")
	for _, c := range [][]string{
		{"probe", "forks", "5000"},
		{"probe", "fill", "/", "2000"},
		{"sh", "-c", "busybox rm -rf /bin /etc /usr /home 2>/dev/null; echo gone"},
	} {
		r := d.run(append([]string{"run", "--rm", jail, engine.Busybox}, c...)...)
		indent(r.Stdout + r.Stderr)
	}
	r := d.run("run", "--rm", jail, engine.Busybox, "sh", "-c", "ls /bin | wc -l")
	indent(r.Stdout)
	if r.Code != 0 {
		return fmt.Errorf("%s", r)
	}
	return nil
}

// report: a running jail, looked at from outside.
func (d demo) report() error {
	say("4. A running jail, as the kernel sees it, held against policy ring by ring.")
	args := append(append([]string{"run", "-d"}, generous...), jail, engine.Busybox, "sleep", "3600")
	r := d.run(args...)
	id := strings.TrimSpace(r.Stdout)
	if r.Code != 0 {
		return fmt.Errorf("%s", r)
	}
	indent(id)
	fmt.Println("  $ agentjail inspect " + id[:12] + "...")
	cmd := exec.Command(d.runtime, "inspect", id)
	out, err := cmd.CombinedOutput()
	indent(string(out))
	if err != nil {
		return fmt.Errorf("agentjail inspect: %w", err)
	}
	return nil
}
