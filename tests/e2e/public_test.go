package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/bindsource/gitsettings"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestPublicFiles: what people mount of the host's configuration is there in a jail, as a read-only copy, and states no
// more than it is meant to.
func TestPublicFiles(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	mounts := []string{
		"-v", "/etc/localtime:/etc/localtime:ro", "-v", "/etc/timezone:/etc/timezone", "-v", "/etc/ssl/certs:/etc/ssl/certs:ro",
		"-v", "/etc/ssl/certs/ca-certificates.crt:/ca.crt:ro", "-v", "/etc/passwd:/etc/passwd:ro", "-v", "/etc/group:/etc/group:ro", "-u", "1234:1234",
	}
	args := []string{"run", "--rm", jail}
	for i := 0; i < len(mounts); i += 2 {
		if from, _, ok := strings.Cut(mounts[i+1], ":/"); ok {
			if _, err := os.Stat(from); err != nil {
				t.Logf("not on this machine: %v", err)
				continue
			}
		}
		args = append(args, mounts[i], mounts[i+1])
	}
	out := d.Must(append(args, engine.Busybox, "sh", "-c", `head -c 4 /etc/localtime; echo
		for f in /etc/localtime /etc/timezone /etc/passwd /ca.crt; do [ ! -e $f ] || echo x 2>&1 >> $f; done
		grep ' /etc/localtime ' /proc/self/mountinfo; ls /etc/ssl/certs | wc -l; touch /etc/ssl/certs/x; cat /etc/passwd; cat /etc/timezone`)...)
	t.Log(out)
	env.Contain(t, "the time zone", out, "TZif")
	env.Contain(t, "the host's root", out, "root:x:0:0::/root:")
	if strings.Contains(out, "/usr/share/zoneinfo/") {
		t.Errorf("the mount table names the host's file: %s", out)
	}
	for line := range strings.Lines(string(env.Read(t, "/etc/passwd"))) {
		f := strings.Split(line, ":")
		if len(f) == 7 && len(f[2]) > 2 && f[2] != "1234" && f[2] != "65534" && strings.Contains(out, f[0]+":x:"+f[2]) {
			t.Errorf("an account of the host's: %s", line)
		}
	}
	for _, name := range []string{"localtime", "timezone", "passwd"} {
		if before, err := os.ReadFile("/etc/" + name); err == nil && strings.HasSuffix(string(before), "\nx\n") {
			t.Errorf("/etc/%s of the host was written to", name)
		}
	}
	// Through a link that anybody could have made it is another's choice.
	link := filepath.Join(directory(t, 1000), "localtime")
	env.Check(t, os.Symlink("/etc/localtime", link))
	r := runJail(d, "-v", link+":/etc/localtime:ro", engine.Busybox, "true")
	env.Contain(t, "a link of an ordinary user's", r.Stderr, "refused: the symbolic link")
	r = runJail(d, "-v", "/etc/shadow:/shadow:ro", engine.Busybox, "true")
	env.Contain(t, "/etc/shadow", r.Stderr, "refused: it holds the host's configuration")
}

// TestPublicGitSettings: git's settings of the host are copied, unless one could be a credential.
func TestPublicGitSettings(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const at = "/etc/gitconfig"
	write := func(text string) {
		f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		env.Check(t, err)
		if _, err := f.WriteString(text); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	look := func(what string) engine.Result {
		text := string(env.Read(t, at))
		r := runJail(d, "-v", at+":/root/.gitconfig:ro", engine.Busybox, "cat", "/root/.gitconfig")
		want, err := gitsettings.Copy(text)
		if err != nil {
			env.Contain(t, what, r.Stderr, "no copy is made: "+err.Error())
			return r
		}
		env.Equal(t, what, r.Stdout, want)
		return r
	}
	if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		look("this machine's own, which stays as it is")
		return
	}
	t.Cleanup(func() { os.Remove(at) })
	write("# a remark\n[alias]\n\tagentjail-test = status\n")
	env.Equal(t, "the copy", look("a harmless one").Stdout, "[alias]\n\tagentjail-test = \"status\"\n")
	os.Remove(at)
	write("[http \"https://agentjail.invalid/\"]\n\textraHeader = Authorization: Basic eA==\n")
	r := look("one with a credential")
	if r.Code == 0 || strings.Contains(r.Stderr+r.Stdout, "eA==") {
		t.Errorf("the credential shows: %s", r)
	}
}
