package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/rootfs/procfiles"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestProgramsFindTheLimits: programs that size themselves by the machine find the jail's limits.
func TestProgramsFindTheLimits(t *testing.T) {
	d := d(t)
	env.Check(t, d.ImportWork())
	id := startJail(d, "--memory", "256m", "--memory-swap", "256m", "--cpus", "1", engine.Work, "sleep", "3600")
	for _, c := range []struct{ what, script, want string }{
		{"free", "free -m | awk '/^Mem:/ {print $2}'", "256"},
		{"free's swap", "free -m | awk '/^Swap:/ {print $2}'", "0"},
		{"processors in cpuinfo", "grep -c ^processor /proc/cpuinfo", "1"},
		{"processors in stat", "grep -c '^cpu[0-9]' /proc/stat", "1"},
		{"sysconf", "getconf _NPROCESSORS_ONLN", "1"},
		{"Python's processors", "python3 -c 'import os; print(os.cpu_count(), os.sysconf(\"SC_NPROCESSORS_ONLN\"))'", "1 1"},
		{"lscpu", "lscpu -p=CPU | grep -vc '^#'", "1"},
		{"Node's memory", "node -p 'require(\"os\").totalmem()'", "268435456"},
		{"Node's processors", "node -p 'require(\"os\").cpus().length'", "1"},
		{"Node's model", "node -p 'require(\"os\").cpus()[0].model.length > 0'", "true"},
		// Node takes the heap from the control group, where that has it, or else from meminfo.
		{"Node's heap", "node -p 'require(\"v8\").getHeapStatistics().heap_size_limit <= 512 << 20'", "true"},
		{"the time of boot is the jail's", "[ $(($(date +%s) - $(awk '/^btime/ {print $2}' /proc/stat))) -lt 600 ] && echo fresh", "fresh"},
		{"its boot id stays", "a=$(cat /proc/sys/kernel/random/boot_id); [ ${#a} = 36 ] && [ $a = $(cat /proc/sys/kernel/random/boot_id) ] && echo same", "same"},
	} {
		env.Equal(t, c.what, sh(d, id, c.script), c.want)
	}
	other := startJail(d, engine.Work, "sleep", "3600")
	if a, b := sh(d, id, "cat /proc/sys/kernel/random/boot_id"), sh(d, other, "cat /proc/sys/kernel/random/boot_id"); a == b {
		t.Errorf("two jails have the boot id %s", a)
	}
	// The limits change, and so does what is shown.
	if !needsUpdate(d, id) {
		return
	}
	env.Equal(t, "free after an update", sh(d, id, "free -m | awk '/^Mem:/ {print $2}'"), "128")
	env.Equal(t, "processors after an update", sh(d, id, "getconf _NPROCESSORS_ONLN"), strconv.Itoa(procfiles.CPUs(nil, min(2, procfiles.ReadHost().CPUs))))
	env.Equal(t, "writing to a view", sh(d, id, "echo x > /proc/meminfo 2>/dev/null || echo refused"), "refused")
}

// needsUpdate halves the memory and doubles the processors, where the engine can.
func needsUpdate(d *engine.T, id string) bool {
	d.Helper()
	r := d.Docker("update", "--memory", "128m", "--memory-swap", "128m", "--cpus", "2", id)
	if r.Code != 0 {
		d.Errorf("%s", r)
	}
	return r.Code == 0
}

// TestSystemTools: what looks at the machine runs without complaint.
func TestSystemTools(t *testing.T) {
	d := d(t)
	env.Check(t, d.ImportWork())
	id := startJail(d, engine.Work, "sleep", "3600")
	for _, tool := range []string{"uptime", "ps -ef", "ps aux", "top -bn1", "free", "lscpu", "df", "df -i", "vmstat", "w", "nproc", "mount", "pgrep sleep"} {
		if r := d.Docker(append([]string{"exec", id}, strings.Fields(tool)...)...); r.Code != 0 || r.Stderr != "" || r.Stdout == "" {
			t.Errorf("%s", r)
		}
	}
}

// moving are files that differ from one moment to the next, with a number in each that shows whose they are at any
// moment: it is the host's if it is near the host's.
var moving = map[string]*regexp.Regexp{
	"/proc/meminfo": regexp.MustCompile(`MemTotal: +(\d+)`),
	"/proc/stat":    regexp.MustCompile(`ctxt (\d+)`),
	"/proc/vmstat":  regexp.MustCompile(`pgfault (\d+)`),
	"/proc/uptime":  regexp.MustCompile(`^(\d+)`),
	"/proc/loadavg": regexp.MustCompile(`/(\d+)`),
}

