// Package journal tries the journals of jails that are made by the command line: what is in them after a run with refusals of many kinds,
// and what a jail can do to its own.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

func TestMain(m *testing.M) {
	engine.IfJanitor()
	os.Exit(engine.MainBare(m, "it runs jails", &bin))
}

// A host is a policy with journals of its own.
type host struct {
	t         *testing.T
	base, dir string
	config    string // the policy
	caller    engine.Caller
}

func newHost(t *testing.T, policy string) *host {
	t.Helper()
	base := engine.TempDir(t, "/tmp", "agentjail-journal-")
	h := &host{t: t, base: base, dir: filepath.Join(base, "journals")}
	h.config = filepath.Join(base, "config.toml")
	env.Check(t, os.WriteFile(h.config, fmt.Appendf(nil, "journal.dir = %q\n%s", h.dir, policy), 0o600))
	h.caller = engine.Caller{Path: bin, Args: []string{"--config", h.config, "--root", filepath.Join(base, "root")}}
	return h
}

// create makes and starts a jail, which is removed with the test.
func (h *host) create(b *engine.Bundle) string {
	h.t.Helper()
	id := b.ID()
	h.t.Cleanup(func() { _, _, _ = b.Call(h.t, h.caller, "delete", "--force", id) })
	for _, args := range [][]string{{"create", "--bundle", b.Dir, id}, {"start", id}} {
		if _, text, err := b.Call(h.t, h.caller, args...); err != nil {
			h.t.Fatalf("%q: %v: %s", args, err, text)
		}
	}
	return id
}

// agentjailctl runs the commands for people.
func (h *host) agentjailctl(args ...string) (string, error) {
	h.t.Helper()
	r := engine.Run(h.t, h.caller.Path, slices.Concat(h.caller.Args, args)...)
	if r.Code != 0 {
		return r.Stdout, fmt.Errorf("status %d: %s", r.Code, r.Stderr)
	}
	return r.Stdout, nil
}

// events are all events of a jail.
func (h *host) events(id string) []journal.Event {
	h.t.Helper()
	out, err := h.agentjailctl("journal", "--json", id)
	env.Check(h.t, err)
	var all []journal.Event
	for line := range strings.Lines(out) {
		var e journal.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			h.t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// expect reports which kinds are missing.
func expect(t *testing.T, when string, events []journal.Event, kinds ...journal.Kind) {
	t.Helper()
	for _, k := range kinds {
		if !slices.ContainsFunc(events, func(e journal.Event) bool { return e.Kind == k }) {
			t.Errorf("%s: no %s", when, k)
		}
	}
}

func (h *host) verify(id string) *journal.Result {
	h.t.Helper()
	out, err := h.agentjailctl("journal", "--verify", "--json", id)
	if err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	r := new(journal.Result)
	env.Check(h.t, json.Unmarshal([]byte(out), r))
	return r
}

// evil is text that would make a line of its own.
const evil = "x\n{\"v\":1,\"seq\":1,\"kind\":\"jail.delete\"}\x1b[2J\u202e"

// hungry takes more memory than a jail of these tests has, at once: a program that grows bit by bit takes a minute where the processor is
// emulated.
const hungry = "dd if=/dev/zero of=/dev/null bs=200M count=1"

// abuse meets limits and requests what there is not, and stays.
const abuse = `
dd if=/dev/zero of=/full bs=64k 2>/dev/null
nslookup refused.example >/dev/null 2>&1
` + hungry + `
echo abused
while :; do sleep 1000; done`

// TestRun: a jail that is refused things of many kinds has them in its journal, with their rings, while it runs and after it was deleted.
func TestRun(t *testing.T) {
	h := newHost(t, "root.size = \"8MiB\"\nnetwork.mode = \"names\"\nnetwork.allow = [\"allowed.example\"]\n")
	b := engine.NewBundle(t, h.base)
	memory, pids := int64(64<<20), int64(40)
	b.Spec.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &memory}, Pids: &specs.LinuxPids{Limit: &pids}}
	for _, set := range []*[]string{&b.Spec.Process.Capabilities.Bounding, &b.Spec.Process.Capabilities.Effective, &b.Spec.Process.Capabilities.Permitted} {
		*set = append(*set, "CAP_SYS_ADMIN")
	}
	b.Spec.Process.Args = []string{"sh", "-c", abuse, evil}

	socket := filepath.Join(h.base, "watch.sock")
	watched, ended := h.watch(socket)
	id := h.create(b)
	// What follows takes away the processes that this needs.
	if !env.Poll(env.Patience, func() bool {
		return slices.ContainsFunc(h.events(id), func(e journal.Event) bool { return e.Kind == journal.LimitOOM })
	}) {
		t.Error("no limit.oom")
	}
	for _, c := range []struct {
		args   []string
		passes bool
	}{
		{[]string{"exec", id, "sh", "-c", "true", evil}, true},
		{[]string{"exec", "--user", "70000", id, "true"}, false},
		{[]string{"update", "--pids-limit", "30", id}, true},
		// Forks until it may not, and stays at the limit for others to see.
		{[]string{"exec", "--detach", id, "sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; sleep 1000"}, true},
	} {
		if _, text, err := b.Call(t, h.caller, c.args...); (err == nil) != c.passes {
			t.Errorf("%q: %v: %s", c.args, err, text)
		}
	}
	running := []journal.Kind{journal.JailCreate, journal.PrivilegeDenied, journal.JailStart, journal.ExecStart, journal.ExecRefused, journal.LimitsUpdate, journal.LimitPids, journal.LimitLayer, journal.LimitOOM, journal.NameRefused}
	var events []journal.Event
	if !env.Poll(env.Patience, func() bool {
		events = h.events(id)
		return !slices.ContainsFunc(running, func(k journal.Kind) bool {
			return !slices.ContainsFunc(events, func(e journal.Event) bool { return e.Kind == k })
		})
	}) {
		expect(t, "while it runs", events, running...)
	}
	for _, e := range events {
		if k := e.Kind.Info(); k.Name == "" || k.Ring != journal.Varies && k.Ring != e.Ring || e.Jail != id {
			t.Errorf("%+v", e)
		}
		if strings.ContainsAny(strings.Join(e.Argv, ""), "\n\x1b\u202e") || e.Kind == journal.JailDelete {
			t.Errorf("the jail's text is in it as it came: %+v", e)
		}
		if e.Refused() && e.Kind != journal.ExecRefused && e.Remedy == "" {
			t.Errorf("no remedy: %+v", e)
		}
	}
	denied, err := h.agentjailctl("denied", id)
	for _, want := range []string{"ring 2, resources", "ring 1, access", "limit.pids", "limit.layer", "limit.oom", "name.refused refused.example", "CAP_SYS_ADMIN", "network.allow"} {
		if err != nil || !strings.Contains(denied, want) {
			t.Errorf("denied lacks %q: %v\n%s", want, err, denied)
		}
	}
	h.verify(id)
	if _, text, err := b.Call(t, h.caller, "delete", "--force", id); err != nil {
		t.Fatalf("delete: %v: %s", err, text)
	}
	expect(t, "after its end", h.events(id), journal.JailCreate, journal.PrivilegeDenied, journal.ExecStart, journal.ExecRefused, journal.NameRefused, journal.JournalKept, journal.JailDelete)
	h.verify(id)
	for _, k := range []journal.Kind{journal.JailCreate, journal.ExecRefused, journal.NameRefused, journal.LimitPids, journal.JailDelete} {
		if !watched(k) {
			t.Errorf("watch did not report %s", k)
		}
	}
	if err := ended(); err != nil {
		t.Errorf("watch: %v", err)
	}
	h.tamper(id)
}

