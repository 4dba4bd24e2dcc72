package why

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

var arches = []string{"amd64", "arm64"}

func alone(t testing.TB, profile, arch string) *Filters {
	t.Helper()
	f, err := Alone(seccomp.Options{Profile: profile, Arch: arch})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func ask(t testing.TB, text, arch string) Question {
	t.Helper()
	q, err := ParseQuestion(text, arch)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return q
}

// TestAnswersAsTheFilter: of every call and profile, the answer is the compiled filter's, and a
// remedy is one that lets it through.
func TestAnswersAsTheFilter(t *testing.T) {
	passes := func(x uint32) bool { return x&bpf.RetActionFull == bpf.RetAllow }
	for _, arch := range arches {
		for _, profile := range seccomp.Profiles() {
			f := alone(t, profile, arch)
			for _, name := range abi.Names(arch) {
				a, err := f.ofCall(name, ask(t, name, arch).Call)
				if err != nil {
					t.Fatal(err)
				}
				nr, _ := abi.Number(name, arch)
				all, err := bpf.Verdicts(f.Inner, bpf.Call(bpf.AuditArch(arch), nr))
				if err != nil {
					t.Fatal(err)
				}
				want := Depends
				switch {
				case !slices.ContainsFunc(all, func(x uint32) bool { return !passes(x) }):
					want = Passes
				case !slices.ContainsFunc(all, passes):
					want = Refused
				}
				if a.Verdict != want || (want == Passes) != (a.Errno == "") || a.Rule == "" {
					t.Errorf("%s %s %s: %s %q by %q, the filter states %s", arch, profile, name, a.Verdict, a.Errno, a.Rule, want)
				}
				if want == Refused {
					checkRefusal(t, f, a, name, arch)
				}
			}
		}
	}
}

var profileIn = regexp.MustCompile(`seccomp\.profile = "(\w+)"`)

// checkRefusal holds a refused call's remedies against the profiles that they name.
func checkRefusal(t *testing.T, f *Filters, a *Answer, name, arch string) {
	t.Helper()
	if (len(a.Remedies) == 0) != a.Purpose {
		t.Errorf("%s %s: %d remedies, on purpose: %v", f.Profile, name, len(a.Remedies), a.Purpose)
	}
	if a.Purpose && a.Instead == "" {
		t.Errorf("%s %s: refused on purpose, and nothing is stated to be instead", f.Profile, name)
	}
	nr, _ := abi.Number(name, arch)
	for _, r := range a.Remedies {
		m := profileIn.FindStringSubmatch(r.Write)
		if m == nil {
			t.Errorf("%s %s: %q names no profile", f.Profile, name, r.Write)
			continue
		}
		prog, err := compiler.Program(m[1], arch, false)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := bpf.Passes(prog, bpf.Call(bpf.AuditArch(arch), nr)); err != nil || !ok {
			t.Errorf("%s %s: profile %s does not let it pass", f.Profile, name, m[1])
		}
	}
}

// TestSingleOpensNothingElse: the remedy with a list lets through one call more than there was, as
// far as the wider profile has it.
func TestSingleOpensNothingElse(t *testing.T) {
	for _, arch := range arches {
		before := alone(t, "default", arch)
		for call, profile := range map[string]string{"sendfile": "server", "shmget": "server", "ptrace": "debug"} {
			l, err := seccomp.ParseList([]byte(`{"extends": "default", "allow": [{"names": ["` + call + `"], "why": "REASON"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			after, err := Alone(seccomp.Options{Profile: profile, Arch: arch, Only: l})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range abi.Names(arch) {
				nr, _ := abi.Number(name, arch)
				was, _ := bpf.Passes(before.Inner, bpf.Call(bpf.AuditArch(arch), nr))
				is, _ := bpf.Passes(after.Inner, bpf.Call(bpf.AuditArch(arch), nr))
				if is != (was || name == call) {
					t.Errorf("%s, %s with a list of default and %s: %s passes %v, before %v", arch, profile, call, name, is, was)
				}
			}
		}
	}
}

// TestEveryCallHasAReason: what no profile lets pass is in exactly one group.
func TestEveryCallHasAReason(t *testing.T) {
	in := map[string]int{}
	for _, n := range refused().Groups {
		if n.Why == "" || n.Instead == "" {
			t.Errorf("%s: no reason, or nothing instead", n.Calls)
		}
		for c := range strings.FieldsSeq(n.Calls) {
			in[c]++
		}
	}
	for _, arch := range arches {
		var all []*Filters
		for _, profile := range seccomp.Profiles() {
			all = append(all, alone(t, profile, arch))
		}
		for _, name := range abi.Names(arch) {
			nr, _ := abi.Number(name, arch)
			some := false
			for _, f := range all {
				ok, err := bpf.Passes(f.Inner, bpf.Call(bpf.AuditArch(arch), nr))
				if err != nil {
					t.Fatal(err)
				}
				some = some || ok
			}
			if some && in[name] > 0 {
				t.Errorf("%s: a profile lets it pass, and the table states that none does", name)
			}
			if !some && in[name] != 1 {
				t.Errorf("%s: in %d groups of the table, of those that no profile lets pass", name, in[name])
			}
		}
	}
}

// TestQuestions: what a text is taken for.
func TestQuestions(t *testing.T) {
	for text, want := range map[string]Kind{
		"clone3": OfCall, "435": OfCall, "socket(AF_VSOCK)": OfCall, "personality(0x40000)": OfCall, "ioctl(_, TIOCSTI)": OfCall, "mount": OfCall,
		"/work/.git/hooks": OfPath, "/": OfPath, "pypi.org": OfName, "pypi.org:443": OfName, "[::1]:80": OfError,
		"Operation not permitted": OfError, "Killed": OfError, "137": OfCall, "exit status 137": OfError,
		"curl: (6) Could not resolve host: pypi.org": OfError, "/bin/sh: 1: cannot create /x: Permission denied": OfError,
	} {
		if q := ask(t, text, "amd64"); q.Kind != want {
			t.Errorf("%q is taken for a %s, not a %s", text, q.Kind, want)
		}
	}
	for _, bad := range []string{"", "socket(AF_NONSENSE)", "socket(1", "read(1,2,3,4,5,6,7)", "99999", strings.Repeat("x", maxQuestion+1)} {
		if q, err := ParseQuestion(bad, "amd64"); err == nil {
			t.Errorf("%.40q is taken for %+v", bad, q)
		}
	}
	if q := ask(t, `openat(AT_FDCWD, "/sys/kernel/x", O_RDONLY) = -1 ENOENT (No such file or directory)`, "amd64"); q.Kind != OfError || q.Inner.Name != "openat" {
		t.Errorf("strace's line: %+v", q)
	}
	if q := ask(t, "socket(AF_VSOCK, SOCK_STREAM, 0) = -1 EAFNOSUPPORT (Address family not supported by protocol)", "amd64"); q.Inner.Name != "socket" || q.Inner.Args[0] != 40 || !q.Inner.Known[1] {
		t.Errorf("strace's line: %+v", q)
	}
}

// TestArguments: answers by argument.
func TestArguments(t *testing.T) {
	f := alone(t, "default", "amd64")
	for text, want := range map[string]struct {
		verdict Verdict
		errno   string
	}{
		"socket(AF_VSOCK)":                        {Refused, "EAFNOSUPPORT"},
		"socket(AF_INET, SOCK_STREAM, 0)":         {Passes, ""},
		"socket(AF_INET, SOCK_RAW)":               {Refused, "EPERM"},
		"socket":                                  {Depends, "EPERM"},
		"clone(CLONE_NEWUSER)":                    {Refused, "EPERM"},
		"clone(SIGCHLD)":                          {Passes, ""},
		"chmod(_, 04755)":                         {Refused, "EPERM"},
		"ioctl(_, TIOCSTI)":                       {Refused, "ENOTTY"},
		"ioctl(0, TCGETS)":                        {Passes, ""},
		"prctl(PR_SET_SECCOMP)":                   {Refused, "EINVAL"},
		"futex(_, FUTEX_CMP_REQUEUE_PI)":          {Refused, "ENOSYS"},
		"personality(0x40000)":                    {Refused, "EINVAL"},
		"personality(PER_LINUX32)":                {Refused, "EINVAL"},
		"fadvise64(3, 0, 0, POSIX_FADV_DONTNEED)": {Refused, seccomp.Done},
		"mlock":    {Passes, ""},
		"mlockall": {Refused, "ENOSYS"},
		"syncfs":   {Refused, "ENOSYS"},
		"msgget":   {Refused, "ENOSYS"},

		"setsockopt(3, IPPROTO_IPV6, IPV6_MULTICAST_HOPS)": {Passes, ""},
		"setsockopt(3, SOL_IP, IP_MULTICAST_IF)":           {Passes, ""},
		"setsockopt(3, IPPROTO_IPV6, IPV6_JOIN_GROUP)":     {Refused, "ENOPROTOOPT"},
		"setsockopt(3, SOL_SOCKET, SO_BINDTODEVICE)":       {Refused, "ENOPROTOOPT"},

		"sched_setaffinity":                       {Refused, seccomp.Done},
		"setsockopt(3, SOL_SOCKET, SO_RCVBUF)":    {Refused, seccomp.Done},
		"setsockopt(3, SOL_SOCKET, SO_KEEPALIVE)": {Refused, ""},
	} {
		q, err := ParseQuestion(text, "amd64")
		if strings.Contains(text, "KEEPALIVE") {
			if err == nil {
				t.Errorf("%s: a constant that is not in the table is taken for something", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		a, err := f.ofCall(text, q.Call)
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != want.verdict || a.Errno != want.errno && text != "socket" {
			t.Errorf("%s: %s %s, want %s %s", text, a.Verdict, a.Errno, want.verdict, want.errno)
		}
	}
}

// TestOuterAndInner: which of the two filters refuses is stated.
func TestOuterAndInner(t *testing.T) {
	f := alone(t, "strict", "amd64")
	for call, want := range map[string]string{"landlock_restrict_self": "the inner system call filter (the outer one lets the init step use it)", "mount": "both system call filters"} {
		a, err := f.ofCall(call, ask(t, call, "amd64").Call)
		if err != nil || len(a.By) != 1 || !strings.HasPrefix(a.By[0], want) {
			t.Errorf("%s: %v by %q, want %q", call, err, a.By, want)
		}
	}
}

// TestUnknownMessage: what is not in the table is not answered by chance.
func TestUnknownMessage(t *testing.T) {
	f := &Facts{Filters: alone(t, "default", "amd64")}
	a, err := f.ofError(ask(t, "Segmentation fault, somewhere in the program", "amd64"))
	if err != nil || a.Verdict != Unknown || len(a.Causes) > 0 || a.Instead == "" {
		t.Errorf("%v %+v", err, a)
	}
}

// TestSigns: what the jail shows comes first, and what it rules out is left out.
func TestSigns(t *testing.T) {
	f := &Facts{Filters: alone(t, "default", "amd64")}
	q := ask(t, "cp: error writing 'f': No space left on device", "amd64")
	f.Signs = []Sign{{Sign: "tmpfs", Shown: true, Text: "the tmpfs at /tmp is full"}}
	a, err := f.ofError(q)
	if err != nil || a.Verdict != Refused || !strings.HasPrefix(a.Causes[0].Question, "a tmpfs") || len(a.Causes[0].Seen) != 1 {
		t.Errorf("%v %+v", err, a)
	}
	f.Signs = []Sign{{Sign: "network none", Shown: true, Rules: true}, {Sign: "name", Rules: true}, {Sign: "network names", Rules: true}}
	a, err = f.ofError(ask(t, "curl: (6) Could not resolve host: pypi.org", "amd64"))
	if err != nil || len(a.Causes) != 1 || a.Verdict != Refused || !strings.Contains(a.Causes[0].Remedies[0].Write, "network.allow") {
		t.Errorf("%v %+v", err, a)
	}
	// In profile debug, ptrace is not refused by the filter.
	f.Filters = alone(t, "debug", "amd64")
	if a, err = f.ofError(ask(t, "ptrace: Operation not permitted.", "amd64")); err != nil || !strings.Contains(a.Causes[0].Question, "Landlock") {
		t.Errorf("%v %+v", err, a)
	}
}

// TestNames: what is stated of a name is what the rules state.
func TestNames(t *testing.T) {
	set, err := netrules.Parse([]string{"*.example.org", "a.test:22"}, []string{"no.example.org"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &Facts{ID: "jail", Network: Network{Mode: "names", ByRules: true, Rules: set}}
	for text, want := range map[string]Verdict{"x.example.org": Passes, "x.example.org:22": Refused, "a.test:22": Passes, "no.example.org": Refused, "b.test:443": Refused} {
		q := ask(t, text, "amd64")
		a, err := f.Answer(q)
		if err != nil || a.Verdict != want || (want == Refused) != (len(a.Remedies) == 1) {
			t.Errorf("%s: %v %+v", text, err, a)
		}
		if v := set.Match(q.Name, q.Port); v.OK != (a.Verdict == Passes) {
			t.Errorf("%s: the rules state %v", text, v)
		}
	}
	f.Network.Approval = true
	for text, first := range map[string]string{
		"b.test:443": "agentjail network allow jail b.test:443", "a.test:443": "network.allow: add", "no.example.org": "network.deny without",
		"printer.local": "network.allow: add",
	} {
		if a, err := f.Answer(ask(t, text, "amd64")); err != nil || !strings.HasPrefix(a.Remedies[0].Write, first) {
			t.Errorf("%s, where names can be approved: %v %+v", text, err, a)
		}
	}
	if f.Ended = true; len(f.ofName("b.test:443", "b.test", 443).Remedies) != 1 {
		t.Error("a name of a jail that has ended can be approved")
	}
	f.Network = Network{Mode: "none", Nothing: true}
	if a := f.ofName("x.test:443", "x.test", 443); a.Verdict != Refused || !strings.Contains(a.Remedies[0].Write, `"x.test:443"`) {
		t.Errorf("%+v", a)
	}
}

// TestPaths: what holds a path.
func TestPaths(t *testing.T) {
	base := Path{Name: "/work/f", Above: "/work/f", Exists: true, Mode: 0o100644, Mount: "/work", FS: "ext4", Kind: Host, OneOwner: true}
	for name, c := range map[string]struct {
		change func(*Path)
		want   Verdict
		by     string
	}{
		"own":        {func(*Path) {}, Passes, ""},
		"read-only":  {func(p *Path) { p.ReadOnly = true }, Depends, "read-only mount"},
		"protected":  {func(p *Path) { p.Protected, p.ReadOnly = "/work/.git/hooks", true }, Depends, "protected paths"},
		"masked":     {func(p *Path) { p.Masked = "/proc/kcore" }, Refused, "masked paths"},
		"other user": {func(p *Path) { p.User.UID, p.Owner = 1000, 0 }, Depends, "owner and mode"},
		"no rights":  {func(p *Path) { p.User.UID, p.Mode = 1000, 0o100600 }, Refused, "owner and mode"},
		"another's":  {func(p *Path) { p.UID, p.GID, p.Mode = 65534, 65534, 0o100666 }, Depends, "owner and mode"},
		"group":      {func(p *Path) { p.UID, p.GID, p.Mode, p.User.Groups = 5, 7, 0o100060, []uint32{7} }, Passes, ""},
		"device":     {func(p *Path) { p.Name, p.Exists, p.Above = "/dev/kvm", false, "/dev" }, Refused, "nothing is there"},
	} {
		p := base
		c.change(&p)
		a := (&Facts{Path: &p}).ofPath(p.Name)
		if a.Verdict != c.want || c.by != "" && (len(a.By) == 0 || !strings.HasPrefix(a.By[0], c.by)) {
			t.Errorf("%s: %+v", name, a)
		}
		if a.Verdict != Passes && len(a.Remedies) == 0 && !a.Purpose {
			t.Errorf("%s: no remedy, and not on purpose", name)
		}
	}
}

// TestTextIsClean: what a jail may have influenced is printed without control characters.
func TestTextIsClean(t *testing.T) {
	a := &Answer{Question: "x\x1b[31m\nremedy   rm -rf /", Kind: OfError, Verdict: Unknown, Seen: []string{"a\u202eb"}}
	var b bytes.Buffer
	if err := a.Text(&b); err != nil || strings.ContainsAny(b.String(), "\x1b\u202e") || strings.Count(b.String(), "\n") != 2 {
		t.Errorf("%v %q", err, b.String())
	}
}

func FuzzAsk(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.Samples[0])
	}
	f.Add("socket(AF_UNIX|1, _, 0x7)")
	f.Add("/../..//x")
	facts := &Facts{Filters: alone(f, "default", "amd64"), Network: Network{Mode: "none", Nothing: true}}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := ParseQuestion(text, "amd64")
		if err != nil {
			return
		}
		a, err := facts.Answer(q)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var b bytes.Buffer
		if err := a.Text(&b); err != nil || strings.ContainsRune(b.String(), 0x1b) {
			t.Fatalf("%q: %v %q", text, err, b.String())
		}
	})
}

// page has the list of messages.
const page = "../../../docs/why.md"

// list has the messages, each with its first remedy, for the page that people read. Refusals of
// agentjail's own are left out: they have theirs in their text.
func list() [][2]string {
	var out [][2]string
	for _, m := range messages() {
		if strings.Contains(m.Samples[0], "refused: ") || strings.Contains(m.Samples[0], "(remedy: ") {
			continue
		}
		c := m.Causes[0]
		remedy := c.Instead
		if len(c.Remedies) > 0 {
			remedy = c.Remedies[0].Write
		}
		out = append(out, [2]string{m.Samples[0], remedy})
	}
	return out
}

// TestPage: the page that people read has the list.
func TestPage(t *testing.T) {
	var b strings.Builder
	for _, row := range list() {
		b.WriteString("- `" + strings.ReplaceAll(row[0], "`", "'") + "`: " + strings.ReplaceAll(row[1], "<", "&lt;") + "\n")
	}
	docpage.Holds(t, page, "messages", b.String())
}

// TestNarrowed: of a call that the profile has, and a list or the engine's filter has not, that is stated.
func TestNarrowed(t *testing.T) {
	l, err := seccomp.ParseList([]byte(`{"extends": "strict", "allow": []}`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Alone(seccomp.Options{Profile: "default", Arch: "amd64", Only: l})
	if err != nil {
		t.Fatal(err)
	}
	f.File = "/etc/short.json"
	engine := alone(t, "default", "amd64")
	engine.Inner, engine.Outer = f.Inner, f.Outer
	for _, call := range []string{"socket", "socket(AF_UNIX, SOCK_STREAM)", "listen", "mknodat"} {
		a, err := f.ofCall(call, ask(t, call, "amd64").Call)
		if err != nil || !strings.Contains(a.Rule, "the list of /etc/short.json") || len(a.Remedies) != 1 {
			t.Errorf("%s: %v %+v", call, err, a)
		}
		a, err = engine.ofCall(call, ask(t, call, "amd64").Call)
		if err != nil || !strings.Contains(a.Rule, "the filter that the engine brings") || len(a.Remedies) != 1 {
			t.Errorf("%s: %v %+v", call, err, a)
		}
	}
	if a, err := f.ofCall("mount", ask(t, "mount", "amd64").Call); err != nil || !a.Purpose {
		t.Errorf("mount: %v %+v", err, a)
	}
}
