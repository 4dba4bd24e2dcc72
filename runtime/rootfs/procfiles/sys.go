package procfiles

import (
	"fmt"
	"strconv"
	"strings"
)

// A Tree is a small file tree: directories, and files by path. Both are relative, and a directory
// comes before its content.
type Tree struct {
	Dirs  []string
	Files []File
	Links []File // symbolic ones, whose text is the target
}

// Sys returns the whole of a jail's /sys: the places where engines mount control groups, and the
// processors, which C libraries count (sysconf(3)). A mount of sysfs shows every device and
// driver of the host, and has thousands of handlers that a jail has no use for; a list of paths
// to mask would never be complete.
func Sys(j Jail, h Host) Tree {
	const cpu = "devices/system/cpu"
	t := Tree{
		Dirs: []string{"devices", "devices/system", cpu, "fs", "fs/cgroup"},
		Files: []File{
			{cpu + "/online", list(j.CPUs)},
			{cpu + "/possible", list(last(h.Possible, j.CPUs) + 1)},
		},
		// Over the one a synthetic file is mounted, which can be written again.
		Links: []File{{cpu + "/present", "online"}},
	}
	for i := range j.CPUs {
		dir := fmt.Sprintf("%s/cpu%d", cpu, i)
		t.Dirs = append(t.Dirs, dir)
		if j.CPUs > maxTopology {
			continue
		}
		dir += "/topology"
		t.Dirs = append(t.Dirs, dir)
		t.Files = append(t.Files,
			File{dir + "/core_siblings", mask(0, j.CPUs)},
			File{dir + "/thread_siblings", mask(i, i+1)},
		)
	}
	return t
}

// maxTopology is the number of processors up to which each has its topology, from which lscpu(1)
// counts sockets, cores and threads.
const maxTopology = 64

// mask is a kernel's bit mask of the processors from up to, not including, to,
// which is at most 64 (cpuset(7), Mask format).
func mask(from, to int) string {
	bits := ^uint64(0) >> (64 - (to - from)) << from
	if to > 32 {
		return fmt.Sprintf("%08x,%08x\n", bits>>32, uint32(bits))
	}
	return fmt.Sprintf("%x\n", bits)
}

// list is a kernel's list of the first n processors (cpuset(7)).
func list(n int) string {
	if n <= 1 {
		return "0\n"
	}
	return fmt.Sprintf("0-%d\n", n-1)
}

// last is the highest number that a processor can have. It is the host's: limits do not renumber
// processors. Allocators have tables of this size, indexed by the result of getcpu(2) (tcmalloc's
// per-CPU caches, Java's): with a smaller number they would write past the end.
func last(possible string, cpus int) int {
	n := cpus - 1
	for part := range strings.SplitSeq(possible, ",") {
		_, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = part
		}
		if v, err := strconv.Atoi(to); err == nil && v > n && v < maxCPU {
			n = v
		}
	}
	return n
}
