package policy

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/credential"
)

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	if p, err := Parse(nil, "empty", ""); err != nil || !reflect.DeepEqual(p, Default()) {
		t.Errorf("an empty file: %+v, %v", p, err)
	}
}

// others gives every key of the policy a value that is not the default.
var others = map[string]struct {
	text string
	want any
}{
	"delegate":                 {`"/opt/runc"`, "/opt/runc"},
	"passthrough":              {`true`, true}, // in a profile only
	"on_loosen":                {`"refuse"`, "refuse"},
	"userns.map":               {`"nobody"`, "nobody"},
	"userns.pool":              {`"65536:131072"`, idmap.Pool{First: 65536, Count: 131072}},
	"userns.ids":               {`["65536", "100000"]`, []string{"65536", "100000"}},
	"root.size":                {`"512MiB"`, Size(512 << 20)},
	"root.backing":             {`"disk"`, "disk"},
	"root.disk":                {`"64MiB"`, Size(64 << 20)},
	"root.inodes":              {`7`, int64(7)},
	"root.engine_links":        {`false`, false},
	"tmpfs.size":               {`"1.5M"`, Size(3 << 19)},
	"tmpfs.max":                {`"3G"`, Size(3 << 30)},
	"tmpfs.inodes":             {`8`, int64(8)},
	"limits.pids":              {`9`, int64(9)},
	"limits.memory":            {`"2G"`, Size(2 << 30)},
	"limits.swap":              {`"1T"`, Size(1 << 40)},
	"limits.cpus":              {`0.5`, 0.5},
	"limits.io_read":           {`"1K"`, Size(1 << 10)},
	"limits.io_write":          {`4096`, Size(4096)},
	"limits.nofile":            {`10`, uint64(10)},
	"limits.memlock":           {`"0"`, Size(0)},
	"limits.sockets":           {`"1M"`, Size(1 << 20)},
	"limits.mounts":            {`11`, 11},
	"binds.setid":              {`"refuse"`, "refuse"},
	"binds.lost":               {`"pause"`, "pause"},
	"binds.root":               {`"nobody"`, "nobody"},
	"binds.allow":              {`["/a", "/b/c"]`, []string{"/a", "/b/c"}},
	"binds.protect":            {`false`, false},
	"binds.unprotect":          {`[".git/config", "/a"]`, []string{".git/config", "/a"}},
	"binds.hide":               {`[".env", "*.pem"]`, []string{".env", "*.pem"}},
	"binds.sockets":            {`["/srv/*/app.sock", "/a/**"]`, []string{"/srv/*/app.sock", "/a/**"}},
	"devices.allow":            {`["/dev/kvm"]`, []string{"/dev/kvm"}},
	"seccomp.profile":          {`"strict"`, "strict"},
	"seccomp.on_violation":     {`"kill"`, "kill"},
	"apparmor.profile":         {`"mine"`, "mine"},
	"apparmor.required":        {`true`, true},
	"landlock.required":        {`true`, true},
	"binds.owner":              {`"1000"`, "1000"},
	"shim.loggers":             {`["/l", "/m?a=b"]`, []string{"/l", "/m?a=b"}},
	"journal.enabled":          {`false`, false},
	"journal.dir":              {`"/srv/journal"`, "/srv/journal"},
	"journal.size":             {`"1MiB"`, Size(1 << 20)},
	"journal.keep":             {`3`, 3},
	"journal.keep_size":        {`"1G"`, Size(1 << 30)},
	"journal.keep_for":         {`"30d"`, Span(30 * 24 * time.Hour)},
	"journal.required":         {`true`, true},
	"seccomp.only":             {`"/etc/agentjail/seccomp/build.json"`, "/etc/agentjail/seccomp/build.json"},
	"journal.receipt":          {`"full"`, "full"},
	"journal.inside":           {`"ask"`, "ask"},
	"workspace.review":         {`["/home/*/src/**"]`, []string{"/home/*/src/**"}},
	"workspace.size":           {`"64MiB"`, Size(64 << 20)},
	"workspace.files":          {`1000`, int64(1000)},
	"workspace.keep_for":       {`"8w"`, Span(8 * 7 * 24 * time.Hour)},
	"workspace.keep_size":      {`"10GiB"`, Size(10 << 30)},
	"disk.layers":              {`7`, 7},
	"disk.free":                {`"5GiB"`, Size(5 << 30)},
	"ebpf.block":               {`["exec", "bind"]`, []string{"exec", "bind"}},
	"shim.logs":                {`["/var/log/jails"]`, []string{"/var/log/jails"}},
	"network.filter":           {`"optional"`, "optional"},
	"network.allow":            {`["pkg.example.net", "*.example.org:443"]`, []string{"pkg.example.net", "*.example.org:443"}},
	"network.approval":         {`"prompt"`, "prompt"},
	"network.approval_command": {`["/usr/bin/decides", "-v"]`, []string{"/usr/bin/decides", "-v"}},
	"network.deny":             {`["x.example.org"]`, []string{"x.example.org"}},
	"network.servers":          {`["192.0.2.53", "[2001:db8::1]:5353"]`, []string{"192.0.2.53", "[2001:db8::1]:5353"}},
	"network.publish":          {`["8000-8999", "0.0.0.0:443"]`, []string{"8000-8999", "0.0.0.0:443"}},
	"credentials": {`{ house = { hosts = ["api.example.test"], header = "x-api-key", from = "file:/k" } }`, credential.Set{
		"house": {Hosts: []string{"api.example.test"}, Header: "x-api-key", From: "file:/k"},
	}},
	"network.mode": {`"none"`, "none"}, // there is no other yet

	"process.deny_write_execute": {`true`, true},
	"process.environment":        {`false`, false},
	"process.capabilities":       {`["CHOWN"]`, []string{"CHOWN"}},
}

