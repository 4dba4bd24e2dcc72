package harden

import (
	"fmt"
	"slices"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// unlimited is the word for a request without a bound.
const unlimited = "unlimited"

// engineDefaults are the values above a bound that engines write although no person requested
// them, by the kind of limit, as the report shows them.
var engineDefaults = map[string][]string{
	// /dev, /dev/shm and /run: moby (oci/defaults.go, DefaultShmSize), containerd
	// (oci/mounts.go), Podman and CRI-O (containers/common, DefaultShmSize).
	"tmpfs": {"64MiB"},
	// containers.conf(5), pids_limit.
	"pids": {"2048"},
	// The kubelet, for a container without a limit (kuberuntime_container_linux.go).
	"quota": {unlimited},
	// Podman, as much as the kernel has (specgen/generate/oci_linux.go, addRlimits). The number of
	// processes is kernel.pid_max in some versions.
	"RLIMIT_NOFILE": {"1048576"},
	"RLIMIT_NPROC":  {"32768", "1048576", "4194304"},
}

// above reports a request above a bound, and what the jail has in its place: denied, or only
// lowered where the value is an engine's default for that kind of limit.
func (p *pass) above(kind, field, was, now, why string) {
	if slices.Contains(engineDefaults[kind], was) {
		p.change(rings.Resources, report.Lowered, field, was, now, why)
		return
	}
	p.change(rings.Resources, report.Denied, field, was, now, why)
	if p.pol.OnLoosen == policy.LoosenRefuse {
		remedy := "request at most " + now + ", or raise the limit in policy"
		if now == "" {
			remedy = "start it without"
		}
		p.addRefusal(refusal.New(refusal.Privilege, "%s is more than policy allows: %s", printable.Line(was, 0), why).About("%s",
			field).WithRemedy("%s", remedy))
	}
}

// bound reports a limit that was not requested: lowered where there was a higher one, else set.
func (p *pass) bound(field, was, now, why string) {
	kind := report.Set
	if was != "" {
		kind = report.Lowered
	}
	p.change(rings.Resources, kind, field, was, now, why)
}

// number is a limit for the report; a negative one is none.
func number(n int64) string {
	if n < 0 {
		return unlimited
	}
	return fmt.Sprint(n)
}

// sizeText is number for bytes.
func sizeText(n int64) string {
	if n < 0 {
		return unlimited
	}
	return policy.Size(n).String()
}
