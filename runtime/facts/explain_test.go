package facts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

const explainConfig = `{
	"ociVersion": "1.0.2",
	"process": {"args": ["sh"], "cwd": "/", "user": {"uid": 0, "gid": 0},
		"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}},
	"root": {"path": "rootfs"},
	"mounts": [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}, MOUNTS],
	"linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}]},
	"futureField": {"kept": true}
}`

// explainBundle writes a bundle and returns its directory.
func explainBundle(t *testing.T, mounts string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "rootfs"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(explainConfig, "MOUNTS", mounts, 1)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func explainer(t *testing.T) Gatherer {
	t.Helper()
	if _, err := delegate.Resolve("auto"); err != nil {
		t.Skip(err)
	}
	return Gatherer{Store: state.Store{Root: filepath.Join(t.TempDir(), "state")}, Policy: policy.Default()}
}

func TestExplainChangesNothing(t *testing.T) {
	r := explainer(t)
	dir := explainBundle(t, `{"destination": "/proc", "type": "proc", "source": "proc"}`)
	before, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	mounts := mountsBelow(t, dir)
	x, err := r.Explain(dir)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "config.json")); string(after) != string(before) {
		t.Error("the bundle has changed")
	}
	if _, err := os.Lstat(r.Store.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state was made: %v", err)
	}
	if got := mountsBelow(t, dir); got != mounts {
		t.Errorf("%d mounts below the bundle, %d before", got, mounts)
	}
	if !slices.ContainsFunc(x.Report.Changes, func(c report.Change) bool { return c.Field == "config.json" && c.Was == "futureField" }) {
		t.Errorf("the unknown field is not reported: %+v", x.Report)
	}
	// What create would do: the lost grants are named, and the spec is hardened.
	var lost []string
	for _, c := range x.Report.Of(report.Denied) {
		lost = append(lost, c.Field)
	}
	for _, want := range []string{"linux.namespaces[network]", "process.capabilities", "linux.seccomp"} {
		if !strings.Contains(strings.Join(lost, " "), want) {
			t.Errorf("%s is not among the lost grants %v", want, lost)
		}
	}
	if n := len(x.Result.Spec.Linux.Namespaces); n < 7 {
		t.Errorf("the hardened spec has %d namespaces", n)
	}
}

func TestExplainRefusal(t *testing.T) {
	r := explainer(t)
	x, err := r.Explain(explainBundle(t, `{"destination": "/host", "type": "bind", "source": "/etc", "options": ["rbind"]}`))
	if !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), "/etc") {
		t.Errorf("a bind mount of /etc: %v", err)
	}
	if x.Result != nil || x.Report == nil {
		t.Errorf("a refusal comes with the result %v and the report %v", x.Result, x.Report)
	}
	if _, err := r.Explain(t.TempDir()); err == nil {
		t.Error("an empty directory is explained")
	}
	if _, err := os.Lstat(r.Store.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state was made: %v", err)
	}
}

func TestBundleID(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	for dir, want := range map[string]string{
		"/run/containerd/io.containerd.runtime.v2.task/moby/" + hex:           hex,
		"/var/lib/containers/storage/overlay-containers/" + hex + "/userdata": hex,
		"/srv/bundle":             "bundle",
		"/srv/bundle/":            "bundle",
		"/srv/" + hex[1:]:         hex[1:],
		"/srv/" + hex[1:] + "Z/x": "x",
	} {
		if got := bundleID(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

func mountsBelow(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), dir)
}
