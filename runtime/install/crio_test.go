package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// crioText is a handler as the drop-in for CRI-O has it.
func crioText(name, path string) string {
	return "[crio.runtime.runtimes." + name + "]\nruntime_path = \"" + path + "\"\nruntime_type = \"oci\"\nruntime_root = \"/run/crio/agentjail\"\nprivileged_without_host_devices = true\n"
}

func crioOptions(t *testing.T, names ...string) Options {
	t.Helper()
	o := podmanOptions(t, names...)
	o.DropIn = filepath.Join(t.TempDir(), "crio.conf.d", "agentjail.conf")
	return o
}

// crioApplied makes a plan for CRI-O true, and returns it with what it states.
func crioApplied(t *testing.T, o Options) (*Plan, Result) {
	t.Helper()
	p, err := NewPlan(CRIO, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

func TestCRIO(t *testing.T) {
	o := crioOptions(t, "agentjail", "agentjail-net")
	want := crioHead + crioText("agentjail", "/usr/local/bin/agentjail") + "\n" + crioText("agentjail-net", "/usr/local/bin/agentjail-net")
	if _, r := crioApplied(t, o); !strings.Contains(strings.Join(r.Messages, ""), "systemctl reload crio") {
		t.Errorf("it states %q", r.Messages)
	}
	is := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(o.DropIn); err != nil || string(text) != want {
			t.Errorf("%v: %s", err, text)
		}
	}
	is(want)
	if p, r := crioApplied(t, o); p.Changed() || len(r.Messages) > 0 {
		t.Errorf("a second run changes: %s, %q", diff(t, p), r.Messages)
	}
	more := o
	more.Runtimes = []Runtime{{"agentjail.2", "/opt/agentjail"}}
	crioApplied(t, more)
	is(want + "\n" + crioText(`"agentjail.2"`, "/opt/agentjail"))
	crioApplied(t, undo(more))
	is(want)
	if p, _ := crioApplied(t, undo(o)); !p.Files[0].Remove {
		t.Errorf("the last one's removal: %+v", p)
	}
	if left, err := os.ReadDir(filepath.Dir(o.DropIn)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v, %v", left, err)
	}
	if p, _ := crioApplied(t, undo(o)); p.Changed() {
		t.Error("a second removal changes something")
	}
}

func TestCRIOConflicts(t *testing.T) {
	other := crioText("agentjail", "/elsewhere")
	for name, c := range map[string]struct {
		file, text string // file is relative to the drop-in's directory; "" is the drop-in
		forced     error  // with Force
		none       bool   // no conflict
	}{
		"leads elsewhere":        {text: crioHead + other},
		"somebody's words":       {text: "# mine\n" + crioText("agentjail", "/usr/local/bin/agentjail")},
		"somebody's annotations": {text: crioHead + crioText("agentjail", "/usr/local/bin/agentjail") + "allowed_annotations = [\"io.kubernetes.cri-o.Devices\"]\n"},
		"the main file has it":   {file: "../crio.conf", text: other},
		"one read earlier":       {file: "00.conf", text: other},
		"one read later":         {file: "zz.conf", text: other, forced: errConflict},
		"read later, the same":   {file: "zz.conf", text: crioText("agentjail", "/usr/local/bin/agentjail"), forced: errConflict},
		"read earlier, the same": {file: "00.conf", text: crioText("agentjail", "/usr/local/bin/agentjail"), none: true},
		"another's handler":      {file: "zz.conf", text: crioText("kata", "/usr/bin/kata-runtime"), none: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := crioOptions(t, "agentjail")
			at := o.DropIn
			if c.file != "" {
				at = filepath.Join(filepath.Dir(o.DropIn), c.file)
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(o.DropIn), 0o755), os.WriteFile(at, []byte(c.text), 0o644)); err != nil {
				t.Fatal(err)
			}
			if _, err := NewPlan(CRIO, o); errors.Is(err, errConflict) == c.none {
				t.Errorf("%v", err)
			}
			o.Force = true
			if _, err := NewPlan(CRIO, o); !errors.Is(err, c.forced) {
				t.Errorf("forced: %v", err)
			}
		})
	}
}
