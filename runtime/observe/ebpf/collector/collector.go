// Package collector is the program agentjail-journal: it loads the eBPF programs, keeps them
// pinned, and writes what they report to the jails' journals. One serves a host. When it dies the
// programs go on refusing, and only the reports stop.
package collector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/privileges"
	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/lostpaths"
	"agentjail.dev/runtime/spec/policy"
)

// Options of the collector.
type Options struct {
	// Policy is the policy's file, which reports where jails' host ids and journals are.
	Policy string
	// Syscalls has refused system calls reported; where that takes a program on every system call
	// of the machine, too.
	Syscalls bool
	// Connections has connect and bind reported, and blocked where policy or a container's
	// annotation requests it. Policy alone is enough.
	Connections bool
	// User is whom the reader becomes.
	User string
	// Pins is where the programs stay; "" has them end with the collector.
	Pins string
	// Print, if not nil, gets every event.
	Print func(journal.Event)
	// Logf gets lines of progress.
	Logf func(format string, args ...any)
}

// Status is what became of the programs. The collector keeps it at status.StatusFile.
type Status struct {
	Error    string        `json:"error,omitempty"`
	Pinned   bool          `json:"pinned,omitempty"`
	Programs []ebpf.Loaded `json:"programs,omitempty"`
	Acting   []string      `json:"acting,omitempty"`  // hooks
	Verdict  []string      `json:"verdict,omitempty"` // hooks that are refused
}

// Run collects until the context ends.
func Run(ctx context.Context, o Options) error {
	place, err := journal.Here(o.Policy, "")
	if err != nil {
		return err
	}
	pools := policy.Pools(o.Policy)
	load := ebpf.Options{
		Pools: pools, Verdict: ebpf.Default, RefusalRate: ebpf.DefaultRefusalRate, EventRate: ebpf.DefaultEventRate, Syscalls: true,
		Fallback: o.Syscalls, Pins: o.Pins,
		Connections: o.Connections || connectionsBlocked(o.Policy, jailmap.Registry{Root: place.Store.Root}),
	}
	uid, gid, err := ids(o.User, o.Logf)
	if err != nil {
		return err
	}
	r, err := startReader(load, o, uid, gid)
	if err != nil {
		return err
	}
	defer r.end()
	w := newWriter(place, o)
	if err := os.MkdirAll(filepath.Dir(status.StatusFile), 0o755); err != nil {
		return err
	}
	// The reader has been started: nothing else here takes a capability. Root's files are root's to
	// write without any.
	if err := privileges.Keep(); err != nil {
		return err
	}
	if err := confineWriter(); err != nil {
		return err
	}
	w.registered = r.jails
	stop := context.AfterFunc(ctx, r.end)
	defer stop()
	go w.flushAlways(ctx)
	go lostpaths.All(ctx, place.Store, func(err error) { o.Logf("%v", err) })
	err = readFrames(r.frames, w)
	w.flush()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(err, w.failed, fmt.Errorf("the reader ended: %w", r.wait()))
}

// connectionsBlocked reports whether policy, or a jail that is there, has connect or bind blocked.
func connectionsBlocked(path string, r jailmap.Registry) bool {
	const bits = 1<<ebpf.Connect | 1<<ebpf.Bind
	block, err := jailmap.Bits(policy.Blocked(path))
	if err != nil || block&bits != 0 {
		return true // if unknown, rather one program more
	}
	spaces, err := r.All()
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return slices.ContainsFunc(spaces, func(s jailmap.Space) bool { return s.Block&bits != 0 })
}

// A reader is the process that has the capabilities.
type reader struct {
	cmd    *exec.Cmd
	frames *os.File
	// jails takes those that it is to register.
	jails *os.File
}

// end has the reader end: it may not be this process's to kill any more, and dies with it.
func (r *reader) end() {
	_ = r.cmd.Process.Kill()
	_ = r.frames.Close()
}

func (r *reader) wait() error {
	err := r.cmd.Wait()
	if err == nil {
		err = errors.New("without a word")
	}
	return err
}

func startReader(load ebpf.Options, o Options, uid, gid uint32) (*reader, error) {
	pins, err := openPins(o.Pins, uid, gid)
	if err != nil {
		return nil, err
	}
	defer pins.Close()
	text, err := json.Marshal(load)
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer to.Close()
	cmd := exec.Command("/proc/self/exe", ReaderVerb, string(text))
	cmd.Env = []string{"GOTRACEBACK=none", "GODEBUG=madvdontneed=1"}
	cmd.Stderr, cmd.Dir = os.Stderr, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uid, Gid: gid}, AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON},
	}
	jails, toJails, err := os.Pipe()
	if err != nil {
		from.Close()
		return nil, err
	}
	defer jails.Close()
	cmd.Stdin = jails
	cmd.ExtraFiles = []*os.File{pins, to}
	if err := cmd.Start(); err != nil {
		from.Close()
		toJails.Close()
		return nil, fmt.Errorf("starting the reader: %w (remedy: root, or a unit with CAP_BPF, CAP_PERFMON, CAP_SETUID and CAP_SETGID)", err)
	}
	return &reader{cmd: cmd, frames: from, jails: toJails}, nil
}

// ids are the reader's own.
func ids(name string, warn func(string, ...any)) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		warn("there is no user %s: the reader runs as the user %d", name, uint32(idmap.ReaderID))
		return idmap.ReaderID, idmap.ReaderID, nil
	}
	id, err1 := strconv.ParseUint(u.Uid, 10, 32)
	group, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	if id == 0 {
		return 0, 0, fmt.Errorf("user %s is root: the reader takes an id of its own", name)
	}
	return uint32(id), uint32(group), nil
}

// openPins makes the directory of pins, the reader's own. It cannot be opened by its path by others
// than root.
func openPins(path string, uid, gid uint32) (*os.File, error) {
	if path == "" {
		return os.Open("/")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &fs); err != nil {
		return nil, fmt.Errorf("%s: %w (remedy: mount -t bpf bpf /sys/fs/bpf)", filepath.Dir(path), err)
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		return nil, fmt.Errorf("%s is not a bpf file system (remedy: mount -t bpf bpf /sys/fs/bpf)", filepath.Dir(path))
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := f.Chown(int(uid), int(gid)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ready reports that the programs act: to systemd, where that waits for it (sd_notify(3)).
func ready() {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}); err == nil {
		defer c.Close()
		_, _ = c.Write([]byte("READY=1\n"))
	}
}

// Unload ends the programs that are pinned.
func Unload(pins string) error {
	if err := os.Remove(status.StatusFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return ebpf.Unload(pins)
}
