package receipt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/observe/journal"
)

// run is the journal of a jail's life.
func run(t *testing.T, more ...journal.Event) []journal.Event {
	t.Helper()
	events := slices.Concat([]journal.Event{
		{Kind: journal.JailCreate, Policy: "sha256:p", Hash: "sha256:c", Argv: []string{"agent", "a b"}, Detail: journal.Created{
			Engine: "docker", Root: "/images/x", Set: [3]int{0, 10, 28}, Writable: []string{"/work", "/data"},
		}},
		{Kind: journal.ProtectionMissing, Ring: 1, Target: "process.apparmorProfile", Reason: "none"},
		{Kind: journal.PrivilegeDenied, Ring: 1, Target: "process.capabilities", Reason: "no"},
		{Kind: journal.JailStart},
	}, more, []journal.Event{
		{Kind: journal.JailUsed, Detail: journal.Used{Amounts: journal.Amounts{Memory: 1024, Pids: 3, CPU: 2.5}, Layer: &journal.LayerUse{Bytes: 4096, Inodes: 2}}},
		{Kind: journal.JailFiles, Detail: journal.Files{Files: []journal.File{{Kind: "A", Path: "/a b"}, {Kind: "C", Path: "/etc/passwd"}}}, Cut: 7},
		{Kind: journal.JailMounted, Path: "/work", Detail: journal.Mounted{Entries: 9, Changed: 3, Short: "after 9 files"}},
		{Kind: journal.JailMounted, Path: "/work", Detail: journal.Mounted{Names: []string{"/", "/a=b"}}, Cut: 1},
		{Kind: journal.JailMounted, Path: "/data", Detail: journal.Mounted{Unseen: "a file system: NFS"}},
		{Kind: journal.JailExit, Status: "7"},
		{Kind: journal.JailDelete},
		{Kind: journal.JailTeardown, Detail: journal.Teardown{Gone: []journal.Part{{Kind: "mount", What: "/x=y"}, {Kind: "host ids", What: "5"}}}},
	})
	for i := range events {
		events[i].Jail, events[i].Time = "j1", journal.At(time.Unix(1700000000+int64(i), 0))
		if err := events[i].Complete(); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

func TestOf(t *testing.T) {
	r := of(run(t), Now{Time: time.Unix(1700001000, 0)})
	if r.State != Ended || r.Identity.ID != "j1" || r.Identity.Engine != "docker" || r.Identity.Policy != "sha256:p" || r.Identity.Config != "sha256:c" {
		t.Errorf("%s, %+v", r.State, r.Identity)
	}
	if !slices.Equal(r.Touched.Writable, []string{"/work", "/data"}) || !r.Touched.Known || !r.Touched.More || len(r.Touched.Files) != 2 || r.Touched.Files[0] != (journal.File{Kind: "A", Path: "/a b"}) {
		t.Errorf("%+v", r.Touched)
	}
	if m := r.Touched.Mounted; len(m) != 2 || m[0].Total != 3 || m[0].Entries != 9 || m[0].Short != "after 9 files" ||
		!slices.Equal(m[0].Changed, []string{"/work/", "/work/a=b"}) || m[1].Unseen != "a file system: NFS" {
		t.Errorf("%+v", m)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mounted at /work: 3 of 9 files and directories were changed since the jail was made, by it or by anybody else; not all were looked at: the look ended after 9 files; 1 are not listed",
		"mounted at /data: what was changed there is not known: a file system: NFS",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in %s", want, text.String())
		}
	}
	if r.Used.Memory != 1024 || r.Used.Pids != 3 || r.Used.CPU != 2.5 || *r.Exit.Status != 7 || r.Seconds != 9 {
		t.Errorf("%+v %+v %v", r.Used, r.Exit, r.Seconds)
	}
	if !r.Teardown.Done || !slices.Equal(r.Teardown.Gone, []journal.Part{{Kind: "mount", What: "/x=y"}, {Kind: "host ids", What: "5"}}) || r.Teardown.By != "delete" {
		t.Errorf("%+v", r.Teardown)
	}
	if s := r.Rings[0].Start; s.Set != 28 || len(r.Rings[1].Start.Missing) != 1 || r.Rings[1].Start.Denied != 1 {
		t.Errorf("%+v", r.Rings)
	}
}

// TestStates: what is claimed of a jail that did not end well.
func TestStates(t *testing.T) {
	all := run(t)
	for _, c := range []struct {
		name   string
		events []journal.Event
		now    Now
		want   State
		torn   bool
	}{
		{"removed", all, Now{}, Ended, true},
		{"runs", all[:4], Now{Exists: true, Alive: true}, Running, false},
		{"its process has ended", all[:4], Now{Exists: true}, Ended, false},
		{"gone with the machine", all[:4], Now{}, Unfinished, false},
		{"nothing is known", nil, Now{}, Unfinished, false},
	} {
		c.now.Time = time.Unix(1700001000, 0)
		r := of(c.events, c.now)
		if r.State != c.want || !r.Teardown.At.IsZero() != c.torn {
			t.Errorf("%s: %s, torn down %v", c.name, r.State, r.Teardown)
		}
	}
	left := run(t)
	left[len(left)-1].Detail = journal.Teardown{Remains: []journal.Part{{Kind: "mount", What: "/x"}}, Gone: []journal.Part{{Kind: "host ids", What: "5"}}}
	if r := of(left, Now{}); r.Teardown.Done || len(r.Teardown.Remains) != 1 {
		t.Errorf("%+v", r.Teardown)
	}
}

// TestDenialsAreBounded: a jail that is refused a million things has a receipt all the same, in which each is counted.
func TestDenialsAreBounded(t *testing.T) {
	var many []journal.Event
	for i := range 3 * maxGroups {
		many = append(many, journal.Event{Kind: journal.NameRefused, Name: fmt.Sprintf("n%d.example", i), Count: 2})
	}
	many = append(many, journal.Event{Kind: journal.Ring0Passed, Syscall: "io_uring_setup"}, journal.Event{Kind: journal.LimitOOM, Count: 3, Limit: "64M"})
	r := of(run(t, many...), Now{})
	total := 0
	for _, d := range r.Denied {
		total += d.Count
		if d.Kind == journal.NameRefused.String() && d.What != "others" && !strings.Contains(d.Remedy, d.What) {
			t.Errorf("%+v has no remedy", d)
		}
	}
	if want := 2*3*maxGroups + 2; total != want || len(r.Denied) > maxGroups+10 {
		t.Errorf("%d denied in %d groups, want %d", total, len(r.Denied), want)
	}
	if !r.Denied[0].RingPassed {
		t.Errorf("the loudest is not the first: %+v", r.Denied[0])
	}
	if len(r.Events) > maxEvents || r.Omitted == 0 || r.Events[len(r.Events)-1].Kind != journal.JailTeardown.String() {
		t.Errorf("%d events, %d omitted", len(r.Events), r.Omitted)
	}
	if len(r.Limits) != 1 || r.Limits[0].Count != 3 || !r.Exit.Killed {
		t.Errorf("%+v", r.Limits)
	}
}

// TestNetworkIsSummed: connections are counted by name and port, and credentials by name.
func TestNetworkIsSummed(t *testing.T) {
	r := of(run(t,
		journal.Event{Kind: journal.ConnectAllowed, Name: "a.example", Port: 443, Rule: "a.example:443"},
		journal.Event{Kind: journal.ConnectEnd, Name: "a.example", Port: 443, Sent: 10, Got: 100},
		journal.Event{Kind: journal.ConnectAllowed, Name: "a.example", Port: 443},
		journal.Event{Kind: journal.ConnectEnd, Name: "a.example", Port: 443, Sent: 1, Got: -5},
		journal.Event{Kind: journal.CredentialUsed, Credential: "key", Name: "a.example"},
		journal.Event{Kind: journal.CredentialUsed, Credential: "key", Name: "a.example"},
	), Now{})
	if want := (Name{Name: "a.example", Port: 443, Count: 2, Sent: 11, Got: 100, Rule: "a.example:443"}); len(r.Used.Names) != 1 || r.Used.Names[0] != want {
		t.Errorf("%+v", r.Used.Names)
	}
	if !slices.Equal(r.Used.Credentials, []Count{{"key", 2}}) {
		t.Errorf("%+v", r.Used.Credentials)
	}
}

// TestInspected: the last look counts, and what it found broken.
func TestInspected(t *testing.T) {
	r := of(run(t,
		journal.Event{Kind: journal.JailInspected, Detail: journal.Inspected{Rings: [3]journal.RingState{{Holds: 1}, {Holds: 9}, {Holds: 20}}}},
		journal.Event{Kind: journal.ProtectionBroken, Ring: 2, Target: "memory", Reason: "unlimited"},
		journal.Event{Kind: journal.JailInspected, Detail: journal.Inspected{Rings: [3]journal.RingState{{Holds: 1}, {Holds: 9, Missing: []string{"security module: none"}}, {Holds: 21}}}},
	), Now{})
	if e := r.Rings[0].End; e.Holds != 21 || len(e.Broken) != 0 || e.By == "" {
		t.Errorf("%+v", e)
	}
	if len(r.Rings[1].End.Missing) != 1 {
		t.Errorf("%+v", r.Rings[1])
	}
}

// TestStaleAndLostComeFirst: what a commit from the jail can revert, and a protected path that the jail could write to, stand before the rings.
func TestStaleAndLostComeFirst(t *testing.T) {
	r := of(run(t,
		journal.Event{Kind: journal.GitStale, Path: "/work/app", Detail: journal.Stale{Files: []string{".github/workflows/ci.yml", ".npmrc"}, Total: 5, Committed: true}},
		journal.Event{Kind: journal.ProtectionLost, Path: "/work/.git/hooks", Reason: "can be written to"},
	), Now{})
	want := Stale{"/work/app", journal.Stale{Files: []string{".github/workflows/ci.yml", ".npmrc"}, Total: 5, Committed: true}}
	if len(r.Touched.Stale) != 1 || !reflect.DeepEqual(r.Touched.Stale[0], want) {
		t.Errorf("%+v", r.Touched.Stale)
	}
	if !slices.Equal(r.Touched.Lost, []Lost{{"/work/.git/hooks", "can be written to"}}) {
		t.Errorf("%+v", r.Touched.Lost)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	page, _ := pageOf(t, r)
	data, err := json.Marshal(r.Touched)
	if err != nil {
		t.Fatal(err)
	}
	beginning, _, found := strings.Cut(text.String(), "\ndenied\n")
	top, _, same := strings.Cut(page, `<section id="denied">`)
	if !found || !same {
		t.Errorf("no part of what was denied follows: %s\n%s", text.String(), page)
	}
	for _, want := range []string{
		"a commit from this jail can revert /work/app/.github/workflows/ci.yml of another branch",
		"a commit from this jail can revert /work/app/.npmrc of another branch",
		"a commit from this jail can revert 3 more files of another branch in /work/app",
		"commits were made in /work/app after a switch of branch",
		"/work/.git/hooks: can be written to",
	} {
		if !strings.Contains(beginning, want) {
			t.Errorf("%q is not in the text's first part: %s", want, beginning)
		}
		if !strings.Contains(top, want) {
			t.Errorf("%q is not in the page's first part", want)
		}
	}
	for _, want := range []string{`"stale":[{"repository":"/work/app","files":[`, `"lost":[{"path":"/work/.git/hooks"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
}
