package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
)

var agentjail = Runtime{Name: "agentjail", Path: "/usr/local/bin/agentjail"}

// byShim registers two by the shim.
var byShim = Options{
	Runtimes: []Runtime{agentjail, {Name: "agentjail-strict", Path: "/usr/local/bin/agentjail-strict"}},
	By:       ByShim, Shim: "/usr/local/bin/containerd-shim-agentjail-v2",
}

// decodedEntry is what Docker reads of a runtime that was registered.
func decodedEntry(o Options, r Runtime) map[string]any {
	e := entryOf(o, r)
	if e.Type == "" {
		return map[string]any{"path": e.Path}
	}
	out := map[string]any{"runtimeType": e.Type}
	if e.Options != nil {
		out["options"] = e.Options
	}
	return out
}

func opts(runtimes ...Runtime) Options {
	if len(runtimes) == 0 {
		runtimes = []Runtime{agentjail}
	}
	return Options{Runtimes: runtimes}
}

// TestRegister shows what becomes of files as people write them.
func TestRegister(t *testing.T) {
	strict := Runtime{Name: "agentjail-strict", Path: "/usr/local/bin/agentjail-strict"}
	for _, tt := range []struct {
		name   string
		o      Options
		before string
		after  string
	}{
		{"missing", opts(), "", `{
  "runtimes": {
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    }
  }
}
`},
		{"empty object", opts(), "{}", `{
  "runtimes": {
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    }
  }
}`},
		{"other keys", opts(), `{
    "log-driver": "journald",
    "default-ulimits": { "nofile": { "Name": "nofile", "Hard": 64000, "Soft": 64000 } }
}
`, `{
    "log-driver": "journald",
    "default-ulimits": { "nofile": { "Name": "nofile", "Hard": 64000, "Soft": 64000 } },
    "runtimes": {
        "agentjail": {
            "path": "/usr/local/bin/agentjail"
        }
    }
}
`},
		{"tabs", opts(), "{\n\t\"debug\": true\n}\n", "{\n\t\"debug\": true,\n\t\"runtimes\": {\n\t\t\"agentjail\": {\n\t\t\t\"path\": \"/usr/local/bin/agentjail\"\n\t\t}\n\t}\n}\n"},
		{"carriage returns", opts(), "{\r\n  \"debug\": true\r\n}\r\n", "{\r\n  \"debug\": true,\r\n  \"runtimes\": {\r\n    \"agentjail\": {\r\n      \"path\": \"/usr/local/bin/agentjail\"\r\n    }\r\n  }\r\n}\r\n"},
		{"one line", opts(), `{"debug":true,"mtu":1400}`, `{"debug":true,"mtu":1400,"runtimes":{"agentjail":{"path":"/usr/local/bin/agentjail"}}}`},
		{"one line with spaces", opts(), `{"debug": true, "mtu": 1400}`, `{"debug": true, "mtu": 1400, "runtimes": {"agentjail": {"path": "/usr/local/bin/agentjail"}}}`},
		{"another runtime", opts(), `{
  "runtimes": {
    "nvidia": {
      "args": [],
      "path": "nvidia-container-runtime"
    }
  },
  "default-runtime": "nvidia"
}
`, `{
  "runtimes": {
    "nvidia": {
      "args": [],
      "path": "nvidia-container-runtime"
    },
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    }
  },
  "default-runtime": "nvidia"
}
`},
		{"another runtime on one line", opts(), `{
  "runtimes": {"nvidia": {"path": "x", "runtimeArgs": []}}
}`, `{
  "runtimes": {"nvidia": {"path": "x", "runtimeArgs": []}, "agentjail": {"path": "/usr/local/bin/agentjail"}}
}`},
		{"runtimes empty", opts(), "{\n  \"runtimes\": {\n  }\n}", `{
  "runtimes": {
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    }
  }
}`},
		{"runtimes null", opts(), "{\n  \"runtimes\": null,\n  \"x\": 1\n}", `{
  "runtimes": {
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    }
  },
  "x": 1
}`},
		{"several", opts(agentjail, strict), "{\n  \"x\": 1\n}", `{
  "x": 1,
  "runtimes": {
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    },
    "agentjail-strict": {
      "path": "/usr/local/bin/agentjail-strict"
    }
  }
}`},
		{"by the shim", byShim, "{\n  \"x\": 1\n}", `{
  "x": 1,
  "runtimes": {
    "agentjail": {
      "runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2"
    },
    "agentjail-strict": {
      "runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2",
      "options": {
        "ConfigPath": "strict",
        "TypeUrl": "agentjail"
      }
    }
  }
}`},
		{
			"by the shim in place of its paths", byShim, `{"runtimes": {"agentjail-strict": {"path": "/usr/local/bin/agentjail-strict"}, "agentjail": {"path": "/usr/local/bin/agentjail"}}}`,
			`{"runtimes": {"agentjail-strict": {"runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2", "options": {"ConfigPath": "strict", "TypeUrl": "agentjail"}}, "agentjail": {"runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2"}}}`,
		},
		{
			"by path in place of the shim",
			Options{Runtimes: []Runtime{agentjail}, Shim: byShim.Shim},
			`{"runtimes": {"agentjail": {"runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2"}}}`,
			`{"runtimes": {"agentjail": {"path": "/usr/local/bin/agentjail"}}}`,
		},
		{
			"one of several there", opts(agentjail, strict), `{"runtimes": {"agentjail": {"runtimeArgs": [], "path": "/usr/local/bin/agentjail"}}}`,
			`{"runtimes": {"agentjail": {"runtimeArgs": [], "path": "/usr/local/bin/agentjail"}, "agentjail-strict": {"path": "/usr/local/bin/agentjail-strict"}}}`,
		},
		{"escaped key", opts(), `{"runt\u0069mes": {"agentj\u0061il": {"path": "\/usr/local/bin/agentjail"}}}`, `{"runt\u0069mes": {"agentj\u0061il": {"path": "\/usr/local/bin/agentjail"}}}`},
		{
			"names inside other values", opts(), `{"labels": ["runtimes", "\"agentjail\": {"], "x": {"runtimes": {"agentjail": {}}}}`,
			`{"labels": ["runtimes", "\"agentjail\": {"], "x": {"runtimes": {"agentjail": {}}}, "runtimes": {"agentjail": {"path": "/usr/local/bin/agentjail"}}}`,
		},
		{"default", Options{Runtimes: []Runtime{agentjail}, Default: "agentjail"}, "{\n  \"x\": 1\n}\n", `{
  "x": 1,
  "runtimes": {
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    }
  },
  "default-runtime": "agentjail"
}
`},
		{
			"default in place of runc",
			Options{Runtimes: []Runtime{agentjail}, Default: "agentjail"},
			`{"default-runtime": "runc", "x": 1}`,
			`{"default-runtime": "agentjail", "x": 1, "runtimes": {"agentjail": {"path": "/usr/local/bin/agentjail"}}}`,
		},
		{"forced", Options{Runtimes: []Runtime{agentjail}, Force: true}, `{
  "runtimes": {
    "agentjail": {"path": "/opt/agentjail", "runtimeArgs": ["--debug"]},
    "x": {"path": "x"}
  }
}`, `{
  "runtimes": {
    "agentjail": {
      "path": "/usr/local/bin/agentjail"
    },
    "x": {"path": "x"}
  }
}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trustAny(t)
			if _, err := complete(Docker, tt.o); err != nil {
				t.Fatal(err)
			}
			after, err := register([]byte(tt.before), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if string(after) != tt.after {
				t.Errorf("got\n%s\nwant\n%s", after, tt.after)
			}
			again, err := register(after, tt.o)
			if err != nil || !bytes.Equal(again, after) {
				t.Errorf("registered again (%v):\n%s", err, again)
			}
		})
	}
}

// awkward are files of which everything must survive.
var awkward = []string{
	"",
	" \n\t",
	"{}",
	"{ }",
	"{\n}\n",
	"\xef\xbb\xbf{\"debug\": true}\n",
	`{"debug": true}`,
	`{"debug":true,"x":[1,2,{"y":null}]}`,
	"{\n  \"debug\": true\n}",
	"{\n  \"debug\": true\n}\n\n\n",
	"\n\n{\n  \"debug\": true }\n",
	"{\n\"no\": \"indentation\",\n\"at\": \"all\"\n}\n",
	"{ \"a\": 1,\n  \"b\": 2,\n      \"c\": 3\n}",
	"{\r\n\t\"debug\" : true\r\n}\r\n",
	`{"big": 123456789012345678901234567890, "precise": 0.1000000000000000055511151231257827, "exponent": 1E400, "negative": -0}`,
	`{"unicode": "ünïcödé \u00fc \ud83d\ude00", "html": "<a&b>", "slash": "a\/b", "empty": "", "": "empty key"}`,
	`{"a": {"b": {"c": {"d": [[[[{}]]]]}}}, "brackets": "}]{[,:\"\\"}`,
	"{\n  \"runtimes\": {\n    \"nvidia\": {\n      \"args\": [],\n      \"path\": \"nvidia-container-runtime\"\n    }\n  }\n}\n",
	"{\n  \"runtimes\": {\"kata\": {\"runtimeType\": \"io.containerd.kata.v2\", \"options\": {\"x\": 1}}},\n  \"z\": 1\n}",
	`{"z": 1, "runtimes": {"a": {"path": "a"}, "b": {"path": "b"}}, "a": 2}`,
	"{\"features\": {\"buildkit\": true},\n \"hosts\": [\"unix:///var/run/docker.sock\",\n   \"tcp://127.0.0.1:2375\"]}",
}

// decoded is the text as a program reads it, numbers as they are written.
func decoded(t testing.TB, text []byte) map[string]any {
	t.Helper()
	text = bytes.TrimPrefix(text, utf8BOM)
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]any{}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// checkEdit holds what must be true of any edit of any file.
func checkEdit(t testing.TB, before []byte, o Options) {
	t.Helper()
	after, err := register(before, o)
	if err != nil {
		return
	}
	want := decoded(t, before)
	runtimes, _ := want["runtimes"].(map[string]any)
	if runtimes == nil {
		runtimes = map[string]any{}
	}
	fresh := want["default-runtime"] == nil
	for _, r := range o.Runtimes {
		if _, there := runtimes[r.Name]; there {
			fresh = false
		} else {
			runtimes[r.Name] = decodedEntry(o, r)
		}
	}
	emptyBefore := decoded(t, before)["runtimes"] != nil && len(decoded(t, before)["runtimes"].(map[string]any)) == 0
	nullBefore := bytes.Contains(before, []byte("null")) && decoded(t, before)["runtimes"] == nil
	want["runtimes"] = runtimes
	if o.Default != "" {
		want["default-runtime"] = o.Default
	}
	got := decoded(t, after)
	if !o.Force && !reflect.DeepEqual(got, want) {
		t.Errorf("from\n%s\nto\n%s\nwant %v", before, after, want)
	}
	if again, err := register(after, o); err != nil || !bytes.Equal(again, after) {
		t.Errorf("registered twice (%v): from\n%s\nto\n%s", err, after, again)
	}
	undone, interim, err := unregister(after, o)
	if err != nil {
		t.Errorf("unregister: %v from\n%s", err, after)
		return
	}
	for _, text := range [][]byte{undone, interim} {
		left := decoded(t, text)
		rts, _ := left["runtimes"].(map[string]any)
		for _, r := range o.Runtimes {
			if rts[r.Name] != nil || left["default-runtime"] == r.Name {
				t.Errorf("still there after unregister:\n%s", text)
			}
		}
	}
	if !fresh || emptyBefore || nullBefore {
		return
	}
	// What was added to a file without these names comes out without a trace, but for an empty
	// file's braces.
	wantText := before
	if len(bytes.TrimSpace(bytes.TrimPrefix(before, utf8BOM))) == 0 {
		wantText = []byte("{}\n")
	} else if len(decoded(t, before)) == 0 {
		wantText = splice(before, span{bytes.IndexByte(before, '{'), bytes.IndexByte(before, '}') + 1}, "{}")
	}
	if !bytes.Equal(undone, wantText) {
		t.Errorf("register and unregister made\n%q\nof\n%q\nby way of\n%s", undone, before, after)
	}
}

func TestAwkwardFiles(t *testing.T) {
	strict := Runtime{Name: "agentjail-strict", Path: `/opt/agent jail/"strict"`}
	for _, text := range awkward {
		checkEdit(t, []byte(text), opts())
		checkEdit(t, []byte(text), opts(agentjail, strict))
		checkEdit(t, []byte(text), Options{Runtimes: []Runtime{strict, agentjail}, Default: "agentjail"})
		checkEdit(t, []byte(text), byShim)
		if _, err := register([]byte(text), opts()); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                   "line 1, column",
		"{\n  \"a\": 1,\n}":                   "line 3, column",
		"{\n  // comment\n  \"a\": 1\n}":      "line 2, column",
		`{"a": 1} {"b": 2}`:                   "not valid JSON",
		`[]`:                                  "not a JSON object",
		`null`:                                "not a JSON object",
		`"x"`:                                 "not a JSON object",
		`{"runtimes": []}`:                    `"runtimes" is not an object`,
		`{"runtimes": "x"}`:                   `"runtimes" is not an object`,
		`{"runtimes": {"agentjail": "x"}}`:    "runtime agentjail",
		`{"runtimes": {}, "runtimes": {}}`:    "there twice",
		`{"a": 1, "\u0061": 2}`:               "there twice",
		`{"runtimes": {"a": {}, "a": {}}}`:    "there twice",
		"{\"a\": \"\xff\"}":                   "UTF-8",
		"\xff\xfe{\x00}\x00":                  "UTF-8",
		strings.Repeat(" ", maxConfig) + "{}": "longer than",
		strings.Repeat("[", 100000):           "not valid JSON",
		`{"a": ` + strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20001): "not valid JSON",
	} {
		if _, err := register([]byte(text), opts()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
		if _, _, err := unregister([]byte(text), opts()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("unregister %.60q: %v, want %q", text, err, want)
		}
	}
	for text, o := range map[string]Options{
		`{"runtimes": {"agentjail": {"runtimeType": "/opt/containerd-shim-agentjail-v2"}}}`:                                               byShim,
		`{"runtimes": {"agentjail": {"runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2", "options": {"ConfigPath": "other"}}}}`: byShim,
		`{"runtimes": {"agentjail": {"path": "/opt/agentjail"}}}`:                                                                         opts(),
		`{"runtimes": {"agentjail": {"path": "/usr/local/bin/agentjail", "runtimeArgs": ["--debug"]}}}`:                                   opts(),
		`{"runtimes": {"agentjail": {"runtimeType": "io.containerd.agentjail.v2"}}}`:                                                      opts(),
		`{"default-runtime": "nvidia"}`: {Runtimes: []Runtime{agentjail}, Default: "agentjail"},
	} {
		if _, err := register([]byte(text), o); !errors.Is(err, errConflict) {
			t.Errorf("%s: %v", text, err)
		}
		if _, _, err := unregister([]byte(text), o); o.Default == "" && !errors.Is(err, errConflict) {
			t.Errorf("unregister %s: %v", text, err)
		}
		o.Force = true
		if _, err := register([]byte(text), o); err != nil {
			t.Errorf("forced %s: %v", text, err)
		}
		checkEdit(t, []byte(text), o)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, o := range []Options{
		{},
		{Runtimes: []Runtime{{"runc", "/x"}}},
		{Runtimes: []Runtime{{"io.containerd.runc.v2", "/x"}}},
		{Runtimes: []Runtime{{"", "/x"}}},
		{Runtimes: []Runtime{{"a b", "/x"}}},
		{Runtimes: []Runtime{{"a", "x"}}},
		{Runtimes: []Runtime{{"a", "/x/../y"}}},
		{Runtimes: []Runtime{{"a", "/x"}, {"a", "/y"}}},
		{Runtimes: []Runtime{agentjail}, Default: "other"},
	} {
		if _, err := NewPlan(Docker, o); err == nil {
			t.Errorf("Docker(%+v) is accepted", o)
		}
		if _, err := NewPlan(Docker, undo(o)); err == nil {
			t.Errorf("NewPlan(Docker, undo(%+v)) is accepted", o)
		}
	}
}

func FuzzEdit(f *testing.F) {
	for _, text := range awkward {
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, deflt bool) {
		o := opts()
		if deflt {
			o.Default = agentjail.Name
		}
		checkEdit(t, text, o)
	})
}

// TestDiff has patch(1) turn the one text into the other.
func TestDiff(t *testing.T) {
	if d := udiff.Unified("a", "b", "x\n", "x\n"); d != "" {
		t.Errorf("a diff without a difference:\n%s", d)
	}
	want := "--- a\n+++ b\n@@ -2,4 +2,5 @@\n 2\n 3\n 4\n-5\n\\ No newline at end of file\n+five\n+6\n"
	if d := udiff.Unified("a", "b", "1\n2\n3\n4\n5", "1\n2\n3\n4\nfive\n6\n"); d != want {
		t.Errorf("got\n%s\nwant\n%s", d, want)
	}
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("patch(1) is not installed")
	}
	long := strings.Repeat("line\n", 20)
	texts := []string{"", "a\n", "a", "b\n", "\n", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n", "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nK\nl", long, "x\n" + long, long + "x", "x\n" + long + "x\n" + long + "y\n"}
	texts = append(texts, awkward...)
	for i, from := range texts {
		for j, to := range texts {
			d := udiff.Unified("f", "f", from, to)
			if from == to {
				continue
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "f")
			if err := os.WriteFile(file, []byte(from), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(patch, "--binary", "-s", "-p0", "f")
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(d)
			out, err := cmd.CombinedOutput()
			got, _ := os.ReadFile(file) // patch removes a file that becomes empty
			if err != nil || string(got) != to {
				t.Fatalf("%d to %d: %v %s\n%s", i, j, err, out, d)
			}
		}
	}
}
