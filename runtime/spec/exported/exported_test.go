package exported

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func jail() Jail {
	ids := []specs.LinuxIDMapping{{HostID: 1 << 30, Size: 65536}}
	limit := int64(9)
	return Jail{
		Dir: "/run/agentjail/jails/k", Root: "/var/lib/engine/root", UIDs: ids, GIDs: ids,
		Process: &specs.Process{Args: []string{"sh"}, NoNewPrivileges: true},
		Original: &specs.Spec{Root: &specs.Root{Path: "/original"}, Mounts: []specs.Mount{
			{Destination: "/work/", Source: "/home/u/work", Options: []string{"rbind"}}, {Destination: "/sys", Type: "sysfs", Source: "sysfs"},
		}},
		Hardened: &specs.Spec{
			Version: "1.2.0", Root: &specs.Root{Path: "/run/agentjail/jails/k/root"}, Hooks: &specs.Hooks{},
			Process: &specs.Process{Args: []string{"/proc/self/fd/3", "sh"}},
			Mounts: []specs.Mount{
				{Destination: "/proc", Type: "proc", Source: "proc"},
				{Destination: "/work", Type: "bind", Source: "/run/agentjail/jails/k/layer/m/1", Options: []string{"rbind", "nosuid"}},
				{Destination: "/sys", Type: "bind", Source: "/run/agentjail/jails/k/layer/views/sys"},
				{Destination: "/kept", Type: "bind", Source: "/run/agentjail/jails/kept"},
			},
			Linux: &specs.Linux{
				Namespaces:    []specs.LinuxNamespace{{Type: specs.UserNamespace, Path: "/proc/./5/fd/6"}, {Type: specs.TimeNamespace}},
				Resources:     &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &limit}},
				Seccomp:       &specs.LinuxSeccomp{DefaultAction: specs.ActErrno},
				ReadonlyPaths: []string{"/proc/sys"}, MaskedPaths: []string{"/proc/kcore"},
			},
		},
	}
}

// TestBundle: nothing in the bundle depends on agentjail's own files and processes, what is missing is named, and the record stays.
func TestBundle(t *testing.T) {
	j := jail()
	before, _ := json.Marshal(j)
	s, lacks, err := Bundle(j)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"jails/k/", "/proc/./5", "/proc/self/fd"} {
		if strings.Contains(string(text), own) {
			t.Errorf("%s is in %s", own, text)
		}
	}
	for _, want := range []string{`"source":"/home/u/work"`, "nosuid", `"path":"/var/lib/engine/root"`, `"args":["sh"]`, `"hostID":1073741824`, "SCMP_ACT_ERRNO", "/run/agentjail/jails/kept"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if !slices.ContainsFunc(lacks, func(l string) bool { return strings.Contains(l, "/sys") }) {
		t.Errorf("%q", lacks)
	}
	if after, _ := json.Marshal(j); string(after) != string(before) {
		t.Error("the record was changed")
	}
	if lacks := Targets["nspawn"](s); len(lacks) < 3 || s.Version != "1.0.0" || s.Linux.Resources != nil || s.Linux.Seccomp != nil || s.Linux.ReadonlyPaths != nil {
		t.Errorf("%q: %+v", lacks, s.Linux)
	}
}

// TestIncomplete: a record without a process is refused.
func TestIncomplete(t *testing.T) {
	j := jail()
	j.Process = nil
	if _, _, err := Bundle(j); err == nil {
		t.Error("no error")
	}
}
