package guest_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

// stackEnv makes this test's program load filters of its own and print how many
// instructions of them the kernel took.
const stackEnv = "AGENTJAIL_TEST_STACK"

// ownInstructions is what each of these filters counts for in the kernel, and
// mostFilters how many are tried: a kernel must not free very many at once.
const (
	ownInstructions = 1024
	mostFilters     = 32
)

func stackFilters() {
	runtime.LockOSThread()
	prog := make([]bpf.Insn, ownInstructions-3-2-4)
	for i := range prog {
		prog[i] = bpf.Insn{Code: unix.BPF_JMP | unix.BPF_JA}
	}
	ret := bpf.Insn{Code: unix.BPF_RET | unix.BPF_K, K: bpf.RetAllow}
	prog[0], prog[len(prog)-1] = ret, ret
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	n := 0
	for ; err == nil && n < mostFilters; n++ {
		if err = bpf.Load(prog); err != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, unix.ENOMEM) {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(n * ownInstructions)
	os.Exit(0)
}

// TestPadding: a program has about as many instructions for filters of its own
// as the orders leave it, and without padding all that the kernel takes.
func TestPadding(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the step loads filters here without no_new_privs, which takes root")
	}
	server, err := compiler.Program("server", runtime.GOARCH, false)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(stackEnv, "1")
	for leave, want := range map[uint32][2]int{0: {28 << 10, 32 << 10}, 4096: {4096, 6144}, 8192: {8192, 10240}} {
		o := jailinit.Orders{Without: all, Filter: bpf.Encode(server), LeaveFilters: leave}
		out, code := run(t, o.Encode(), "", nil, self)
		if n, err := strconv.Atoi(out); err != nil || code != 0 || n < want[0] || n > want[1] {
			t.Errorf("leaving %d: status %d, %q instructions of its own; want %d to %d", leave, code, out, want[0], want[1])
		}
	}
}
