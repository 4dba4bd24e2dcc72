package leak

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// mostHelper is how much memory of its own a helper at rest may have: what each further jail costs.
const mostHelper = 2 << 20

// helpers is how many jails TestHelpersLeakNothing has at once: AGENTJAIL_LEAK_HELPERS, or 50, or 5 with -short.
func helpers() int {
	if n, err := strconv.Atoi(os.Getenv("AGENTJAIL_LEAK_HELPERS")); err == nil {
		return n
	}
	if testing.Short() {
		return 5
	}
	return 50
}

// A helped jail has a helper process, since its network is by name.
type helped struct {
	id     string
	pid    int // its first process
	helper int
}

// TestHelpersLeakNothing has many jails with helpers at once, looks at what each helper costs, and at what is left of them.
func TestHelpersLeakNothing(t *testing.T) {
	conf := filepath.Join(filepath.Dir(runtimePath), "leak-names.toml")
	env.Check(t, os.WriteFile(conf, []byte("[network]\nmode = \"names\"\nallow = [\"api.example.test\", \"*.wild.example.test\"]\n"), 0o600))
	c := caller{options: []string{"--config", conf}}
	before := take(t)
	jails := make([]helped, helpers())
	twoAtATime(len(jails), func(i int) {
		if !t.Failed() {
			jails[i] = c.startHelped(t, fmt.Sprintf("%s-h%d", newID(0), i))
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	private, pss := make([]int, len(jails)), 0
	for i, j := range jails {
		m, err := env.Memory(j.helper)
		env.Check(t, err)
		private[i] = env.Private(m) << 10
		pss += m["Pss"] << 10
	}
	slices.Sort(private)
	t.Logf("%d helpers: %d kB of its own in the middle, %d kB at most; %d kB with its part of what they share", len(jails), private[len(jails)/2]>>10, private[len(jails)-1]>>10, pss/len(jails)>>10)
	if middle := private[len(jails)/2]; middle > mostHelper {
		t.Errorf("a helper has %d kB of its own, and may have %d", middle>>10, mostHelper>>10)
	}
	// Half of the jails are deleted as they run; the others end first, and their helpers with them.
	twoAtATime(len(jails), func(i int) {
		j := jails[i]
		if i%2 == 0 {
			c.must(t, "delete", "--force", j.id)
			reap(t, j.helper)
			reap(t, j.pid)
			return
		}
		c.must(t, "kill", j.id, "KILL")
		reap(t, j.pid)
		reap(t, j.helper)
		c.must(t, "delete", j.id)
	})
	unchanged(t, before)
	env.Check(t, engine.RemoveCgroups(filepath.Base(base)))
}

// startHelped starts a jail that sleeps.
func (c caller) startHelped(t testing.TB, id string) helped {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			c.call(t, "delete", "--force", id)
			reapAll()
		}
	})
	j := helped{id: id, pid: c.create(t, id, bundle(t, spec(id, "/bin/sleep", "3600")))}
	c.must(t, "start", id)
	j.helper = engine.Helper(t, id).Pid
	return j
}

// twoAtATime calls f for each number below n.
func twoAtATime(n int, f func(int)) {
	var wg sync.WaitGroup
	for first := range 2 {
		wg.Go(func() {
			for i := first; i < n; i += 2 {
				f(i)
			}
		})
	}
	wg.Wait()
}
