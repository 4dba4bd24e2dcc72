package traits

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A standard file of a kind: what a command gets as its descriptors 0 to 2, and its name, if it has one.
type standard struct {
	kind string
	name string
	file *os.File
}

// standards makes a file of each kind.
func standards(t *testing.T, dir string) (out []standard) {
	t.Helper()
	add := func(kind, name string, f *os.File) {
		t.Cleanup(func() { f.Close() })
		out = append(out, standard{kind, name, f})
	}
	open := func(name string) *os.File {
		return env.Get(t, func() (*os.File, error) { return os.OpenFile(name, os.O_RDWR|os.O_APPEND|unix.O_NOCTTY, 0) })
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	env.Check(t, os.WriteFile(at("file"), []byte("line\n"), 0o640))
	add("file", at("file"), open(at("file")))
	for name, minor := range map[string]uint32{"null": 3, "zero": 5} {
		env.Check(t, unix.Mknod(at(name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))))
		env.Check(t, os.Chmod(at(name), 0o666)) // anyone may change its times
		add(name+" device", at(name), open(at(name)))
	}
	env.Check(t, unix.Mkfifo(at("fifo"), 0o600))
	add("named pipe", at("fifo"), open(at("fifo")))
	master, slave, err := engine.OpenPty()
	env.Check(t, err)
	go io.Copy(io.Discard, master) //nolint:errcheck // until the master is closed
	t.Cleanup(func() { master.Close() })
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", slave.Fd()))
	env.Check(t, err)
	add("terminal", name, slave)
	read, write, err := os.Pipe()
	env.Check(t, err)
	t.Cleanup(func() { write.Close() })
	add("pipe", "", read)
	out[len(out)-1].name = fmt.Sprintf("/proc/self/fd/%d", write.Fd()) // opened below, for both directions
	add("socket", "", socket(t))
	for i, s := range out {
		if s.kind == "pipe" {
			out[i].file, out[i].name = open(s.name), ""
			t.Cleanup(func() { out[i].file.Close() })
		}
	}
	return out
}

// socket is an end of a pair, whose other end stays open.
func socket(t *testing.T) *os.File {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	env.Check(t, err)
	one, other := os.NewFile(uintptr(ends[0]), "socket"), os.NewFile(uintptr(ends[1]), "socket")
	t.Cleanup(func() { one.Close(); other.Close() })
	return one
}

// state is what no delegate and no jail may change of a file.
func (s standard) state(t *testing.T) string {
	t.Helper()
	var st unix.Stat_t
	env.Check(t, unix.Fstat(int(s.file.Fd()), &st))
	out := fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode)
	if strings.HasSuffix(s.kind, "device") {
		out += fmt.Sprintf(" %v %v", st.Mtim, st.Ctim)
	}
	return out
}

// TestStandardFilesKeepTheirOwners: no file that a delegate gets as descriptor 0 to 2 changes its owner, mode or, where it is a device, its times, not
// even for a moment, by any way of starting, whatever the jail's program does to its descriptors.
func TestStandardFilesKeepTheirOwners(t *testing.T) {
	const change = `for f in 0 1 2; do touch /proc/self/fd/$f; chmod 777 /proc/self/fd/$f; chown 1 /proc/self/fd/$f; done 2>/dev/null; echo reached`
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			base := engine.TempDir(t, "/var/tmp", "agentjail-traits-")
			for _, std := range standards(t, base) {
				t.Run(std.kind, func(t *testing.T) {
					b := engine.NewBundle(t, base)
					b.Spec.Process.Args = []string{"sh", "-c", change}
					c := s.under(t, b, "")
					call := func(args ...string) {
						t.Helper()
						before, changes := std.state(t), watch(t, std.name)
						b.Write(t)
						cmd := b.Command(t.Context(), c, args...)
						cmd.Stdin, cmd.Stdout, cmd.Stderr = std.file, std.file, std.file
						if err := cmd.Run(); err != nil {
							t.Errorf("%s: %v", args[0], err)
						}
						after := std.state(t)
						if args[0] == "create" || strings.Contains(strings.Join(args, " "), "--detach") {
							switch {
							case std.kind == "pipe": // the engine's: it becomes the jail's user's
								return
							case std.kind == "file" && s.WithoutChown: // gVisor changes its owner to what it is
								changes = func() int { return 0 }
							}
						}
						if after != before {
							t.Errorf("%s: %s, and was %s", args, after, before)
						}
						if n := changes(); n != 0 {
							t.Errorf("%s: its attributes changed %d times", args, n)
						}
					}
					quiet := func(args ...string) { _, _, _ = b.Call(t, c, args...) }
					id := b.ID()
					call("run", "--bundle", b.Dir, id)
					b.Spec.Process.Args = []string{"sh", "-c", "echo reached; exec sleep 1000"}
					call("create", "--bundle", b.Dir, id)
					quiet("start", id)
					call("exec", id, "sh", "-c", change)
					call("exec", "--detach", "--pid-file", filepath.Join(b.Dir, "pid"), id, "sh", "-c", change)
					if std.kind == "file" {
						env.Eventually(t, "what the programs write", func() bool { return strings.Count(string(env.Read(t, std.name)), "reached\n") == 4 })
					}
					quiet("delete", "--force", id)
					if std.kind == "socket" { // gVisor's sentry shuts down the one that it had
						std.file = socket(t)
					}
					call("run", "--detach", "--bundle", b.Dir, id)
					quiet("delete", "--force", id)
				})
			}
		})
	}
}

// watch returns a function that returns how often a file's attributes have changed; a file without a name is not watched.
func watch(t *testing.T, name string) func() int {
	t.Helper()
	if name == "" {
		return func() int { return 0 }
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	env.Check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	_, err = unix.InotifyAddWatch(fd, name, unix.IN_ATTRIB)
	env.Check(t, err)
	return func() int {
		var buf [4096]byte
		n, _ := unix.Read(fd, buf[:])
		return max(n, 0) / unix.SizeofInotifyEvent
	}
}
