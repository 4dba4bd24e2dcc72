package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/hack/selinux"
)

// The recipe of the guest's root file system. A change in any of these makes a new one.
var (
	//go:embed root.sh
	rootScript []byte
	//go:embed guest/early
	earlyScript []byte
)

// guestFiles are what root.sh leaves in its directory.
var guestFiles = []string{"root.img", "vmlinuz", "initrd", "versions"}

// ensureRoot returns the directory with the guest's root file system, kernel and initial RAM disk.
// They are made once for each version of the recipe; a second caller, also in another process,
// waits for the first. Those of other versions are removed.
func ensureRoot(ctx context.Context, cache string) (string, error) {
	h := sha256.New()
	for _, part := range [][]byte{rootScript, earlyScript, selinux.Module} {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	dir := filepath.Join(cache, "root-"+hex.EncodeToString(h.Sum(nil)[:8]))
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// One lock for all versions: removing and making must not meet either.
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		logf("waiting for another process that uses %s", cache)
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
	}
	if !complete(dir) {
		if err := buildRoot(ctx, dir); err != nil {
			return "", err
		}
	}
	old, _ := filepath.Glob(filepath.Join(cache, "root-*"))
	for _, o := range old {
		if o != dir {
			_ = os.RemoveAll(o) // a machine that still runs from it keeps the open files
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "versions")); err == nil {
		logf("the guest has %s", strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", "))
	}
	return dir, nil
}

func complete(dir string) bool {
	for _, name := range guestFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// buildRoot runs the recipe. The scripts come from this program, so that what was hashed is what is
// run.
func buildRoot(ctx context.Context, dir string) error {
	logf("making the guest's root file system (minutes, once): %s", dir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	scripts, err := os.MkdirTemp("", "agentjail-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scripts)
	if err := os.Mkdir(filepath.Join(scripts, "guest"), 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"root.sh": rootScript, "guest/early": earlyScript, "guest/agentjail.cil": selinux.Module} {
		if err := os.WriteFile(filepath.Join(scripts, name), text, 0o755); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(scripts, "root.sh"), dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The caller's directory for temporary files does not exist below the new root.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") })
	// SIGTERM, so that the script takes its mounts down.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make the guest's root file system: %w", err)
	}
	if !complete(dir) {
		return fmt.Errorf("%s is incomplete", dir)
	}
	return nil
}
