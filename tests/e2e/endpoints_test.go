package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// readsPipe reports a pipe that was opened to read from: in a read-only mount that is left (docs/security/limitations.md).
func readsPipe(path string) bool { return strings.HasSuffix(path, " read") }

// TestHostEndpoints: no jail of Docker's reaches what listens in a mounted directory or a volume of the host's, however it is mounted.
func TestHostEndpoints(t *testing.T) {
	d := d(t)
	dir := engine.Workspace(t, nil)
	listen := engine.ListenIn(t, dir)
	volume := engine.ListenIn(t, newVolume(d, "e2e-endpoints"))
	for mount, l := range map[string]*engine.Endpoints{
		dir + ":/x": listen, dir + ":/x:ro": listen, "e2e-endpoints:/x": volume, "e2e-endpoints:/x:ro": volume,
	} {
		for _, user := range []string{"0:0", "1000:1000"} {
			out := mustRunJail(d, "-u", user, "-v", mount, engine.Busybox, "probe", "endpoints", "/x")
			readOnly := strings.HasSuffix(mount, ":ro") && l == listen
			l.Kept(t, mount+" as "+user, out, func(path string) bool {
				// The tests' Docker has a network namespace of its own: it does not see this process's sockets there.
				return readOnly && readsPipe(path) || strings.Contains(path, "node_modules/")
			})
		}
	}
	out := mustRunJail(d, "-v", dir+":/x", engine.Busybox, "probe", "own-endpoints", "/x", "/tmp", "/var")
	for what, o := range env.Decode[map[string]engine.Outcome](t, out) {
		if o.Errno != "" {
			t.Errorf("a socket of the jail's own: %s: %+v", what, o)
		}
	}
}

// TestVolumesSockets: containers that share a network talk to each other by a socket in a volume that they share, whichever is made first. Others
// need policy's word (binds.sockets).
func TestVolumesSockets(t *testing.T) {
	d := d(t)
	newVolume(d, "e2e-shared-socket")
	server := startJail(d, "-v", "e2e-shared-socket:/v", engine.Busybox, "probe", "echo-server", "/v/s")
	env.Eventually(t, "the server listens", func() bool { return d.Docker("exec", server, "test", "-S", "/v/s").Code == 0 })
	for network, want := range map[string]string{"container:" + server: "", "none": "EACCES"} {
		out := mustRunJail(d, "--network", network, "-v", "e2e-shared-socket:/v", engine.Busybox, "probe", "connect", "unix,/v/s")
		if o := env.Decode[map[string]engine.Outcome](t, out)["unix,/v/s"]; (o.Errno == "") != (want == "") {
			t.Errorf("%s: %+v", network, o)
		}
	}
}

// TestBundlesEndpoints: the same holds of a bundle, read-only and written to, also below a mount of another directory, and its start reports what
// it covered.
func TestBundlesEndpoints(t *testing.T) {
	const id = "e2e-endpoints"
	dir, other := engine.Workspace(t, nil), engine.Workspace(t, map[string]string{"in/": ""})
	listen := engine.ListenIn(t, dir)
	b, c := bare(t, id)
	b.Mount(dir, "/w")
	b.Mount(other, "/o")
	b.Mount(dir, "/o/in")
	b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{Destination: "/r", Type: "bind", Source: dir, Options: []string{"rbind", "ro"}})
	for _, at := range []string{"/w", "/o/in", "/r"} {
		b.Spec.Process.Args = []string{engine.ProbePath, "endpoints", at}
		b.Write(t)
		out, err := b.Run(t, c)
		if err != nil {
			t.Fatalf("%s: %v: %s", at, err, out)
		}
		excused := readsPipe
		if at != "/r" {
			excused = nil
		}
		listen.Kept(t, at, out, excused)
	}
	out, errOut, err := b.Call(t, c, "explain", b.Dir)
	if err != nil || !strings.Contains(out, "sockets and pipes of the host's covered") {
		t.Errorf("explain: %v: %s%s", err, out, errOut)
	}
	if _, err := os.Stat(dir + "/stream"); err != nil {
		t.Error(err)
	}
}
