package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// variables are the names of what a process of root's has in its environment: those that were requested, and in a jail
// the defaults (docs/differences.md).
func variables(asked string) string {
	names := strings.Fields(asked)
	if engine.UnderTestIsAgentjail() {
		names = append(names, "ASAN_OPTIONS", "LSAN_OPTIONS", "TAR_OPTIONS")
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestRun holds what docker run prints in a jail for each of its options.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	env.Put(t, file, "FROM_FILE=yes it is\n", 0o644, 0)
	for _, c := range []struct {
		name    string
		options []string
		command []string
		want    string
	}{
		{"command", nil, []string{"echo", "hello", "world"}, "hello world"},
		{"uid by default", nil, []string{"id", "-u"}, "0"},
		{"-u uid", []string{"-u", "1000"}, []string{"sh", "-c", "id -u; id -g"}, "1000\n1000"},
		{"-u uid:gid", []string{"-u", "1000:2000"}, []string{"sh", "-c", "id -u; id -g"}, "1000\n2000"},
		{"-u name", []string{"-u", "app"}, []string{"sh", "-c", "id -un; id -gn; id -G"}, "app\napp\n1000 2000"},
		{"-u unknown uid", []string{"-u", "4321"}, []string{"id", "-u"}, "4321"},
		{"--group-add", []string{"-u", "1000:1000", "--group-add", "3000"}, []string{"id", "-G"}, "1000 3000"},
		{"-w", []string{"-w", "/home/app"}, []string{"pwd"}, "/home/app"},
		{"-w new", []string{"-w", "/made/by/docker"}, []string{"sh", "-c", "pwd; touch here && echo writable"}, "/made/by/docker\nwritable"},
		{"-e", []string{"-e", "A=1 2", "-e", "B="}, []string{"sh", "-c", `echo "$A|$B|${B-unset}"`}, "1 2||"},
		{"only the environment that was requested", nil, []string{"sh", "-c", "env | sort | sed 's/=.*//' | tr '\\n' ' '"}, variables("HOME HOSTNAME PATH PWD SHLVL")},
		{"a variable of the init step's", []string{"-e", "GOMAXPROCS=1"}, []string{"sh", "-c", "echo $GOMAXPROCS"}, "1"},
		{"--env-file", []string{"--env-file", file}, []string{"sh", "-c", `echo "$FROM_FILE"`}, "yes it is"},
		{"--hostname", []string{"--hostname", "box"}, []string{"hostname"}, "box"},
		{"--entrypoint", []string{"--entrypoint", "/bin/echo"}, []string{"over"}, "over"},
		{"--domainname", []string{"--hostname", "box", "--domainname", "jail.test"}, []string{"cat", "/proc/sys/kernel/domainname"}, "jail.test"},
		{"--init", []string{"--init"}, []string{"sh", "-c", "cat /proc/1/comm"}, "docker-init"},
		{"--shm-size", []string{"--shm-size", "32m"}, []string{"sh", "-c", "df -m /dev/shm | tail -n 1 | awk '{print $2}'"}, "32"},
		{"--ulimit", []string{"--ulimit", "nofile=100:200"}, []string{"sh", "-c", "ulimit -Sn; ulimit -Hn"}, "100\n200"},
		{
			"--read-only",
			[]string{"--read-only"},
			[]string{"sh", "-c", "touch /x 2>&1; touch /etc/x 2>&1; touch /tmp/x 2>&1; true"},
			"touch: /x: Read-only file system\ntouch: /etc/x: Read-only file system\ntouch: /tmp/x: Read-only file system",
		},
		{"--read-only --tmpfs", []string{"--read-only", "--tmpfs", "/scratch"}, []string{"sh", "-c", "echo a > /scratch/x; cat /scratch/x; touch /x 2>/dev/null || echo ro"}, "a\nro"},
		{"--tmpfs size", []string{"--tmpfs", "/scratch:size=3m,mode=1777"}, []string{"sh", "-c", "df -k /scratch | tail -n 1 | awk '{print $2}'; stat -c %a /scratch"}, "3072\n1777"},
		{"--tmpfs as a user", []string{"-u", "1000", "--tmpfs", "/scratch"}, []string{"sh", "-c", "echo a > /scratch/x; cat /scratch/x"}, "a"},
		{"image is writable", nil, []string{"sh", "-c", "echo a > /etc/new; rm /etc/passwd; mkdir /d; mv /etc/new /d; cat /d/new; ls /etc/passwd 2>/dev/null || echo gone"}, "a\ngone"},
		{"image as a user", []string{"-u", "1000"}, []string{"sh", "-c", "echo a > ~/x 2>/dev/null || echo a > /home/app/x; cat /home/app/x; cat /etc/image-secret 2>/dev/null || echo secret kept"}, "a\nsecret kept"},
		{"image's owners", nil, []string{"stat", "-c", "%u:%g", "/home/app", "/root", "/bin/busybox"}, "1000:1000\n0:0\n0:0"},
		{"/dev/stdout", nil, []string{"sh", "-c", "echo out > /dev/stdout; echo again >> /dev/stdout"}, "out\nagain"},
		{"/dev/stdout as a user", []string{"-u", "1000"}, []string{"sh", "-c", "echo out > /dev/stdout; echo lost > /dev/stderr"}, "out"},
		{"/proc/self/fd/1", []string{"-u", "1000"}, []string{"sh", "-c", "echo out > /proc/self/fd/1"}, "out"},
		{"/dev", nil, []string{"sh", "-c", "echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo y 2>/dev/null > /dev/full || echo full"}, "4\n4\nfull"},
		{"lo", nil, []string{"sh", "-c", "probe echo-server 127.0.0.1:4000 & until echo pong | nc 127.0.0.1 4000; do :; done 2>/dev/null"}, "listening\npong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustRunJail(d(t), append(append(c.options, engine.Busybox), c.command...)...)
			if got != c.want {
				t.Errorf("docker run %s %s\ngot:\n%s\nwant:\n%s", strings.Join(c.options, " "), strings.Join(c.command, " "), got, c.want)
			}
		})
	}
}