// revealNothing are texts that are the same on every machine without the feature: no name, no swap, the root group, no
// line below the heading.
var revealNothing = regexp.MustCompile(`^(|\(none\)|Filename Type Size Used Priority|(\d+:\S*:)?/( \d+:\S*:/)*|key shmid [a-z_ ]+|sl local_address [a-z_> -]+|IP address HW type [A-Za-z ]+)$`)

// same reports whether what a jail reads at a path is what the host reads there.
func same(name, theirs, ours string) bool {
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if r := moving[name]; r != nil {
		a, b := r.FindStringSubmatch(theirs), r.FindStringSubmatch(ours)
		if a == nil || b == nil {
			return false
		}
		x, _ := strconv.ParseFloat(a[1], 64)
		y, _ := strconv.ParseFloat(b[1], 64)
		return x > y*0.8 && x < y*1.25
	}
	return flat(theirs) == flat(ours) && !revealNothing.MatchString(flat(ours))
}

// hostText is what the host reads at a path: a file's beginning, or a directory's names.
func hostText(name string) string {
	name = strings.Replace(name, "/PID/", "/self/", 1)
	if entries, err := os.ReadDir(name); err == nil {
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, "\n")
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	n, _ := f.Read(buf)
	return string(buf[:n])
}

// TestNothingOfTheHost reads every file that is known to reveal the host, in a jail and on the host: what is the same is
// revealed. The score of gVisor, which has a kernel of its own, is 44 of 46.
func TestNothingOfTheHost(t *testing.T) {
	d := d(t)
	id := sleeper(d, "--memory", "256m", "--cpus", "1")
	var paths []string
	script := "show() { if [ -d $1 ]; then ls -1A $1; else head -c 65536 $1 2>/dev/null; fi | base64 | tr -d '\\n'; echo .; }\n"
	for _, e := range procfiles.Table {
		if path.IsAbs(e.Path) && !strings.Contains(e.Path, "(") && e.Becomes != procfiles.Stays {
			paths = append(paths, e.Path)
			script += "show " + strings.Replace(e.Path, "/PID/", "/self/", 1) + "\n"
		}
	}
	lines := strings.Split(sh(d, id, script), "\n")
	if len(lines) != len(paths) {
		t.Fatalf("%d answers to %d questions", len(lines), len(paths))
	}
	var revealed []string
	for i, p := range paths {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(lines[i], "."))
		env.Check(t, err)
		if same(p, string(text), hostText(p)) {
			revealed = append(revealed, p)
		}
	}
	asked := len(paths)
	t.Logf("score: %d of %d hidden; revealed: %v", asked-len(revealed), asked, revealed)
	if asked < 90 || float64(asked-len(revealed)) < float64(asked)*44/46 {
		t.Errorf("%d of %d hidden: less than 44 of 46", asked-len(revealed), asked)
	}
	if len(revealed) > 0 {
		t.Errorf("revealed: %v", revealed)
	}
}

// TestMountTable: where the engine keeps the image, the container's files and the host's memory size do not show.
func TestMountTable(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	text := sh(d, id, "cat /proc/self/mountinfo /proc/self/mounts")
	host := env.Read(t, "/proc/self/mountinfo")
	bad := []string{d.Dir, id, id[:12], "/run/agentjail", "/var/", "devtmpfs"}
	if m := regexp.MustCompile(` /dev .* devtmpfs .*(size=\d+k)`).FindSubmatch(host); m != nil {
		bad = append(bad, string(m[1]))
	}
	for line := range strings.SplitSeq(text, "\n") {
		for _, b := range bad {
			if strings.Contains(line, b) {
				t.Errorf("%q shows %s", line, b)
			}
		}
	}
	// Layers have numbers: their names report which images are the same, and whose.
	for _, m := range regexp.MustCompile(`lowerdir\+?=([^, ]*)`).FindAllStringSubmatch(text, -1) {
		if strings.Trim(m[1], "0123456789:.") != "" {
			t.Errorf("the mount table names layers: %s", m[1])
		}
	}
	// Each line's file system has a size of its own.
	half := procfiles.ReadHost().Memory / 2048
	for line := range strings.Lines(sh(d, id, "df -k 2>/dev/null")) {
		if f := strings.Fields(line); len(f) > 1 {
			if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil && kb > half/10*9 && kb < half/10*11 {
				t.Errorf("half of the host's memory shows in %q", line)
			}
		}
	}
	env.Equal(t, "control groups", sh(d, id, "cut -d: -f3 /proc/self/cgroup | sort -u"), "/")
	// The copies of the engine's files serve as the files.
	env.Equal(t, "own name", sh(d, id, "cat /etc/hostname"), id[:12])
	env.Contain(t, "own address", sh(d, id, "cat /etc/hosts"), id[:12])
	env.Equal(t, "with its domain", mustRunJail(d, "--hostname", "h", "--domainname", "d.test", engine.Busybox, "hostname", "-f"), "h.d.test")
	env.Equal(t, "with the domain in it", mustRunJail(d, "--hostname", "h.d.test", engine.Busybox, "hostname", "-f"), "h.d.test")
	env.Equal(t, "owner", sh(d, id, "stat -c %u /etc/hosts /etc/hostname /etc/resolv.conf"), "0\n0\n0")
}

