package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// planted writes, in a jail, programs of the names by which an engine unpacks archives. Each reports that it ran.
const planted = `for d in /bin /usr/bin /usr/local/bin /sbin /usr/sbin; do mkdir -p $d; for p in xz unpigz gunzip gzip bzip2 zstd unxz tar; do
	[ -e $d/$p ] && rm $d/$p; printf '#!/bin/busybox sh\necho $0 >> /ran\ncat /proc/self/uid_map >> /ran\n' > $d/$p; chmod 755 $d/$p; done; done`

// TestCopyRunsNothing: an engine that unpacks an archive into a jail runs no program of the jail's. dockerd before 29.5.1
// does, as host root (CVE-2026-41567): there the copy fails.
func TestCopyRunsNothing(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	sh(d, id, planted)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	text := []byte("copied\n")
	env.Check(t, w.WriteHeader(&tar.Header{Name: "copied", Mode: 0o644, Size: int64(len(text))}))
	_, _ = w.Write(text)
	env.Check(t, w.Close())
	for _, pack := range [][]string{{"xz", "-c"}, {"gzip", "-c"}, {"bzip2", "-c"}, {"zstd", "-c"}} {
		if _, err := exec.LookPath(pack[0]); err != nil {
			continue
		}
		cmd := exec.Command(pack[0], pack[1:]...)
		cmd.Stdin = bytes.NewReader(archive.Bytes())
		packed := env.Get(t, cmd.Output)
		dir := "/tmp/" + pack[0]
		sh(d, id, "mkdir "+dir)
		r := d.DockerIn(bytes.NewReader(packed), "cp", "-", id+":"+dir)
		t.Logf("docker cp of what %s packed: exit code %d %s", pack[0], r.Code, strings.TrimSpace(r.Stderr))
		if r.Code == 0 {
			env.Equal(t, "what was copied", sh(d, id, "cat "+dir+"/copied"), "copied")
		}
	}
	if ran := sh(d, id, "cat /ran 2>/dev/null || true"); ran != "" {
		t.Errorf("programs of the jail ran on the host:\n%s", ran)
	}
	// Whatever an engine tries to execute there, the kernel refuses.
	merged := engineView(d, id)
	if options := mountOptions(t, merged); !strings.Contains(","+options+",", ",noexec,") {
		t.Errorf("the engine's view of the root is %s: %s", merged, options)
	}
	env.Equal(t, "the jail still runs its programs", sh(d, id, "/usr/bin/env echo yes"), "yes")
}

// engineView is where the engine has a container's root on the host: dockerd's own store reports it, containerd's has a fixed place.
func engineView(d *engine.T, id string) string {
	d.Helper()
	if e := d.Edition(); e.Newest && !e.Overlay2 {
		found, err := filepath.Glob(filepath.Join(d.Dir, "docker/rootfs/*", id))
		if err != nil || len(found) != 1 {
			d.Fatalf("roots of %s: %q, %v", id, found, err)
		}
		return found[0]
	}
	return d.Must("inspect", "--format", "{{.GraphDriver.Data.MergedDir}}", id)
}

// mountOptions are those of the last mount at a place on the host (proc_pid_mountinfo(5)).
func mountOptions(t *testing.T, at string) string {
	t.Helper()
	options := ""
	for line := range strings.Lines(string(env.Read(t, "/proc/self/mountinfo"))) {
		if f := strings.Fields(line); len(f) > 5 && f[4] == at {
			options = f[5]
		}
	}
	return options
}

// TestEngineLinks: with root.engine_links = false the engine follows no link in its view.
func TestEngineLinks(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	for name, follows := range map[string]bool{engine.Name: true, "agentjail-no-links": false} {
		id := d.Detached("--runtime="+name, engine.Busybox, "sleep", "3600")
		sh(d, id, "mkdir /real; echo there > /real/file; ln -s real /link; echo in > /tmp/plain")
		merged := engineView(d, id)
		if _, err := exec.Command("cat", fmt.Sprintf("%s/tmp/plain", merged)).Output(); err != nil {
			t.Errorf("%s: a plain file: %v", name, err)
		}
		_, err := exec.Command("ls", merged+"/link/").Output()
		if (err == nil) != follows {
			t.Errorf("%s: following a link: %v", name, err)
		}
		env.Equal(t, "the jail follows its links", sh(d, id, "cat /link/file"), "there")
	}
}
