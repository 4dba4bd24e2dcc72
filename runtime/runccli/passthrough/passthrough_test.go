package passthrough

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/testprograms"
	"agentjail.dev/runtime/spec/policy"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		line string
		want call
	}{
		{"", call{}},
		{"--version", call{Args: words("--version")}},
		{"create x", call{Args: words("create x"), Verb: "create", ID: "x"}},
		{
			"--root /r --log /l --log-format json --systemd-cgroup create --bundle b --config c x",
			call{Args: words("--root /r --log /l --log-format json --systemd-cgroup create --bundle b --config c x"), Verb: "create", ID: "x", Log: "/l", LogFormat: "json"},
		},
		{"--config /p --trace /t --debug run -d x", call{Args: words("--debug run -d x"), Verb: "run", ID: "x", Config: "/p"}},
		{"-config=/p --log=/l -trace=/t state x", call{Args: words("--log=/l state x"), Verb: "state", ID: "x", Config: "/p", Log: "/l"}},
		// A value that looks like a verb, an option, or agentjail's own.
		{"--root create --log --config --config /p list", call{Args: words("--root create --log --config list"), Verb: "list", Config: "/p", Log: "--config"}},
		{"--cgroup-manager cgroupfs --config /p run x", call{Args: words("--cgroup-manager cgroupfs run x"), Verb: "run", ID: "x", Config: "/p"}},
		{"--config", call{}},
		{"--root", call{Args: words("--root")}},
		{"-- create x", call{Args: words("-- create x")}},
		{"exec x --config y", call{Args: words("exec x --config y"), Verb: "exec", ID: "y"}},
	} {
		if c.want.Config == "" {
			c.want.Config = policy.DefaultPath
		}
		if c.line == "--config" {
			c.want.Config = ""
		}
		if got := read(words(c.line)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\n got %+v\nwant %+v", c.line, got, c.want)
		}
	}
}

func words(s string) []string { return strings.Fields(s) }

// TestWarnsOfNoProtection: a warning is an entry of the engine's log, in its form, whatever the
// container is called.
func TestWarnsOfNoProtection(t *testing.T) {
	for format, want := range map[string]string{
		"json": `"level":"warning","msg":"agentjail: passthrough: nothing is hardened, this container is no jail (run a\\x0a\"b)"`,
		"text": ` level=warning msg="agentjail: passthrough: nothing is hardened, this container is no jail (run a\\x0a\"b)"` + "\n",
	} {
		log := filepath.Join(t.TempDir(), "log")
		c := call{Verb: "run", ID: "a\n\"b", Log: log, LogFormat: format}
		warn(c.warning(), c)
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) || bytes.Count(text, []byte("\n")) != 1 {
			t.Errorf("%s: %q does not hold %q", format, text, want)
		}
		if format == "json" && !json.Valid(text) {
			t.Errorf("no JSON: %s", text)
		}
	}
}

// The delegate of TestAsItCame prints all that it was started with.
const teller = `#!/bin/sh
echo "arguments: $*"
echo "umask: $(umask)"
echo "limit: $(ulimit -n)"
for fd in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/self/fd/$fd ] && echo "fd $fd"; done
cat <&3
grep -E '^Sig(Blk|Ign)' /proc/self/status
env | grep -v -e ^_= | sort
exit 7
`

// build makes agentjail, a policy and a link for the profile in a directory that
// only root can change, and returns the link's and the policy's path.
func build(t *testing.T, config string) (link, conf string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: policy and delegate must be root's")
	}
	dir := t.TempDir()
	if err := testprograms.Put(dir, "agentjail", "agentjailctl"); err != nil {
		t.Fatal(err)
	}
	link, conf = filepath.Join(dir, "agentjail-bare"), filepath.Join(dir, "config.toml")
	if err := os.Symlink("agentjail", link); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(dir, "runc"): teller, conf: strings.ReplaceAll(config, "DIR", dir)} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return link, conf
}

