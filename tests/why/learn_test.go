package why

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/workloads"
)

// learned are workloads that profiles are learned for.
var learned = []string{"shell", "git without a daemon", "archives"}

// another is work that is none of these.
const another = `python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); s.listen()'`

// TestLearn: the learned profile runs the same work unmodified, is smaller than the default's, and refuses other work something.
func TestLearn(t *testing.T) {
	for _, name := range learned {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(workloads.List, func(w workloads.Work) bool { return w.Name == name })
			if i < 0 {
				t.Fatal("there is no such workload")
			}
			script := "cd /tmp; " + workloads.List[i].Script
			dir := place(t)
			code, want, errs := run(t, "learn", "--name", "work", "--write", dir, "--", "sh", "-c", script)
			if code != 0 {
				t.Fatalf("status %d: %s%s", code, want, errs)
			}
			want, _, _ = strings.Cut(want, "learned from")
			config := write(t, dir, "c.toml", "seccomp.only = \"DIR/work.json\"\n")
			for range 3 {
				code, out, errs := run(t, "--config", config, "sandbox", "--", "sh", "-c", script)
				if code != 0 || out != want {
					t.Fatalf("under what was learned: status %d\n%s%s\nwant\n%s", code, out, errs, want)
				}
			}
			if code, _, errs := run(t, "--config", config, "sandbox", "--", "sh", "-c", another); code == 0 {
				t.Errorf("other work is refused nothing: %s", errs)
			}
			if code, _, _ := run(t, "sandbox", "--", "sh", "-c", another); code != 0 {
				t.Error("the other work fails without the list as well")
			}
			smaller(t, dir)
		})
	}
}

// smaller holds a learned list against the default profile, and its policy.
func smaller(t *testing.T, dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "work.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Allow []struct {
			Names []string
			Why   string
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range list.Allow {
		n += len(g.Names)
		if g.Why == "" {
			t.Errorf("%v: no reason", g.Names)
		}
	}
	if n < 20 || n > 120 {
		t.Errorf("%d calls, and the default profile has 180", n)
	}
	policy, err := os.ReadFile(filepath.Join(dir, "work.toml"))
	if err != nil || !strings.Contains(string(policy), `seccomp.only = "`+dir+`/work.json"`) {
		t.Errorf("%v: %s", err, policy)
	}
	t.Logf("%d calls of 180\n%s", n, policy)
}
