package why

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/workloads"
)

// learned are workloads that profiles are learned for.
var learned = []string{"shell", "git without a daemon", "archives"}

// another is work that is none of these.
const another = `python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); s.listen()'`

// TestLearnedProfileRunsItsWork: the learned profile runs the same work unmodified, is smaller than the default's, and refuses other work something.
func TestLearnedProfileRunsItsWork(t *testing.T) {
	for _, name := range learned {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(workloads.List, func(w workloads.Work) bool { return w.Name == name })
			if i < 0 {
				t.Fatal("there is no such workload")
			}
			script := "cd /tmp; " + workloads.List[i].Script
			dir := place(t)
			code, want, errs := agentjail(t, "learn", "--name", "work", "--write", dir, "--", "sh", "-c", script)
			if code != 0 {
				t.Fatalf("status %d: %s%s", code, want, errs)
			}
			want, _, _ = strings.Cut(want, "learned from")
			config := write(t, dir, "c.toml", "seccomp.only = \"DIR/work.json\"\n")
			for range 3 {
				code, out, errs := agentjail(t, "--config", config, "sandbox", "--", "sh", "-c", script)
				if code != 0 || out != want {
					t.Fatalf("under what was learned: status %d\n%s%s\nwant\n%s", code, out, errs, want)
				}
			}
			if code, _, errs := agentjail(t, "--config", config, "sandbox", "--", "sh", "-c", another); code == 0 {
				t.Errorf("other work is refused nothing: %s", errs)
			}
			if code, _, _ := agentjail(t, "sandbox", "--", "sh", "-c", another); code != 0 {
				t.Error("the other work fails without the list as well")
			}
			smaller(t, dir)
		})
	}
}

// smaller holds a learned list against the default profile, and its policy.
func smaller(t *testing.T, dir string) {
	t.Helper()
	raw := env.Read(t, filepath.Join(dir, "work.json"))
	var list struct {
		Allow []struct {
			Names []string
			Why   string
		}
	}
	env.Check(t, json.Unmarshal(raw, &list))
	n := 0
	for _, g := range list.Allow {
		n += len(g.Names)
		if g.Why == "" {
			t.Errorf("%v: no reason", g.Names)
		}
	}
	if n < 20 || n > 120 {
		t.Errorf("%d calls, and the default profile has 185", n)
	}
	policy, err := os.ReadFile(filepath.Join(dir, "work.toml"))
	if err != nil || !strings.Contains(string(policy), `seccomp.only = "`+dir+`/work.json"`) {
		t.Errorf("%v: %s", err, policy)
	}
	t.Logf("%d calls of 185\n%s", n, policy)
}

// TestLearnFrom: of a jail that somebody else starts, what it does is learned from its beginning until its end. Under what was learned it does
// the same, and other work is refused.
func TestLearnFrom(t *testing.T) {
	dir, base := place(t), engine.TempDir(t, "/tmp", "agentjail-why-")
	b := engine.NewBundle(t, base)
	b.Spec.Process.Args = []string{"sh", "-c", "mkfifo /tmp-p && ls -l /tmp-p | wc -l"}
	as := func(config string) engine.Caller {
		return engine.Caller{Path: bin, Args: []string{"--config", config, "--root", filepath.Join(base, "root")}}
	}
	call := func(c engine.Caller, args ...string) string {
		t.Helper()
		out, text, err := b.Call(t, c, args...)
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, text)
		}
		return out
	}
	first := as(write(t, dir, "first.toml", ""))
	id := b.ID()
	t.Cleanup(func() { _, _, _ = b.Call(t, first, "delete", "--force", id) })
	call(first, "create", "--bundle", b.Dir, id)

	watch := exec.Command(bin, "learn", "--from", id, "--name", "work", "--write", dir)
	said := env.Get(t, watch.StderrPipe)
	var out bytes.Buffer
	watch.Stdout = &out
	env.Check(t, watch.Start())
	t.Cleanup(func() { _ = watch.Process.Kill() })
	lines := bufio.NewScanner(said)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "watching "+id) {
		t.Fatalf("learn states %q", lines.Text())
	}
	call(first, "start", id)
	for lines.Scan() {
		t.Log(lines.Text())
	}
	if err := watch.Wait(); err != nil || strings.Contains(out.String(), "ran before it was looked at") {
		t.Fatalf("%v: %s", err, out.String())
	}
	list, err := os.ReadFile(filepath.Join(dir, "work.json"))
	if err != nil || !strings.Contains(string(list), `"mknod`) || strings.Contains(string(list), `"listen"`) {
		t.Fatalf("%v: %s", err, list)
	}
	learned := as(write(t, dir, "learned.toml", "seccomp.only = \"DIR/work.json\"\n"))
	if got, err := b.Run(t, learned); err != nil || got != "1\n" {
		t.Errorf("the same work states %q: %v", got, err)
	}
	b.Spec.Process.Args = []string{"sh", "-c", "nc 127.0.0.1 1 2>&1 || true"}
	refused := func(c engine.Caller) bool {
		got, err := b.Run(t, c)
		t.Logf("other work: %q, %v", got, err)
		return err != nil || strings.Contains(got, "not permitted") || strings.Contains(got, "not implemented")
	}
	if refused(first) || !refused(learned) {
		t.Error("what is learned should refuse other work, and the policy before it not")
	}
}