// start runs a program as an engine might: with another umask, limits, ignored
// signals, variables and open files.
func start(t *testing.T, path string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	f := filepath.Join(t.TempDir(), "third")
	if err := os.WriteFile(f, []byte("the third file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `umask 0027; ulimit -Sn 333; trap "" HUP; exec "$0" "$@" 3<` + f + ` 5>/dev/null`
	cmd := exec.Command("sh", append([]string{"-c", script, path}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET=/n", "LISTEN_FDS=1", "LISTEN_PID=5", "LD_BIND_NOW=", "GODEBUG=x=y", "ANY=thing"}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run()
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// TestAsItCame: the delegate is started by agentjail as it would be without, but
// for agentjail's own options.
func TestAsItCame(t *testing.T) {
	link, conf := build(t, "[policies.bare]\npassthrough = true\ndelegate = \"DIR/runc\"\n")
	dir := filepath.Dir(link)
	log := filepath.Join(dir, "log")
	for _, args := range [][]string{
		{"--log", log, "create", "--bundle", "/b", "--no-pivot", "--preserve-fds", "3", "x"},
		{"exec", "--cap", "CAP_SYS_ADMIN", "x", "sh", "-c", "a b"},
		{"checkpoint", "x"},
		{"restore", "x"},
		{"spec"},
		{"init"},
		{"features"},
		{"--version"},
		{"--help"},
		{},
		{"no-such-verb"},
		{"--unknown", "state", "x"},
	} {
		wantOut, wantErr, wantCode := start(t, filepath.Join(dir, "runc"), args...)
		out, errOut, code := start(t, link, append([]string{"--config", conf, "--trace", "/t"}, args...)...)
		if out != wantOut || errOut != wantErr || code != wantCode {
			t.Errorf("%v\n got %d %s%s\nwant %d %s%s", args, code, out, errOut, wantCode, wantOut, wantErr)
		}
		if wantCode != 7 || !strings.Contains(wantOut, "the third file") {
			t.Fatalf("the delegate itself: %d, %s%s", wantCode, wantOut, wantErr)
		}
	}
	if text, _ := os.ReadFile(log); !strings.Contains(string(text), "nothing is hardened") {
		t.Errorf("the engine's log: %s", text)
	}
}

// TestOnlyByProfile: by any other name, and with any other file, agentjail
// answers itself.
func TestOnlyByProfile(t *testing.T) {
	link, conf := build(t, "delegate = \"DIR/runc\"\n[policies.bare]\npassthrough = true\n[policies.other]\n")
	dir := filepath.Dir(link)
	refused := func(what, path string, args ...string) {
		t.Helper()
		out, errOut, code := start(t, path, args...)
		if code == 7 || strings.Contains(out, "arguments:") {
			t.Errorf("%s: the delegate was called: %d %s%s", what, code, out, errOut)
		}
	}
	other := filepath.Join(dir, "agentjail-other")
	if err := os.Symlink("agentjail", other); err != nil {
		t.Fatal(err)
	}
	refused("no profile", filepath.Join(dir, "agentjail"), "--config", conf, "restore", "x")
	refused("another profile", other, "--config", conf, "restore", "x")
	refused("without the file", link, "--config", filepath.Join(dir, "none"), "restore", "x")
	refused("agentjail's own verb", link, "--config", conf, "sandbox", "true")
	if err := os.Chmod(conf, 0o666); err != nil {
		t.Fatal(err)
	}
	refused("a file that others can write", link, "--config", conf, "restore", "x")
	if err := os.Chmod(conf, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(dir, "runc"), 1000, 0); err != nil {
		t.Fatal(err)
	}
	refused("a delegate that is not root's", link, "--config", conf, "restore", "x")
	if err := os.Chown(filepath.Join(dir, "runc"), 0, 0); err != nil {
		t.Fatal(err)
	}
	out, _, _ := start(t, link, "--config", conf, "check", "-v")
	if !strings.Contains(out, "passthrough: nothing is hardened by policy bare") {
		t.Errorf("check:\n%s", out)
	}
	out, _, _ = start(t, filepath.Join(dir, "agentjail"), "--config", conf, "check", "-v")
	if !strings.Contains(out, "passthrough: nothing is hardened by policy bare, reached by a link named agentjail-bare") {
		t.Errorf("check:\n%s", out)
	}
	_, errOut, _ := start(t, link, "--config", conf, "inspect", "x")
	if !strings.Contains(errOut, "passthrough: this policy hardens nothing") {
		t.Errorf("inspect: %s", errOut)
	}
}

// TestRun: the same in a process that goes on.
func TestRun(t *testing.T) {
	link, conf := build(t, "delegate = \"DIR/runc\"\n[policies.bare]\npassthrough = true\n[policies.other]\n")
	out, err := os.Create(filepath.Join(filepath.Dir(link), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	args := []string{"--config", conf, "--log", os.DevNull, "create", "--bundle", "/b", "x"}
	status, done, err := Run(args, "bare", [3]*os.File{nil, out, nil})
	text, rerr := os.ReadFile(out.Name())
	if status != 7 || !done || err != nil || rerr != nil || !strings.HasPrefix(string(text), "arguments: --log /dev/null create --bundle /b x\n") {
		t.Errorf("%d, %v, %v: %s", status, done, err, text)
	}
	for _, profile := range []string{"", "other", "none"} {
		if status, done, err := Run(args, profile, [3]*os.File{nil, out, nil}); done || err != nil {
			t.Errorf("profile %q: %d, %v", profile, status, err)
		}
	}
}
