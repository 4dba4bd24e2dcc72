package apparmor

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
)

var update = flag.Bool("update", false, "rewrite testdata/*.profile")

func TestRenderGolden(t *testing.T) {
	for name, p := range map[string]Params{
		"abi4":    {Name: DefaultName, ABI: "4.0"},
		"abi3":    {Name: DefaultName, ABI: "3.0"},
		"no-abi":  {Name: DefaultName},
		"service": {Name: policy.ServiceAppArmor, ABI: "4.0"},
		"peers":   {Name: "agentjail-strict", ABI: "4.0", Peers: []string{"snap.docker.dockerd", "/usr/bin/conmon", "runc"}},
	} {
		got, err := Render(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := Render(p); again != got {
			t.Errorf("%s: two renderings differ", name)
		}
		path := filepath.Join("testdata", name+".profile")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (if that is right: go test -update):\n%s", name, path, got)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, p := range []Params{
		{},
		{Name: "unconfined"},
		{Name: "a b"},
		{Name: "x{"},
		{Name: "x\n}"},
		{Name: "-x"},
		{Name: strings.Repeat("x", 65)},
		{Name: "x", ABI: "5.0"},
		{Name: "x", ABI: "4.0>, file"},
		{Name: "x", Peers: []string{""}},
		{Name: "x", Peers: []string{"**"}},
		{Name: "x", Peers: []string{"runc, capability"}},
		{Name: "x", Peers: []string{"@{profile_name}"}},
	} {
		if text, err := Render(p); err == nil {
			t.Errorf("%+v is accepted:\n%s", p, text)
		}
	}
}

// TestParses has the host's parser compile every profile that its ABIs allow; it does not load
// them.
func TestParses(t *testing.T) {
	parser, err := host.parser()
	if err != nil {
		t.Skip(err)
	}
	for _, abi := range abis {
		if abi != "" {
			if _, err := os.Stat("/etc/apparmor.d/abi/" + abi); err != nil {
				t.Logf("ABI %s: not known to this parser", abi)
				continue
			}
		}
		text, err := Render(Params{Name: DefaultName, ABI: abi, Peers: []string{"/usr/bin/conmon"}})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(parser, "--skip-kernel-load", "--skip-cache")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ABI %q: %v\n%s", abi, err, out)
		}
		// The test can fail: the same with a mistake in it.
		cmd = exec.Command(parser, "--skip-kernel-load", "--skip-cache")
		cmd.Stdin = strings.NewReader(strings.Replace(text, "deny mount,", "deny mont,", 1))
		if cmd.Run() == nil {
			t.Errorf("ABI %q: a broken profile was accepted", abi)
		}
	}
}

// pattern translates an AppArmor path pattern: "*" stays within a directory, "**" does not, both
// match at least one character at the end of a directory's name (apparmor.d(5), "Globbing").
func pattern(aare string) *regexp.Regexp {
	var b strings.Builder
	b.WriteByte('^')
	for i := 0; i < len(aare); i++ {
		switch c := aare[i]; c {
		case '*':
			most := `[^/]*`
			if strings.HasPrefix(aare[i:], "**") {
				most = `.*`
				i++
			}
			if strings.HasSuffix(b.String(), "/") {
				most = `[^/]` + most
			}
			b.WriteString(most)
		case '{':
			b.WriteString("(?:")
		case '}':
			b.WriteByte(')')
		case ',':
			b.WriteByte('|')
		case '[':
			end := i + strings.IndexByte(aare[i:], ']')
			b.WriteString(strings.Replace(aare[i:end+1], "[^", "[^/", 1))
			i = end
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteByte('$')
	return regexp.MustCompile(b.String())
}

// TestPaths holds the file rules against paths that matter, either way.
func TestPaths(t *testing.T) {
	denied := func(path, perm string) bool {
		for _, r := range fileRules {
			if strings.Contains(r.perms, perm) && pattern(r.pattern).MatchString(path) {
				return true
			}
		}
		return false
	}
	for _, tt := range []struct {
		path        string
		read, write bool // allowed
	}{
		{"/proc/sys/kernel/core_pattern", true, false},
		{"/proc/sys/kernel/shmmax", true, false},
		{"/proc/sys/net/ipv4/ip_forward", true, false},
		{"/proc/sys/vm/drop_caches", true, false},
		{"/proc/sys/fs/binfmt_misc/register", true, false},
		{"/proc/sysrq-trigger", false, false},
		{"/proc/irq/1/smp_affinity", true, false},
		{"/proc/bus/pci/00/00.0", true, false},
		{"/proc/dynamic_debug/control", true, false},
		{"/proc/kcore", false, false},
		{"/proc/kmsg", false, false},
		{"/proc/keys", false, false},
		{"/proc/acpi/wakeup", false, false},
		{"/proc/meminfo", true, false},
		{"/proc/cpuinfo", true, false},
		{"/proc/pressure/memory", true, false},
		{"/proc/1/comm", true, true},
		{"/proc/42/task/43/comm", true, true},
		{"/proc/42/oom_score_adj", true, true},
		{"/proc/42/coredump_filter", true, true},
		{"/proc/42/mem", true, true}, // debuggers; ptrace rules decide whose
		{"/proc/42/status", true, true},
		{"/proc/42/uid_map", true, false},
		{"/proc/42/timens_offsets", false, false},
		{"/proc/42/net/softnet_stat", false, false},
		{"/proc/42/task/43/net/softnet_stat", false, false},
		{"/proc/42/net/dev", true, true},
		{"/proc/42/setgroups", true, false},
		{"/proc/42/attr/current", true, false},
		{"/proc/42/attr/apparmor/exec", true, false},
		{"/proc/42/task/42/attr/exec", true, false},
		{"/proc/42/loginuid", true, false},
		{"/sys/fs/cgroup/cgroup.procs", true, false},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", true, false},
		{"/sys/devices/system/cpu/online", true, false},
		{"/sys/kernel/mm/hugepages", true, false},
		{"/sys/kernel/security/apparmor/.replace", false, false},
		{"/sys/kernel/debug/x", false, false},
		{"/sys/firmware/efi/efivars/x", false, false},
		{"/sys/fs/bpf/x", false, false},
		{"/sys/devices/virtual/dmi/id/product_uuid", false, false},
		{"/sys/class/net/lo/mtu", true, false},
		{"/dev/mem", false, false},
		{"/dev/kmsg", false, false},
		{"/dev/null", true, true},
		{"/dev/shm/x", true, true},
		{"/home/user/proc/sys/x", true, true},
		{"/work/sys/x", true, true},
		{"/etc/passwd", true, true},
	} {
		if got := !denied(tt.path, "r"); got != tt.read {
			t.Errorf("%s: read %v", tt.path, got)
		}
		if got := !denied(tt.path, "w"); got != tt.write {
			t.Errorf("%s: write %v", tt.path, got)
		}
	}
}
