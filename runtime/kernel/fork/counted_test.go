package fork

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// testID is a host id that no user has.
const testID = 2013265920

func testMap(id int) string { return fmt.Sprintf("0 %d 65536\n", id) }

// nsGetOwnerUID reads the owner of a user namespace (ioctl_nsfs(2)).
const nsGetOwnerUID = 0xb704

func ownerUID(t *testing.T, f *os.File) uint32 {
	t.Helper()
	var uid uint32
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), nsGetOwnerUID, uintptr(unsafe.Pointer(&uid))); errno != 0 {
		t.Fatal(errno)
	}
	return uid
}

func TestUserNSOfHasItsOwner(t *testing.T) {
	needRoot(t)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	f, err := UserNSOf(testID, testID, testSignals, testMap(testID), testMap(testID))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if uid := ownerUID(t, f); uid != testID {
		t.Errorf("the namespace is user %d's, not %d's", uid, testID)
	}
	if d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || d != 1 {
		t.Errorf("this process's files in /proc are closed to others now: dumpable %d (%v)", d, err)
	}
	if unix.Geteuid() != 0 || unix.Getegid() != 0 {
		t.Error("this process has another user now")
	}
	got, err := ReadInside(f, []string{"/proc/self/uid_map"}, 256)
	if err != nil {
		t.Fatal(err)
	}
	if m := strings.Join(strings.Fields(got[0].Text), " "); m != strings.TrimSpace(testMap(testID)) {
		t.Errorf("map %q", m)
	}
	// A namespace of root's, to compare with.
	root, err := UserNS(testMap(testID), testMap(testID))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if uid := ownerUID(t, root); uid != 0 {
		t.Errorf("root's namespace is user %d's", uid)
	}
}

// testSignals is how many signals may be pending in a namespace of the tests.
const testSignals = 4096

// TestBecomeKeepsCapabilities: what takes CAP_SYS_ADMIN, as the making of a user
// namespace does on some kernels, is granted to the child.
func TestBecomeKeepsCapabilities(t *testing.T) {
	needRoot(t)
	s := new(script)
	if err := s.become(testID, testID); err != nil {
		t.Fatal(err)
	}
	s.add("making a namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUTS)
	if err := s.run(0, nil); err != nil {
		t.Error(err)
	}
}

// TestUserNSOfLimits: the namespace as a whole is not bound by the limit on
// processes of the process that makes jails.
func TestUserNSOfLimits(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &was); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: 1, Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &low); err != nil {
		t.Fatal(err)
	}
	f, err := UserNSOf(testID, testID, testSignals, testMap(testID), testMap(testID))
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &was); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Processes in it count for its owner as well: three at once.
	cmd := exec.Command("nsenter", "--user=/proc/self/fd/3", "sh", "-c", "echo made | cat | cat")
	cmd.ExtraFiles = []*os.File{f}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "made\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestInside(t *testing.T) {
	needRoot(t)
	f, err := UserNSOf(testID, testID, testSignals, testMap(testID), testMap(testID))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const file = "/proc/sys/user/max_uts_namespaces"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteInside(f, []Setting{{file, "7"}, {"/proc/sys/user/max_net_namespaces", "0"}}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadInside(f, []string{file, "/proc/sys/user/max_net_namespaces"}, 32)
	if err != nil || strings.TrimSpace(got[0].Text) != "7" || strings.TrimSpace(got[1].Text) != "0" {
		t.Errorf("inside: %q (%v)", got, err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the host's own limit was %q and is %q (%v)", before, after, err)
	}
}

// TestCountedNamesTheStep: what fails is named, and nothing is left.
func TestCountedNamesTheStep(t *testing.T) {
	needRoot(t)
	f, err := UserNSOf(testID, testID, testSignals, testMap(testID), testMap(testID))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := os.Open("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	calls := func(calls ...call) error {
		s := &script{calls: calls}
		return s.run(0, nil)
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"unshare":       {calls(call{nr: unix.SYS_UNSHARE, args: [5]uintptr{1}, what: "unshare"}), unix.EINVAL},
		"second":        {calls(call{nr: unix.SYS_GETPID, what: "first"}, call{nr: unix.SYS_CLOSE, args: [5]uintptr{previous}, what: "second"}, call{nr: unix.SYS_GETPID, what: "third", ret: -1}), unix.EBADF},
		"mapping ids":   {second(UserNSOf(testID, testID, testSignals, "bad", "bad")), unix.EINVAL},
		"joining":       {WriteInside(plain, []Setting{{"/proc/sys/user/max_uts_namespaces", "1"}}), unix.EINVAL},
		"opening /none": {WriteInside(f, []Setting{{"/none", "1"}}), unix.ENOENT},
		"writing /proc": {WriteInside(f, []Setting{{"/proc/sys/user/max_uts_namespaces", "x"}}), unix.EINVAL},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), name) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if _, err := syscall.Wait4(-1, nil, unix.WALL|syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("children are left: %v", err)
	}
}

func second(_ *os.File, err error) error { return err }

// TestUserNSOfKilled: where the process is killed in the middle, its children
// come to their end.
func TestUserNSOfKilled(t *testing.T) {
	needRoot(t)
	const inside = "AGENTJAIL_TEST_MAKES"
	if os.Getenv(inside) != "" {
		for range 4 {
			go func() {
				for {
					f, err := UserNSOf(testID, testID, testSignals, testMap(testID), testMap(testID))
					if err != nil {
						fmt.Println("failed:", err)
						return
					}
					f.Close()
					fmt.Println("made")
				}
			}()
		}
		select {}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	for range 5 {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestUserNSOfKilled$")
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 20 && lines.Scan(); n++ {
			if lines.Text() != "made" {
				t.Error(lines.Text())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		// They are ours now, and are waited for until there is none.
		for {
			if _, err := syscall.Wait4(-1, nil, unix.WALL, nil); err == syscall.ECHILD {
				break
			} else if err != nil && err != syscall.EINTR {
				t.Fatal(err)
			}
		}
	}
}

func BenchmarkUserNS(b *testing.B) {
	for name, make := range map[string]func() (*os.File, error){
		"root": func() (*os.File, error) { return UserNS(testMap(testID), testMap(testID)) },
		"own": func() (*os.File, error) {
			return UserNSOf(testID, testID, testSignals, testMap(testID), testMap(testID))
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f, err := make()
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}

func BenchmarkWriteInside(b *testing.B) {
	f, err := UserNSOf(testID, testID, testSignals, testMap(testID), testMap(testID))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var all []Setting
	for _, path := range NestedLimits() {
		all = append(all, Setting{path, "0"})
	}
	for b.Loop() {
		if err := WriteInside(f, all); err != nil {
			b.Fatal(err)
		}
	}
}
