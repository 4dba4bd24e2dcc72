package procfiles

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/plan"
)

func TestCPUs(t *testing.T) {
	cpu := func(quota int64, period uint64, set string) *specs.LinuxResources {
		c := &specs.LinuxCPU{Cpus: set}
		if quota != 0 {
			c.Quota = &quota
		}
		if period != 0 {
			c.Period = &period
		}
		return &specs.LinuxResources{CPU: c}
	}
	for _, c := range []struct {
		r    *specs.LinuxResources
		host int
		want int
	}{
		{nil, 8, 8},
		{&specs.LinuxResources{}, 8, 8},
		{nil, 0, 1},
		{cpu(100000, 100000, ""), 8, 1},
		{cpu(100001, 100000, ""), 8, 2},
		{cpu(50000, 100000, ""), 8, 1},
		{cpu(1000, 1000000, ""), 8, 1},
		{cpu(400000, 100000, ""), 8, 4},
		{cpu(400000, 100000, ""), 2, 2},
		{cpu(-1, 100000, ""), 8, 8},
		{cpu(300000, 0, ""), 8, 3},
		{&specs.LinuxResources{Unified: map[string]string{"cpu.max": "150000 100000"}}, 8, 2},
		{&specs.LinuxResources{Unified: map[string]string{"cpu.max": "50000"}}, 8, 1},
		{&specs.LinuxResources{CPU: &specs.LinuxCPU{Cpus: "0-5"}, Unified: map[string]string{"cpu.max": "max 100000", "cpuset.cpus": "0,2"}}, 8, 2},
		{&specs.LinuxResources{Unified: map[string]string{"cpu.max": ""}}, 8, 8},
		{cpu(0, 0, "1,3-5"), 8, 4},
		{cpu(0, 0, "1,1-2"), 8, 2},
		{cpu(100000, 100000, "0-3"), 8, 1},
		{cpu(800000, 100000, "6"), 8, 1},
		{cpu(0, 0, "x"), 8, 8},
		{cpu(0, 0, "3-1"), 8, 8},
		{cpu(0, 0, "0-99999999999"), 8, 8},
		{cpu(0, 0, "-1"), 8, 8},
		{cpu(1<<62, 1<<63, ""), 8, 8},
	} {
		if got := CPUs(c.r, c.host); got != c.want {
			t.Errorf("%+v of %d: %d, not %d", c.r, c.host, got, c.want)
		}
	}
}

func TestFor(t *testing.T) {
	h := Host{CPUs: 8, Memory: 16 << 30}
	mem := func(limit, swap int64) *specs.LinuxResources {
		m := &specs.LinuxMemory{}
		if limit != 0 {
			m.Limit = &limit
		}
		if swap != 0 {
			m.Swap = &swap
		}
		return &specs.LinuxResources{Memory: m}
	}
	for _, c := range []struct {
		r            *specs.LinuxResources
		memory, swap int64
	}{
		{nil, 16 << 30, 0},
		{mem(0, 0), 16 << 30, 0},
		{mem(-1, -1), 16 << 30, 0},
		{mem(1<<30, 0), 1 << 30, 0},
		{mem(1<<30, 1<<30), 1 << 30, 0},
		{mem(1<<30, 3<<30), 1 << 30, 2 << 30},
		{&specs.LinuxResources{Unified: map[string]string{"memory.max": "1073741824", "memory.swap.max": "4096"}}, 1 << 30, 4096},
		{&specs.LinuxResources{Unified: map[string]string{"memory.max": "max"}}, 16 << 30, 0},
		{mem(1<<30, -1), 1 << 30, 0},
		{mem(64<<30, 64<<30), 16 << 30, 0},
	} {
		j := For(c.r, h, "b", time.Unix(1, 0))
		if j.Memory != c.memory || j.Swap != c.swap || j.CPUs != 8 || j.BootID != "b" {
			t.Errorf("%+v: %+v", c.r, j)
		}
	}
}

// fields reads NAME: VALUE kB as proc_meminfo(5) has it.
func fields(t *testing.T, text string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	line := regexp.MustCompile(`^([A-Za-z0-9_()]+): +([0-9]+)( kB)?$`)
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Errorf("%q is no line of meminfo", l)
			continue
		}
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			t.Error(err)
		}
		out[m[1]] = n
	}
	return out
}

