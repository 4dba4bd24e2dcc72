package why

import (
	"encoding/json"
	"strings"
	"testing"
)

// ended runs a command in a sandbox with a label of its own, and returns the id of the jail and ID@TIME.
func ended(t *testing.T, args ...string) (id, at string) {
	t.Helper()
	before := listed(t)
	_, out, errs := run(t, append([]string{"sandbox"}, args...)...)
	for id, at := range listed(t) {
		if before[id] == "" && strings.HasPrefix(id, "sandbox-") {
			return id, at
		}
	}
	t.Fatalf("no jail is listed: %s%s", out, errs)
	return "", ""
}

// listed are the jails of `agentjail ls`, each with ID@TIME.
func listed(t *testing.T) map[string]string {
	t.Helper()
	_, out, errs := run(t, "ls", "--json")
	var l struct {
		Jails []struct{ ID, At string }
	}
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	all := map[string]string{}
	for _, j := range l.Jails {
		all[j.ID] = j.At
	}
	return all
}

// TestOfAnEndedJail: the journal of a jail that has ended answers, whatever names the jail.
func TestOfAnEndedJail(t *testing.T) {
	id, at := ended(t, "--allow", "api.example.test:443", "--", "getent", "hosts", "evil.example.test")
	for _, name := range []string{id, at, id[:len(id)-1]} {
		code, out, errs := run(t, "why", name, "evil.example.test:443")
		if code != 1 || !strings.Contains(out, "the jail has ended") || !strings.Contains(out, "refused 1 times so far") {
			t.Errorf("why %s: status %d: %s%s", name, code, out, errs)
		}
		if code, out, errs := run(t, "why", name, "mount"); code != 1 || !strings.Contains(out, "not listed in profile default") {
			t.Errorf("why %s mount: status %d: %s%s", name, code, out, errs)
		}
		if code, out, errs := run(t, "network", "log", name); code != 0 || !strings.Contains(out, "refused name    evil.example.test") {
			t.Errorf("network log %s: status %d: %s%s", name, code, out, errs)
		}
		if code, _, errs := run(t, "inspect", name); code != 1 || !strings.Contains(errs, "has ended") || !strings.Contains(errs, "agentjail receipt "+at) {
			t.Errorf("inspect %s: status %d: %s", name, code, errs)
		}
	}
	if code, _, errs := run(t, "why", id+"@20200101T000000.000000", "mount"); code != 125 || !strings.Contains(errs, "no journal of it") {
		t.Errorf("another time: status %d: %s", code, errs)
	}
}
