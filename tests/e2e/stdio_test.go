package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// byItself is a directory for a runtime that is called without an engine, which a jail's user can pass through, and the
// runtime under test.
func byItself(t *testing.T) (dir, runtime string) {
	t.Helper()
	return engine.TempDir(t, "/var/tmp", "agentjail-stdio-"), env.Get(t, engine.UnderTest)
}

// The devices and files that a jail gets as its standard files belong to whom they belonged to: with /dev/null, a jail
// could else take from every program of the host what it writes to. The null device here is the test's own.
func TestStandardFilesKeepTheirOwners(t *testing.T) {
	base, path := byItself(t)
	null, file := filepath.Join(base, "null"), filepath.Join(base, "file")
	env.Check(t, unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	stdin, err := os.OpenFile(null, os.O_RDWR, 0)
	if err != nil {
		t.Skip("no devices in ", base, ": ", err)
	}
	defer stdin.Close()
	stdout, err := os.Create(file)
	env.Check(t, err)
	defer stdout.Close()
	b := engine.NewBundle(t, base)
	b.Spec.Process.Args = []string{"sh", "-c", "cat; echo sent; echo lost >&2"}
	b.Write(t)
	cmd := b.Command(t.Context(), engine.Caller{Path: path, Args: []string{"--root", filepath.Join(base, "state")}}, "run", "--bundle", b.Dir, b.ID())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stdin
	env.Check(t, cmd.Run())
	if text, err := os.ReadFile(file); err != nil || string(text) != "sent\n" {
		t.Errorf("the jail printed %q, %v", text, err)
	}
	for _, p := range []string{null, file} {
		fi, err := os.Stat(p)
		env.Check(t, err)
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != 0 || st.Gid != 0 {
			t.Errorf("%s belongs to %d:%d now", filepath.Base(p), st.Uid, st.Gid)
		}
	}
}

// What a program writes to its terminal arrives in a pipe as it wrote it, with no carriage returns added.
func TestTerminalIntoPipe(t *testing.T) {
	base, path := byItself(t)
	b := engine.NewBundle(t, base)
	b.Spec.Process.Terminal = true
	b.Spec.Process.Args = []string{"sh", "-c", `tty; printf 'one\ntwo\n'`}
	b.Write(t)
	out := filepath.Join(base, "out")
	term := engine.OnTerminal(t, 24, 80, exec.CommandContext(t.Context(), "sh", "-c", `"$0" "$@" | cat >`+out, path, "--root", filepath.Join(base, "state"), "run", "--bundle", b.Dir, b.ID()))
	if code := term.Wait(); code != 0 {
		t.Fatalf("exit code %d: %s", code, term.Said())
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "/dev/pts/0\none\ntwo\n" {
		t.Errorf("%q, %v", got, err)
	}
}
