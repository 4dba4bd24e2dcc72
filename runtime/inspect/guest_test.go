package inspect

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

// goodReport is what the step reports of a guest in which everything holds.
const goodReport = `process 1 2 1 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000
process 7 2 1 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000
mount rw private 9p 1073741824 262144 "/"
mount rw private proc 0 0 "/proc"
mount ro private 9p 8388608 16384 "/sys"
mount ro private 9p 1073741824 262144 "/etc/passwd"
mount rw private tmpfs 65536 0 "/tmp"
mount rw private 9p 1048576 1024 "/work"
path readable fixed "/proc/cmdline"
path hidden fixed "/proc/bus"
path hidden fixed "/sys/kernel"
path readable writable "/proc/sys"
clock boottime 5
clock monotonic 5
device c 1:3 "/dev/null"
device c 10:229 "/dev/fuse"
rlimit 7 1024 4096
`

func guestDemands() *demands {
	d := &demands{jail: &state.Jail{Policy: policy.Default()}, sandbox: "gvisor"}
	d.host.MemTotal, d.host.BootTime, d.host.Monotonic = 8<<30, 9000, 8000
	d.jail.InitStart = 8995 * state.StartTicks
	d.jail.Reviews = []state.Review{{At: "/work", Size: 1 << 20}}
	d.spec = &specs.Spec{
		Root: &specs.Root{}, Process: &specs.Process{Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 4096, Soft: 1024}}},
		Mounts: []specs.Mount{{Destination: "/tmp"}, {Destination: "/etc/passwd", Options: []string{"bind", "ro"}}, {Destination: "/work"}},
	}
	return d
}

// TestGuestChecks: each check holds where all is well, and breaks where a guest lacks its protection.
func TestGuestChecks(t *testing.T) {
	d := guestDemands()
	good, err := parseReport(goodReport)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]string{
		"capabilities": {"process 7 2 1 0000000000000000 0000000000000000 0000000000000001 0000000000000000 0000000000000000", "process 7 2 1 - - - - -"},
		"seccomp":      {"process 7 0 1 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000"},
		"bind mounts":  {`mount rw private 9p 0 0 "/etc/passwd"`, `mount rw private tmpfs 65536 0 "/own"`},
		"tmpfs":        {`mount rw private tmpfs 9223372036854775807 0 "/tmp"`, `mount rw private tmpfs 0 0 "/tmp"`},
		"device nodes": {`device b 8:0 "/dev/sda"`},
		"rlimits":      {"rlimit 7 1024 18446744073709551615"},
		"clocks":       {"clock boottime 9003", "clock monotonic 8", "clock boottime 18446744073709551615"},
		"root": {
			`mount rw private 9p 1073741825 262144 "/"`, `mount rw private 9p 0 262144 "/"`, `mount rw private 9p 1073741824 0 "/"`,
			`mount rw private tmpfs 65536 1024 "/"`,
		},
		"workspace":       {`mount rw private 9p 1048577 1024 "/work"`, `mount ro private 9p 1048576 1024 "/work"`},
		"procfs":          {`mount rw private 9p 0 0 "/proc/sys"`, `mount ro private 9p 0 0 "/proc"`, `mount rw private 9p 0 0 "/sys"`},
		"propagation":     {`mount ro shared 9p 0 0 "/x"`},
		"masked paths":    {`path readable fixed "/sys/kernel"`},
		"read-only paths": {"mount rw private 9p 0 0 \"/proc/tty\"\npath readable writable \"/proc/tty\""},
	} {
		run := guestChecks[name]
		if o := run(d, good); o.verdict != Holds {
			t.Errorf("%s: %+v", name, o)
		}
		for _, line := range bad {
			g, err := parseReport(goodReport + line + "\n")
			if err != nil {
				t.Fatal(err)
			}
			if o := run(d, g); o.verdict != Broken || o.want == "" {
				t.Errorf("%s, with %s: %+v", name, line, o)
			}
		}
	}
	for name := range guestChecks {
		if traits.Of("runsc").Boundary.Of(name) != traits.Guest {
			t.Errorf("%s is not the guest's", name)
		}
	}
	if len(guestChecks) != 13 {
		t.Error("not each check is tried")
	}
}

// TestReportOfAnother: what is not in the step's form is no report.
func TestReportOfAnother(t *testing.T) {
	for _, text := range []string{
		"", "process 1\n", goodReport + "own 1\n", goodReport + "mount rw private tmpfs x 1 \"/\"\n", goodReport + "mount rw private tmpfs 1 1 /\n", goodReport + "path hidden\n", goodReport + "clock a b\n", goodReport + "device c\n",
		goodReport + "rlimit 1 2 x\n", strings.Replace(goodReport, "process 1 2", "process a 2", 1), "mount rw private 9p 0 0 \"/\"\n",
	} {
		if _, err := parseReport(text); err == nil {
			t.Errorf("%q is a report", text)
		}
	}
}