// TestNamesWritable: root of a jail can change the engine's files about the network, as under runc. They are the jail's own:
// the engine's stay as they were, and a jail that fills them takes nothing of the host's.
func TestNamesWritable(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const files = "/etc/hosts /etc/hostname /etc/resolv.conf"
	id := sleeper(d)
	paths := strings.Fields(inspect(d, id, "{{.HostsPath}} {{.HostnamePath}} {{.ResolvConfPath}}"))
	var before []string
	for _, p := range paths {
		before = append(before, string(env.Read(t, p)))
	}
	sh(d, id, "for f in "+files+"; do echo '# mine' >>$f || exit 1; done")
	env.Equal(t, "what was written", sh(d, id, "grep -l '^# mine' "+files+" | wc -l"), "3")
	env.Equal(t, "what a copy holds", sh(d, id, "dd if=/dev/zero of=/etc/hosts bs=1M count=64 2>/dev/null; echo $(( $(stat -c %s /etc/hosts) <= 4 << 20 ))"), "1")
	for i, p := range paths {
		env.Equal(t, p, string(env.Read(t, p)), before[i])
	}
	if r := d.Docker("exec", "-u", "1000", id, "sh", "-c", "echo x >>/etc/hostname"); r.Code == 0 {
		t.Errorf("another user than root writes: %s", r)
	}
	if out, code := ownVerb(t, "inspect", id); code != 0 {
		t.Errorf("inspect: %d: %s", code, out)
	}
	d.Must("restart", "-t", "0", id)
	env.Equal(t, "after a restart", sh(d, id, "grep -l '^# mine' "+files+" || echo none"), "none")
	r := runJail(d, "--read-only", engine.Busybox, "sh", "-c", "echo x >>/etc/hosts")
	env.Contain(t, "with --read-only", r.Stderr, "Read-only file system")
	joined := mustRunJail(d, "--network", "container:"+id, engine.Busybox, "sh", "-c", "echo x >>/etc/hosts && tail -n 1 /etc/hosts")
	env.Equal(t, "with the network of another jail", joined, "x")
}

// TestInspectReports: agentjail inspect lists what stays, and a mounted directory with it.
func TestInspectReports(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	stays := 0
	for _, e := range procfiles.Table {
		if e.Becomes == procfiles.Stays {
			stays++
		}
	}
	for _, c := range []struct {
		options []string
		more    string
	}{{nil, ""}, {[]string{"-v", directory(t, 1000) + ":/work"}, "/proc/PID/mountinfo"}} {
		id := sleeper(d, c.options...)
		out, code := ownVerb(t, "inspect", "--json", id)
		var r struct {
			Exposed []struct{ Path, Reveals, Why string }
			Ways    int
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
			t.Fatalf("%v: %s", err, out)
		}
		found := false
		for _, x := range r.Exposed {
			i := slices.IndexFunc(procfiles.Table, func(e procfiles.Entry) bool { return e.Path == x.Path })
			if i < 0 || procfiles.Table[i].Becomes != procfiles.Stays && x.Path != c.more {
				t.Errorf("exposed by %s: %s (%s)", x.Path, x.Reveals, x.Why)
			}
			found = found || x.Path == c.more
		}
		if found != (c.more != "") || r.Ways != len(procfiles.Table) || len(r.Exposed) > stays+1 {
			t.Errorf("%d of %d revealed: %s", len(r.Exposed), r.Ways, out)
		}
		text, _ := ownVerb(t, "inspect", id)
		env.Contain(t, "inspect", text, fmt.Sprintf("of %d ways to learn of the host, %d are closed", r.Ways, r.Ways-len(r.Exposed)))
		env.Contain(t, "inspect", text, "sysinfo(2)")
	}
}
