package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/engine"
)

// Layers on disk.
const (
	jailedDisk   kind = "agentjail, root on disk"         // jailedDocker with its root's layer on disk
	jailedDirect kind = "agentjail, a mounted repository" // jailedDocker with a directory that it writes to
	jailedView   kind = "agentjail, a view"               // the same directory as a view
)

// diskPairs are about layers on disk: against a root in memory, and a directory that is written to.
var diskPairs = []pair{
	{"disk", "create to delete, root on disk against memory", side{kind: jailedDisk}, side{kind: jailedDocker}, nil, 0},
	{"disk", "create to delete, a view against the directory", side{kind: jailedView}, side{kind: jailedDirect}, nil, 0},
	{"disk-start", "create and start, root on disk against memory", side{kind: jailedDisk}, side{kind: jailedDocker}, nil, 0},
	{"disk-start", "create and start, a view against the directory", side{kind: jailedView}, side{kind: jailedDirect}, atMost(1.10, "at most 1.10"), 0},
}

// disk measures lives of jails with layers on disk, of the sizes that policy has by default.
func (b *bench) disk(ctx context.Context) error {
	if err := b.reachable(); err != nil {
		return err
	}
	if err := workspace.CheckHost(); err != nil {
		b.res.leftOut("layers on disk", err)
		return nil
	}
	repo, err := b.repository("life")
	if err != nil {
		return err
	}
	mounted := withWork(repo)
	return reaping(func() error {
		subjects, err := b.lives(withChange{jailedDocker, nil}, withChange{jailedDisk, nil}, withChange{jailedDirect, mounted}, withChange{jailedView, mounted})
		if err != nil {
			return err
		}
		if err := b.interleave(ctx, "disk", b.rounds, subjects, (*subject).lifecycle); err != nil {
			return err
		}
		return b.interleave(ctx, "disk-start", b.rounds, subjects, (*subject).startOnly)
	})
}

// withWork mounts a directory at /work, to be written to.
func withWork(dir string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/work", Type: "bind", Source: dir, Options: []string{"rbind", "rw"}})
	}
}

// repository makes a directory of an ordinary user's with the paths of a repository that are
// protected in it.
func (b *bench) repository(name string) (string, error) {
	dir := filepath.Join(cmp.Or(b.repositories, filepath.Dir(b.e.Dir)), filepath.Base(b.e.Dir)+"-"+name)
	for _, d := range []string{"", ".git", ".git/hooks", ".git/info", ".git/objects", ".git/refs", "src"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	for name, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n", "src/main.go": "package main\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	b.cleanup = append(b.cleanup, func() error { return os.RemoveAll(dir) })
	return dir, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 1000, 1000)
	})
}

// policyOf writes the policy of a kind of subject; "" for one that needs none.
func policyOf(k kind) (string, error) {
	text, ok := map[kind]string{
		jailedDisk:  "root.backing = \"disk\"\n",
		jailedView:  "workspace.review = [\"/**\"]\n",
		jailedNames: fmt.Sprintf("[network]\nmode = \"names\"\nallow = [\"%s:%d,%d,%d\"]\n", serverName, greetPort, sendPort, receivePort),
	}[k]
	if !ok {
		return "", nil
	}
	bin, err := engine.BinDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(bin, strings.ReplaceAll(string(k), " ", "-")+".toml")
	return path, os.WriteFile(path, []byte(text), 0o644)
}
