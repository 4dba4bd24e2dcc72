package sources

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// TestKeptFiles: what is kept of a jail's network is what its log is.
func TestKeptFiles(t *testing.T) {
	if journal.KeptFiles != decisions.LogFiles {
		t.Errorf("%q are kept, and the log is %q", journal.KeptFiles, decisions.LogFiles)
	}
}

// records are of the kernel's log and of auditd's.
var records = []string{
	// AppArmor (Debian 13), the jail's and another's.
	`audit: type=1400 audit(1795440225.075:9): apparmor="DENIED" operation="open" class="file" profile="agentjail-default" name="/proc/sysrq-trigger" pid=1059 comm="sh" requested_mask="w" denied_mask="w" fsuid=2013265920 ouid=0`,
	`audit: type=1400 audit(1795440225.075:9): apparmor="DENIED" operation="open" class="file" profile="agentjail-default" name="/x" pid=1 comm="sh" requested_mask="w" denied_mask="w" fsuid=0 ouid=2013265920`,
	`type=AVC msg=audit(1795440226.000:10): apparmor="DENIED" operation="capable" class="cap" profile="agentjail-default" pid=7 comm=0A22 capability=12 capname="net_admin" fsuid=2013265921`,
	// SELinux has no ids in the record itself where auditd has them in another; with them it counts.
	`type=AVC msg=audit(1795440226.100:11): avc:  denied  { read open } for  pid=8 comm="cat" name="shadow" dev="sda1" ino=9 scontext=system_u:system_r:container_t:s0:c1,c2 tcontext=system_u:object_r:shadow_t:s0 tclass=file permissive=0 uid=2013265920`,
	`audit: type=1326 audit(1795440227.000:12): auid=4294967295 uid=2013265922 gid=0 ses=4294967295 pid=1061 comm="p" exe="/tmp/p" sig=31 arch=c000003e syscall=56 compat=0 ip=0x7f code=0x80000000`,
	// Landlock: a refusal, and then whose domain it is.
	`audit: type=1423 audit(1795440228.000:13): domain=195ba459b blockers=fs.remove_file path="/w/.git/config" dev="vda2" ino=5`,
	`audit: type=1424 audit(1795440228.000:13): domain=195ba459b status=allocated mode=enforcing pid=300 uid=2013265920 exe="/usr/bin/git" comm="git"`,
	`audit: type=1423 audit(1795440228.000:14): domain=feed blockers=fs.remove_file path="/other"`,
	`cgroup: fork rejected by pids controller in /system/box`,
	`oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=box,mems_allowed=0,oom_memcg=/box,task_memcg=/box,task=python3,pid=77,uid=2013265920`,
	// Those of other jails: one whose id begins alike, and one whose process has a name with this jail's id in it.
	`cgroup: fork rejected by pids controller in /system/box2`,
	`oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/x,task_memcg=/x,task=,uid=2013265920,pid=78,uid=2014314496`,
	// A name that would hide whose it is.
	`oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=box,mems_allowed=0,oom_memcg=/box,task_memcg=/box,task=,pid=1,uid=7,pid=79,uid=2013265920`,
	`cgroup: fork rejected by pids controller in /system.slice/docker-box.scope`,
	// Before its time, and none.
	`audit: type=1326 audit(1000000000.000:12): uid=2013265922 pid=1 comm="p" exe="/old" sig=31 syscall=56`,
	`audit: type=1326 audit(nonsense): uid=2013265922`, `audit: type=`, `audit(`, "",
}

