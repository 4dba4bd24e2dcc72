package runccli

import (
	"cmp"
	"encoding/json"
	"runtime"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go/features"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/seccomp"
)

// readFeatures returns the features of jails under a policy (OCI runtime-spec, features.md).
func readFeatures(r *lifecycle.Runtime) (*features.Features, error) {
	d, err := delegate.Choose(r.Policy.Delegate, r.Store.Root)
	if err != nil {
		return nil, err
	}
	// The answer comes from the file kept beside the jails' state: engines call this at each of
	// their starts, and wait.
	caps, err := d.Capabilities(r.Store.Root)
	if err != nil {
		return nil, err
	}
	return jailFeatures(r.Policy, caps)
}

func printFeatures(c *Call) error {
	r, err := c.Runtime()
	if err != nil {
		return err
	}
	f, err := readFeatures(r)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(c.Stdio[1])
	enc.SetIndent("", "  ")
	return enc.Encode(f)
}

// jailFeatures returns agentjail's own features: those that do not depend on the delegate
// (namespaces, idmapped mounts), and the parts of a bundle's filter that agentjail reads in place
// of the delegate. Hooks are absent: a jail has none. Capabilities are those that policy leaves to
// the jail's root.
func jailFeatures(pol policy.Policy, caps delegate.Caps) (*features.Features, error) {
	filter, err := seccomp.OCI(seccomp.Options{Profile: pol.Seccomp.Profile, Arch: runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	var archs []string
	for _, a := range filter.Architectures {
		archs = append(archs, string(a))
	}
	var capabilities []string
	for _, c := range pol.Process.Capabilities {
		capabilities = append(capabilities, "CAP_"+c)
	}
	h := hostfacts.Read()
	yes, no := true, false
	return &features.Features{
		OCIVersionMin: "1.0.0",
		OCIVersionMax: cmp.Or(caps.OCIMax, "1.0.2"),
		MountOptions:  plan.MountOptions(),
		Linux: &features.Linux{
			Namespaces: namespacesOf(h), Capabilities: capabilities,
			Cgroup: &features.Cgroup{V1: new(!h.Cgroup.V2), V2: new(h.Cgroup.V2), Systemd: &yes, SystemdUser: &no, Rdma: &no},
			Seccomp: &features.Seccomp{
				Enabled: &yes, Actions: seccomp.Actions(), Archs: archs, Operators: seccomp.Operators(),
			},
			IntelRdt:        &features.IntelRdt{Enabled: &no},
			NetDevices:      &features.NetDevices{Enabled: &no},
			Apparmor:        &features.Apparmor{Enabled: &h.AppArmor},
			Selinux:         &features.Selinux{Enabled: &h.SELinux},
			MountExtensions: &features.MountExtensions{IDMap: &features.IDMap{Enabled: &yes}},
		},
		Annotations: map[string]string{"dev.agentjail.delegate": caps.Version},
	}, nil
}

// namespacesOf are the kinds of namespaces that each jail on this host has.
func namespacesOf(h hostfacts.Facts) []string {
	return slices.DeleteFunc([]string{"cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"}, func(kind string) bool {
		return kind == "time" && !h.TimeNS || kind == "cgroup" && !h.CgroupNS
	})
}
