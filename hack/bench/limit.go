package main

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/cache"
	"agentjail.dev/seccomp/compiler"
)

// leastKind is the kind of the program that only makes what a jail is made of.
const leastKind kind = "the kernel's share"

//go:embed limit/limit.c
var limitSource embed.FS

// least is a C program that makes, by straight system calls, what a jail's bundle requires of the
// kernel. Its time is the least that any runtime could take for such a jail on this machine.
func (b *bench) least(jail *specs.Spec) (*subject, error) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, err
	}
	s, err := b.subject(delegate{name: "C program", path: "limit"}, leastKind, "limit", nil)
	if err != nil {
		return nil, err
	}
	header, err := b.limitHeader(s, jail)
	if err != nil {
		return nil, err
	}
	source, err := limitSource.ReadFile("limit/limit.c")
	if err != nil {
		return nil, err
	}
	s.bin = filepath.Join(s.bundle, "limit")
	for name, text := range map[string][]byte{"limit.c": source, "jail.h": []byte(header)} {
		if err := os.WriteFile(filepath.Join(s.bundle, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	if out, err := exec.Command(cc, "-O2", "-static", "-o", s.bin, filepath.Join(s.bundle, "limit.c")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile limit.c: %w: %s", err, out)
	}
	s.whole = s.command()
	_, err = s.lifecycle() // to leave it out with the reason where it does not run
	return s, err
}

// limitHeader writes jail.h.
func (b *bench) limitHeader(s *subject, jail *specs.Spec) (string, error) {
	tmp := filepath.Join(s.bundle, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	groups, limits, err := limitGroups("/"+b.e.CgroupParent()+"/limit", jail.Linux.Resources)
	if err != nil {
		return "", err
	}
	outer, inner, err := b.limitFilters()
	if err != nil {
		return "", err
	}
	lastCap, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return "", err
	}
	spec := *jail
	onPlainRoot(&spec, jail)
	var h strings.Builder
	fmt.Fprintf(&h, "#define LOWER %q\n#define TMP %q\n#define ROOT TMP \"/merged\"\n#define HOST_ID %du\n#define LAST_CAP %s",
		filepath.Join(b.root.dir, b.root.lowers[0]), tmp, jail.Linux.UIDMappings[0].HostID, lastCap)
	fmt.Fprint(&h, "static const struct a_mount jail_mounts[] = {\n")
	for _, m := range spec.Mounts {
		row, ok := limitMount(m)
		if ok {
			h.WriteString(row)
		}
	}
	fmt.Fprint(&h, "};\nstatic const struct a_value jail_limits[] = {\n")
	for _, l := range limits {
		fmt.Fprintf(&h, "\t{%q, %q},\n", l[0], l[1])
	}
	fmt.Fprint(&h, "};\n")
	for name, list := range map[string][]string{
		"groups": groups, "masks": spec.Linux.MaskedPaths, "readonly": spec.Linux.ReadonlyPaths,
		"nodes": {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"},
	} {
		fmt.Fprintf(&h, "static const char *const jail_%s[] = {\n", name)
		for _, p := range list {
			fmt.Fprintf(&h, "\t%q,\n", p)
		}
		fmt.Fprint(&h, "};\n")
	}
	for name, prog := range map[string][]byte{"outer": outer, "inner": inner} {
		fmt.Fprintf(&h, "static const unsigned long long jail_%s[] = {\n", name)
		for len(prog) > 0 {
			fmt.Fprintf(&h, "\t%#xull,\n", binary.NativeEndian.Uint64(prog))
			prog = prog[unsafe.Sizeof(unix.SockFilter{}):]
		}
		fmt.Fprint(&h, "};\n")
	}
	return h.String(), nil
}

// limitFilters are the two of a jail with Docker's bundle, both compiled by agentjail.
func (b *bench) limitFilters() (outer, inner []byte, err error) {
	f, err := cache.Make(seccomp.Options{Arch: runtime.GOARCH}, b.captured.spec.Linux.Seccomp)
	if err != nil {
		return nil, nil, err
	}
	program, err := compiler.Compile(f.Delegates)
	if err != nil {
		return nil, nil, err
	}
	return bpf.Encode(program), f.Program, nil
}

// mountFlags are the options of mount(8) that are flags of mount(2).
var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "bind": unix.MS_BIND,
	"rbind": unix.MS_BIND | unix.MS_REC, "relatime": unix.MS_RELATIME, "strictatime": unix.MS_STRICTATIME, "noatime": unix.MS_NOATIME,
}

// notForKernel are options that are neither flags nor the file system's own, or already so.
var notForKernel = []string{"rw", "private", "rprivate", "slave", "rslave", "tmpcopyup", "defaults"}

// limitMount is a row of jail_mounts; false for what is no single mount.
func limitMount(m specs.Mount) (string, bool) {
	if m.Type == "cgroup" {
		return "", false // of version 1 it is one for each controller
	}
	var flags uintptr
	var data []string
	for _, o := range m.Options {
		if f, ok := mountFlags[o]; ok {
			flags |= f
		} else if !slices.Contains(notForKernel, o) {
			data = append(data, o)
		}
	}
	isFile := 0
	if flags&unix.MS_BIND != 0 {
		st, err := os.Stat(m.Source)
		if err != nil {
			return "", false
		}
		if !st.IsDir() {
			isFile = 1
		}
		data = nil
	}
	return fmt.Sprintf("\t{%q, %q, %q, %#x, %q, %d},\n", m.Source, m.Destination, m.Type, flags, strings.Join(data, ","), isFile), true
}

// limitGroups are the control groups that a container gets below path, and the limits that are set
// there, as file and value. Only what can be set on this machine is.
func limitGroups(path string, r *specs.LinuxResources) (groups []string, limits [][2]string, err error) {
	dirs := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		if dirs, err = filepath.Glob("/sys/fs/cgroup/*"); err != nil {
			return nil, nil, err
		}
	}
	values := map[string]string{}
	if m := r.Memory; m != nil && m.Limit != nil {
		values["memory.max"] = fmt.Sprint(*m.Limit)
		values["memory.limit_in_bytes"] = values["memory.max"]
	}
	if p := r.Pids; p != nil && p.Limit != nil {
		values["pids.max"] = fmt.Sprint(*p.Limit)
	}
	for _, dir := range dirs {
		parent := filepath.Join(dir, filepath.Dir(path))
		if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
			continue // "cpu" is a link to "cpu,cpuacct"
		}
		if err := os.MkdirAll(parent, 0o755); err != nil {
			continue // the root of no hierarchy
		}
		for _, at := range []string{dir, parent} {
			_ = os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+memory +pids +cpu"), 0o644)
		}
		group := filepath.Join(dir, path)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, nil, err
		}
		groups = append(groups, group)
		for _, set := range []string{"cpuset.cpus", "cpuset.mems"} { // version 1 wants both before the first process
			if text, err := os.ReadFile(filepath.Join(dir, set)); err == nil && !strings.HasSuffix(dir, "cgroup") {
				_ = os.WriteFile(filepath.Join(parent, set), text, 0o644)
				limits = append(limits, [2]string{filepath.Join(group, set), strings.TrimSpace(string(text))})
			}
		}
		for file, value := range values {
			if _, err := os.Stat(filepath.Join(group, file)); err == nil {
				limits = append(limits, [2]string{filepath.Join(group, file), value})
			}
		}
		if err := os.Remove(group); err != nil {
			return nil, nil, err
		}
	}
	if len(groups) == 0 {
		return nil, nil, errors.New("no control groups to make one in")
	}
	return groups, limits, nil
}
