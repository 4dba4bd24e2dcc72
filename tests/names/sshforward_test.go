package names

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// witness stands before git's program at the forge, and notes what the session has: variables, and the keys of an agent that was forwarded.
const witness = `#!/bin/sh
exec 9>>DIR/seen
{ echo "LANG=$LANG"; [ -n "$SSH_AUTH_SOCK" ] && echo agent && ssh-add -l; } >&9 2>&1
exec 9>&-
exec /usr/bin/git-upload-pack "$@"
`

// withAgent is a script's beginning: an agent with a key, and options of ssh's, which are of the place.
const withAgent = `set -u
cd $T; rm -rf fw; mkdir fw; cd fw; trap 'kill $SSH_AGENT_PID; wait' EXIT
eval "$(ssh-agent)" >/dev/null; ssh-keygen -q -t ed25519 -N '' -C key -f k; ssh-add -q k
`

// via forwards a port by a connection in the background, and prints what is read from it once it has read something.
const via = `ssh $O -f -N -M -S $T/fw/ctl FORWARD root@forge.example.test >$T/fw/log 2>&1
bash -c 'exec 3<>/dev/tcp/127.0.0.1/7011 && { printf "SEND" >&3; timeout 20 head -c 32 <&3; }' | tr -d '\000-\037'
echo; cat $T/fw/log; ssh $O -S $T/fw/ctl -O exit root@forge.example.test`

// forwards is what ssh can do beside git, and what shows that it was done: of the client, or of the witness.
var forwards = []struct{ what, script, shows, seen string }{
	{"an agent", "ssh -A $O root@forge.example.test \"git-upload-pack 'DIR/git/r.git'\" </dev/null", "", "(ED25519)"},
	{"an agent in git's own hands", "GIT_SSH_COMMAND=\"ssh -A $O\" git ls-remote root@forge.example.test:DIR/git/r.git HEAD", "", "(ED25519)"},
	{"a variable", "GIT_SSH_COMMAND=\"ssh $O -o SetEnv=LANG=de_AT\" git ls-remote root@forge.example.test:DIR/git/r.git HEAD", "", "LANG=de_AT"},
	{"a port there", strings.NewReplacer("FORWARD", "-L 127.0.0.1:7011:5.5.5.12:2222", "SEND", "").Replace(via), "SSH-2.0-OpenSSH", ""},
	{"ports there by SOCKS", strings.NewReplacer("FORWARD", "-D 127.0.0.1:7011", "SEND", `\005\001\000\005\001\000\001\005\005\005\014\010\256`).Replace(via), "SSH-2.0-OpenSSH", ""},
	{"a port here", "ssh -v $O -o ExitOnForwardFailure=yes -f -N -M -S $T/fw/ctl -R 127.0.0.1:7012:127.0.0.1:9 root@forge.example.test 2>&1; ssh $O -S $T/fw/ctl -O exit root@forge.example.test", "remote forward success", ""},
	{"a terminal", "ssh -vv -tt $O root@forge.example.test \"git-upload-pack 'DIR/git/none.git'\" </dev/null 2>&1; :", "PTY allocation request accepted", ""},
	{"a subsystem", "echo pwd | sftp $O -b - root@forge.example.test", "Remote working directory", ""},
}

// TestSSHForwardsNothing: a client of ssh in the jail that forwards its agent, its ports, its variables and its terminal gets git's answer and nothing
// of these, each of which the same client gets of the server by itself.
func TestSSHForwardsNothing(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	dir := forge(t, n)
	seen := witnessed(t, dir)
	j := withKeys(t, n, strings.ReplaceAll(lendSSH, "DIR", dir))
	j.start(t)
	for _, f := range forwards {
		script := strings.ReplaceAll(f.script, "DIR", dir)
		did := func(said, saw string) bool {
			return f.shows != "" && strings.Contains(said, f.shows) || f.seen != "" && strings.Contains(saw, f.seen)
		}
		said, saw := direct(t, n, dir, script), seen()
		if !did(said, saw) {
			t.Errorf("%s without a jail: %q, and the server saw %q: nothing is shown", f.what, said, saw)
		}
		said, _ = j.output(t, "T=/tmp O=; "+withAgent+script)
		if saw = seen(); did(said, saw) || strings.Contains(saw, "agent") {
			t.Errorf("%s: %q, and the server saw %q", f.what, said, saw)
		}
		if f.seen != "" && (saw == "" || !strings.Contains(said, "HEAD")) {
			t.Errorf("%s: git's own program: %q, %q", f.what, said, saw)
		}
		t.Logf("%s: %.300q", f.what, said)
	}
	text := env.Read(t, filepath.Join(j.dir(t), "network.log"))
	for _, want := range []string{"auth-agent-req@openssh.com", "direct-tcpip", "pty-req", "subsystem"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
}

// witnessed puts the witness before git's program. What it returns reads what was noted since.
func witnessed(t *testing.T, dir string) func() string {
	t.Helper()
	conf, err := os.OpenFile(filepath.Join(dir, "sshd_config"), os.O_APPEND|os.O_WRONLY, 0)
	env.Check(t, err)
	defer conf.Close()
	if _, err := conf.WriteString("SetEnv PATH=" + dir + "/bin:/usr/bin:/bin\n"); err != nil {
		t.Fatal(err)
	}
	env.Check(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	env.Check(t, os.WriteFile(filepath.Join(dir, "bin/git-upload-pack"), []byte(strings.ReplaceAll(witness, "DIR", dir)), 0o755))
	return func() string {
		text, err := os.ReadFile(filepath.Join(dir, "seen"))
		if err == nil {
			err = os.Remove(filepath.Join(dir, "seen"))
		}
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		return string(text)
	}
}

// direct runs a script beside the server, with the key and without a jail.
func direct(t *testing.T, n *internet, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tmp := t.TempDir()
	options := "-F none -o HostName=5.5.5.12 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentitiesOnly=yes -i " + dir + "/ed25519"
	cmd := exec.CommandContext(ctx, "sh", "-c", "T="+tmp+" O='"+options+"'; "+withAgent+script)
	cmd.Env = append(os.Environ(), "HOME="+tmp)
	cmd.WaitDelay = 5 * time.Second
	var out []byte
	n.do(func() error {
		out, _ = cmd.CombinedOutput()
		return nil
	})
	return string(out)
}