// get reads a key's value.
func get(t *testing.T, p Policy, key string) any {
	t.Helper()
	v := reflect.ValueOf(p)
	for part := range strings.SplitSeq(key, ".") {
		found := false
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("toml") == part {
				v, found = v.Field(i), true
				break
			}
		}
		if !found {
			t.Fatalf("no key %s", key)
		}
	}
	return v.Interface()
}

// TestEveryKey sets each key, in the file and in a profile, and finds its value
// and nothing else changed.
func TestEveryKey(t *testing.T) {
	all := keyNames()
	if len(all) != len(others) {
		t.Errorf("%d keys, and %d in the test", len(all), len(others))
	}
	for _, key := range all {
		o, ok := others[key]
		if !ok {
			t.Errorf("no value for %s", key)
			continue
		}
		if reflect.DeepEqual(get(t, Default(), key), o.want) && key != "network.mode" {
			t.Errorf("%s: the test's value is the default", key)
		}
		for name, text := range map[string]string{
			"file":    key + " = " + o.text,
			"profile": "policies.p." + key + " = " + o.text,
		} {
			profile := ""
			if name == "profile" {
				profile = "p"
			} else if key == "passthrough" {
				continue // TestPassthroughOnlyInProfile
			}
			p, err := Parse([]byte(text), "f", profile)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if got := get(t, p, key); !reflect.DeepEqual(got, o.want) {
				t.Errorf("%s: is %v", text, got)
			}
			for _, k := range all {
				if k == "apparmor.profile" && key == "process.capabilities" {
					continue // the profile that permits them
				}
				if k != key && !reflect.DeepEqual(get(t, p, k), get(t, Default(), k)) {
					t.Errorf("%s: changes %s to %v", text, k, get(t, p, k))
				}
			}
		}
		// A profile that is not picked has no effect.
		if p, err := Parse([]byte("policies.p."+key+" = "+o.text), "f", ""); err != nil || !reflect.DeepEqual(p, Default()) {
			t.Errorf("%s in another profile: %+v, %v", key, p, err)
		}
	}
}