func TestRunStderr(t *testing.T) {
	r := runJail(d(t), engine.Busybox, "sh", "-c", "echo out; echo err > /dev/stderr; echo more >&2")
	env.Equal(t, "stdout", r.Stdout, "out\n")
	env.Equal(t, "stderr", r.Stderr, "err\nmore\n")
}

func TestRunStdin(t *testing.T) {
	r := d(t).DockerIn(strings.NewReader("one\ntwo\n"), "run", "--rm", "-i", jail, engine.Busybox, "wc", "-l")
	env.Equal(t, "lines", strings.TrimSpace(r.Stdout), "2")
}

// TestExitCodes holds the codes by which scripts report what happened (docker-run(1)).
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		command []string
		code    int
		says    string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"false"}, 1, ""},
		{[]string{"sh", "-c", "exit 42"}, 42, ""},
		{[]string{"/etc/not-executable"}, 126, "permission denied"},
		{[]string{"/etc"}, 126, ""},
		{[]string{"/no/such/program"}, 127, "no such file or directory"},
		{[]string{"no-such-program"}, 127, "executable file not found in $PATH"},
		{[]string{""}, 127, "executable file not found in $PATH"},
		{[]string{"sh", "-c", "sh -c 'kill -9 $$'; exit $?"}, 137, ""},
		{[]string{"sh", "-c", "sh -c 'kill -TERM $$'; exit $?"}, 143, ""},
	} {
		t.Run(strings.Join(c.command, " "), func(t *testing.T) {
			r := runJail(d(t), append([]string{engine.Busybox}, c.command...)...)
			if r.Code != c.code || !strings.Contains(r.Stderr, c.says) {
				t.Errorf("want code %d and %q in: %s", c.code, c.says, r)
			}
		})
	}
}

// TestExitCodeOfSignals is about a container whose first process is killed from outside.
func TestExitCodeOfSignals(t *testing.T) {
	for _, c := range []struct{ signal, code string }{{"KILL", "137"}, {"TERM", "143"}, {"INT", "130"}} {
		t.Run(c.signal, func(t *testing.T) {
			d := d(t)
			id := sleeper(d, "--init")
			awaitSleeps(d, id, 1)
			d.Must("kill", "-s", c.signal, id)
			env.Equal(t, "docker wait", d.Must("wait", id), c.code)
			env.Equal(t, "State.ExitCode", inspect(d, id, "{{.State.ExitCode}} {{.State.Running}} {{.State.Error}}"), c.code+" false")
		})
	}
}

func TestRunTerminal(t *testing.T) {
	d := d(t)
	name := fmt.Sprintf("terminal-%d", os.Getpid())
	// Without --rm, so that the engine's record of the end stays.
	term := d.Terminal(24, 80, "run", "-it", "--name", name, jail, engine.Busybox, "sh")
	t.Cleanup(func() { d.Remove(name) })
	term.Expect("/ # ")
	term.Type("tty\n")
	term.Expect("/dev/")
	// The client gives the terminal its size after the start (docker/cli, container/tty.go): look until it is there.
	term.Type("until probe winsize | grep -q '80.*24'; do :; done; echo sized-$((1+1))\n")
	term.Expect("sized-2")
	// The new size travels through docker: look until it is there.
	term.Type("until probe winsize | grep -q '101.*41'; do :; done; echo resized-$((1+1))\n")
	term.ExpectAtSize(41, 101, "resized-2")
	// The program that is interrupted states itself that it runs: an interrupt that finds its process between fork and setpgid(2) is lost,
	// and the shell waits on.
	term.Type("sh -c 'echo sleeping-$((1+1)); exec sleep 1000'\n")
	term.Expect("sleeping-2")
	term.Type("\x03") // interrupts the sleep, not the shell
	term.ExpectNew("/ # ")
	term.Type("echo alive-$((1+1))\n")
	term.Expect("alive-2")
	term.Type("echo out > /dev/stdout; echo tty-$((1+1)) > /dev/tty; exit 7\n")
	term.Expect("tty-2")
	// With a terminal, Docker 26's client now and then ends with 0 before the daemon has heard of the end, on a machine under emulation:
	// its word is logged, and the engine's record counts (TestExitCodes has clients' exit codes without a terminal).
	if code := term.Wait(); code != 7 {
		t.Logf("the client ended with %d", code)
	}
	env.Eventually(d, "the container has ended", func() bool { return inspect(d, name, "{{.State.Status}}") == "exited" })
	env.Equal(t, "exit code", inspect(d, name, "{{.State.ExitCode}}"), "7")
}

