package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// policyPath is the host's policy.
const policyPath = "/etc/agentjail/config.toml"

// ownPolicyEnv is set in a test program that OwnPolicy has started again: to "made" where the
// directory of the policy was not there before.
const ownPolicyEnv = "AGENTJAIL_TEST_OWN_POLICY"

// OwnPolicy has a test program and all that it starts see text as the host's policy, and nothing
// else of the host's does: it executes the program again in a mount namespace of its own. The
// first thing of a TestMain after IfJanitor.
func OwnPolicy(text string) error {
	if os.Getenv(ownPolicyEnv) != "" || os.Geteuid() != 0 {
		return nil
	}
	runtime.LockOSThread() // for good: the thread that executes is in the namespace
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts from the machine: %w", err)
	}
	dir, found := filepath.Dir(policyPath), "found"
	if err := os.Mkdir(dir, 0o755); err == nil {
		found = "made"
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := os.WriteFile(policyPath, []byte(text), 0o644); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), ownPolicyEnv+"="+found))
}

// DropPolicy is the end of OwnPolicy.
func DropPolicy() error {
	if os.Getenv(ownPolicyEnv) != "made" {
		return nil
	}
	dir := filepath.Dir(policyPath)
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, os.ErrNotExist) {
		return err // in use by others means that it stays
	}
	return nil
}
