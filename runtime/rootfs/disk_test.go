package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/env"
)

// onDisk makes a request one for a layer on disk.
func onDisk(t *testing.T, r *Request) *Request {
	t.Helper()
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "agentjail-disk-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	var fs unix.Statfs_t
	if must(t, unix.Statfs(dir, &fs)); int64(fs.Type) == unix.TMPFS_MAGIC {
		t.Skip("/var/tmp is in memory")
	}
	r.Workspaces = workspace.Store{Dir: filepath.Join(dir, "w")}
	r.Plan.Root = policy.Root{Backing: policy.RootDisk, Size: 1, Disk: 32 << 20, Inodes: 1999}
	return r
}

// boundBelow reports whether a loop device is bound to a file below a directory, with a name or
// without.
func boundBelow(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	must(t, err)
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), dir+"/") {
			return true
		}
	}
	return false
}

// TestLayerOnDisk: a layer on disk has policy's size and number of files, shows the image, takes what is written, ends with ENOSPC, and is
// gone with its last mount.
func TestLayerOnDisk(t *testing.T) {
	var store string
	t.Run("jail", func(t *testing.T) { layerOnDisk(t, &store) })
	env.Eventually(t, "the end of the loop device", func() bool { return !boundBelow(t, store) })
}

func layerOnDisk(t *testing.T, store *string) {
	onThread(t, func(t *testing.T) {
		image := t.TempDir()
		put(t, image, "etc/passwd", "tmp/:0:1777")
		r := onDisk(t, request(t, image))
		*store = r.Workspaces.Dir
		st := staged(t, r)
		root := r.Spec.Root.Path
		var fs unix.Statfs_t
		must(t, unix.Statfs(root, &fs))
		if size := int64(fs.Blocks) * fs.Bsize; size > 32<<20 || size < 28<<20 {
			t.Errorf("%d bytes", size)
		}
		if fs.Files > 1999 || fs.Files < 1900 {
			t.Errorf("%d files", fs.Files)
		}
		if !boundBelow(t, *store) {
			t.Error("no loop device is bound to the layer")
		}
		if left, err := os.ReadDir(*store); err != nil || len(left) != 1 || !strings.HasPrefix(left[0].Name(), ".template-root-") {
			t.Errorf("in the store: %v, %v", left, err)
		}
		as(t, base, base, func() {
			must(t, os.WriteFile(root+"/etc/passwd", []byte("changed"), 0o644))
			must(t, os.WriteFile(root+"/tmp/new", []byte("new"), 0o644))
		})
		want(t, "the image's file", content(t, image+"/etc/passwd"), "etc/passwd")
		must(t, AttachChanges(st.Changes, r.Dir))
		defer func() { must(t, DetachChanges(r.Dir)) }()
		layer, err := OpenChanges(r.Dir)
		must(t, err)
		defer layer.Close()
		if _, err := nextInode(layer); err == nil {
			t.Error("files on disk are numbered in order")
		}
		f, err := os.Create(root + "/tmp/large")
		must(t, err)
		defer f.Close()
		written := 0
		for buf := make([]byte, 1<<20); written < 40; written++ {
			if _, err = f.Write(buf); err != nil {
				break
			}
		}
		if !strings.Contains(err.Error(), "no space left") || written < 24 {
			t.Errorf("after %d MiB: %v", written, err)
		}
	})
}
