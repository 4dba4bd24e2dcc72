package plan

import (
	"testing"

	"agentjail.dev/runtime/spec/policy"
)

func TestReserved(t *testing.T) {
	for path, reserved := range map[string]bool{
		"/proc": true, "/proc/sys/kernel": true, "/sys": true, "/sys/fs/cgroup": true, "/dev": true, "/dev/null": true, "/dev/pts/0": true,
		"/": false, "/process": false, "/system": false, "/dev/shm": false, "/dev/nullified": false, "/home/dev": false,
	} {
		if why := Reserved(path); (why != "") != reserved {
			t.Errorf("%s: %q", path, why)
		}
	}
}

func TestStandardDevices(t *testing.T) {
	for _, d := range StandardDevices() {
		if !IsStandardDevice(d.Major, max(d.Minor, 0)) {
			t.Errorf("%s is none", d.Path)
		}
	}
	if !IsStandardDevice(136, 7) || IsStandardDevice(1, 1) || IsStandardDevice(8, 0) {
		t.Error("terminals are standard devices, /dev/mem and disks are not")
	}
}

// TestCallersHaveTheirOwnLists: no caller changes the lists for others.
func TestCallersHaveTheirOwnLists(t *testing.T) {
	MaskedPaths()[0], ReadonlyPaths()[0], StandardDevices()[0].Path = "", "", ""
	if MaskedPaths()[0] == "" || ReadonlyPaths()[0] == "" || StandardDevices()[0].Path == "" {
		t.Error("a caller changed a list of every jail")
	}
}

func TestRlimits(t *testing.T) {
	all := RlimitBounds(policy.Default().Limits)
	if all["RLIMIT_CORE"] != CoreOff || all["RLIMIT_NOFILE"] != policy.Default().Limits.NoFile {
		t.Errorf("%v", all)
	}
	none := RlimitBounds(policy.Limits{})
	if _, ok := none["RLIMIT_NOFILE"]; ok || none["RLIMIT_CORE"] != CoreOff {
		t.Errorf("without bounds of policy: %v", none)
	}
}