// TestMeminfo: the total is the limit, the parts fit into it, and the fields are
// those of this kernel, as far as they report use and not of hardware.
func TestMeminfo(t *testing.T) {
	for range 1000 {
		j := Jail{CPUs: 1, Memory: rand.Int64N(1 << 42), Swap: rand.Int64N(1 << 40)}
		f := fields(t, meminfo(j))
		if want := j.Memory / 4096 * 4; f["MemTotal"] != want {
			t.Fatalf("MemTotal of %d is %d kB, not %d", j.Memory, f["MemTotal"], want)
		}
		if f["SwapTotal"] != j.Swap/4096*4 || f["SwapFree"] > f["SwapTotal"] {
			t.Errorf("swap: %d, of which %d free", f["SwapTotal"], f["SwapFree"])
		}
		if used := f["Buffers"] + f["Cached"] + f["Slab"] + f["AnonPages"] + f["KernelStack"] + f["PageTables"]; f["MemFree"]+used != f["MemTotal"] || f["MemAvailable"] > f["MemTotal"] {
			t.Errorf("%d free and %d used of %d", f["MemFree"], used, f["MemTotal"])
		}
		if f["Slab"] != f["SReclaimable"]+f["SUnreclaim"] || f["Active"] != f["Active(anon)"]+f["Active(file)"] {
			t.Errorf("sums: %v", f)
		}
	}
	host, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Skip(err)
	}
	ours := fields(t, meminfo(Jail{CPUs: 1, Memory: 1 << 30}))
	for name := range fields(t, string(host)) {
		if _, ok := ours[name]; !ok && slices.Contains([]string{"MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree", "Shmem", "SReclaimable"}, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

const x86 = `processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 143
model name	: Intel(R) Xeon(R)
stepping	: 8
microcode	: 0x2b0004d0
cpu MHz		: 3100.417
cache size	: 107520 KB
physical id	: 1
siblings	: 96
core id		: 17
cpu cores	: 48
apicid		: 162
initial apicid	: 162
fpu		: yes
flags		: fpu sse2 avx512f
bugs		: spectre_v1
bogomips	: 4000.00
clflush size	: 64
power management:

processor	: 1
vendor_id	: GenuineIntel
`

const arm = `processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd aes
CPU implementer	: 0x41
CPU part	: 0xd0c

processor	: 1
BogoMIPS	: 243.75

Hardware	: Board
Serial		: 00000000deadbeef
`

// TestCPUInfo: as many processors as the jail has, numbered, with what compilers
// read and without what distinguishes machines .
func TestCPUInfo(t *testing.T) {
	for name, c := range map[string]struct {
		host  string
		keeps []string
	}{
		"x86-64": {x86, []string{"vendor_id\t: GenuineIntel\n", "model name\t: Intel(R) Xeon(R)\n", "flags\t\t: fpu sse2 avx512f\n", "cpu family\t: 6\n", "physical id\t: 0\n", "siblings\t: 3\n", "cpu cores\t: 3\n"}},
		"arm64":  {arm, []string{"Features\t: fp asimd aes\n", "CPU implementer\t: 0x41\n", "CPU part\t: 0xd0c\n"}},
	} {
		got := cpuinfo(Jail{CPUs: 3}, Host{CPUInfo: c.host})
		parts := strings.Split(strings.TrimSuffix(got, "\n\n"), "\n\n")
		if len(parts) != 3 {
			t.Fatalf("%s: %d processors:\n%s", name, len(parts), got)
		}
		for i, p := range parts {
			for _, want := range append(c.keeps, fmt.Sprintf("processor\t: %d\n", i)) {
				if !strings.Contains(p+"\n", want) {
					t.Errorf("%s: processor %d has no %q:\n%s", name, i, want, p)
				}
			}
		}
		for _, revealing := range []string{"microcode", "MHz", "3100", "bogomips", "BogoMIPS", "bugs", "Serial", "deadbeef", "Hardware", "162", "96", "48\n"} {
			if strings.Contains(got, revealing) {
				t.Errorf("%s: %q is still shown:\n%s", name, revealing, got)
			}
		}
	}
	// What was cut off is no processor, and nothing is made of nothing.
	if got := cpuinfo(Jail{CPUs: 2}, Host{}); got != "\n\n" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestStat(t *testing.T) {
	got := stat(Jail{CPUs: 2, Born: time.Unix(1700000000, 5)})
	sum := map[string][]int{}
	for l := range strings.SplitSeq(strings.TrimSpace(got), "\n") {
		f := strings.Fields(l)
		for _, v := range f[1:] {
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			sum[f[0]] = append(sum[f[0]], n)
		}
	}
	for i := range 10 {
		if sum["cpu"][i] != sum["cpu0"][i]+sum["cpu1"][i] {
			t.Errorf("the sum of column %d is wrong:\n%s", i, got)
		}
	}
	if len(sum["cpu"]) != 10 || sum["cpu2"] != nil || sum["btime"][0] != 1700000000 || sum["cpu"][3] == 0 {
		t.Errorf("got\n%s", got)
	}
}

func TestCgroups(t *testing.T) {
	got := cgroups(Host{Cgroups: "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t57\t1\nmemory\t0\t912\t1\ncut\t1\t"})
	if want := "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t1\t1\nmemory\t0\t1\t1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSys(t *testing.T) {
	for _, c := range []struct {
		cpus             int
		host             string
		online, possible string
	}{
		{1, "0", "0\n", "0\n"}, {2, "0-7", "0-1\n", "0-7\n"}, {4, "0-1", "0-3\n", "0-3\n"}, {1, "", "0\n", "0\n"}, {1, "0,2-5", "0\n", "0-5\n"}, {1, "junk", "0\n", "0\n"},
	} {
		tree := Sys(Jail{CPUs: c.cpus}, Host{Possible: c.host})
		text := map[string]string{}
		for _, f := range tree.Files {
			text[f.Path] = f.Text
			if !slices.Contains(tree.Dirs, path.Dir(f.Path)) {
				t.Errorf("%s is in no directory", f.Path)
			}
		}
		for i, d := range tree.Dirs {
			if up := path.Dir(d); up != "." && !slices.Contains(tree.Dirs[:i], up) {
				t.Errorf("%s comes before %s", d, up)
			}
		}
		const cpu = "devices/system/cpu/"
		if text[cpu+"online"] != c.online || tree.Links[0] != (File{cpu + "present", "online"}) || text[cpu+"possible"] != c.possible {
			t.Errorf("%+v: %q", c, text)
		}
		for i := range c.cpus {
			if !slices.Contains(tree.Dirs, fmt.Sprintf("%scpu%d", cpu, i)) {
				t.Errorf("%d of %d processors is missing", i, c.cpus)
			}
		}
	}
}

func TestMask(t *testing.T) {
	for _, c := range []struct {
		from, to int
		want     string
	}{{0, 1, "1\n"}, {1, 2, "2\n"}, {0, 4, "f\n"}, {0, 32, "ffffffff\n"}, {32, 33, "00000001,00000000\n"}, {0, 64, "ffffffff,ffffffff\n"}, {63, 64, "80000000,00000000\n"}} {
		if got := mask(c.from, c.to); got != c.want {
			t.Errorf("%d to %d: %q, not %q", c.from, c.to, got, c.want)
		}
	}
}

// TestReadHost: of a real machine, there is something to make synthetic files from.
func TestReadHost(t *testing.T) {
	h := ReadHost()
	if h.CPUs < 1 || h.Memory <= 0 || h.Release == "" || h.Version == "" || !strings.Contains(h.CPUInfo, "processor") || h.Possible == "" {
		t.Errorf("got %+v", h)
	}
	j := For(nil, h, NewBootID(), time.Now())
	for _, f := range Single(j, h) {
		if strings.TrimSpace(f.Text) == "" || !strings.HasSuffix(f.Text, "\n") {
			t.Errorf("%s is %q", f.Path, f.Text)
		}
	}
	if a, b := NewBootID(), NewBootID(); a == b || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a) {
		t.Errorf("boot ids %s and %s", a, b)
	}
}

// TestTable: every entry is what the code does: a synthetic file is written, what becomes
// nothing is masked, or in /sys, of which jails have their own, and is not
// written there.
func TestTable(t *testing.T) {
	j := Jail{CPUs: 1, Memory: 1 << 30}
	proc, sys := map[string]bool{}, map[string]bool{}
	for _, f := range Single(j, Host{}) {
		proc[f.Path] = true
	}
	tree := Sys(j, Host{})
	for _, d := range tree.Dirs {
		sys["/sys/"+d] = true
	}
	for _, f := range append(tree.Files, tree.Links...) {
		sys["/sys/"+f.Path] = true
	}
	masked := plan.MaskedPaths()
	seen := map[string]bool{}
	for _, e := range Table {
		if seen[e.Path] || e.Reveals == "" {
			t.Errorf("%s: twice, or without what it shows", e.Path)
		}
		seen[e.Path] = true
		switch e.Becomes {
		case View:
			if !proc[e.Path] && !sys[e.Path] || e.Reads == "" {
				t.Errorf("%s is no view, or no process reads it", e.Path)
			}
		case Nothing:
			if strings.HasPrefix(e.Path, "/sys/") && !sys[e.Path] {
				continue
			}
			if !slices.Contains(masked, e.Path) {
				t.Errorf("%s is not masked", e.Path)
			}
		case Own:
			if e.Of == "" {
				t.Errorf("%s belongs to no namespace", e.Path)
			}
		case Stays:
			if e.Reads == "" {
				t.Errorf("%s stays without a reason", e.Path)
			}
		default:
			t.Errorf("%s becomes %q", e.Path, e.Becomes)
		}
	}
	for p := range proc {
		if !seen[p] {
			t.Errorf("the view %s is not in the table", p)
		}
		if slices.Contains(masked, p) {
			t.Errorf("the view %s is masked as well", p)
		}
	}
	// Each directory is one, where this kernel has it, and each masked directory of
	// /proc is among them.
	for _, p := range append(slices.Clone(Directories), masked...) {
		st, err := os.Lstat(p)
		if err != nil || !strings.HasPrefix(p, "/proc/") {
			continue
		}
		if st.IsDir() != slices.Contains(Directories, p) {
			t.Errorf("%s: a directory: %v", p, st.IsDir())
		}
	}
	for _, p := range Directories {
		if !slices.Contains(masked, p) {
			t.Errorf("the directory %s is not masked", p)
		}
	}
}
