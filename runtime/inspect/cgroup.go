package inspect

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/bpfmap"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/pathname"
)

// cgroupState is the state of the jail's control groups.
type cgroupState struct {
	v2      bool
	paths   map[string]string // by controller, as /proc/PID/cgroup has them
	files   map[string]string // contents, by file name
	members []int             // processes in the groups, as far as they were read
	// programs is the number of device programs on the group (version 2), or -1 if the kernel does
	// not report it.
	programs int
}

// cgroupFiles are what is read, by controller: version 1, then version 2.
var cgroupFiles = map[string][]string{
	"pids":    {"pids.max"},
	"memory":  {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"},
	"cpu":     {"cpu.cfs_quota_us", "cpu.cfs_period_us"},
	"blkio":   {"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"},
	"devices": {"devices.list"},
	"":        {"pids.max", "memory.max", "memory.swap.max", "cpu.max", "io.max"},
}

// limiting are the controllers of version 1 that bound a jail: all of its
// processes must be in their groups.
var limiting = []string{"pids", "memory", "cpu", "blkio", "devices"}

// look reads the groups that the first process is in.
func (c *cgroupState) look(paths map[string]string) error {
	mounts, err := mountinfo.Read(mountinfo.Own)
	if err != nil {
		return err
	}
	c.paths, c.files, c.programs = paths, map[string]string{}, -1
	pids := map[int]bool{}
	for controller, path := range paths {
		dir := groupDir(mounts, controller, path)
		if dir == "" {
			continue
		}
		if controller == "" {
			// In the mixed layout, version 2 has hardly a controller.
			f, _ := cgroups.Controllers(dir)
			c.v2 = slices.Contains(f, "memory") || slices.Contains(f, "pids")
		}
		for _, name := range cgroupFiles[controller] {
			if controller == "" && !c.v2 {
				continue
			}
			text, err := cgroups.Read(dir, name)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			c.files[name] = text
		}
		if controller == "" && c.v2 {
			c.programs = devicePrograms(dir)
		}
		// The host's root group holds every process there is.
		if path != "/" && (controller == "pids" || controller == "memory" || controller == "") {
			readMembers(dir, pids, 0)
		}
	}
	for pid := range pids {
		c.members = append(c.members, pid)
	}
	slices.Sort(c.members)
	return nil
}

// groupDir is the directory of a group: below where its hierarchy is mounted here.
func groupDir(mounts []mountinfo.Mount, controller, path string) string {
	for _, m := range mounts {
		switch {
		case controller == "" && m.FS == "cgroup2":
		case controller != "" && m.FS == "cgroup" && m.SuperHas(controller):
		default:
			continue
		}
		rel, ok := pathname.Rel(path, m.Root)
		if !ok && path != m.Root {
			continue
		}
		return filepath.Join(m.Point, rel)
	}
	return ""
}

// readMembers lists the processes of a group and those below it.
func readMembers(dir string, into map[int]bool, depth int) {
	if depth > 8 || len(into) > 4*maxProcesses {
		return
	}
	procs, err := cgroups.Procs(dir)
	if err != nil {
		return
	}
	for _, pid := range procs {
		into[pid] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			readMembers(filepath.Join(dir, e.Name()), into, depth+1)
		}
	}
}

// devicePrograms counts the programs that decide on devices for a group of version 2 (bpf(2),
// BPF_PROG_QUERY); -1 if the kernel does not report it.
func devicePrograms(dir string) int {
	d, err := os.Open(dir)
	if err != nil {
		return -1
	}
	defer d.Close()
	// The part of union bpf_attr that a query takes. Without a list for the
	// programs' numbers, the kernel only counts.
	attr := struct {
		target, kind, query, attach uint32
		ids                         uint64
		count, _                    uint32
	}{target: uint32(d.Fd()), kind: unix.BPF_CGROUP_DEVICE}
	if _, err := bpfmap.Call(unix.BPF_PROG_QUERY, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return -1
	}
	return int(attr.count)
}
