package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// userID is the user, and the group, that workspaces belong to.
const userID = 1000

// Workspace makes a directory of an ordinary user's in /tmp, with files as FillWorkspace makes them. It is removed with the test.
func Workspace(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := TempDir(t, "/tmp", "agentjail-workspace-")
	env.Check(t, FillWorkspace(dir, files))
	return dir
}

// FillWorkspace has a directory belong to the user, and makes files of the user's in it by their names, with the directories above them. A name that
// ends with a slash is a directory.
func FillWorkspace(dir string, files map[string]string) error {
	dir = filepath.Clean(dir)
	err := os.Chown(dir, userID, userID)
	for name, text := range files {
		at := filepath.Join(dir, name)
		above := filepath.Dir(at)
		if strings.HasSuffix(name, "/") {
			above = at
		}
		err = errors.Join(err, os.MkdirAll(above, 0o755))
		if above != at {
			err = errors.Join(err, os.WriteFile(at, []byte(text), 0o644))
		}
		for ; at != dir; at = filepath.Dir(at) {
			err = errors.Join(err, os.Chown(at, userID, userID))
		}
	}
	return err
}

// Repository is what makes a directory a git repository: its files, for a workspace.
func Repository() map[string]string {
	return map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n", ".git/hooks/": "", ".git/objects/": "", ".git/refs/": ""}
}
