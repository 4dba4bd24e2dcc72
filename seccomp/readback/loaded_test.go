package readback

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

const childEnv = "AGENTJAIL_TEST_LOADED"

func TestMain(m *testing.M) {
	if n := os.Getenv(childEnv); n != "" {
		loadAndWait(n)
	}
	os.Exit(m.Run())
}

// programs are the filters of the test's child, the oldest first: the first has
// to allow the loading of the second.
func programs() ([][]bpf.Insn, error) {
	a, err := compiler.Program("server", runtime.GOARCH, false)
	if err != nil {
		return nil, err
	}
	b, err := compiler.Program("strict", runtime.GOARCH, false)
	return [][]bpf.Insn{a, b}, err
}

// loadAndWait becomes a cat that has filters and waits for its input's end. A
// Go program's first thread need not be the one that has them.
func loadAndWait(n string) {
	runtime.LockOSThread()
	progs, err := programs()
	if err == nil {
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	for _, p := range progs[:len(n)-1] {
		if err == nil {
			err = bpf.Load(p)
		}
	}
	if err == nil {
		err = unix.Exec("/bin/cat", []string{"cat"}, nil)
	}
	fmt.Println(err)
	os.Exit(1)
}

func TestFilters(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("reading filters takes root")
	}
	all, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), childEnv+"="+"xxx"[:n+1])
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		say := func(text string) {
			t.Helper()
			fmt.Fprintln(in, text)
			if got, err := lines.ReadString('\n'); got != text+"\n" || err != nil {
				t.Fatalf("the child states %q, %v", got, err)
			}
		}
		say("up") // cat runs
		for range 2 {
			got, err := Filters(cmd.Process.Pid)
			if errors.Is(err, errCannot) {
				in.Close()
				_ = cmd.Wait()
				t.Skip(err)
			}
			if err != nil || len(got) != n || !slices.EqualFunc(got, all[:n], slices.Equal[[]bpf.Insn]) {
				t.Errorf("%d filters: read %d, %v", n, len(got), err)
			}
			say("goes on")
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child ended badly: %v", err)
		}
		if _, err := Filters(cmd.Process.Pid); err == nil {
			t.Error("a process that has ended has filters")
		}
	}
}
