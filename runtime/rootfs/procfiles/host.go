package procfiles

import (
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host has the values that synthetic files take from the host.
type Host struct {
	CPUs     int    // processors that this process may use
	Possible string // /sys/devices/system/cpu/possible
	Memory   int64  // bytes
	CPUInfo  string // /proc/cpuinfo, at least the first processor's part
	Cgroups  string // /proc/cgroups
	Release  string // uname -r
	Version  string // uname -v
}

// firstPart bounds how much of a file one call reads: for a sequence file the kernel then prints
// whole records until a page is full. A processor's record in cpuinfo has some two kilobytes, and
// to print it the kernel queries the processor's clock rate. A machine may have hundreds of
// processors.
const firstPart = 16 << 10

// ReadHost reads these values. An unreadable file is empty, and so is its synthetic file.
func ReadHost() Host {
	h := Host{
		CPUs: runtime.NumCPU(), CPUInfo: readFirst("/proc/cpuinfo"), Cgroups: readFirst("/proc/cgroups"),
		Possible: strings.TrimSpace(readFirst("/sys/devices/system/cpu/possible")),
	}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		h.Memory = int64(si.Totalram) * int64(si.Unit)
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Release, h.Version = unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])
	}
	return h
}

func readFirst(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, firstPart)
	n, _ := f.Read(buf)
	return string(buf[:n])
}

// NewBootID makes a random UUID, version 4, as the kernel's boot id is
// (random(4)).
func NewBootID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
