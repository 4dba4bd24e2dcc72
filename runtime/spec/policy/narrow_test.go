package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// narrowings has, for each key that a project's own file can set, the policy's value, values that
// are followed, and values that are not. Other keys are refused whatever their value.
var narrowings = map[string]struct {
	policy   string
	followed []string
	refused  []string
}{
	"on_loosen":                  {`"strip"`, []string{`"strip"`, `"refuse"`}, []string{`"x"`}},
	"root.size":                  {`"1GiB"`, []string{`"1GiB"`, `"1m"`}, []string{`"2GiB"`, `"0"`, `-1`, `"lots"`}},
	"root.backing":               {`"disk"`, []string{`"disk"`, `"memory"`}, []string{`"tape"`}},
	"root.disk":                  {`"1GiB"`, []string{`"1GiB"`, `"16m"`}, []string{`"2GiB"`, `"1m"`, `"0"`}},
	"root.inodes":                {`100`, []string{`100`, `1`}, []string{`101`, `0`}},
	"root.engine_links":          {`false`, []string{`false`}, []string{`true`}},
	"tmpfs.size":                 {`"1m"`, []string{`"1m"`, `"4k"`}, []string{`"2m"`}},
	"tmpfs.inodes":               {`100`, []string{`99`}, []string{`101`}},
	"limits.pids":                {`100`, []string{`100`, `5`}, []string{`101`, `0`, `"5"`}},
	"limits.memory":              {`"1g"`, []string{`"512m"`}, []string{`"2g"`, `0`}},
	"limits.swap":                {`"1g"`, []string{`0`, `"1m"`}, []string{`"2g"`}},
	"limits.cpus":                {`2.0`, []string{`1`, `0.5`}, []string{`2.5`, `0`}},
	"limits.io_read":             {`"1m"`, []string{`"1k"`}, []string{`"2m"`, `0`}},
	"limits.io_write":            {`0`, []string{`0`, `"1k"`}, nil},
	"limits.nofile":              {`100`, []string{`10`}, []string{`101`, `0`}},
	"limits.memlock":             {`"1m"`, []string{`"1k"`}, []string{`"2m"`}},
	"limits.sockets":             {`"1m"`, []string{`"1k"`}, []string{`"2m"`}},
	"limits.mounts":              {`10`, []string{`9`}, []string{`11`, `0`}},
	"binds.root":                 {`"nobody"`, []string{`"nobody"`, `"refuse"`}, []string{`"allow"`}},
	"binds.owner":                {`"1000"`, []string{`"node"`}, []string{`"-"`}},
	"binds.setid":                {`"refuse"`, []string{`"refuse"`}, []string{`"report"`}},
	"binds.allow":                {`["/a", "/b"]`, []string{`[]`, `["/b"]`}, []string{`["/a/b"]`, `["/c"]`}},
	"binds.protect":              {`true`, []string{`true`}, []string{`false`}},
	"binds.lost":                 {`"report"`, []string{`"pause"`}, nil},
	"binds.unprotect":            {`[".vscode", ".husky"]`, []string{`[".husky"]`, `[]`}, []string{`[".idea"]`}},
	"binds.hide":                 {`[".env"]`, []string{`[".env", "*.pem"]`}, []string{`["*.pem"]`, `[]`}},
	"binds.sockets":              {`["/a/*", "/b"]`, []string{`[]`, `["/b"]`}, []string{`["/a/x"]`, `["/c"]`}},
	"devices.allow":              {`["/dev/kvm"]`, []string{`[]`}, []string{`["/dev/fuse"]`}},
	"seccomp.profile":            {`"default"`, []string{`"default"`, `"strict"`}, []string{`"debug"`, `"tools"`}},
	"seccomp.on_violation":       {`"kill"`, []string{`"kill"`}, []string{`"errno"`}},
	"apparmor.required":          {`true`, []string{`true`}, []string{`false`}},
	"landlock.required":          {`true`, []string{`true`}, []string{`false`}},
	"process.deny_write_execute": {`true`, []string{`true`}, []string{`false`}},
	"process.environment":        {`true`, []string{`false`}, nil},
	"process.capabilities":       {`["KILL", "CHOWN"]`, []string{`["CHOWN"]`, `[]`}, []string{`["SETUID"]`, `["KILL", "FOWNER"]`}},
	"network.mode":               {`"names"`, []string{`"names"`, `"none"`}, []string{`"engine"`}},
	"network.allow":              {`["*.example.org:443", "a.example.net"]`, []string{`["a.example.net:80"]`, `["x.example.org:443"]`, `[]`}, []string{`["b.example.net"]`, `["x.example.org:22"]`, `["a..b"]`}},
	"network.approval":           {`"prompt"`, []string{`"off"`}, []string{`"maybe"`}},
	"network.deny":               {`["a.example.org"]`, []string{`["a.example.org", "b.example.org"]`}, []string{`["b.example.org"]`}},
	"network.publish":            {`["8000", "9000"]`, []string{`["9000"]`}, []string{`["8001"]`}},
	"network.filter":             {`"required"`, []string{`"required"`}, []string{`"optional"`}},
	"journal.inside":             {`"ask"`, []string{`"off"`, `"ask"`}, []string{`"on"`}},
	"workspace.review":           {`["/a/*"]`, []string{`["/a/*", "/b/*"]`}, []string{`["/b/*"]`, `[]`}},
	"workspace.size":             {`"64m"`, []string{`"32m"`}, []string{`"1g"`}},
	"workspace.files":            {`5000`, []string{`4000`}, []string{`5001`}},
	"ebpf.block":                 {`["exec"]`, []string{`["bind", "exec"]`}, []string{`["bind"]`, `[]`}},
}

