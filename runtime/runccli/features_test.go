package runccli

import (
	"slices"
	"testing"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// TestFeatures: engines decide by this answer whether they pass an option on (moby, bind-recursive=readonly;
// containerd, RecursiveReadOnlyMounts).
func TestFeatures(t *testing.T) {
	f, err := jailFeatures(policy.Default(), delegate.Caps{OCIMax: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	service, err := policy.Parse(nil, "f", "service")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := jailFeatures(service, delegate.Caps{}); err != nil || f.Linux.Capabilities != nil || !slices.Equal(s.Linux.Capabilities, []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}) {
		t.Errorf("capabilities %v, of service %v (%v)", f.Linux.Capabilities, s.Linux.Capabilities, err)
	}
	for _, o := range []string{"ro", "rro", "noatime", "nodiratime", "relatime", "strictatime", "nosymfollow", "rnosuid", "rnodev", "rnoexec", "rprivate", "tmpcopyup"} {
		if !slices.Contains(f.MountOptions, o) {
			t.Errorf("mount option %s is not named", o)
		}
	}
	// What a jail's mount never has.
	for _, o := range []string{"suid", "dev", "rsuid", "rdev", "shared", "rshared", "slave", "rslave", "unbindable", "remount", "mand", "idmap", "ridmap"} {
		if slices.Contains(f.MountOptions, o) {
			t.Errorf("mount option %s is named", o)
		}
	}
	if !slices.IsSorted(f.MountOptions) || len(slices.Compact(plan.MountOptions())) != len(f.MountOptions) {
		t.Errorf("mount options %v", f.MountOptions)
	}
	for _, a := range []string{"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_LOG", "SCMP_ACT_TRAP"} {
		if !slices.Contains(f.Linux.Seccomp.Actions, a) {
			t.Errorf("action %s is not named", a)
		}
	}
	if slices.Contains(f.Linux.Seccomp.Actions, "SCMP_ACT_NOTIFY") || len(f.Linux.Seccomp.Operators) != 7 {
		t.Errorf("filters: %+v", f.Linux.Seccomp)
	}
	if f.Hooks != nil || f.Linux.Capabilities != nil || *f.Linux.IntelRdt.Enabled || *f.Linux.NetDevices.Enabled {
		t.Errorf("a jail has no hook, capability, cache partition or device: %+v", f)
	}
}