func TestBadValues(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`delegat = "runc"`, `line 1: unknown key "delegat"`},
		{"[limits]\npid = 5", `line 2: unknown key "limits.pid"`},
		{"[policies.p.limits]\npid = 5", `unknown key "limits.pid"`},
		{"[policies.p.profiles.q]\nx = 5", `unknown key`},
		{"[policies.q]", "no [policies.p]"},
		{`delegate = "docker"`, "must be auto, runc, crun, runsc or an absolute path"},
		{`delegate = "./runc"`, "must be auto, runc, crun, runsc or an absolute path"},
		{`on_loosen = "allow"`, "on_loosen"},
		{`on_loosen = true`, "line 1"},
		{`userns.map = "host"`, "userns.map"},
		{`userns.ids = ["65535"]`, "not a number from 65536"},
		{`userns.ids = ["4294967295"]`, "not a number from 65536"},
		{`userns.pool = "0:65536"`, "belong to the host"},
		{`userns.pool = "65537:65536"`, "not a multiple"},
		{`userns.pool = "65536:1"`, "needs at least"},
		{`userns.pool = "2147418112:131072"`, "must end below"},
		{`userns.pool = "4294901760:65536"`, "must end below"},
		{`userns.pool = "2147352576:65536"`, ""},
		{`userns.pool = "2147418112:65536"`, "must end below 2147418112"},
		{`userns.pool = "65536"`, "not an id pool"},
		{`userns.pool = "-65536:65536"`, "not an id pool"},
		{`binds.owner = ""`, "binds.owner"},
		{`binds.owner = "4294967295"`, "does not name a user"},
		{`binds.owner = "-1"`, "does not name a user"},
		{`binds.owner = "../../etc"`, "does not name a user"},
		{`binds.owner = "node:"`, "does not name a user"},
		{`binds.owner = "node:node"`, ""},
		{`binds.owner = "1000:0"`, ""},
		{`root.size = "0"`, "root.size = 0: must be greater"},
		{`root.size = -1`, "root.size"},
		{`root.size = "1 gigabyte"`, "not a size"},
		{`root.size = "1e99G"`, "not a size"},
		{`root.size = "inf"`, "not a size"},
		{`root.size = "NaN"`, "not a size"},
		{`root.size = "1.5"`, "not a size"},
		{`root.size = 1.5`, "must be a size"},
		{`root.size = "4096T"`, ""},
		{`root.size = "4194304T"`, "must be at most"},
		{`root.inodes = 0`, "root.inodes = 0"},
		{`tmpfs.size = "0"`, "tmpfs.size = 0"},
		{`tmpfs.max = "255m"`, `tmpfs.max = "255MiB": less than tmpfs.size = "256MiB"`},
		{`tmpfs.inodes = -5`, "tmpfs.inodes = -5"},
		{`limits.pids = -1`, "limits.pids = -1"},
		{`limits.pids = "many"`, "line 1"},
		{`limits.pids = 99999999999999999999`, "line 1"},
		{`limits.memory = -1`, "limits.memory"},
		{`limits.memory = "9223372036854775807"`, "not a size"},
		{`limits.swap = 9000000000000000000`, "limits.swap"},
		{`limits.cpus = -1`, "limits.cpus"},
		{`limits.cpus = nan`, "limits.cpus"},
		{`limits.cpus = inf`, "limits.cpus"},
		{`limits.cpus = 65537`, "limits.cpus"},
		{`limits.io_read = -1`, "limits.io_read"},
		{`limits.io_write = -1`, "limits.io_write"},
		{`limits.nofile = -1`, "line 1"},
		{`limits.nofile = 2000000000`, "limits.nofile"},
		{`limits.memlock = -1`, "limits.memlock"},
		{`limits.mounts = 0`, "limits.mounts"},
		{`binds.root = "root"`, "must be one of allow, " + RootNobody + ", refuse"},
		{`binds.root = ""`, "must be one of"},
		{`binds.setid = "allow"`, "must be one of report, refuse"},
		{`binds.lost = "ignore"`, "must be one of report, pause"},
		{`binds.allow = "/a"`, "line 1"},
		{`binds.allow = ["a"]`, "clean absolute path"},
		{`binds.allow = ["/a/"]`, "clean absolute path"},
		{`binds.allow = ["/a/../b"]`, "clean absolute path"},
		{`binds.allow = ["/"]`, "would allow everything"},
		{`binds.unprotect = [".gti/config"]`, "binds.unprotect"},
		{`binds.unprotect = ["/a/"]`, "binds.unprotect"},
		{`binds.unprotect = ["/"]`, "binds.unprotect"},
		{`binds.hide = ["a/b"]`, "binds.hide"},
		{`binds.hide = ["*"]`, "binds.hide"},
		{`binds.hide = ["["]`, "binds.hide"},
		{`binds.sockets = ["a"]`, "must be an absolute path"},
		{`binds.sockets = ["/a/["]`, "binds.sockets"},
		{`binds.sockets = ["/**"]`, "would allow everything"},
		{`binds.sockets = ["/"]`, "would allow everything"},
		{`devices.allow = ["/dev"]`, "is not below /dev/"},
		{`devices.allow = ["/etc/passwd"]`, "is not below /dev/"},
		{`devices.allow = ["/dev/../sda"]`, "clean absolute path"},
		{`seccomp.profile = ""`, "seccomp.profile = \"\": must be one of"},
		{`seccomp.on_violation = "log"`, "seccomp.on_violation"},
		{`apparmor.profile = "unconfined"`, "apparmor.profile"},
		{`apparmor.profile = ""`, "apparmor.profile"},
		{`apparmor.profile = "a//&unconfined"`, "apparmor.profile"},
		{`apparmor.profile = "a b"`, "apparmor.profile"},
		{`apparmor.required = "yes"`, "line 1"},
		{"journal.required = true\njournal.enabled = false", "line 1: journal.required"},
		{`journal.keep_for = "30"`, "not a time"},
		{`journal.keep_for = "1.5d"`, "not a time"},
		{`journal.keep_for = "-1d"`, "not a time"},
		{`journal.keep_for = "99999999w"`, "not a time"},
		{`journal.keep_for = 30`, "not a time"},
		{`journal.keep_for = true`, "a time"},
		{`journal.keep_for = "0s"`, ""},
		{`journal.keep_size = -1`, "journal.keep_size"},
		{`journal.keep = -1`, "journal.keep"},
		{`network.mode = "host"`, "network.mode"},
		{`network.filter = "no"`, "network.filter"},
		{"delegate = \"runc\"\ndelegate = \"crun\"", "line 2"},
		{`delegate =`, "line 1"},
		{"\xff", "line 1"},
	} {
		text, profile := c.text, ""
		if strings.Contains(text, "policies.") {
			profile = "p"
		}
		_, err := Parse([]byte(text), "/etc/f", profile)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "/etc/f") {
			t.Errorf("%s: states %v, not %q", c.text, err, c.says)
		} else if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "struct") {
			t.Errorf("%s: not a clear line: %v", c.text, err)
		}
		if profile != "" || strings.Contains(c.text, "\n") {
			continue
		}
		// The same in a profile.
		if _, err := Parse([]byte("policies.p."+c.text), "/etc/f", "p"); err == nil {
			t.Errorf("%s: passes in a profile", c.text)
		}
	}
}

