package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// imageWith is an image of busybox with changes as of a Dockerfile, removed with the test.
func imageWith(d *engine.T, name string, changes ...string) string {
	d.Helper()
	args := []string{"commit"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	d.Must(append(args, d.Created(engine.Busybox, "true"), name)...)
	d.Cleanup(func() { d.Docker("rmi", "-f", name) })
	return name
}

// TestLabelHolds: a label that requests a tighter jail counts whatever else the container is started with, and whatever its image is.
func TestLabelHolds(t *testing.T) {
	needAgentjail(t)
	engine.NeedsViews(t)
	d := d(t)
	dir := directory(t, 1000)
	t.Cleanup(func() { discard(t, dir) })
	large := filepath.Join(t.TempDir(), "labels")
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "l%d=%s\n", i, strings.Repeat("<", 1000)) // 18 MB of the record
	}
	env.Check(t, os.WriteFile(large, []byte(text.String()), 0o600))
	other := d.Detached("--runtime=agentjail-review", engine.Busybox, "sleep", "3600")
	const covered = "e2e-labels-covered" // by directories, which docker's own files do not replace
	env.Check(t, d.ImportBusyboxWith(covered, map[string]string{"/etc/hosts/x": "", "/etc/hostname/x": "", "/etc/resolv.conf/x": ""}, nil,
		`VOLUME ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"]`))
	t.Cleanup(func() { d.Docker("rmi", "-f", covered) })
	for name, args := range map[string][]string{
		"another's network": {"--network", "container:" + other, engine.Busybox},
		"a large record":    {"--label-file", large, engine.Busybox},
		"covered files":     {covered},
	} {
		args = append([]string{"run", "--rm", "--runtime=agentjail-review", "--label", "dev.agentjail.workspace=review", "-v", dir + ":/w"}, args...)
		d.Must(append(args, "sh", "-c", "echo x >/w/new")...)
		if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
			t.Errorf("%s: the container wrote into the directory itself", name)
			env.Check(t, os.Remove(filepath.Join(dir, "new")))
		}
		if viewOf(t, dir) == nil {
			t.Errorf("%s: there is no view", name)
		}
		discard(t, dir)
	}
	r := d.Docker("run", "--rm", "--runtime=agentjail-review", "--label", "dev.agentjail.limits.pids=50", "--label", "dev.agentjail.unknown=1", "--network",
		"container:"+other, engine.Busybox, "true")
	if r.Code == 0 || !strings.Contains(r.Stderr, "unknown annotation") {
		t.Errorf("an invalid label: %s", r)
	}
}

// TestImageLabelPublishes: an image's label opens no port, and the same label of the container's caller does.
func TestImageLabelPublishes(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const label = "dev.agentjail.network.publish"
	image := imageWith(d, "e2e-labels-publish", "LABEL "+label+"=17001:7000")
	start := func(args ...string) (report string) {
		t.Helper()
		id := d.Detached(append(append([]string{"--runtime=agentjail-ports"}, args...), "probe", "echo-server", "0.0.0.0:7000")...)
		env.Eventually(t, "the server", func() bool { return strings.Contains(d.Must("logs", id), "listening") })
		return reportOf(t, id)
	}
	const why = "the image has it"
	report := start(image)
	env.Contain(t, "the report", report, why)
	if err := echoed(d, "127.0.0.1:17001"); err == nil {
		t.Error("the image's label opened a port")
	}
	report = start("--label", label+"=17002:7000", image)
	if strings.Contains(report, why) {
		t.Errorf("the caller's label is taken for the image's:\n%s", report)
	}
	if d.Edition().Newest { // the helper of an older one listens in Docker's network
		env.Check(t, echoed(d, "127.0.0.1:17002"))
	}
}
