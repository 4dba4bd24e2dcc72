package names

import (
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// lendSSH are keys for git over ssh: DIR is where they are.
const lendSSH = `[network]
mode = "names"
allow = ["forge.example.test:22,2222", "wrong.example.test:22"]

[credentials.forge]
hosts = ["forge.example.test"]
ssh = "root"
from = "file:DIR/ed25519"
known_hosts = "DIR/known"

[credentials.narrow]
hosts = ["forge.example.test:2222"]
ssh = "root"
from = "command:/bin/cat DIR/rsa"
known_hosts = "DIR/known"
repositories = ["DIR/git/r.git", "DIR/git/team/*"]

[credentials.wrong]
hosts = ["wrong.example.test"]
ssh = "root"
from = "file:DIR/ed25519"
known_hosts = "DIR/known"
`

// forge is a server of git outside, whose users have keys.
func forge(t *testing.T, n *internet) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "agentjail-forge-")
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	script := `set -eu
		export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.test
		git init -q -b main work; cd work; seq 2000 > numbers; git add .; git commit -qm first; cd ..
		mkdir -p git/team; for r in r team/a other; do git clone -q --bare work git/$r.git; done
		for k in host another ed25519; do ssh-keygen -q -t ed25519 -N '' -f $k; done
		ssh-keygen -q -t rsa -b 2048 -N '' -f rsa
		ssh-keygen -q -t ed25519 -N secret -f locked
		cat ed25519.pub rsa.pub > authorized; (umask 077; echo junk > junk)
		{ echo "forge.example.test $(cut -d' ' -f1,2 host.pub)"; } > known; ssh-keygen -q -H -f known; rm -f known.old
		echo "[forge.example.test]:2222 $(cut -d' ' -f1,2 host.pub)" >> known
		echo "wrong.example.test $(cut -d' ' -f1,2 another.pub)" >> known
		printf 'HostKey %s/host\nAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin yes\nAcceptEnv GIT_PROTOCOL LANG\nSubsystem sftp internal-sftp\n' "$PWD" "$PWD" > sshd_config`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || os.MkdirAll("/run/sshd", 0o755) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.do(func() error {
		if err := env.IP("addr add 5.5.5.12/24 dev net"); err != nil {
			return err
		}
		for _, port := range []string{"22", "2222"} {
			l, err := listen("5.5.5.12", port)
			if err != nil {
				return err
			}
			t.Cleanup(func() { l.Close() })
			go inetd(func() *exec.Cmd {
				return exec.Command("/usr/sbin/sshd", "-i", "-e", "-f", filepath.Join(dir, "sshd_config"))
			})(l)
		}
		return nil
	})
	return dir
}

// withKeys is a jail of this machine's programs, to be started.
func withKeys(t *testing.T, n *internet, policy string) *jail {
	t.Helper()
	j := newJail(t, n)
	err := errors.Join(os.WriteFile(j.conf, []byte(policy), 0o600), skeleton(j.b.Rootfs), os.MkdirAll(filepath.Join(j.b.Rootfs, "etc/ssh"), 0o755))
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/nsswitch.conf": "hosts: files dns\n", "etc/ssh/ssh_known_hosts": "# the image's own\n",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(j.b.Rootfs, name), []byte(text), 0o644))
	}
	env.Check(t, err)
	j.b.Spec.Mounts = append(j.b.Spec.Mounts, specs.Mount{Destination: "/usr", Type: "bind", Source: "/usr", Options: []string{"rbind", "ro"}})
	j.b.Spec.Process.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	return j
}

