package inside

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/observe/journal"
)

func read(t *testing.T, data []byte) Notice {
	t.Helper()
	var n Notice
	if err := json.Unmarshal(data, &n); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return n
}

// secret is in every field of an event that a jail does not know.
const secret = "host-secret"

// TestNothingOfTheHosts: of every kind of event, with everything in it that the host knows, no more is shown than the kind's own words.
func TestNothingOfTheHosts(t *testing.T) {
	uid := uint32(1234567)
	for _, k := range journal.Kinds() {
		e := journal.Event{
			Kind: k, Jail: secret, Key: secret, Pid: 1234567, UID: &uid, Program: secret, Parent: secret, Argv: []string{secret}, Cwd: secret, Hash: secret,
			Path: secret, Value: secret, Limit: secret, Rule: secret, Reason: secret, Policy: secret, Arguments: []string{secret},
			Remedy: secret, Name: "a.example", Port: 443, Credential: "key", Syscall: "mount",
		}
		text := string(Of([]journal.Event{e}, time.Unix(1700000000, 0)))
		if strings.Contains(text, secret) || strings.Contains(text, "1234567") {
			t.Errorf("%s: the jail reads %s", k, text)
		}
		if n := read(t, []byte(text)); (len(n.Denied) == 1) != (shown[k] != nil) {
			t.Errorf("%s: %+v", k, n.Denied)
		}
	}
	for kind := range shown {
		if kind.String() == "" {
			t.Errorf("there is no kind %d", kind)
		}
	}
}

// TestDenialNamesTheSetting: a denial reports what its operator would write.
func TestDenialNamesTheSetting(t *testing.T) {
	n := read(t, Of([]journal.Event{
		{Kind: journal.ConnectRefused, Name: "a.example", Port: 443, Time: "2026-01-01T00:00:00Z"},
		{Kind: journal.ConnectRefused, Name: "a.example", Port: 443, Count: 4, Time: "2026-01-02T00:00:00Z"},
		{Kind: journal.LimitPids},
		{Kind: journal.PrivilegeDenied, Target: "process.capabilities", Value: "CAP_SYS_ADMIN"},
	}, time.Unix(1700000000, 0)))
	if len(n.Denied) != 3 {
		t.Fatalf("%+v", n)
	}
	if d := n.Denied[0]; d.What != "a.example:443" || d.Count != 5 || d.Last != "2026-01-02T00:00:00Z" || !strings.Contains(d.Remedy, `network.allow = ["a.example:443"]`) {
		t.Errorf("%+v", d)
	}
	if d := n.Denied[1]; !strings.Contains(d.Remedy, "limits.pids") || d.Meaning == "" {
		t.Errorf("%+v", d)
	}
}

// TestBounded: a jail that is refused a great deal has a file of the same size.
func TestBounded(t *testing.T) {
	var events []journal.Event
	for i := range 5000 {
		events = append(events, journal.Event{Kind: journal.NameRefused, Name: fmt.Sprintf("%d.", i) + strings.Repeat("<\u202e\x00", 300), Time: strings.Repeat("t", 1000), Errno: strings.Repeat("e", 1000)})
	}
	data := Of(events, time.Unix(1700000000, 0))
	n := read(t, data)
	if len(data) > maxSize || len(n.Denied) == 0 || len(n.Denied)+n.More != 5000 {
		t.Errorf("%d bytes, %d denials and %d more", len(data), len(n.Denied), n.More)
	}
	if strings.ContainsAny(string(data), "\x00\u202e") {
		t.Error("control or direction marks are in it")
	}
}
