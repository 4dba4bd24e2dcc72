package engine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownMountsEnv is set in a test program that InOwnMounts has started again.
const ownMountsEnv = "AGENTJAIL_TEST_OWN_MOUNTS"

// InOwnMounts returns in a mount namespace of the test program's own: elsewhere it runs the program again in one, and exits with its
// status.
func InOwnMounts() {
	if os.Getenv(ownMountsEnv) != "" {
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), ownMountsEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}