// tamper changes a line.
func (h *host) tamper(id string) {
	files, _ := filepath.Glob(filepath.Join(h.dir, "*"+id+"@*.jsonl"))
	if len(files) != 1 {
		h.t.Fatalf("%q", files)
	}
	data := env.Read(h.t, files[0])
	env.Check(h.t, os.WriteFile(files[0], bytes.Replace(data, []byte("exec.refused"), []byte("exec.allowed"), 1), 0o600))
	if out, err := h.agentjailctl("journal", "--verify", id); err == nil || !strings.Contains(out, "BROKEN") {
		h.t.Errorf("a line that was changed verifies: %v\n%s", err, out)
	}
}

// watch listens at a socket that `agentjail watch` writes to. received waits for a kind of event, and ended interrupts it.
func (h *host) watch(socket string) (told func(kind journal.Kind) bool, ended func() error) {
	h.t.Helper()
	l, err := net.Listen("unix", socket)
	env.Check(h.t, err)
	cmd := exec.Command(h.caller.Path, append(slices.Clone(h.caller.Args), "watch", "--json", "--to", "unix:"+socket)...)
	cmd.Stderr = os.Stderr
	env.Check(h.t, cmd.Start())
	h.t.Cleanup(func() { l.Close(); _ = cmd.Process.Kill() })
	conn := env.Get(h.t, l.Accept)
	kinds := make(chan journal.Kind, 10000)
	go func() {
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			var e journal.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				kinds <- e.Kind
			}
		}
		close(kinds)
	}()
	seen := map[journal.Kind]bool{}
	within := func(kind journal.Kind, d time.Duration) bool {
		limit := time.After(d)
		for !seen[kind] {
			select {
			case k, more := <-kinds:
				if !more {
					return false
				}
				seen[k] = true
			case <-limit:
				return false
			}
		}
		return true
	}
	// It reports all events of jails that come once it follows.
	if !env.Poll(env.Patience, func() bool { h.create(engine.NewBundle(h.t, h.base)); return within(journal.JailCreate, time.Second) }) {
		h.t.Fatal("watch does not begin")
	}
	clear(seen)
	return func(kind journal.Kind) bool { return within(kind, time.Minute) }, func() error {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			return err
		}
		return cmd.Wait()
	}
}

