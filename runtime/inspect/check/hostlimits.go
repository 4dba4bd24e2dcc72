package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"agentjail.dev/runtime/spec/policy"
)

// numbers reads a kernel setting of so many numbers, by its name as in sysctl.d(5).
func (e *env) numbers(name string, count int) ([]uint64, error) {
	text, err := os.ReadFile(filepath.Join(e.sysctl, strings.ReplaceAll(name, ".", "/")))
	if err != nil {
		return nil, fmt.Errorf("the setting %s: %w", name, err)
	}
	var out []uint64
	for f := range strings.FieldsSeq(string(text)) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the setting %s: %w", name, err)
		}
		out = append(out, n)
	}
	if len(out) != count {
		return nil, fmt.Errorf("the setting %s: %d numbers", name, len(out))
	}
	return out, nil
}

// memoryLimit is what one jail may have, or 0 where nothing bounds it.
func (e *env) memoryLimit() uint64 {
	if !e.host.Cgroup.Memory {
		return 0
	}
	limit := uint64(e.policy.Limits.Memory)
	if total := uint64(e.host.MemTotal) / 4 * 3; total > 0 && limit > total {
		limit = total
	}
	return limit
}

// socketMemory compares what one jail's sockets may hold with what the kernel allows all sockets of
// the host (udp(7), tcp(7)). lo is enough to use that up.
func socketMemory(e *env) answer {
	limit, key := e.memoryLimit(), "limits.memory"
	if e.host.Cgroup.Sockets && e.policy.Limits.Sockets > 0 {
		if own := uint64(e.policy.Limits.Sockets); limit == 0 || own < limit || !e.host.Cgroup.V2 {
			limit, key = own, "limits.sockets"
		}
	}
	var less, budgets []string
	for _, name := range []string{"net.ipv4.udp_mem", "net.ipv4.tcp_mem"} {
		n, err := e.numbers(name, 3) // in pages
		if err != nil {
			return warn("mount /proc/sys", "%s cannot be read: %v", name, err)
		}
		budget := n[2] * uint64(os.Getpagesize())
		budgets = append(budgets, fmt.Sprintf("%s allows all of the host's %s", name, units.BytesSize(float64(budget))))
		if limit == 0 || limit >= budget {
			less = append(less, name)
		}
	}
	all := strings.Join(budgets, ", ")
	if len(less) == 0 {
		return ok("one jail's take at most %s (%s); %s", policy.Size(limit), key, all)
	}
	remedy := fmt.Sprintf("set %s below that, or raise %s", key, strings.Join(less, " and "))
	if limit == 0 {
		return warn(remedy, "nothing bounds one jail's, and the host's own connections can come to a halt; %s", all)
	}
	return warn(remedy, "one jail's may take %s (%s), and the host's own connections can come to a halt; %s", policy.Size(limit), key, all)
}

// fileCost is what an open file takes of a jail's memory at least: a struct
// file (include/linux/fs.h), 184 bytes since Linux 6.12 and more before.
const fileCost = 184

// openFiles compares what one jail may open with what all users of the host may
// have open together (proc_sys_fs(5), file-max). Root may open more; a user gets
// ENFILE.
func openFiles(e *env) answer {
	all, err := e.numbers("fs.file-max", 1)
	if err != nil {
		return warn("mount /proc/sys", "fs.file-max cannot be read: %v", err)
	}
	l := e.policy.Limits
	most, by := ^uint64(0), "nothing"
	if l.Pids > 0 && l.NoFile > 0 {
		most, by = uint64(l.Pids)*l.NoFile, "limits.pids times limits.nofile"
	}
	if m := e.memoryLimit() / fileCost; m > 0 && m < most {
		most, by = m, "limits.memory"
	}
	if most < all[0] {
		return ok("one jail's are at most %d (%s), all of the host's users' %d (fs.file-max)", most, by, all[0])
	}
	const remedy = "sysctl -w fs.file-max=9223372036854775807, as systemd does, so that memory alone bounds them; or lower limits.nofile or limits.memory"
	if by == "nothing" {
		return warn(remedy, "nothing bounds one jail's, and the host's users may have %d open together (fs.file-max)", all[0])
	}
	return warn(remedy, "one jail may open %d (%s), and the host's users together %d (fs.file-max)", most, by, all[0])
}

// reserved reports whether memory that a program reserves and does not use counts for the host
// (proc_sys_vm(5), overcommit_memory). No control group counts it.
func reserved(e *env) answer {
	mode, err := e.numbers("vm.overcommit_memory", 1)
	if err != nil {
		return warn("mount /proc/sys", "vm.overcommit_memory cannot be read: %v", err)
	}
	if mode[0] == 2 {
		return warn("sysctl -w vm.overcommit_memory=0, or a host of its own for what needs 2",
			"vm.overcommit_memory is 2, and one jail can reserve all that the host's programs may (CommitLimit in /proc/meminfo)")
	}
	return ok("memory that is reserved and not used counts for no program (vm.overcommit_memory is %d)", mode[0])
}

// coreHandler reports what the host does for a program that crashes (core(5)).
func coreHandler(e *env) answer {
	text, err := os.ReadFile(filepath.Join(e.sysctl, "kernel/core_pattern"))
	if err != nil {
		return warn("mount /proc/sys", "kernel.core_pattern cannot be read: %v", err)
	}
	pattern := strings.TrimSpace(string(text))
	switch {
	case strings.HasPrefix(pattern, "|"):
		program, _, _ := strings.Cut(strings.TrimSpace(pattern[1:]), " ")
		return ok("%s gets the host's crashes, and never runs for a jail's (RLIMIT_CORE is 1)", program)
	case strings.HasPrefix(pattern, "@"):
		// The kernel connects to a socket for every crash, whatever the limit (Linux 6.16;
		// fs/coredump.c, coredump_socket).
		return warn("set kernel.core_pattern to a pipe (|PROGRAM) or to a file's name",
			"the socket %s gets the crashes of jails, too: no resource limit keeps them from it", pattern[1:])
	}
	return ok("core files (%s); a jail writes none", pattern)
}
