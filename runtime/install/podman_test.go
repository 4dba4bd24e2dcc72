package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func podmanOptions(t *testing.T, names ...string) Options {
	t.Helper()
	trustAny(t)
	o := Options{DropIn: filepath.Join(t.TempDir(), "containers.conf.d", "agentjail.conf")}
	for _, n := range names {
		o.Runtimes = append(o.Runtimes, Runtime{n, "/usr/local/bin/" + n})
	}
	return o
}

func applied(t *testing.T, o Options) *Plan {
	t.Helper()
	p, err := NewPlan(Podman, o)
	if err == nil {
		_, err = p.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPodman(t *testing.T) {
	o := podmanOptions(t, "agentjail", "agentjail-strict")
	p := applied(t, o)
	const want = podmanHead + "[engine.runtimes]\nagentjail = [\"/usr/local/bin/agentjail\"]\nagentjail-strict = [\"/usr/local/bin/agentjail-strict\"]\n"
	if text, err := os.ReadFile(o.DropIn); err != nil || string(text) != want {
		t.Errorf("%v: %s", err, text)
	}
	if !strings.Contains(diff(t, p), "--- /dev/null") || !strings.Contains(diff(t, p), "+agentjail = ") {
		t.Errorf("diff: %s", diff(t, p))
	}
	if p := applied(t, o); p.Changed() || diff(t, p) != "" {
		t.Errorf("a second run changes: %s", diff(t, p))
	}
	// One more that is the default, then one less, then none.
	more := o
	more.Runtimes, more.Default = []Runtime{{"agentjail.2", "/opt/agentjail"}}, "agentjail.2"
	p = applied(t, more)
	for _, line := range []string{"+[engine]", "+runtime = \"agentjail.2\"", "+\"agentjail.2\" = [\"/opt/agentjail\"]"} {
		if !strings.Contains(diff(t, p), line) {
			t.Errorf("no %s in %s", line, diff(t, p))
		}
	}
	applied(t, undo(more))
	if text, err := os.ReadFile(o.DropIn); err != nil || string(text) != want {
		t.Errorf("after the removal of one: %v: %s", err, text)
	}
	if p := applied(t, undo(o)); !p.Files[0].Remove || !strings.Contains(diff(t, p), "+++ /dev/null") {
		t.Errorf("the last one's removal: %+v", p)
	}
	if left, err := os.ReadDir(filepath.Dir(o.DropIn)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v, %v", left, err)
	}
	if p := applied(t, undo(o)); p.Changed() {
		t.Error("a second removal changes something")
	}

	// One in which something else is stays.
	other := filepath.Join(filepath.Dir(o.DropIn), "other.conf")
	applied(t, o)
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	applied(t, undo(o))
	if left, err := os.ReadDir(filepath.Dir(o.DropIn)); err != nil || len(left) != 1 {
		t.Errorf("left beside another's file: %v, %v", left, err)
	}
}

func TestPodmanConflicts(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		file, text string // file is relative to the drop-in's directory; "" is the drop-in
		byDefault  string
		forced     error // with Force
	}{
		"leads elsewhere":        {text: podmanHead + "[engine.runtimes]\nagentjail = [\"/elsewhere\"]\n"},
		"somebody's words":       {text: "# mine\n[engine.runtimes]\nagentjail = [\"/usr/local/bin/agentjail\"]\n"},
		"another default":        {file: "../containers.conf", text: "[engine]\nruntime = \"crun\"\n", byDefault: "agentjail"},
		"a default read later":   {file: "zz.conf", text: "[engine]\nruntime = \"crun\"\n", byDefault: "agentjail", forced: errConflict},
		"a default read earlier": {file: "00.conf", text: "[engine]\nruntime = \"crun\"\n", byDefault: "agentjail"},
	} {
		t.Run(name, func(t *testing.T) {
			o := podmanOptions(t, "agentjail")
			o.Default = c.byDefault
			at := o.DropIn
			if c.file != "" {
				at = filepath.Join(filepath.Dir(o.DropIn), c.file)
			}
			write(t, at, c.text)
			if _, err := NewPlan(Podman, o); !errors.Is(err, errConflict) {
				t.Errorf("%v", err)
			}
			o.Force = true
			if _, err := NewPlan(Podman, o); !errors.Is(err, c.forced) {
				t.Errorf("forced: %v", err)
			}
		})
	}
	o := podmanOptions(t, "agentjail")
	write(t, o.DropIn, "[engine\n")
	if _, err := NewPlan(Podman, o); err == nil {
		t.Error("a broken file is taken")
	}
	o = podmanOptions(t, "crun")
	if _, err := NewPlan(Podman, o); err == nil || !strings.Contains(err.Error(), "Podman's own") {
		t.Errorf("podman's own name: %v", err)
	}
}
