package leak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// mostMemory is what the runtime may use for any input: it runs as root, outside every limit.
const mostMemory = 512 << 20

// change returns a good config.json with one thing made different.
func change(f func(s object)) func(t *testing.T, id string) []byte {
	return func(t *testing.T, id string) []byte {
		s := spec(id, "/bin/true")
		f(s)
		text, err := json.Marshal(s)
		env.Check(t, err)
		return text
	}
}

func set(path string, v any) func(t *testing.T, id string) []byte {
	return change(func(s object) {
		keys := strings.Split(path, ".")
		for _, k := range keys[:len(keys)-1] {
			s = s[k].(object)
		}
		s[keys[len(keys)-1]] = v
	})
}

func text(s string) func(*testing.T, string) []byte {
	return func(*testing.T, string) []byte { return []byte(s) }
}

// badInput are configurations that no container can come from.
var badInput = []struct {
	name string
	make func(t *testing.T, id string) []byte
}{
	{"empty", text("")},
	{"not JSON", text("this is not JSON")},
	{"null", text("null")},
	{"array", text("[]")},
	{"number", text("1e999")},
	{"empty object", text("{}")},
	{"truncated", func(t *testing.T, id string) []byte {
		b := change(func(object) {})(t, id)
		return b[:len(b)/2]
	}},
	{"two values", func(t *testing.T, id string) []byte { return append(change(func(object) {})(t, id), []byte(" {}")...) }},
	{"binary", text("\x00\x01\x02\xff\xfe")},
	{"UTF-16", text("\xff\xfe{\x00}\x00")},
	{"deep arrays", text(`{"ociVersion":"1.0.2","x":` + strings.Repeat("[", 1<<20))},
	{"deep objects", text(`{"ociVersion":"1.0.2","x":` + strings.Repeat(`{"a":`, 200000) + "1" + strings.Repeat("}", 200000) + "}")},
	{"args a string", set("process.args", "/bin/true")},
	{"no args", set("process.args", []string{})},
	{"args with numbers", set("process.args", []any{1, 2})},
	{"NUL in args", set("process.args", []string{"/bin/echo", "a\x00b"})},
	{"no process", change(func(s object) { delete(s, "process") })},
	{"process a list", set("process", []string{})},
	{"relative cwd", set("process.cwd", "home")},
	{"uid a string", set("process.user", object{"uid": "root"})},
	{"uid negative", set("process.user", object{"uid": -1})},
	{"uid no id", set("process.user", object{"uid": 4294967295, "gid": 0})},
	{"mounts an object", set("mounts", object{})},
	{"mount without destination", set("mounts", []object{{"type": "tmpfs", "source": "tmpfs"}})},
	{"thousands of mounts", change(func(s object) {
		mounts := s["mounts"].([]object)
		for i := range 5000 {
			mounts = append(mounts, object{"destination": fmt.Sprintf("/m%d", i), "type": "tmpfs", "source": "tmpfs"})
		}
		s["mounts"] = mounts
	})},
	{"bind of nothing", change(func(s object) {
		s["mounts"] = append(s["mounts"].([]object), object{"destination": "/m", "type": "bind", "source": "/no/such/directory", "options": []string{"rbind"}})
	})},
	{"NUL in a mount", change(func(s object) {
		s["mounts"] = append(s["mounts"].([]object), object{"destination": "/m\x00", "type": "tmpfs", "source": "tmpfs"})
	})},
	{"unknown file system", change(func(s object) {
		s["mounts"] = append(s["mounts"].([]object), object{"destination": "/m", "type": "nosuchfs", "source": "x"})
	})},
	{"linux a string", set("linux", "yes")},
	{"namespaces a string", set("linux.namespaces", "all")},
	{"unknown namespace", set("linux.namespaces", []object{{"type": "wormhole"}})},
	{"namespace path of nothing", set("linux.namespaces", []object{{"type": "network", "path": "/no/such/ns"}})},
	{"memory a string", set("linux.resources", object{"memory": object{"limit": "much"}})},
	{"pids a float", set("linux.resources", object{"pids": object{"limit": 1.5}})},
	{"unknown capability type", set("process.capabilities", "all")},
	{"root a string", set("root", "/")},
	{"no root", change(func(s object) { delete(s, "root") })},
	{"root is nothing", set("root", object{"path": "/no/such/root"})},
	{"root is empty", set("root", object{"path": ""})},
	{"root is the host's", set("root", object{"path": "/"})},
	{"root is the host's /usr", set("root", object{"path": "/usr"})},
	{"root is the host's /etc", set("root", object{"path": "/etc"})},
	{"root is below the host's /run", set("root", object{"path": "/run/agentjail"})},
	{"root is a file", func(t *testing.T, id string) []byte {
		return set("root", object{"path": filepath.Join(base, "rootfs/etc/passwd")})(t, id)
	}},
	{"root is a link", func(t *testing.T, id string) []byte {
		return set("root", object{"path": linkTo(t, "rootfs", "")})(t, id)
	}},
	{"a parent of root is a link", func(t *testing.T, id string) []byte {
		return set("root", object{"path": linkTo(t, "", "rootfs")})(t, id)
	}},
	{"root of an unsupported file system", set("root", object{"path": "/proc"})},
	{"not UTF-8", func(t *testing.T, id string) []byte {
		return bytes.Replace(change(func(object) {})(t, id), []byte(`"/bin/true"`), []byte("\"/bin/tr\xc3\x28ue\""), 1)
	}},
	{"not UTF-8 in a mount", func(t *testing.T, id string) []byte {
		return bytes.Replace(change(func(object) {})(t, id), []byte(`"/dev/shm"`), []byte("\"/dev/\xff\xfe\""), 1)
	}},
}

