package wall

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/ebpf"
	"agentjail.dev/runtime/ebpf/hasher"
	"agentjail.dev/runtime/journal"
	"agentjail.dev/tests/engine"
)

// TestHash: programs of the image that a jail executes are reported with the hash of their file; of what was changed since the jail was made it
// is said what it held when it was read, and of others why there is no hash.
func TestHash(t *testing.T) {
	can, _ := needsPrograms(t)
	p := newPlace(t)
	b := p.bundle(t)
	b.Mount(p.workspace(t), "/work")
	layered(t, b)
	// Again and again: of one that has ended when it is looked for, and while the hasher is late, there is no hash.
	const script = `
printf x >>/bin/busybox-touched && mkdir /written && cp /bin/busybox /written/busybox-own && cp /bin/busybox /work/busybox-built &&
cp /bin/busybox /work/busybox-large && truncate -s 300M /work/busybox-large &&
printf '#!/bin/busybox sh\nsleep 1\n' >/work/script && chmod +x /work/script && cd /work || exit
until read -r -t 1 end; do
	/bin/busybox true; /bin/busybox-linked true; /bin/busybox-upper true; /bin/busybox-touched true
	/written/busybox-own sleep 1; ./busybox-built sleep 1; /work/busybox-large true; /work/script
done
rm /work/busybox-large
`
	image, err := os.ReadFile(filepath.Join(b.Rootfs, "bin/busybox"))
	if err != nil {
		t.Fatal(err)
	}
	want := hashOf(image)
	c := p.collect(t, "--no-pins", "--hash")
	hashers(t, c)
	end := stays(t, b, p.caller(p.runtime(t), ""), script)
	rows := []struct{ path, hash, fact string }{
		{"/bin/busybox", want, ""},
		{"/bin/busybox-linked", want, ""},
		{"/bin/busybox-upper", want, ""},
		{"/bin/busybox-touched", "", "contents=" + hashOf(append(image, 'x'))},
		{"/written/busybox-own", "", "contents=" + want},
		{"/work/busybox-built", "", "contents=" + want},
		{"/work/busybox-large", "", "unhashed=too-large"},
		{"/work/script", "", "contents=" + hashOf([]byte("#!/bin/busybox sh\nsleep 1\n"))},
	}
	if can != ebpf.Blocks {
		rows = rows[:len(rows)-1] // of a script, its interpreter is reported
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.path[1:], "/", "_"), func(t *testing.T) {
			var e *journal.Event
			c.await(t, "an event of "+row.path, func() bool {
				e = c.find(func(e *journal.Event) bool {
					return (e.Kind == "process.exec" || e.Kind == "process.written") && filepath.Base(e.Path) == filepath.Base(row.path) && e.Jail != "" &&
						!slices.Contains(e.Facts, "unhashed=late") && !slices.Contains(e.Facts, "unhashed=gone")
				})
				return e != nil
			})
			if e.Hash != row.hash || row.fact == "" != (len(e.Facts) == 0) || row.fact != "" && !slices.Contains(e.Facts, row.fact) {
				t.Errorf("hash %q and %q, not %q and %q", e.Hash, e.Facts, row.hash, row.fact)
			}
		})
	}
	if out, err := end(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// layered makes the bundle's root of two layers, as engines do, the upper of which has programs more.
func layered(t *testing.T, b *engine.Bundle) {
	t.Helper()
	base := filepath.Join(b.Dir, "layers")
	lower, upper := filepath.Join(base, "1"), filepath.Join(base, "2")
	busybox, err := os.ReadFile(filepath.Join(b.Rootfs, "bin/busybox"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Mkdir(base, 0o755), os.Rename(b.Rootfs, lower), os.MkdirAll(filepath.Join(upper, "bin"), 0o755), os.Mkdir(filepath.Join(base, "own"), 0o755),
		os.Mkdir(filepath.Join(base, "work"), 0o755), os.Mkdir(b.Rootfs, 0o755),
		os.WriteFile(filepath.Join(upper, "bin/busybox-upper"), busybox, 0o755),
		os.WriteFile(filepath.Join(upper, "bin/busybox-touched"), busybox, 0o755),
		os.Link(filepath.Join(lower, "bin/busybox"), filepath.Join(lower, "bin/busybox-linked")),
		unix.Mount("overlay", b.Rootfs, "overlay", 0, "lowerdir="+upper+":"+lower+",upperdir="+base+"/own,workdir="+base+"/work"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(b.Rootfs, unix.MNT_DETACH) })
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// hashers: the process that hashes has an id of its own, the two capabilities that it takes, and a filter.
func hashers(t *testing.T, c *collector) {
	t.Helper()
	want := []string{"CapEff:\t0000000000080004", "NoNewPrivs:\t1", "Seccomp:\t2"}
	confined := func() (status string, ok bool) {
		found := childrenOf(t, c.cmd.Process.Pid, hasher.Verb)
		for _, pid := range found {
			text, _ := os.ReadFile("/proc/" + itoa(pid) + "/status")
			status = string(text)
		}
		return status, len(found) == 1 && !slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(status, s) })
	}
	status, ok := confined()
	for end := time.Now().Add(engine.Patience); !ok && time.Now().Before(end); status, ok = confined() {
		time.Sleep(10 * time.Millisecond) // a pause between questions: it becomes so after it was started
	}
	if !ok || strings.Contains(status, "\nUid:\t0") {
		t.Fatalf("no hasher, or not just one, has %q and is not root; the last that was seen:\n%s", want, status)
	}
}
