package crash

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"agentjail.dev/tests/env"
)

// TestSameIDAgain makes and removes jails of the same few names, several at once:
// while one looks for what crashes left, the jail that it has just read of may be
// removed, and another made in its place.
func TestSameIDAgain(t *testing.T) {
	const workers, lives = 6, 12
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	for n := range workers {
		id := fmt.Sprintf("crash%d-again%d", os.Getpid(), n)
		defer cleanUp(t, id)
		wg.Go(func() {
			for life := range lives {
				for _, args := range [][]string{verbs(id)[0], verbs(id)[1], {"kill", id, "KILL"}, nil, {"delete", id}} {
					if args == nil { // a jail that has ended is removed in other steps than one that is killed for it
						waitStopped(t, id)
						continue
					}
					if code, text := agentjail(t, nil, args...); code != 0 {
						errs <- fmt.Errorf("life %d of %s: %q: status %d: %s", life, id, args, code, text)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	if err := errors.Join(all...); err != nil {
		t.Error(err)
	}
}

// waitStopped waits for the end of a jail's first process.
func waitStopped(t *testing.T, id string) {
	t.Helper()
	env.Eventually(t, id+" has ended", func() bool {
		out, err := command(nil, "state", id).Output()
		return err == nil && strings.Contains(string(out), `"stopped"`)
	})
}
