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
mount rw gofer 0 "/"
mount rw proc 0 "/proc"
mount ro gofer 0 "/etc/passwd"
mount rw tmpfs 65536 "/tmp"
device c 1:3 "/dev/null"
device c 10:229 "/dev/fuse"
rlimit 7 1024 4096
`

func guestDemands() *demands {
	d := &demands{jail: &state.Jail{Policy: policy.Default()}, sandbox: "gvisor"}
	d.host.MemTotal = 8 << 30
	d.spec = &specs.Spec{
		Root: &specs.Root{}, Process: &specs.Process{Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 4096, Soft: 1024}}},
		Mounts: []specs.Mount{{Destination: "/tmp"}, {Destination: "/etc/passwd", Options: []string{"bind", "ro"}}},
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
		"bind mounts":  {`mount rw gofer 0 "/etc/passwd"`, `mount rw tmpfs 65536 "/own"`},
		"tmpfs":        {`mount rw tmpfs 9223372036854775807 "/tmp"`, `mount rw tmpfs 0 "/tmp"`},
		"device nodes": {`device b 8:0 "/dev/sda"`},
		"rlimits":      {"rlimit 7 1024 18446744073709551615"},
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
	if len(guestChecks) != 6 {
		t.Error("not each check is tried")
	}
}

// TestReportOfAnother: what is not in the step's form is no report.
func TestReportOfAnother(t *testing.T) {
	for _, text := range []string{
		"", "process 1\n", goodReport + "own 1\n", goodReport + "mount rw tmpfs x \"/\"\n", goodReport + "mount rw tmpfs 1 /\n", goodReport + "device c\n",
		goodReport + "rlimit 1 2 x\n", strings.Replace(goodReport, "process 1 2", "process a 2", 1), "mount rw gofer 0 \"/\"\n",
	} {
		if _, err := parseReport(text); err == nil {
			t.Errorf("%q is a report", text)
		}
	}
}
