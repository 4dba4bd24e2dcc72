package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// named are the global options of calls for a jail whose network is by name, so that it has a helper process.
func named(t *testing.T) []string {
	t.Helper()
	conf := filepath.Join(filepath.Dir(bin), "names.toml")
	if err := os.WriteFile(conf, []byte("[network]\nmode = \"names\"\nallow = [\"api.example.test\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", conf}
}

// TestKilledWithHelper kills start while and after it starts the jail's helper: neither the helper nor its control groups outlive what an
// engine or an operator does then.
func TestKilledWithHelper(t *testing.T) {
	opts := named(t)
	create := func(id string) {
		if code, text := agentjail(t, nil, append(opts, "create", "--bundle", bundle, id)...); code != 0 {
			t.Fatalf("create: status %d\n%s", code, text)
		}
	}
	t.Run("start.sealed", func(t *testing.T) {
		id := fmt.Sprintf("crash%d-helper", os.Getpid())
		defer cleanUp(t, id)
		create(id)
		if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=start.sealed"}, append(opts, "start", id)...); code != -1 {
			t.Fatalf("start was not killed: status %d\n%s", code, text)
		}
		helps := func() (out string) {
			for _, l := range left(id) {
				if strings.Contains(l, "agentjail-egress") {
					out += l + "\n"
				}
			}
			return out
		}
		first := helps()
		if !strings.Contains(first, "process: ") {
			t.Fatalf("no helper is left, so that this test looks at nothing:\n%s", strings.Join(left(id), "\n"))
		}
		// A second start finds the helper, and starts no other.
		if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 {
			t.Fatalf("start again: status %d\n%s", code, text)
		}
		if second := helps(); second != first {
			t.Errorf("helpers after a second start:\n%safter the first:\n%s", second, first)
		}
	})
	n := 20
	if testing.Short() {
		n = 4
	}
	for i := range n {
		id := fmt.Sprintf("crash%d-helper%d", os.Getpid(), i)
		create(id)
		cmd := command(nil, append(opts, "start", id)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(30000)) * time.Microsecond) // any moment will do
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		cleanUp(t, id)
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}
}