func TestRunTerminalAsUser(t *testing.T) {
	d := d(t)
	term := d.Terminal(24, 80, "run", "-it", "--rm", "-u", "1000", jail, engine.Busybox, "sh", "-c", "echo a > /dev/tty; echo b > /dev/stdout; stat -c %u $(tty); read x; echo got-$x")
	term.Expect("1000")
	term.Type("line\n")
	term.Expect("got-line")
	env.Equal(t, "exit code", term.Wait(), 0)
}

func TestRunRemoves(t *testing.T) {
	d := d(t)
	name := "removed-by-rm"
	d.Must("run", "--rm", "--name", name, jail, engine.Busybox, "true")
	if r := d.Docker("inspect", name); r.Code == 0 {
		t.Errorf("--rm left the container: %s", r)
	}
}

func TestRunDetached(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	env.Equal(t, "state", inspect(d, id, "{{.State.Status}} {{.HostConfig.Runtime}}"), "running "+engine.Name)
	env.Contain(t, "docker ps", d.Must("ps", "--no-trunc", "-q"), id)
	pid := inspect(d, id, "{{.State.Pid}}")
	// The pid is that of the process in the jail, on the host.
	env.Contain(t, "the process", env.ProcFile(t, pid, "cmdline"), "3600")
}

func TestRunNonRootImage(t *testing.T) {
	env.Equal(t, "output", mustRunJail(d(t), engine.NonRoot, "sh", "-c", "id -u; touch mine && ls"), "entry runs as 1000:1000 in /home/app\n1000\nmine")
}

func TestInitReaps(t *testing.T) {
	d := d(t)
	id := startJail(d, "--init", engine.Busybox, "sh", "-c", "(sh -c 'sleep 0 & exec sleep 0' &); echo up; sleep 3600")
	env.Eventually(d, "no zombie", func() bool {
		stats := sh(d, id, "cat /proc/[0-9]*/stat 2>/dev/null; true") // one may end before it is read
		return stats != "" && !strings.Contains(stats, ") Z ")
	})
}

func TestFiftyAtOnce(t *testing.T) {
	d := docker.For(t)
	const n = 50
	ids := make(chan string, n)
	for i := range n {
		go func() {
			r := d.Docker("run", "-d", jail, "--name", fmt.Sprintf("fifty-%d", i), engine.Busybox, "sh", "-c", "echo started; exec sleep 3600")
			if r.Code != 0 {
				t.Errorf("%s", r)
			}
			ids <- fmt.Sprintf("fifty-%d", i)
		}()
	}
	var all []string
	for range n {
		all = append(all, <-ids)
	}
	t.Cleanup(func() {
		for some := range slices.Chunk(all, 5) { // Docker 20.10 can lock itself up over more at once (libnetwork)
			d.Must(append([]string{"rm", "-f"}, some...)...)
		}
	})
	running := d.Must("ps", "--filter", "name=fifty-", "--format", "{{.Names}} {{.State}}")
	env.Equal(t, "running jails", strings.Count(running, " running"), n)
	// Each is a world of its own: the first id of the range, the pid namespace, the network namespace.
	seen := map[string]string{}
	for _, name := range all {
		pid := inspect(d, name, "{{.State.Pid}}")
		for _, ns := range []string{"user", "pid", "net", "mnt", "ipc", "uts", "cgroup", "time"} {
			id := env.ProcLink(t, pid, "ns/"+ns)
			if other := seen[id]; other != "" {
				t.Errorf("%s shares its %s namespace with %s", name, ns, other)
			}
			seen[id] = name
		}
		base := strings.Join(strings.Fields(env.ProcFile(t, pid, "uid_map")), " ")
		if other := seen[base]; other != "" {
			t.Errorf("%s has the host ids of %s: %s", name, other, base)
		}
		seen[base] = name
	}
}
