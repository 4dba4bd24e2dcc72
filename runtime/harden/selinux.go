package harden

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// containerTypes are the domains of container-selinux that confine a container
// to its own files (container_selinux(8)). spc_t, which engines set for
// --privileged and label=type:spc_t, confines to nothing.
var containerTypes = []string{"container_t", "svirt_lxc_net_t", "container_init_t", "container_userns_t", "container_kvm_t"}

// The labels for jails whose engine made none that confines, where the host's
// policy does not name its own (lxc_contexts(5)).
const (
	processLabel = "system_u:system_r:container_t:s0"
	fileLabel    = "system_u:object_r:container_file_t:s0"
)

// selinux keeps the label that the engine made, if it confines: a container type with a pair of
// categories. Any other label is replaced, so that the jail is in a container type with a pair of
// its own.
func selinux(p *pass) {
	pr, l := p.spec.Process, p.spec.Linux
	if !p.f.Host.SELinux {
		// A label without SELinux stops the delegate, or means nothing.
		if pr.SelinuxLabel != "" || l.MountLabel != "" {
			p.change(rings.Access, report.Dropped, "process.selinuxLabel", pr.SelinuxLabel, "", "this kernel has no SELinux")
		}
		pr.SelinuxLabel, l.MountLabel = "", ""
		return
	}
	was := pr.SelinuxLabel
	if was == "" && p.f.Host.ProcessLabel == "" {
		p.missing(rings.Access, "process.selinuxLabel",
			"the engine set no label, and the host's policy names none for containers (remedy: install container-selinux)")
		return
	}
	level := ownLevel(p.f.IDs, p.f.ID)
	if was == "" {
		pr.SelinuxLabel = withLevel(p.f.Host.ProcessLabel, level)
		p.change(rings.Access, report.Set, "process.selinuxLabel", was, pr.SelinuxLabel, "every jail is confined")
		relabelMounts(p, level)
		return
	}
	// user:role:type:level, where the level may hold further colons.
	f := strings.SplitN(was, ":", 4)
	if len(f) != 4 {
		p.refuse(refusal.Label, "process.selinuxLabel %q is not of the form user:role:type:level", was)
		return
	}
	confines, private := slices.Contains(containerTypes, f[2]), isPair(f[3])
	if private {
		level = f[3]
	}
	switch {
	case !confines:
		pr.SelinuxLabel = withLevel(processLabel, level)
		p.deny(rings.Access, "process.selinuxLabel", was, pr.SelinuxLabel, "that type does not confine a container")
	case !private:
		pr.SelinuxLabel = withLevel(was, level)
		p.deny(rings.Access, "process.selinuxLabel", was, pr.SelinuxLabel, "that level is not a pair of categories, which keeps jails apart")
	}
	relabelMounts(p, level)
}

// relabelMounts sets the jail's level on its files, if they have another. With a higher level the
// jail could not read its own root; with a lower level every jail could.
func relabelMounts(p *pass, level string) {
	l := p.spec.Linux
	now := fileLabel
	if own := p.f.Host.FileLabel; own != "" {
		now = own
	}
	now = withLevel(now, level)
	if f := strings.SplitN(l.MountLabel, ":", 4); len(f) == 4 && f[3] == level {
		return
	}
	if l.MountLabel != "" {
		p.change(rings.Access, report.Set, "linux.mountLabel", l.MountLabel, now, "the level is the jail's own")
	}
	l.MountLabel, p.plan.Label = now, now
}

// withLevel puts another level into a label.
func withLevel(label, level string) string {
	f := strings.SplitN(label, ":", 4)
	if len(f) < 3 {
		return label
	}
	return strings.Join(append(f[:3:3], level), ":")
}

// categories is how many an MCS policy has: c0 to c1023.
const categories = 1024

// isPair reports whether a level is s0 with two categories, in the form in which the kernel
// writes it. A range of categories dominates many jails' pairs, one category or none is shared by
// chance or by all.
func isPair(level string) bool {
	a, b, ok := strings.Cut(level, ",")
	if !ok || !strings.HasPrefix(a, "s0:c") || !strings.HasPrefix(b, "c") {
		return false
	}
	i, ierr := strconv.ParseUint(a[len("s0:c"):], 10, 16)
	j, jerr := strconv.ParseUint(b[1:], 10, 16)
	return ierr == nil && jerr == nil && i != j && i < categories && j < categories
}

// ownLevel is a pair of categories for a jail. Jails have blocks of ids to
// themselves, and each block has a pair to itself; the containers of one pod,
// which share a block, share the pair too. Where the engine brought its own ids,
// the container's name decides, among the pairs that no block has.
func ownLevel(ids idmap.Map, id string) string {
	const pairs, blocks = categories * (categories - 1) / 2, 1 << 16
	n := uint64(ids.Block)
	if ids.Block < 0 || ids.Block >= blocks {
		sum := sha256.Sum256([]byte(id))
		n = blocks + binary.BigEndian.Uint64(sum[:])%(pairs-blocks)
	}
	// Pair number n of (0,1), (0,2), (1,2), (0,3), ...
	high := uint64(1)
	for n >= high {
		n -= high
		high++
	}
	return fmt.Sprintf("s0:c%d,c%d", n, high)
}