// linkTo makes a symbolic link to base/target below a new directory and returns the link's path with rest behind it.
func linkTo(t *testing.T, target, rest string) string {
	t.Helper()
	dir := engine.TempDir(t, base, "link-")
	env.Check(t, os.Chmod(dir, 0o755))
	link := filepath.Join(dir, "link")
	env.Check(t, os.Symlink(filepath.Join(base, target), link))
	return filepath.Join(link, rest)
}

// TestBadInput: one clear line reports what is wrong, the exit code is 1, and nothing is left.
func TestBadInput(t *testing.T) {
	for i, c := range badInput {
		t.Run(c.name, func(t *testing.T) {
			id := newID(i) + "-bad"
			refuses(t, id, rawBundle(t, c.make(t, id)))
		})
	}
	env.Check(t, engine.RemoveCgroups(filepath.Base(base)))
}

// TestHugeInput: the size of a file does not decide how much memory the runtime uses. The file is written piece by piece,
// since what this process uses counts for what it starts (getrusage(2) takes the maximum across execve).
func TestHugeInput(t *testing.T) {
	for name, piece := range map[string]string{"string": "x", "space": " ", "array": "[", "members": `"a":1,`} {
		t.Run(name, func(t *testing.T) {
			id := newID(0) + "-huge"
			dir := rawBundle(t, nil)
			f, err := os.OpenFile(dir+"/config.json", os.O_WRONLY|os.O_TRUNC, 0)
			env.Check(t, err)
			if name == "string" || name == "members" {
				_, err = f.WriteString(`{"ociVersion":"1.0.2",` + map[string]string{"string": `"hostname":"`, "members": ""}[name])
				env.Check(t, err)
			}
			for pieces, i := strings.Repeat(piece, 1<<16), 0; i < 2000; i++ {
				_, err = f.WriteString(pieces)
				env.Check(t, err)
			}
			env.Check(t, f.Close())
			refuses(t, id, dir)
		})
	}
}

// TestBadBundle is about what is no bundle.
func TestBadBundle(t *testing.T) {
	empty := func(t *testing.T) string {
		dir := rawBundle(t, nil)
		env.Check(t, os.Remove(dir+"/config.json"))
		return dir
	}
	good := func(t *testing.T) []byte { return change(func(object) {})(t, newID(0)) }
	for name, make := range map[string]func(t *testing.T) string{
		"no bundle":      func(t *testing.T) string { return "/no/such/bundle" },
		"a file":         func(t *testing.T) string { return rawBundle(t, good(t)) + "/config.json" },
		"no config.json": empty,
		"a directory":    func(t *testing.T) string { d := empty(t); env.Check(t, os.Mkdir(d+"/config.json", 0o755)); return d },
		"a pipe":         func(t *testing.T) string { d := empty(t); env.Check(t, unix.Mkfifo(d+"/config.json", 0o600)); return d },
		"a device": func(t *testing.T) string {
			d := empty(t)
			env.Check(t, os.Symlink("/dev/zero", d+"/config.json"))
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			refuses(t, newID(0)+"-bundle", make(t))
		})
	}
}

// TestBadID: ids become names of files and cgroups.
func TestBadID(t *testing.T) {
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/x", "a b", "x\ny", strings.Repeat("x", 5000), "-x", "é"} {
		t.Run(fmt.Sprintf("%.10q", id), func(t *testing.T) {
			refuses(t, id, bundle(t, spec("bad-id", "/bin/true")))
		})
	}
}

// refuses calls create and expects an orderly refusal.
func refuses(t *testing.T, id, dir string) {
	t.Helper()
	before := take(t)
	log := filepath.Join(base, "log.json")
	defer os.Remove(log)
	// If it were accepted after all, the host's mounts must not be what the jail's root file system is put on.
	r := caller{private: true}.call(t, "--log", log, "--log-format", "json", "create", "--bundle", dir, "--pid-file", base+"/pid", id)
	if r.Code != 1 {
		caller{}.call(t, "delete", "--force", id)
		reapAll()
		t.Errorf("exit code %d, signal %v", r.Code, r.signal)
	}
	printed := strings.TrimSpace(r.Stdout + r.Stderr)
	if lines := strings.Split(printed, "\n"); len(lines) != 1 || printed == "" || len(printed) > 1000 {
		t.Errorf("%d lines, %d characters: %.600s", len(lines), len(printed), printed)
	}
	if strings.Contains(printed, "goroutine") || strings.Contains(printed, "panic") {
		t.Errorf("a panic: %.2000s", printed)
	}
	// What docker shows is the last error in the log.
	var last struct{ Level, Msg string }
	data, _ := os.ReadFile(log)
	for line := range bytes.SplitSeq(bytes.TrimSpace(data), []byte("\n")) {
		var l struct{ Level, Msg string }
		if err := json.Unmarshal(line, &l); err != nil {
			t.Errorf("a line of the log is not JSON: %v: %.200q", err, line)
		} else if l.Level == "error" {
			last = l
		}
	}
	if last.Msg == "" || strings.Contains(last.Msg, "\n") {
		t.Errorf("the log has no error for docker to show: %.600q", data)
	}
	if r.maxRSS > mostMemory {
		t.Errorf("it used %d MiB", r.maxRSS>>20)
	}
	t.Logf("%.200s", printed)
	if _, err := os.Lstat(base + "/pid"); err == nil {
		t.Error("a pid file is there")
		os.Remove(base + "/pid")
	}
	unchanged(t, before)
}