// TestKernel: records of a jail's ids are its events, and no others are.
func TestKernel(t *testing.T) {
	p := newParser(&journal.Jail{ID: "box", Born: time.Unix(1795440000, 0)}, idRange{2013265920, 65536})
	for _, r := range records {
		p.line(r, time.Unix(1795440300, 0))
	}
	var got []string
	for _, e := range merged(p.out, &journal.Jail{ID: "box"}) {
		got = append(got, fmt.Sprintf("%s %d %s|%s|%s", e.Kind, e.Pid, e.Program, e.Path, e.Target))
	}
	want := []string{
		"apparmor.denied 1059 sh|/proc/sysrq-trigger|open w", `apparmor.denied 7 \x0a"||capability net_admin`,
		"selinux.denied 8 cat|shadow|read open file of system_u:object_r:shadow_t:s0", "syscall.killed 1061 /tmp/p||",
		"landlock.denied 300 /usr/bin/git|/w/.git/config|fs.remove_file", "landlock.denied 0 |/other|fs.remove_file",
		"limit.pids 0 ||", "limit.oom 77 python3||", "limit.oom 79 ,pid=1,uid=7||", "limit.pids 0 ||",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestKmsgRecord: a record's time and text.
func TestKmsgRecord(t *testing.T) {
	text, at := kmsgRecord("6,339,5140900,-;cgroup: x\n SUBSYSTEM=y\n")
	if text != "cgroup: x" || at.IsZero() || at.After(time.Now()) {
		t.Errorf("%q at %v", text, at)
	}
}

// FuzzRecord: no record brings the parser down, or text that is not clean.
func FuzzRecord(f *testing.F) {
	for _, r := range records {
		f.Add(r)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := newParser(&journal.Jail{ID: "box"}, idRange{0, 1 << 32})
		p.line(text, time.Now())
		p.line(text, time.Now())
		for _, e := range merged(p.out, &journal.Jail{ID: "box"}) {
			if strings.ContainsAny(e.String(), "\n\x1b\x00\u202e") {
				t.Errorf("%q", e.String())
			}
		}
	})
}

// TestNetwork: each decision of the helper's has its kind.
func TestNetwork(t *testing.T) {
	for _, c := range []struct {
		in   decisions.Event
		want []journal.Kind
	}{
		{decisions.Event{What: decisions.Name, Verdict: "allowed"}, []journal.Kind{journal.NameAllowed}},
		{decisions.Event{What: decisions.Name, Verdict: "refused"}, []journal.Kind{journal.NameRefused}},
		{decisions.Event{What: decisions.Connect, Verdict: "refused"}, []journal.Kind{journal.ConnectRefused}},
		{decisions.Event{What: decisions.Connect, Verdict: "refused", Credential: "c"}, []journal.Kind{journal.CredentialRefused}},
		{decisions.Event{What: decisions.End, Credential: "c"}, []journal.Kind{journal.ConnectEnd, journal.CredentialUsed}},
		{decisions.Event{What: decisions.Publish, Verdict: "allowed", Dropped: 3}, []journal.Kind{journal.JournalLost, journal.PublishAllowed}},
		{decisions.Event{What: decisions.Publish, Verdict: "refused"}, []journal.Kind{journal.PublishRefused}},
		{decisions.Event{Reason: "no event"}, []journal.Kind{journal.JournalLost}},
	} {
		var got []journal.Kind
		for _, e := range fromNetwork(c.in) {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.in, got, c.want)
		}
	}
}

// TestEvents: all sources are read, in the order of time, and what cannot be read is reported.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	l := &journal.Log{Path: journal.NewPath(dir, "0123abcd-box", time.Now()), Jail: "box"}
	if err := l.Begin(journal.Event{Kind: journal.JailCreate, Value: "no ids"}); err != nil {
		t.Fatal(err)
	}
	j := &journal.Jail{ID: "box", Key: "0123abcd-box", Path: l.Path}
	events := Events(state.Store{Root: dir}, j)
	if len(events) != 1 || events[0].Kind != journal.JailCreate {
		t.Errorf("%v", events)
	}
	j.Path += ".none"
	if events = Events(state.Store{Root: dir}, j); len(events) == 0 || events[0].Kind != journal.SourceAbsent {
		t.Errorf("%v", events)
	}
}