// TestJailCannotReachJournal: a jail neither sees a journal nor can it be given one.
func TestJailCannotReachJournal(t *testing.T) {
	h := newHost(t, "")
	b := engine.NewBundle(t, h.base)
	b.Spec.Process.Args = []string{"sh", "-c", "for p in " + h.dir + " /var/log/agentjail; do ls $p && echo seen; mkdir -p $p; echo '{}' >>$p/x.jsonl; done 2>/dev/null; exec sleep 1000"}
	id := h.create(b)
	before := h.verify(id)
	if out, _, _ := b.Call(t, h.caller, "exec", id, "sh", "-c", "find / -xdev -name '*@*.jsonl' 2>/dev/null"); out != "" {
		t.Errorf("the jail sees %s", out)
	}
	if after := h.verify(id); after.Events != before.Events+1 {
		t.Errorf("%+v, then %+v", before, after)
	}
	entries, _ := os.ReadDir(h.dir)
	for _, e := range entries {
		if fi, err := e.Info(); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), fi.Mode(), err)
		}
	}
	if fi, err := os.Stat(h.dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	env.Check(t, os.MkdirAll(journal.DefaultDir, 0o700))
	other := engine.NewBundle(t, h.base)
	other.Mount(journal.DefaultDir, "/w")
	if out, err := other.Run(t, h.caller); err == nil {
		t.Errorf("the journals can be mounted: %s", out)
	}
	// That was no jail, and its journal reports why.
	out, err := h.agentjailctl("journal")
	env.Check(t, err)
	refused := ""
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "deleted" {
			refused = f[1]
		}
	}
	events := h.events(refused)
	expect(t, "of a jail that was not made", events, journal.JailRefused)
	if e := events[len(events)-1]; e.Rule != "bind.system" {
		t.Errorf("%+v", e)
	}
}

// TestUnwritableJournalStopsStart: a jail whose journal cannot be written starts only where policy does not require
// one, and a refused start leaves nothing.
func TestUnwritableJournalStopsStart(t *testing.T) {
	for _, required := range []bool{false, true} {
		h := newHost(t, fmt.Sprintf("journal.required = %v\n", required))
		env.Check(t, os.WriteFile(h.dir, []byte("no directory\n"), 0o600))
		b := engine.NewBundle(t, h.base)
		b.Spec.Process.Args = []string{"sleep", "1000"}
		id := b.ID()
		_, text, err := b.Call(t, h.caller, "create", "--bundle", b.Dir, id)
		if required != (err != nil) || required && (!strings.Contains(text, "journal.required") || !strings.Contains(text, "(remedy: ")) {
			t.Errorf("required %v: %v, %s", required, err, text)
		}
		if _, _, err := b.Call(t, h.caller, "state", id); required != (err != nil) {
			t.Errorf("required %v: the jail afterwards: %v", required, err)
		}
		_, _, _ = b.Call(t, h.caller, "delete", "--force", id)
	}
}

// TestFloodLeavesBeginningAndEnd: a flood leaves a journal's beginning and end, within its size; and of jails that were deleted the newest journals stay.
func TestFloodLeavesBeginningAndEnd(t *testing.T) {
	const size = 128 << 10
	h := newHost(t, "journal.size = \"128KiB\"\njournal.keep = 2\n")
	b := engine.NewBundle(t, h.base)
	b.Spec.Process.Args = []string{"sleep", "1000"}
	id := h.create(b)
	long := make([]string, 60)
	for i := range long {
		long[i] = strings.Repeat("\u202e\n", 900)
	}
	for range 40 { // refused before a delegate is called
		if _, _, err := b.Call(t, h.caller, append([]string{"exec", "--user", "70000", "--cwd", "/" + strings.Repeat("c", 900), id}, long...)...); err == nil {
			t.Fatal("it runs")
		}
	}
	// Its own lines are short: others fill it.
	place := journal.Place{Store: state.Store{Root: filepath.Join(h.base, "nowhere")}, Dir: h.dir}
	jails, err := place.Jails()
	if err != nil || len(jails) == 0 {
		t.Fatalf("%v, %v", jails, err)
	}
	l := jails[0].Log()
	l.Max = size
	for range 500 {
		env.Check(t, l.Append(journal.Event{Kind: journal.ProcessExec, Argv: long}))
	}
	var all int64
	files, _ := filepath.Glob(filepath.Join(h.dir, "*"))
	for _, f := range files {
		fi, err := os.Stat(f)
		env.Check(t, err)
		all += fi.Size()
	}
	if all > size {
		t.Errorf("%d bytes in %d files", all, len(files))
	}
	if r := h.verify(id); r.First != 1 || len(r.Gaps) != 1 || r.Last < 540 {
		t.Errorf("%+v", r)
	}
	if events := h.events(id); events[0].Kind != journal.JailCreate {
		t.Errorf("it begins with %+v", events[0])
	}
	b.Spec.Process.Args = []string{"true"}
	for range 4 {
		if _, err := b.Run(t, h.caller); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.agentjailctl("gc"); err != nil {
		t.Error(err)
	}
	out, err := h.agentjailctl("journal")
	if n := strings.Count(out, "deleted "); err != nil || n > 2 {
		t.Errorf("%d are left: %v\n%s", n, err, out)
	}
	if !strings.Contains(out, "exists") {
		t.Errorf("the running jail's is gone:\n%s", out)
	}
}