// A profile's list takes the place of the file's: it can be shorter.
func TestProfileLists(t *testing.T) {
	p, err := Parse([]byte("binds.allow = [\"/a\", \"/b\"]\nlimits.pids = 5\n[policies.p.binds]\nallow = [\"/c\"]\n[policies.q.binds]\nallow = []\n"), "f", "p")
	if err != nil || !reflect.DeepEqual(p.Binds.Allow, []string{"/c"}) || p.Limits.Pids != 5 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = Parse([]byte("binds.allow = [\"/a\", \"/b\"]\n[policies.q.binds]\nallow = []\n"), "f", "q")
	if err != nil || len(p.Binds.Allow) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestLoadMissing: a file that was named must exist; the host's own is as good as an empty one.
func TestLoadMissing(t *testing.T) {
	for _, name := range []string{"", "net"} {
		if p, err := Load("/nonexistent/agentjail/config.toml", name); !errors.Is(err, os.ErrNotExist) || p.Origin == nil || p.Origin.Path != "/nonexistent/agentjail/config.toml" {
			t.Errorf("%q: %v, loaded from %+v", name, err, p.Origin)
		}
	}
	if p, err := Parse(nil, DefaultPath, ""); err != nil || !reflect.DeepEqual(p, Default()) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Parse(nil, DefaultPath, "strict"); !errors.Is(err, ErrNoPolicy) || !strings.Contains(err.Error(), `no [policies.strict]`) {
		t.Errorf("a named policy without a file: %v", err)
	}
	if _, err := Load("config.toml", ""); err == nil || !strings.Contains(err.Error(), "must be absolute") {
		t.Errorf("a relative path: %v", err)
	}
}

// TestHostWide: programs for all jails of a host get what the file and each of its profiles state.
func TestHostWide(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: a policy is root's")
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	const text = "ebpf.block = [\"exec\"]\n[policies.p]\nebpf.block = [\"connect\"]\nuserns.pool = \"1073741824:655360\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Blocked(file); !slices.Equal(got, []string{"exec", "connect"}) {
		t.Errorf("blocked: %v", got)
	}
	if got := Pools(file); len(got) != 2 || got[0] != Default().Userns.Pool || got[1].First != 1073741824 {
		t.Errorf("pools: %v", got)
	}
	if got := Blocked(file + ".none"); len(got) != 0 || len(Pools(file+".none")) != 1 {
		t.Errorf("without a file: %v", got)
	}
}

