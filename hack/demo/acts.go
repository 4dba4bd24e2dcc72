package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/tests/engine"
)

// acts are the parts of the show.
func (d demo) acts() error {
	if err := d.ImportBusybox(); err != nil {
		return err
	}
	fmt.Println("  " + d.Versions())
	for _, act := range []func() error{d.check, d.refusal, d.useful, d.hostile, d.limits, d.report} {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

// run shows and runs a docker command. A command may fail: the show goes on with its output.
func (d demo) run(args ...string) engine.Result {
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = a
		if strings.ContainsAny(a, " ;&|$'") {
			shown[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	prompt("docker " + strings.Join(shown, " "))
	return d.quiet(args...)
}

func (d demo) quiet(args ...string) engine.Result {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return d.Docker(ctx, args...)
}

const jail = "--runtime=" + engine.Name

// check: what this machine has for each ring.
func (d demo) check() error {
	heading("1. Can this machine hold each ring? Tried, not guessed from versions.")
	prompt("agentjail check")
	out, err := exec.Command(d.runtime, "check", "-v").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fine := 0
	for _, line := range lines[:len(lines)-1] {
		if strings.HasPrefix(line, "ok ") {
			fine++ // only what is missing is shown
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		indent(paint(of(word), word) + " " + strings.Join(strings.Fields(rest), " "))
	}
	indent(fmt.Sprintf("%s %d more; %s", paint(good, "ok"), fine, lines[len(lines)-1]))
	if err != nil {
		return fmt.Errorf("agentjail check: %w", err)
	}
	return nil
}

// refusal: what a program sees that is refused something, and what explains it. The README shows
// these lines.
func (d demo) refusal() error {
	heading("2. A refusal, and its explanation.")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	mount := []string{"run", "--rm", "--privileged", jail, engine.Busybox, "mount", "-t", "tmpfs", "none", "/mnt"}
	r := d.run(mount...)
	indent(r.Stdout + r.Stderr)
	if r.Code == 0 {
		return fmt.Errorf("a jail mounted: %s", r)
	}
	why := []string{"why", "--seccomp-profile", "default", "mount"}
	prompt("agentjail " + strings.Join(why, " "))
	out, err := exec.Command(d.runtime, why...).Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 { // 1 is "refused"
		return fmt.Errorf("agentjail why: %w", err)
	}
	indent(string(out))
	shown := "$ docker " + strings.Join(mount, " ") + "\n" + r.Stderr + "$ agentjail " + strings.Join(why, " ") + "\n"
	// The last line, on what an operator does besides, is left out there.
	lines := strings.SplitAfter(string(out), "\n")
	if shown += strings.Join(lines[:6], ""); !strings.Contains(string(readme), shown) {
		return fmt.Errorf("the README shows something else than:\n%s", shown)
	}
	return nil
}

// useful: work on a directory of the developer's.
func (d demo) useful() error {
	heading("3. Useful work. The project belongs to uid 1000; what the jail's root makes there belongs to 1000 too.")
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
	prompt("ls -ln project        # on the host")
	out, err := exec.Command("ls", "-ln", dir).Output()
	if err != nil {
		return err
	}
	indent(string(out))
	st, err := os.Stat(filepath.Join(dir, "result"))
	if err != nil {
		return err
	}
	if owner := st.Sys().(*syscall.Stat_t); owner.Uid != 1000 || owner.Gid != 1000 {
		return fmt.Errorf("the new file belongs to %d:%d on the host, not to the directory's owner", owner.Uid, owner.Gid)
	}
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
	heading("4. Hostile work, with options that give a container nearly everything. Under runc they do; a jail starts without.")
	args := append(append([]string{"run", "--rm"}, generous...), "--runtime=RUNTIME", engine.Busybox, "probe", "attempts")
	for _, t := range tries {
		args = append(args, t.name)
	}
	prompt("docker " + strings.Join(args[:len(args)-len(tries)], " ") + " ...")
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
		colour := func(rt string) style {
			if results[rt][t.name].Errno == "" {
				return bad
			}
			return good
		}
		// Padded first: colours have a length too.
		runc := fmt.Sprintf("%-10s", word("runc", t.name))
		fmt.Printf("    %-58s %s %s\n", t.about, paint(colour("runc"), runc), paint(colour(engine.Name), word(engine.Name, t.name)))
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
	heading("5. Greedy work: processes, memory and disk end at policy's limits; rm -rf / costs the jail only its own files.")
	for _, c := range []struct {
		args []string
		ends string // what the jail's answer has in it
	}{
		{[]string{"probe", "forks", "5000"}, `"errno":"EAGAIN"`},
		{[]string{"probe", "fill", "/", "2000"}, `"errno":"ENOSPC"`},
		{[]string{"sh", "-c", "busybox rm -rf /bin /etc /usr /home 2>/dev/null; echo gone"}, "gone"},
	} {
		r := d.run(append([]string{"run", "--rm", jail, engine.Busybox}, c.args...)...)
		indent(r.Stdout + r.Stderr)
		if !strings.Contains(r.Stdout, c.ends) {
			return fmt.Errorf("this should have ended with %s: %s", c.ends, r)
		}
	}
	r := d.run("run", "--rm", jail, engine.Busybox, "sh", "-c", "ls /bin | wc -l")
	indent(strings.TrimSpace(r.Stdout) + " commands in the next container")
	if n, err := strconv.Atoi(strings.TrimSpace(r.Stdout)); err != nil || n < 100 {
		return fmt.Errorf("the image lost files: %s", r)
	}
	return nil
}

// report: a running jail, looked at from outside.
func (d demo) report() error {
	heading("6. --privileged makes a plain jail, and the report lists what was denied. The jail as the kernel sees it, ring by ring:")
	r := d.run("run", "-d", "--privileged", "--pid=host", "--network=host", jail, engine.Busybox, "sleep", "3600")
	id := strings.TrimSpace(r.Stdout)
	if r.Code != 0 {
		return fmt.Errorf("%s", r)
	}
	prompt("agentjail inspect " + id[:12] + "...")
	out, err := exec.Command(d.runtime, "inspect", id).CombinedOutput()
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if c := of(word); c != "" {
			line = strings.Replace(line, word, paint(c, word), 1)
		}
		indent(line)
	}
	if err != nil {
		return fmt.Errorf("agentjail inspect: %w", err)
	}
	return nil
}
