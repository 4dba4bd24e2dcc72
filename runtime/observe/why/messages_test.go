package why

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/seccomp/abi"
)

// signs are those that runtime/inspect looks for (type Sign).
var signs = []string{"memory", "pids", "layer", "layer files", "tmpfs", "nofile", "sentry", "network none", "network names", "name", "kill", "protected", "other user", "tls end"}

// setting is a line of a policy within a remedy, and unnamed are the words in its values that stand
// for what a reader puts there.
var (
	setting = regexp.MustCompile(`([a-z]+\.[a-z_]+) = ("[^"]*"|\[[^\]]*\]|[0-9]+)`)
	unnamed = strings.NewReplacer("NAME:PORT", "a.example:443", "ADDRESS:PORT", "192.0.2.7:443", "FIRST:COUNT", "2080374784:1048576", "/dev/DEVICE", "/dev/fuse",
		`"DIR"`, `"/srv/dir"`, `"PATH"`, `"/srv/path"`)
)

// TestMessages: every entry of the table is whole, and answers the messages that it lists, of which
// no other entry has one.
func TestMessages(t *testing.T) {
	ids, says := map[string]bool{}, map[string]string{}
	for _, m := range messages() {
		if m.ID == "" || ids[m.ID] || m.Like == "" || len(m.Samples) == 0 || len(m.Causes) == 0 {
			t.Errorf("%q: no name of its own, no pattern, no example, or no cause", m.ID)
		}
		ids[m.ID] = true
		for _, text := range m.Samples {
			if other, there := says[text]; there {
				t.Errorf("%q: in %s and in %s", text, other, m.ID)
			}
			says[text] = m.ID
			if got, _ := find(text); got == nil || got.ID != m.ID {
				t.Errorf("%q: answered by %+v, not by %s", text, got, m.ID)
			}
			if q := ask(t, text, "amd64"); q.Kind != OfError && q.Kind != OfPath {
				t.Errorf("%q is taken for a %s", text, q.Kind)
			}
		}
		for _, group := range m.pattern.SubexpNames() {
			if !slices.Contains([]string{"", "host", "port", "path", "call"}, group) {
				t.Errorf("%s: no code requests the group %s", m.ID, group)
			}
		}
		for i := range m.Causes {
			m.Causes[i].check(t, m.ID)
		}
	}
	if len(ids) < 40 || len(says) < 110 {
		t.Errorf("%d entries with %d messages", len(ids), len(says))
	}
}

// check holds a cause to be whole: who decides and in which ring, and what to do.
func (c *cause) check(t *testing.T, id string) {
	t.Helper()
	if _, known := rings.Named(c.Ring); c.What == "" || known != (c.By != "") || c.Ring != "" && !known {
		t.Errorf("%s: %q by %q, ring %q", id, c.What, c.By, c.Ring)
	}
	if c.Purpose && (len(c.Remedies) > 0 || c.Instead == "") {
		t.Errorf("%s: %q: refused on purpose and a remedy, or nothing instead", id, c.What)
	}
	if !c.Purpose && c.By != "" && len(c.Remedies) == 0 && c.Instead == "" {
		t.Errorf("%s: %q: no remedy", id, c.What)
	}
	if call := strings.TrimPrefix(strings.TrimPrefix(c.Sign, "no "), "call "); call != c.Sign {
		if _, ok := abi.Number(call, "amd64"); !ok {
			t.Errorf("%s: %q: no system call", id, c.Sign)
		}
	} else if c.Sign != "" && !slices.Contains(signs, c.Sign) {
		t.Errorf("%s: no code looks for the sign %q", id, c.Sign)
	}
	for _, r := range c.Remedies {
		r.check(t, id)
	}
}

// check holds a remedy to state where it goes; of one in the policy, that its settings are what the
// policy takes.
func (r *change) check(t *testing.T, id string) {
	t.Helper()
	if _, known := places[r.Where]; r.Write == "" || !known && !strings.HasPrefix(r.Where, "the host") {
		t.Errorf("%s: %q goes in %q", id, r.Write, r.Where)
	}
	if r.Where != "policy" {
		if len(r.Keys) > 0 {
			t.Errorf("%s: %q sets %q, and not in the policy", id, r.Write, r.Keys)
		}
		return
	}
	var keys, lines []string
	for _, m := range setting.FindAllStringSubmatch(r.Write, -1) {
		keys, lines = append(keys, m[1]), append(lines, unnamed.Replace(m[0]))
	}
	if len(keys) == 0 || !slices.Equal(keys, r.Keys) {
		t.Errorf("%s: %q sets %q, and has the keys %q", id, r.Write, keys, r.Keys)
	}
	if _, err := policy.Parse([]byte(strings.Join(lines, "\n")), "remedy", ""); err != nil {
		t.Errorf("%s: %q is no policy: %v", id, r.Write, err)
	}
}

// TestSignsAreKnown: every sign that somebody looks for is one of the table's.
func TestSignsAreKnown(t *testing.T) {
	used := usedSigns()
	for _, s := range signs {
		if !slices.Contains(used, s) {
			t.Errorf("no message has the sign %q", s)
		}
	}
}

// TestReadMessages: a table with a mistake in it is not taken for a shorter one.
func TestReadMessages(t *testing.T) {
	for name, text := range map[string]string{
		"no pattern":    "[[message]]\nid = \"x\"\nlike = \"(\"\n",
		"no table":      "message = 1\n",
		"no such entry": "[[message]]\nid = \"x\"\nlike = \"x\"\ncauses_of = \"y\"\n",
		"no such field": "[[message]]\nid = \"x\"\nlike = \"x\"\nwhy = \"y\"\n",
	} {
		if _, err := readMessages([]byte(text)); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// usedSigns are those that messages request.
func usedSigns() []string {
	var out []string
	for _, m := range messages() {
		for _, c := range m.Causes {
			if c.Sign != "" && !strings.Contains(c.Sign, "call ") && !slices.Contains(out, c.Sign) {
				out = append(out, c.Sign)
			}
		}
	}
	slices.Sort(out)
	return out
}