// TestNarrow: a project's own file narrows each key that it may set, and a wider value
// than the policy's is an error with its line and key. No other key can be set.
func TestNarrow(t *testing.T) {
	for _, k := range Keys {
		c, listed := narrowings[k.Name]
		if listed == (k.narrow == never) {
			t.Errorf("%s: in the test %v, narrowed by %d", k.Name, listed, k.narrow)
		}
		if !listed {
			if p, err := Default().Narrow(ReadProject([]byte(k.Name+" = "+literalOther(k.Name)), "f")); err == nil || !strings.Contains(err.Error(), "line 1") || !reflect.DeepEqual(p, Default()) {
				t.Errorf("%s can be set: %v", k.Name, err)
			}
			continue
		}
		mode := "network.mode = \"names\"\n"
		if k.Name == "network.mode" {
			mode = ""
		}
		p, err := Parse([]byte(mode+k.Name+" = "+c.policy), "f", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range c.followed {
			got, err := p.Narrow(ReadProject([]byte(k.Name+" = "+v), "f"))
			if err != nil {
				t.Errorf("%s = %s: %v", k.Name, v, err)
			}
			if k.Name != "network.allow" && v != c.policy && reflect.DeepEqual(got, p) {
				t.Errorf("%s = %s: nothing changes", k.Name, v)
			}
		}
		for _, v := range c.refused {
			got, err := p.Narrow(ReadProject([]byte("\n"+k.Name+" = "+v), "f"))
			if err == nil || !strings.Contains(err.Error(), "policy f: line 2: "+strings.Split(k.Name, " ")[0]) && !strings.Contains(err.Error(), "network") || !reflect.DeepEqual(got, p) {
				t.Errorf("%s = %s: %v", k.Name, v, err)
			}
		}
	}
}

func literalOther(key string) string { return others[key].text }

// TestNarrowForms: what is no setting of a project's is an error, and all errors are listed.
func TestNarrowForms(t *testing.T) {
	for text, want := range map[string]string{
		"[policies.x]\nlimits.pids = 5":                  "no named policies",
		"limits.pid = 5\nroot.size = \"9t\"":             "line 2: root.size",
		"limits.pids = ":                                 "line 1",
		"[profiles.x]\n":                                 "profiles",
		"network.allow = [\"a.example.org\"]":            "",
		"credentials.x = { hosts = [], from = \"x\" }\n": "a project's own file cannot set it",
	} {
		_, err := Default().Narrow(ReadProject([]byte(text), "f"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	engine := Default()
	engine.Network.Mode = NetworkEngine
	if _, err := engine.Narrow(ReadProject([]byte("network.allow = []"), "f")); err == nil || !strings.Contains(err.Error(), "no names are held back") {
		t.Errorf("in the engine's network: %v", err)
	}
}

// TestNarrowedAgain: rules that are read again stay narrowed by the project's file, also after its
// way through a jail's record.
func TestNarrowedAgain(t *testing.T) {
	const before = "network.mode = \"names\"\nnetwork.allow = [\"a.example.org\", \"b.example.org\", \"c.example.org\"]\n"
	path := places(t, before+"limits.pids = 50\n", nil)
	p, err := Load(path, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err = p.Narrow(ReadProject([]byte("network.allow = [\"a.example.org\", \"b.example.org\"]\nnetwork.deny = [\"x.a.example.org\"]\nlimits.pids = 7\n"), "f"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Policy
	if err := json.Unmarshal(record, &back); err != nil {
		t.Fatal(err)
	}
	again, err := back.Origin.Again()
	if err != nil || again.Limits.Pids != 7 || len(Differs(p, again)) != 0 {
		t.Errorf("%+v, %v, %q", again.Limits, err, Differs(p, again))
	}
	set, err := again.Network.Rules()
	if err != nil || !set.Match("a.example.org", 443).OK || set.Match("c.example.org", 443).OK || set.Match("x.a.example.org", 443).OK {
		t.Errorf("%v, %+v", err, again.Network)
	}
	// A name that the policy no longer allows is not allowed by the project.
	if err := writePolicy(path, strings.Replace(before, "\"b.example.org\", ", "", 1)); err != nil {
		t.Fatal(err)
	}
	if again, err = back.Origin.Again(); err != nil {
		t.Fatal(err)
	}
	if set, err = again.Network.Rules(); err != nil || !set.Match("a.example.org", 443).OK || set.Match("b.example.org", 443).OK || set.Match("c.example.org", 443).OK {
		t.Errorf("%v, %+v", err, again.Network)
	}
}
