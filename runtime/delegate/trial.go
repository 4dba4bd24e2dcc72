package delegate

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/spec/policy"
)

// trialGroup begins the name of a trial's control group.
const trialGroup = "agentjail-trial-"

// try has the delegate run a container as jails need it: with all namespaces of its own but the
// time namespace, mapped ids, limits, and a filter. All that it needs is on a tmpfs that no other
// process sees and that is gone with the thread; a control group that a killed trial left goes with
// the next.
func (r *Runtime) try() error {
	program := exitProgram(runtime.GOARCH)
	if program == nil {
		return nil
	}
	return thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making a mount namespace for a trial: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("ending mount propagation for a trial: %w", err)
		}
		const dir = "/run" // no delegate lies there
		if err := unix.Mount("agentjail-trial", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
			"mode=0711,size=8388608,nr_inodes=1024"); err != nil {
			return fmt.Errorf("mounting a tmpfs for a trial: %w", err)
		}
		return r.tryAt(dir, program)
	})
}

func (r *Runtime) tryAt(dir string, program []byte) error {
	sweepTrials()
	id := atomicfile.Unique(trialGroup)
	root := filepath.Join(dir, "bundle", "rootfs")
	for _, d := range []string{root, root + "/proc", root + "/dev"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	config, err := json.Marshal(trialSpec("/" + id))
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		data []byte
		mode os.FileMode
	}{{root + "/exit", program, 0o755}, {filepath.Dir(root) + "/config.json", config, 0o644}} {
		if err := os.WriteFile(f.path, f.data, f.mode); err != nil {
			return err
		}
	}
	// A file, since a container that stays must not keep a pipe open; and for input as well, since
	// crun changes the owner of its standard files, /dev/null included.
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return err
	}
	defer output.Close()
	alone := *r
	alone.Stdio = [3]*os.File{output, output, output}
	code, err := alone.Run([]string{"--root", filepath.Join(dir, "state"), "run", "--bundle", filepath.Dir(root), id}, Time{})
	if err == nil && code == 0 {
		return nil
	}
	// Processes that the delegate has killed may not have ended yet.
	for end := time.Now().Add(sweepWait); removeGroups(trialGroups(id)) && time.Now().Before(end); {
		time.Sleep(sweepWait / 200)
	}
	if err != nil {
		return fmt.Errorf("failed a trial: %w", err)
	}
	text, _ := os.ReadFile(output.Name())
	const most = 300
	return fmt.Errorf("refused a trial (status %d): %.*s", code, most, strings.Join(strings.Fields(string(text)), " "))
}

// sweepWait bounds how long the processes of a failed trial may take to end.
const sweepWait = time.Second

// trialGroups are the control groups, of all hierarchies, of trials whose name matches a pattern.
func trialGroups(pattern string) (dirs []string) {
	for _, under := range []string{"", "/*"} {
		found, _ := filepath.Glob(cgroups.Root + under + "/" + pattern)
		dirs = append(dirs, found...)
	}
	return dirs
}

// sweepTrials removes control groups that trials of processes that have ended have left. Those of
// another process that tries a delegate now may be empty for a moment.
func sweepTrials() {
	removeGroups(slices.DeleteFunc(trialGroups(trialGroup+"*"), func(dir string) bool {
		maker, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), trialGroup), ".") // atomicfile.Unique
		pid, err := strconv.Atoi(maker)
		return err == nil && pid > 0 && unix.Kill(pid, 0) != unix.ESRCH
	}))
}

// removeGroups removes control groups without processes, and reports whether there are others.
func removeGroups(dirs []string) (busy bool) {
	for _, dir := range dirs {
		busy = unix.Rmdir(dir) == unix.EBUSY || busy
	}
	return busy
}

// trialSpec is the bundle of a trial.
func trialSpec(cgroup string) *specs.Spec {
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(policy.Default().Userns.Pool.First), Size: 65536}}
	pids := int64(64)
	s := &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs", Readonly: true},
		Process: &specs.Process{Args: []string{"/exit"}, Cwd: "/", NoNewPrivileges: true, Capabilities: &specs.LinuxCapabilities{}},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536"}},
		},
		Linux: &specs.Linux{
			UIDMappings: ids, GIDMappings: ids, CgroupsPath: cgroup,
			Resources:   &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &pids}},
			MaskedPaths: []string{"/proc/kcore"},
			Seccomp: &specs.LinuxSeccomp{
				DefaultAction: specs.ActAllow,
				Syscalls:      []specs.LinuxSyscall{{Names: []string{"reboot"}, Action: specs.ActErrno}},
			},
		},
	}
	for _, t := range []specs.LinuxNamespaceType{
		specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace,
		specs.MountNamespace, specs.CgroupNamespace, specs.UserNamespace,
	} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: t})
	}
	return s
}

// exitProgram is a program that ends at once with status 0, as a file for Linux
// on an architecture of Go's name, or nil: an ELF header, one segment, and the
// system call exit(0) (elf(5), syscall(2)).
func exitProgram(arch string) []byte {
	var machine uint16
	var code []byte
	switch arch {
	case "amd64": // xor edi, edi; mov eax, 60; syscall
		machine, code = 62, []byte{0x31, 0xff, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05}
	case "arm64": // mov x0, 0; mov x8, 93; svc 0
		machine, code = 183, []byte{0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4}
	default:
		return nil
	}
	const base, header, segment = 0x10000, 64, 56
	out := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	le := binary.LittleEndian
	for _, v := range []uint16{2, machine} {
		out = le.AppendUint16(out, v)
	}
	out = le.AppendUint32(out, 1)
	for _, v := range []uint64{base + header + segment, header, 0} { // entry, program headers, section headers
		out = le.AppendUint64(out, v)
	}
	out = le.AppendUint32(out, 0)
	for _, v := range []uint16{header, segment, 1, 0, 0, 0} {
		out = le.AppendUint16(out, v)
	}
	size := uint64(header + segment + len(code))
	out = le.AppendUint32(le.AppendUint32(out, 1), 5) // to be loaded, readable and executable
	for _, v := range []uint64{0, base, base, size, size, 0x10000} {
		out = le.AppendUint64(out, v)
	}
	return append(out, code...)
}
