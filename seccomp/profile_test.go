package seccomp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// The table that programs use is what the files state.
func TestGenerated(t *testing.T) {
	type fileGroup struct {
		Names                  []string
		Arch, Rule, Errno, Why string
	}
	convert := func(in []fileGroup) (out []group) {
		for _, g := range in {
			out = append(out, group{g.Names, g.Arch, g.Rule, g.Errno, g.Why})
		}
		return out
	}
	files, err := filepath.Glob("profiles/*.json")
	if err != nil || len(files) != len(profiles) {
		t.Fatalf("%d files, %d profiles in the table, %v: run go generate", len(files), len(profiles), err)
	}
	for _, p := range profiles {
		data, err := os.ReadFile("profiles/" + p.name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			About, Extends string
			Budget         int
			Allow, Refuse  []fileGroup
		}
		if err := json.Unmarshal(data, &f); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if want := (profile{p.name, f.About, f.Extends, f.Budget, convert(f.Allow), convert(f.Refuse)}); !reflect.DeepEqual(p, want) {
			t.Errorf("profiles/%s.json was changed: run go generate", p.name)
		}
	}
}

// allowed lists the calls a profile allows.
func allowed(t *testing.T, profile, arch string) []string {
	t.Helper()
	entries, err := Entries(profile, arch)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Errno == "" {
			out = append(out, e.Name)
		}
	}
	return out
}