// TestLoadTrust holds that nothing is read that others than root can have
// written, or can replace.
func TestLoadTrust(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	const mine = "limits.pids = 5\n"
	for _, c := range []struct {
		name string
		make func(dir, file string) error
		says string // "" where the file may be read
	}{
		{"root's own", func(dir, file string) error { return nil }, ""},
		{"file of another user", func(dir, file string) error { return os.Chown(file, 1000, 0) }, "belongs to uid 1000"},
		{"group-writable file", func(dir, file string) error { return os.Chmod(file, 0o664) }, "can be written by others"},
		{"world-writable file", func(dir, file string) error { return os.Chmod(file, 0o646) }, "can be written by others"},
		{"directory of another user", func(dir, file string) error { return os.Chown(dir, 1000, 0) }, "belongs to uid 1000"},
		{"group-writable directory", func(dir, file string) error { return os.Chmod(dir, 0o775) }, "can be written by others"},
		{"group of root only counts too", func(dir, file string) error { return os.Chmod(dir, 0o770) }, "can be written by others"},
		{"sticky directory of root", func(dir, file string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, ""},
		{"sticky directory of another user", func(dir, file string) error {
			if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
				return err
			}
			return os.Chown(dir, 1000, 0)
		}, "belongs to uid 1000"},
		{"directory above of another user", func(dir, file string) error { return os.Chown(filepath.Dir(dir), 1000, 0) }, "belongs to uid 1000"},
		{"a link in place of the file", func(dir, file string) error {
			if err := os.Rename(file, file+".real"); err != nil {
				return err
			}
			return os.Symlink(file+".real", file)
		}, "too many levels of symbolic links"},
		{"root's link in place of the directory", func(dir, file string) error {
			if err := os.Rename(dir, dir+".real"); err != nil {
				return err
			}
			return os.Symlink(dir+".real", dir)
		}, ""},
		{"root's relative link in place of the directory", func(dir, file string) error {
			if err := os.Rename(dir, dir+".real"); err != nil {
				return err
			}
			return os.Symlink("../"+filepath.Base(filepath.Dir(dir))+"/./etc.real", dir)
		}, ""},
		{"another user's link in place of the directory", func(dir, file string) error {
			if err := os.Rename(dir, dir+".real"); err != nil {
				return err
			}
			if err := os.Symlink(dir+".real", dir); err != nil {
				return err
			}
			return os.Lchown(dir, 1000, 0)
		}, "chown -h root"},
		{"root's link into another user's directory", func(dir, file string) error {
			home := filepath.Join(filepath.Dir(dir), "home")
			if err := os.Mkdir(home, 0o755); err != nil {
				return err
			}
			if err := os.Rename(dir, home+"/etc"); err != nil {
				return err
			}
			if err := os.Symlink(home+"/etc", dir); err != nil {
				return err
			}
			return os.Chown(home, 1000, 0)
		}, "belongs to uid 1000"},
		{"a ring of links", func(dir, file string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			if err := os.Symlink(dir+"2", dir); err != nil {
				return err
			}
			return os.Symlink(dir, dir+"2")
		}, "too many levels of symbolic links"},
		{"a directory in place of the file", func(dir, file string) error {
			os.Remove(file)
			return os.Mkdir(file, 0o755)
		}, "not a regular file"},
		{"a pipe in place of the file", func(dir, file string) error {
			os.Remove(file)
			return unix.Mkfifo(file, 0o600)
		}, "not a regular file"},
		{"a device in place of the file", func(dir, file string) error {
			os.Remove(file)
			return unix.Mknod(file, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5)))
		}, "not a regular file"},
		{"a huge file", func(dir, file string) error { return os.Truncate(file, maxFile+1) }, "too long"},
		{"a file in place of the directory", func(dir, file string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}, "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := filepath.Join(t.TempDir(), "top")
			dir := filepath.Join(top, "etc")
			file := filepath.Join(dir, "config.toml")
			for _, d := range []string{top, dir} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(file, []byte(mine), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.make(dir, file); err != nil {
				t.Fatal(err)
			}
			p, err := Load(file, "")
			switch {
			case c.says == "" && (err != nil || p.Limits.Pids != 5):
				t.Errorf("not read: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("states %v, not %q", err, c.says)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1B": 1, "1K": 1 << 10, "1KiB": 1 << 10, "2M": 2 << 20, "2 MiB": 2 << 20, " 3GiB ": 3 << 30, "1.5G": 3 << 29, "1TiB": 1 << 40,
		"1k": 1 << 10, "512m": 512 << 20, "1MB": 1 << 20, "1mib": 1 << 20, "2gb": 2 << 30,
	} {
		if s, err := ParseSize(text); err != nil || int64(s) != want {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "K", "-1", "1X", "1.5", "lots", "0x10", "1,5G", "NaNG", "8388608T", "1 1"} {
		if s, err := ParseSize(text); err == nil {
			t.Errorf("%q: is %d", text, s)
		}
	}
	for _, s := range []Size{0, 1, 1023, 1024, 1025, 1 << 20, 3 << 29, 1<<40 + 1} {
		if back, err := ParseSize(s.String()); err != nil || back != s {
			t.Errorf("%d is written %q and read %d, %v", s, s, back, err)
		}
	}
}

// TestBuiltPool: a build can have another default pool, and one that it has wrong is no pool.
func TestBuiltPool(t *testing.T) {
	for text, want := range map[string]idmap.Pool{"": idmap.DefaultPool(), "1879048192:134217728": {First: 1879048192, Count: 134217728}, "x": {}} {
		defaultPool = text
		if got := Default().Userns.Pool; got != want || (got.Check() == nil) != (text != "x") {
			t.Errorf("%q: %+v, %v", text, got, got.Check())
		}
	}
	defaultPool = ""
}

func TestPool(t *testing.T) {
	var p idmap.Pool
	if err := p.UnmarshalText([]byte("2013265920:134086656")); err != nil || p != Default().Userns.Pool || p.Blocks() != 2046 {
		t.Errorf("%+v, %v", p, err)
	}
	if text, _ := p.MarshalText(); string(text) != "2013265920:134086656" {
		t.Errorf("%s", text)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// TestPassthroughOnlyInProfile: what hardens nothing needs a profile that states
// so, and is listed.
func TestPassthroughOnlyInProfile(t *testing.T) {
	for _, profile := range []string{"", "p"} {
		p, err := Parse([]byte("passthrough = true\n[policies.p]\n"), "f", profile)
		if err == nil || !strings.Contains(err.Error(), "only in a [policies.NAME]") {
			t.Errorf("for all callers, profile %q: %+v, %v", profile, p, err)
		}
	}
	p, err := Parse([]byte("[policies.p]\nroot.inodes = 5\n[policies.q]\npassthrough = true\n"), "f", "p")
	if err != nil || p.Passthrough {
		t.Errorf("another profile's: %+v, %v", p, err)
	}
	if got, warnings := p.Tighten(map[string]string{AnnotationPrefix + "passthrough": "true", AnnotationPrefix + "profile": "q"}); got.Passthrough {
		t.Errorf("by annotation: %+v, %v", got, warnings)
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: the file must be root's")
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("[policies.b]\npassthrough = true\n[policies.a]\npassthrough = true\n[policies.c]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := PassingThrough(file); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("listed: %v", got)
	}
}

// The profiles net and debug need no file, and what a file states of them goes on top.
func TestBuiltinProfile(t *testing.T) {
	load := func(text, profile string) Policy {
		t.Helper()
		p, err := Parse([]byte(text), "config.toml", profile)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return p
	}
	p, err := Parse(nil, DefaultPath, "net")
	p.Origin = &Origin{Path: DefaultPath, Name: "net"}
	want := Default()
	want.Origin = p.Origin
	if err != nil || !reflect.DeepEqual(p, want) || !p.NamesNothing() || Default().NamesNothing() {
		t.Errorf("without a file: %+v, %v", p, err)
	}
	if p := load("limits.pids = 7", "net"); p.Network.Mode != NetworkNone || p.Limits.Pids != 7 {
		t.Errorf("with a file that does not name it: %+v", p)
	}
	if p := load("[policies.net]\nlimits.pids = 7", "net"); p.Network.Mode != NetworkNone || p.Limits.Pids != 7 {
		t.Errorf("with further keys: %+v", p)
	}
	if p := load("[policies.net.network]\nmode = \"none\"", "net"); p.Network.Mode != NetworkNone {
		t.Errorf("taken back: %+v", p)
	}
	if p := load("limits.pids = 7", ""); p.Network.Mode != NetworkNone {
		t.Errorf("without profile: %+v", p)
	}
	for text, want := range map[string]string{
		"network.allow = [\"example.org\"]":                                                            NetworkNames,
		"network.mode = \"none\"\nnetwork.allow = [\"example.org\"]":                                   NetworkNames,
		"network.deny = [\"example.org\"]":                                                             NetworkNone,
		"network.allow = []":                                                                           NetworkNone,
		"network.mode = \"names\"":                                                                     NetworkNone,
		"network.mode = \"engine\"":                                                                    NetworkEngine,
		"[policies.net]\nnetwork.mode = \"engine\"":                                                    NetworkEngine,
		"network.publish = [\"8080\"]":                                                                 NetworkNames,
		"[policies.net.network]\nmode = \"engine\"":                                                    NetworkEngine,
		"[policies.net.network]\nallow = [\"example.org\"]":                                            NetworkNames,
		"[policies.net.network]\nmode = \"engine\"\nallow = [\"example.org\"]":                         NetworkEngine,
		"network.allow = [\"example.org\"]\n[policies.net.network]\nmode = \"engine\"":                 NetworkEngine,
		"network.allow = [\"example.org\"]\n[policies.net.network]\nallow = []":                        NetworkNone,
		"network.allow = [\"example.org\"]\n[policies.net.network]\nmode = \"names\"\nallow = []":      NetworkNames,
		"network.allow = [\"example.org\"]\n[policies.net.limits]\npids = 7":                           NetworkNames,
		"network.mode = \"names\"\nnetwork.allow = [\"example.org\"]\n[policies.net.limits]\npids = 7": NetworkNames,
	} {
		if p := load(text, "net"); p.Network.Mode != want {
			t.Errorf("net, of %q: %q, want %q", text, p.Network.Mode, want)
		}
	}
	if _, err := Parse([]byte("network.mode = \"\""), "config.toml", ""); err == nil {
		t.Error("a file states no mode")
	}
	debug := load("", "debug")
	want = Default()
	want.Seccomp.Profile = "debug"
	if !reflect.DeepEqual(debug, want) || !debug.NeedsLandlock() || p.NeedsLandlock() {
		t.Errorf("debug: %+v", debug)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.toml"), "nets"); err == nil {
		t.Error("a profile that is not there")
	}
	for _, name := range AnnotationNames() {
		if strings.Contains(name, "network") && name != "network.allow" && name != "network.publish" && name != "network.approval" { // held to policy's: TestNetworkAllow, TestNetworkPublish, TestNetworkApproval
			t.Errorf("the annotation %s chooses a network", name)
		}
	}
}

// TestNetworkApproval: an annotation and a project's own file turn it off, and never on.
func TestNetworkApproval(t *testing.T) {
	for _, c := range []struct{ policy, asked, want string }{{"prompt", "off", "off"}, {"prompt", "prompt", "prompt"}, {"off", "prompt", "off"}, {"off", "off", "off"}, {"prompt", "maybe", "prompt"}} {
		p := Default()
		p.Network.Approval = c.policy
		got, ignored := p.Tighten(map[string]string{AnnotationPrefix + "network.approval": c.asked})
		if got.Network.Approval != c.want || (len(ignored) > 0) != (c.asked != c.want) {
			t.Errorf("%+v: %q, %v", c, got.Network.Approval, ignored)
		}
		if len(ignored) > 0 && ignored[0].Invalid != (c.asked == "maybe") {
			t.Errorf("%+v: %v", c, ignored)
		}
		narrowed, err := p.Narrow(ReadProject([]byte("network.approval = \""+c.asked+"\""), "f"))
		if narrowed.Network.Approval != c.want || (err != nil) != (c.asked != c.want) {
			t.Errorf("%+v: of a project: %q, %v", c, narrowed.Network.Approval, err)
		}
	}
}

// TestApprovalCommand: the program is named by a clean absolute path.
func TestApprovalCommand(t *testing.T) {
	for _, bad := range []string{"decides", "/usr/../bin/decides", ""} {
		p := Default()
		p.Network.ApprovalCommand = []string{bad}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "network.approval_command") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestNetworkAllow: rules that cannot be read are refused, and an annotation only narrows those of policy.
func TestNetworkAllow(t *testing.T) {
	for _, bad := range []string{`allow = ["*"]`, `allow = ["a.example.org:0"]`, `deny = ["a..b"]`, `allow = ["@nothing"]`} {
		if _, err := Parse([]byte("[network]\nmode = \"names\"\n"+bad), "x", ""); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	p, err := Parse([]byte("[network]\nmode = \"names\"\nallow = [\"*.example.org:443,22\", \"pkg.example.net\"]\ndeny = [\"bad.example.org\"]"), "x", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ask, name string
		port      uint16
		followed  bool
		ok        bool
	}{
		{"git.example.org:22", "git.example.org", 22, true, true},
		{"git.example.org:22", "git.example.org", 443, true, false},
		{"git.example.org:22 ; pkg.example.net:443", "pkg.example.net", 443, true, true},
		{"*.example.org:443", "bad.example.org", 443, true, false},
		{"", "pkg.example.net", 443, true, false},
		{"evil.org", "evil.org", 443, false, false},
		{"pkg.example.net; evil.org", "pkg.example.net", 443, false, true}, // as policy has it
		{"*.example.org:8443", "x.example.org", 8443, false, false},
		{"git.example.org:22 private", "git.example.org", 22, false, true},
	} {
		got, ignored := p.Tighten(map[string]string{AnnotationPrefix + "network.allow": c.ask})
		set, err := got.Network.Rules()
		if err != nil {
			t.Fatal(err)
		}
		if (len(ignored) == 0) != c.followed || set.Match(c.name, c.port).OK != c.ok {
			t.Errorf("%q: %v, %s:%d %+v", c.ask, ignored, c.name, c.port, set.Match(c.name, c.port))
		}
	}
	// Presets are what they stand for now.
	g, err := Parse([]byte("[network]\nmode = \"names\"\nallow = [\"@github\", \"pkg.example.net\"]"), "x", "")
	if err != nil || slices.Contains(g.Network.Allow, "@github") || len(g.Network.Allow) < 3 {
		t.Errorf("%v, %v", g.Network.Allow, err)
	}
	// Where the network is another it states nothing.
	d := Default()
	if got, ignored := d.Tighten(map[string]string{AnnotationPrefix + "network.allow": "pkg.example.net"}); len(ignored) != 1 || got.Network.Mode != NetworkNone {
		t.Errorf("in mode none: %v, %+v", ignored, got.Network)
	}
}

// TestFormerNames: the table that named policies stood in is an error that names the new one.
func TestFormerNames(t *testing.T) {
	for _, text := range []string{"[profiles.x]\nlimits.pids = 5\n", "profiles = 1\n"} {
		if _, err := Parse([]byte(text), "c.toml", ""); err == nil || !strings.Contains(err.Error(), "[policies.NAME]") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Parse(nil, "c.toml", "none"); !errors.Is(err, ErrNoPolicy) {
		t.Errorf("a name without a policy: %v", err)
	}
}
