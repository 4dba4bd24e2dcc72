package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func podmanOptions(t *testing.T, names ...string) PodmanOptions {
	t.Helper()
	old := checkBinary
	checkBinary = func(string) error { return nil }
	t.Cleanup(func() { checkBinary = old })
	o := PodmanOptions{Config: filepath.Join(t.TempDir(), "containers.conf.d", "agentjail.conf")}
	for _, n := range names {
		o.Runtimes = append(o.Runtimes, Runtime{n, "/usr/local/bin/" + n})
	}
	return o
}

func applied(t *testing.T, plan func(PodmanOptions) (*PodmanPlan, error), o PodmanOptions) *PodmanPlan {
	t.Helper()
	p, err := plan(o)
	if err == nil {
		err = p.Apply()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPodman(t *testing.T) {
	o := podmanOptions(t, "agentjail", "agentjail-strict")
	p := applied(t, Podman, o)
	const want = podmanHead + "[engine.runtimes]\nagentjail = [\"/usr/local/bin/agentjail\"]\nagentjail-strict = [\"/usr/local/bin/agentjail-strict\"]\n"
	if text, err := os.ReadFile(o.Config); err != nil || string(text) != want {
		t.Errorf("%v: %s", err, text)
	}
	if !strings.Contains(p.Diff, "--- /dev/null") || !strings.Contains(p.Diff, "+agentjail = ") {
		t.Errorf("diff: %s", p.Diff)
	}
	if p := applied(t, Podman, o); p.Changed() || p.Diff != "" {
		t.Errorf("a second run changes: %s", p.Diff)
	}
	// One more that is the default, then one less, then none.
	more := o
	more.Runtimes, more.Default = []Runtime{{"agentjail.2", "/opt/agentjail"}}, "agentjail.2"
	p = applied(t, Podman, more)
	for _, line := range []string{"+[engine]", "+runtime = \"agentjail.2\"", "+\"agentjail.2\" = [\"/opt/agentjail\"]"} {
		if !strings.Contains(p.Diff, line) {
			t.Errorf("no %s in %s", line, p.Diff)
		}
	}
	applied(t, UndoPodman, more)
	if text, err := os.ReadFile(o.Config); err != nil || string(text) != want {
		t.Errorf("after the removal of one: %v: %s", err, text)
	}
	if p := applied(t, UndoPodman, o); !p.Remove || !strings.Contains(p.Diff, "+++ /dev/null") {
		t.Errorf("the last one's removal: %+v", p)
	}
	left, err := os.ReadDir(filepath.Dir(o.Config))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if p := applied(t, UndoPodman, o); p.Changed() {
		t.Error("a second removal changes something")
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
		"a default read later":   {file: "zz.conf", text: "[engine]\nruntime = \"crun\"\n", byDefault: "agentjail", forced: ErrConflict},
		"a default read earlier": {file: "00.conf", text: "[engine]\nruntime = \"crun\"\n", byDefault: "agentjail"},
	} {
		t.Run(name, func(t *testing.T) {
			o := podmanOptions(t, "agentjail")
			o.Default = c.byDefault
			at := o.Config
			if c.file != "" {
				at = filepath.Join(filepath.Dir(o.Config), c.file)
			}
			write(t, at, c.text)
			if _, err := Podman(o); !errors.Is(err, ErrConflict) {
				t.Errorf("%v", err)
			}
			o.Force = true
			if _, err := Podman(o); !errors.Is(err, c.forced) {
				t.Errorf("forced: %v", err)
			}
		})
	}
	o := podmanOptions(t, "agentjail")
	write(t, o.Config, "[engine\n")
	if _, err := Podman(o); err == nil {
		t.Error("a broken file is taken")
	}
	o = podmanOptions(t, "crun")
	if _, err := Podman(o); err == nil || !strings.Contains(err.Error(), "Podman's own") {
		t.Errorf("podman's own name: %v", err)
	}
}