func TestEntries(t *testing.T) {
	for _, profile := range Profiles() {
		most := Budget(profile)
		for _, arch := range []string{"amd64", "arm64"} {
			entries, err := Entries(profile, arch)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range entries {
				if e.Why == "" || len(strings.Fields(e.Why)) > 20 {
					t.Errorf("%s %s: %s: why %q", profile, arch, e.Name, e.Why)
				}
				if i > 0 && entries[i-1].Name >= e.Name {
					t.Errorf("%s %s: %s is listed twice or out of order", profile, arch, e.Name)
				}
			}
			names := allowed(t, profile, arch)
			if len(names) > most || len(names) < most/2 {
				t.Errorf("%s %s: %d calls, at most %d", profile, arch, len(names), most)
			}
			// runc checks procfs with these after the filter is loaded: 1.1
			// with the first, 1.5 with all.
			for _, n := range []string{"fstatfs", "statx", "readlinkat", "fcntl", "getdents64"} {
				if !slices.Contains(names, n) {
					t.Errorf("%s %s: no %s", profile, arch, n)
				}
			}
		}
		if p, err := load(profile); err != nil || p.about == "" {
			t.Errorf("%s: nothing is stated about it", profile)
		}
	}
	musl := allowed(t, "default", "amd64")
	for _, n := range []string{"fork", "pipe", "select", "pause", "mknod", "tkill"} {
		if !slices.Contains(musl, n) {
			t.Errorf("default: no %s, which musl calls", n)
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		wide := allowed(t, "default", arch)
		for _, n := range allowed(t, "strict", arch) {
			if !slices.Contains(wide, n) {
				t.Errorf("strict allows %s, default does not", n)
			}
		}
		for _, n := range wide {
			for _, wider := range []string{"server", "debug"} {
				if !slices.Contains(allowed(t, wider, arch), n) {
					t.Errorf("default allows %s, %s does not", n, wider)
				}
			}
		}
	}
}

// Programs load filters of their own under the profile for trusted servers only:
// on Linux 6.9 and later a jail that does can stop its host.
func TestLoadsFilters(t *testing.T) {
	for profile, want := range map[string]bool{"": false, "default": false, "strict": false, "server": true, "none": false} {
		if LoadsFilters(profile) != want {
			t.Errorf("profile %q: %v", profile, !want)
		}
	}
}

// Tracing is for the profile that reports it.
func TestTraces(t *testing.T) {
	for profile, want := range map[string]bool{"": false, "default": false, "strict": false, "server": false, "debug": true, "none": false} {
		if Traces(profile) != want {
			t.Errorf("profile %q: %v", profile, !want)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, o := range []Options{{Profile: "none", Arch: "amd64"}, {Arch: "riscv64"}, {}} {
		if _, err := OCI(o); err == nil {
			t.Errorf("OCI(%+v): no error", o)
		}
		if _, err := Entries(o.Profile, o.Arch); err == nil {
			t.Errorf("Entries(%q, %q): no error", o.Profile, o.Arch)
		}
	}
}

func TestOCI(t *testing.T) {
	for _, p := range Profiles() {
		for arch, want := range map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64} {
			f, err := OCI(Options{Profile: p, Arch: arch})
			if err != nil {
				t.Fatal(err)
			}
			if f.DefaultAction != specs.ActErrno || f.DefaultErrnoRet == nil || *f.DefaultErrnoRet != 38 {
				t.Errorf("%s %s: default %s %v", p, arch, f.DefaultAction, f.DefaultErrnoRet)
			}
			if !slices.Equal(f.Architectures, []specs.Arch{want}) {
				t.Errorf("%s %s: architectures %v", p, arch, f.Architectures)
			}
			seen := map[string]bool{}
			for _, s := range f.Syscalls {
				for _, n := range s.Names {
					if s.Action == specs.ActAllow {
						seen[n] = true
					}
				}
				for _, a := range s.Args {
					rest := s.Action == specs.ActErrno && a == specs.LinuxSeccompArg{Op: specs.OpGreaterEqual}
					pointer := s.Names[0] == "prlimit64" && a == specs.LinuxSeccompArg{Index: 2, Op: specs.OpEqualTo} ||
						s.Names[0] == "ptrace" && a == specs.LinuxSeccompArg{Index: 3, Op: specs.OpEqualTo}
					if !rest && !pointer && (a.Op != specs.OpMaskedEqual || a.Value > 0xffffffff || a.ValueTwo&^a.Value != 0) {
						t.Errorf("%s %s: %v compares %+v: not the low 32 bits", p, arch, s.Names, a)
					}
				}
			}
			if names := allowed(t, p, arch); len(names) != len(seen) {
				t.Errorf("%s %s: %d calls rendered, %d listed", p, arch, len(seen), len(names))
			}
			k, err := OCI(Options{Profile: p, Arch: arch, Kill: true})
			if err != nil {
				t.Fatal(err)
			}
			if k.DefaultAction != specs.ActKillProcess || k.DefaultErrnoRet != nil {
				t.Errorf("%s %s: with kill default %s %v", p, arch, k.DefaultAction, k.DefaultErrnoRet)
			}
			for _, name := range []string{"clone3", "io_uring_setup"} {
				if r := rulesFor(k, name); len(r) != 1 || r[0].Action != specs.ActErrno || *r[0].ErrnoRet != 38 {
					t.Errorf("%s %s: with kill %s, which libc and node probe, has %+v", p, arch, name, r)
				}
			}
		}
	}
}

// What the argument rules state, call by call, as seen from a program.
func TestRules(t *testing.T) {
	f, err := OCI(Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	const high = 0xdead << 32 // what the kernel cuts off
	for _, c := range []struct {
		call string
		args [6]uint64
		want bool
	}{
		{"socket", [6]uint64{1, 1, 0}, true},
		{"socket", [6]uint64{1, 0o2004005, 0}, true}, // SEQPACKET | NONBLOCK | CLOEXEC
		{"socket", [6]uint64{2, 0o2000001, 6}, true},
		{"socket", [6]uint64{10, 2, 17}, true},
		{"socket", [6]uint64{2 | high, 1, 0}, true},
		{"socket", [6]uint64{2, 1, 262}, false}, // MPTCP
		{"socket", [6]uint64{2, 1, 132}, false}, // SCTP
		{"socket", [6]uint64{2, 2, 136}, false}, // UDP-Lite
		{"socket", [6]uint64{2, 3, 1}, false},   // raw ICMP
		{"socket", [6]uint64{2, 2, 1}, false},   // ping
		{"socket", [6]uint64{16, 3, 0}, true},
		{"socket", [6]uint64{16, 3, 12}, false}, // NETLINK_NETFILTER
		{"socket", [6]uint64{17, 3, 0}, false},
		{"socket", [6]uint64{38, 5, 0}, false},
		{"socket", [6]uint64{40 | high, 1, 0}, false},
		{"socketpair", [6]uint64{1, 1}, true},
		{"socketpair", [6]uint64{2, 1}, false},
		{"clone", [6]uint64{0x3d0f00}, true}, // a thread
		{"clone", [6]uint64{0x1200011}, true},
		{"clone", [6]uint64{0x10000011}, false},
		{"clone", [6]uint64{0x40000011 | high}, false},
		{"ioctl", [6]uint64{0, 0x5401}, true},
		{"ioctl", [6]uint64{0, 0x5413}, true},
		{"ioctl", [6]uint64{0, 0x5412}, false},
		{"ioctl", [6]uint64{0, 0x5412 | high}, false},
		{"ioctl", [6]uint64{0, 0x541c}, false},
		{"ioctl", [6]uint64{0, 0x5423}, false},
		{"ioctl", [6]uint64{0, 0xffffffff80045430}, true}, // TIOCGPTN, sign-extended
		{"setsockopt", [6]uint64{3, 6, 1}, true},
		{"setsockopt", [6]uint64{3, 6, 31}, false},
		{"setsockopt", [6]uint64{3, 282, 1}, false},
		{"setsockopt", [6]uint64{3, 0, 34}, true},
		{"setsockopt", [6]uint64{3, 0, 35}, false},
		{"setsockopt", [6]uint64{3, 1, 26}, false},
		{"setsockopt", [6]uint64{3, 41, 26}, true},
		{"sendto", [6]uint64{3, 0, 0, 0x4000}, true},
		{"sendto", [6]uint64{3, 0, 0, 0x4001}, false},
		{"recvmsg", [6]uint64{3, 0, 1}, false},
		{"chmod", [6]uint64{0, 0o755}, true},
		{"chmod", [6]uint64{0, 0o1777}, true},
		{"chmod", [6]uint64{0, 0o4755}, false},
		{"fchmodat", [6]uint64{0, 0, 0o2755 | high}, false},
		{"openat", [6]uint64{0, 0, 0o101, 0o644}, true},
		{"openat", [6]uint64{0, 0, 0o101, 0o4644}, false},
		{"openat", [6]uint64{0, 0, 0o20200000, 0o2600}, false},
		{"openat", [6]uint64{0, 0, 0, 0xdeadbeef}, true}, // mode is not looked at
		{"open", [6]uint64{0, 0o101, 0o6644}, false},
		{"mknodat", [6]uint64{0, 0, 0o010644}, true},
		{"mknodat", [6]uint64{0, 0, 0o100644}, true},
		{"mknodat", [6]uint64{0, 0, 0o020000}, false},
		{"prctl", [6]uint64{22}, false},
		{"prctl", [6]uint64{23}, true},
		{"prctl", [6]uint64{38}, true},
		{"prctl", [6]uint64{35}, false},
		{"prctl", [6]uint64{67}, false},
		{"madvise", [6]uint64{0, 0, 4}, true},
		{"madvise", [6]uint64{0, 0, 8}, true},
		{"madvise", [6]uint64{0, 0, 12}, false},
		{"madvise", [6]uint64{0, 0, 12 | high}, false},
		{"madvise", [6]uint64{0, 0, 13}, true},
		{"madvise", [6]uint64{0, 0, 14}, true},
		{"madvise", [6]uint64{0, 0, 25}, true},
		{"fcntl", [6]uint64{0, 1030}, true},
		{"fcntl", [6]uint64{0, 1024}, false},
		{"sendfile", [6]uint64{}, false},
		{"personality", [6]uint64{0}, false},
	} {
		if got := allowsCall(f, c.call, c.args); got != c.want {
			t.Errorf("%s%#x: passes %v, want %v", c.call, c.args, got, c.want)
		}
	}
}