// TestCredentialsSSH: git in the jail clones, fetches and pushes by keys that the jail does not have, and does nothing else with them.
func TestCredentialsSSH(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	dir := forge(t, n)
	j := withKeys(t, n, strings.ReplaceAll(lendSSH, "DIR", dir))
	j.start(t)
	const at, narrow = "root@forge.example.test:DIR/git/", "ssh://root@forge.example.test:2222DIR/git/"
	for _, w := range []struct{ what, script, want string }{
		{"clone", "cd /tmp && git clone -q " + at + "r.git r && wc -l < r/numbers", "2000"},
		{"fetch and push", "cd /tmp/r && git commit -q --allow-empty -m x && git push -q origin HEAD:refs/heads/pushed && git fetch -q && git ls-remote origin pushed", "refs/heads/pushed"},
		{"the page's", `cd /tmp && export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url."` + at + `r.git".insteadOf GIT_CONFIG_VALUE_0=git@git.example.test:team/project.git &&
			git clone git@git.example.test:team/project.git && wc -l < project/numbers && rm -rf project`, "2000"},
		{"archive", "git archive --remote=" + at + "r.git HEAD | tar t", "numbers"},
		{"the protocol's version", "GIT_TRACE_PACKET=1 git -c protocol.version=2 ls-remote " + at + "r.git 2>&1", "version 2"},
		{"a large push", "cd /tmp/r && head -c 4000000 /dev/urandom > big && git add big && git commit -qm big && git push -q origin HEAD:refs/heads/big && git ls-remote origin big", "refs/heads/big"},
		{"rsa, a repository", "cd /tmp && git clone -q " + narrow + "r.git r2 && wc -l < r2/numbers", "2000"},
		{"one below a directory", "git ls-remote " + narrow + "team/a.git HEAD", "HEAD"},
		{"three at once", "cd /tmp && for i in 1 2 3; do git clone -q " + at + "r.git p$i & done; wait; cat p*/numbers | wc -l", "6000"},
		{"what the image has", "head -1 /etc/ssh/ssh_known_hosts; touch /etc/ssh/ssh_known_hosts", "the image's own"},
		{"the server's word", "git ls-remote " + at + "none.git", "does not appear to be a git repository"},
	} {
		if got, took := j.output(t, strings.ReplaceAll(w.script, "DIR", dir)); !strings.Contains(got, w.want) {
			t.Errorf("%s: %q, want %q", w.what, got, w.want)
		} else {
			t.Logf("%s: %v", w.what, took)
		}
	}
	for _, w := range []struct{ what, script, want string }{
		{"a repository that is not listed", "git ls-remote " + narrow + "other.git", "no key is for repository"},
		{"one beside a directory", "git ls-remote " + narrow + "team/../other.git", "a path with an empty element"},
		{"a server with another key", "git ls-remote root@wrong.example.test:DIR/git/r.git", "known_hosts"},
		{"another user", "git ls-remote git@forge.example.test:DIR/git/r.git", "has no key in policy"},
		{"a command", "ssh root@forge.example.test id", "none of git's"},
		{"a command behind git's", "ssh root@forge.example.test \"git-upload-pack 'DIR/git/r.git'; id\"", "refused"},
		{"an option of git's", "ssh root@forge.example.test \"git-upload-pack --strict 'DIR/git/r.git'\"", "refused"},
		{"a shell", "ssh root@forge.example.test </dev/null", "a shell"},
		{"a terminal", "ssh -tt root@forge.example.test </dev/null", "PTY allocation request failed"},
		{"sftp", "sftp -b /dev/null root@forge.example.test", "subsystem request failed"},
		{"scp", "scp -O /etc/passwd root@forge.example.test:/tmp/", "none of git's"},
		{"a port there", "ssh -W 127.0.0.1:22 root@forge.example.test", "stdio forwarding failed"},
		{"a port here", "ssh -N -o ExitOnForwardFailure=yes -R 9999:127.0.0.1:9 root@forge.example.test", "remote port forwarding failed"},
		{"a large file store", "ssh root@forge.example.test \"git-lfs-authenticate 'r.git' download\"", "none of git's"},
	} {
		got, took := j.output(t, strings.ReplaceAll(w.script, "DIR", dir))
		if !strings.Contains(got, w.want) || !strings.Contains(got, "exit status") || strings.Contains(got, "uid=") {
			t.Errorf("refused: %s: %q, want %q", w.what, got, w.want)
		}
		t.Logf("refused: %s: %v", w.what, took)
	}
	j.hasNoKey(t, dir)
	t.Logf("the helper has %d KiB of its own", j.helperMemory(t))
	// A new helper is known to the jail as the former one was.
	j.killHelper(t)
	j.network(t, "restart")
	if got, _ := j.output(t, strings.ReplaceAll("git ls-remote "+at+"r.git HEAD", "DIR", dir)); !strings.Contains(got, "HEAD") {
		t.Errorf("by a new helper: %q", got)
	}
	if out, code := j.inspect(t); code != 0 || !strings.Contains(out, "credentials forge, narrow, wrong") {
		t.Errorf("inspect: %d\n%s", code, out)
	}
	text := env.Read(t, filepath.Join(j.dir(t), "network.log"))
	for _, want := range []string{`"reason":"git-receive-pack \"` + dir + `/git/r.git\", credentials.forge"`, `"reason":"ssh: command \"id\", which is none of git's"`, `"credential":"narrow"`, "ssh: a channel of type", "has no key in policy"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
}

// hasNoKey looks for the keys where the jail or another user could read them.
func (j *jail) hasNoKey(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"ed25519", "rsa"} {
		text := env.Read(t, filepath.Join(dir, name))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		what := hex.EncodeToString([]byte(lines[len(lines)-2])) // its secret half
		if got, errs, err := j.b.Call(t, j.c, "exec", j.id, client, "search", what, "/etc", "/root", "/tmp", "/run", "/var", "/opt", "/proc", "/dev"); err != nil || strings.TrimSpace(got) != "" {
			t.Errorf("in the jail: %v: %q%q", err, got, errs)
		}
		if got, err := search(what, []string{"/proc", "/run/agentjail", j.b.Dir}); err != nil || got != "" {
			t.Errorf("on the host: %q, %v", got, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(j.dir(t), "ssh_host_key.pem"), &st); err != nil || st.Uid != 0 || st.Mode&0o077 != 0 {
		t.Errorf("the helper's key: %o of user %d, %v", st.Mode, st.Uid, err)
	}
	if text, err := os.ReadFile(j.b.Rootfs + "/etc/ssh/ssh_known_hosts"); err != nil || string(text) != "# the image's own\n" {
		t.Errorf("the image has changed: %q, %v", text, err)
	}
}

// TestKeyWithPassphrase: a key that cannot be opened is refused at the start, with what to do.
func TestKeyWithPassphrase(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	dir := forge(t, n)
	for _, w := range []struct{ of, in, want string }{
		{"DIR/ed25519", "DIR/locked", "credentials.forge: the key has a passphrase"},
		{"DIR/ed25519", "DIR/junk", "not a private key"},
		{"DIR/known", "DIR/host.pub", "has no key of forge.example.test"},
	} {
		j := withKeys(t, n, strings.NewReplacer("DIR", dir).Replace(strings.Replace(lendSSH, w.of, w.in, 1)))
		if said, err := j.begin(t); err == nil || !strings.Contains(said, w.want) {
			t.Errorf("%s for %s: %v: %q, want %q", w.in, w.of, err, said, w.want)
		}
	}
}
