package changes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
)

// ids are a jail's; base is its root on the host.
var (
	ids     = policy.Default().Userns.Block(7)
	base, _ = ids.HostUID(0)
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// overlay makes an image of two layers with an ephemeral layer over them, and returns the layers, the upper one and the
// merged directory.
func overlay(t *testing.T) (layers []*os.File, upper, merged *os.File) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
	top := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Open(filepath.Join(top, name))
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	for _, d := range []string{"low/etc", "low/old", "low/gone", "mid/etc", "tmp", "merged"} {
		must(t, os.MkdirAll(filepath.Join(top, d), 0o755))
	}
	for _, f := range []string{"low/etc/passwd", "low/etc/shadow", "low/old/file", "low/gone/file", "low/hidden", "mid/etc/hosts"} {
		must(t, os.WriteFile(filepath.Join(top, f), []byte(f), 0o644))
	}
	must(t, unix.Mknod(filepath.Join(top, "mid/hidden"), unix.S_IFCHR, 0))
	must(t, unix.Mount("none", filepath.Join(top, "tmp"), "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(top, "tmp"), unix.MNT_DETACH) })
	must(t, os.Mkdir(filepath.Join(top, "tmp/upper"), 0o755))
	must(t, os.Mkdir(filepath.Join(top, "tmp/work"), 0o755))
	opts := fmt.Sprintf("index=off,lowerdir=%s/mid:%s/low,upperdir=%s/tmp/upper,workdir=%s/tmp/work", top, top, top, top)
	must(t, unix.Mount("none", filepath.Join(top, "merged"), "overlay", 0, opts))
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(top, "merged"), unix.MNT_DETACH) })
	return []*os.File{open("mid"), open("low")}, open("tmp/upper"), open("merged")
}

// change does in the merged directory what a jail does.
func change(t *testing.T, dir string) {
	t.Helper()
	must(t, os.WriteFile(dir+"/etc/passwd", []byte("changed"), 0o644))
	must(t, os.WriteFile(dir+"/etc/new", []byte("replaced"), 0o644))
	must(t, os.Rename(dir+"/etc/new", dir+"/etc/hosts"))
	must(t, os.Remove(dir+"/etc/shadow"))
	must(t, os.RemoveAll(dir+"/gone"))
	must(t, os.RemoveAll(dir+"/old"))
	must(t, os.Mkdir(dir+"/old", 0o755))
	must(t, os.WriteFile(dir+"/old/new", nil, 0o600))
	must(t, os.WriteFile(dir+"/hidden", nil, 0o600)) // removed by the image's second layer
	must(t, os.Symlink("/etc", dir+"/link"))
	must(t, os.Link(dir+"/etc/hosts", dir+"/again"))
	must(t, unix.Mkfifo(dir+"/pipe", 0o600))
}

// TestList: what was made, changed, replaced and removed.
func TestList(t *testing.T) {
	layers, upper, merged := overlay(t)
	change(t, merged.Name())
	list := func(below Below) string {
		got, err := list(t.Context(), upper, below, time.Time{})
		must(t, err)
		var out []string
		for _, c := range got {
			out = append(out, c.Kind+c.Path)
		}
		slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[1:], b[1:]) })
		return strings.Join(out, " ")
	}
	want := "A/again C/etc C/etc/hosts C/etc/passwd D/etc/shadow D/gone A/hidden A/link C/old A/old/new A/pipe"
	if got := list(layersBelow(layers)); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	// Without the layers, what was replaced counts as made.
	if got := list(ByOrigin(upper)); !strings.Contains(got, "C/etc/passwd") || !strings.Contains(got, "A/etc/hosts") || !strings.Contains(got, "A/old/new") {
		t.Errorf("by origin: %s", got)
	}
}

// TestListEnds: it stops when its caller cancels.
func TestListEnds(t *testing.T) {
	_, upper, merged := overlay(t)
	change(t, merged.Name())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := list(ctx, upper, func(string) bool { return false }, time.Time{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestExport: an archive has the jail's owners, files of several names once, and nothing of what links lead to.
func TestExport(t *testing.T) {
	_, _, merged := overlay(t)
	dir := merged.Name()
	change(t, dir)
	for name, id := range map[string]uint32{"etc/passwd": 0, "etc/hosts": 0, "old/new": 1000, "link": 1000} {
		must(t, os.Lchown(filepath.Join(dir, name), int(base+id), int(base+id)))
	}
	big, err := os.Create(dir + "/sparse")
	must(t, err)
	must(t, big.Truncate(8<<30))
	big.Close()
	var out bytes.Buffer
	var left []string
	must(t, export(t.Context(), &out, merged, ids, func(path, _ string) { left = append(left, path) }))
	got := map[string]*tar.Header{}
	r := tar.NewReader(&out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		got[h.Name] = h
		if text, err := io.ReadAll(r); err != nil || h.Name == "again" && string(text) != "replaced" {
			t.Errorf("%s: %q %v", h.Name, text, err)
		}
	}
	for name, want := range map[string]string{
		"again": "0 0:0", "etc/passwd": "0 0:0", "etc/hosts": "1 0:0", "old/new": "0 1000:1000", "link": "2 1000:1000", "pipe": "6 65534:65534", "etc/": "5 65534:65534",
	} {
		h := got[name]
		if h == nil || fmt.Sprintf("%c %d:%d", h.Typeflag, h.Uid, h.Gid) != want {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if h := got["etc/hosts"]; h != nil && h.Linkname != "again" {
		t.Errorf("the second name: %+v", h)
	}
	if got["etc/shadow"] != nil || got["link"].Linkname != "/etc" {
		t.Error("what was removed, or the link")
	}
	if !slices.Equal(left, []string{"sparse"}) {
		t.Errorf("left out: %q", left)
	}
}
