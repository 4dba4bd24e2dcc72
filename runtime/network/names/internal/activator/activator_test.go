package activator

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/network/helper/child"
	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// helperName is what the activator is called, and so this test's program when the activator
// executes it.
const helperName = "helper-of-test"

// TestMain is also the helper.
func TestMain(m *testing.M) {
	if os.Args[0] == helperName {
		os.Exit(beHelper())
	}
	os.Exit(m.Run())
}

// beHelper writes what it finds to the log.
func beHelper() int {
	setup, err := io.ReadAll(os.NewFile(child.SetupFD, "setup"))
	if err != nil {
		return 1
	}
	data, rights := make([]byte, 1024), make([]byte, unix.CmsgSpace(4*16))
	n, m, _, _, err := unix.Recvmsg(helperproto.WorkFD, data, rights, 0)
	if err != nil {
		return 1
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil || len(messages) != 1 {
		return 1
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 1
	}
	_, opened := os.Open("/")
	_, raw := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	kill := unix.Kill(1, 0)
	fmt.Fprintf(os.NewFile(helperproto.LogFD, "log"), "%s|%s|%d|%v|%v|%v", setup, data[:n], len(fds), opened, raw, kill)
	return 0
}

// needsStatic skips a test that executes this program as the helper, which is linked without
// libraries: in an empty root there are none to load.
func needsStatic(t *testing.T) {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Skip("this test's program is linked with the C library (remedy: CGO_ENABLED=0)")
		}
	}
}

// activated is an activator with a control socket and a log.
type activated struct {
	cmd     *exec.Cmd
	log     *os.File
	control string
	said    []byte // whether it is ready
}

// start starts an activator.
func start(t *testing.T, uid uint32, root string) *activated {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it changes ids and its root directory")
	}
	a := &activated{control: filepath.Join(t.TempDir(), "control")}
	f, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: a.control})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	control, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	empty, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if a.log, err = os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.log.Close() })
	how, err := Setup(uid, uid, helperproto.ActivationFilter(), []byte("the helper's own"))
	if err != nil {
		t.Fatal(err)
	}
	ready, readyIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	tell, tellIn, err := os.Pipe() // whose ends do not block, as the starter's do not
	if err != nil {
		t.Fatal(err)
	}
	a.cmd = &exec.Cmd{Path: fmt.Sprintf("/proc/self/fd/%d", helperproto.ProgramFD+1), Args: []string{helperName}, Env: []string{"GOMAXPROCS=2"}}
	a.cmd.ExtraFiles = []*os.File{tell, readyIn, a.log, empty, control, nil, nil, self, f}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill(); _, _ = a.cmd.Process.Wait() })
	tell.Close()
	readyIn.Close()
	if _, err := tellIn.Write(how); err != nil {
		t.Fatal(err)
	}
	tellIn.Close()
	_ = ready.SetDeadline(time.Now().Add(time.Minute))
	if a.said, err = io.ReadAll(ready); err != nil {
		t.Fatal(err)
	}
	return a
}

// request sends a message with descriptors to the activator, and returns its answer.
func (a *activated) request(t *testing.T, data string, files ...*os.File) string {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: a.control})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix([]byte(data), rights, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	out, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// status is a line of the activator's /proc/PID/status.
func (a *activated) status(t *testing.T, key string) string {
	t.Helper()
	s, err := procstatus.Read(a.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(s.Field(key)), " ")
}

// udp is a socket on lo, as a file, and its address.
func udp(t *testing.T) (*os.File, string) {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, c.LocalAddr().String()
}

// lives is a pidfd of a process that lives until the test ends it.
func lives(t *testing.T) (pidfd *os.File, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(end)
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	pidfd = os.NewFile(uintptr(fd), "pidfd")
	t.Cleanup(func() { pidfd.Close() })
	return pidfd, end
}

// TestActivates: an activator drops its privileges, acknowledges its work, and executes the helper
// when a socket is readable. The helper then reads the whole work.
func TestActivates(t *testing.T) {
	needsStatic(t)
	const uid = 4711
	a := start(t, uid, t.TempDir())
	if string(a.said) != child.Ready {
		t.Fatalf("it printed %q", a.said)
	}
	for key, want := range map[string]string{
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2", "Uid": "4711 4711 4711 4711", "Gid": "4711 4711 4711 4711",
		"Groups": "",
	} {
		if got := a.status(t, key); got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
	if got := a.request(t, "state"); !strings.Contains(got, "it waits for its work") {
		t.Errorf("before its work: %q", got)
	}
	pidfd, _ := lives(t)
	s, addr := udp(t)
	notSocket, err := os.Open(os.DevNull) // can always be read
	if err != nil {
		t.Fatal(err)
	}
	defer notSocket.Close()
	if got := a.request(t, "the work", pidfd, notSocket, s); got != "{}" {
		t.Fatalf("its work: %q", got)
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", a.cmd.Process.Pid)); err != nil || !strings.HasPrefix(exe, "/memfd:") {
		t.Errorf("before it is needed it executes %s, %v", exe, err)
	}
	c, err := net.Dial("udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(a.log.Name())
	want := fmt.Sprintf("the helper's own|the work|3|open /: %v|%v|%v", unix.ENOENT, unix.EAFNOSUPPORT, unix.EPERM)
	if err != nil || string(got) != want {
		t.Errorf("the helper found %q, not %q, %v", got, want, err)
	}
}

// TestActivatorEndsWithJail: an activator ends with the jail, without having become the helper, and where its
// starter has no set-up for it.
func TestActivatorEndsWithJail(t *testing.T) {
	a := start(t, 4711, t.TempDir())
	pidfd, end := lives(t)
	s, _ := udp(t)
	if got := a.request(t, "the work", pidfd, s); got != "{}" {
		t.Fatalf("its work: %q", got)
	}
	end()
	if err := a.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(a.log.Name()); err != nil || len(got) > 0 {
		t.Errorf("the helper was started: %q, %v", got, err)
	}
}

// TestFails: a step that fails is reported, and the activator ends.
func TestFails(t *testing.T) {
	a := start(t, 4711, os.DevNull)
	if want := fmt.Sprintf("fchdir: errno %d\n", unix.ENOTDIR); string(a.said) != want {
		t.Errorf("it printed %q, not %q", a.said, want)
	}
	var e *exec.ExitError
	if err := a.cmd.Wait(); !errors.As(err, &e) || e.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
}

// TestSetup: the layout is the program's, and a filter that it has no room for is an error.
func TestSetup(t *testing.T) {
	got, err := Setup(1, 2, []unix.SockFilter{{Code: 3, Jt: 4, Jf: 5, K: 6}}, []byte("x"))
	want := []byte{1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 4, 5, 6, 0, 0, 0, 'x'}
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Setup(1, 2, make([]unix.SockFilter, maxFilter+1), nil); err == nil {
		t.Error("a filter that is too long")
	}
	if n := len(helperproto.ActivationFilter()); n > maxFilter {
		t.Errorf("the filter has %d instructions", n)
	}
}
