package why

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/lazyregexp"
	"agentjail.dev/seccomp/bpf"
)

// aPath finds a path in a message, and aCall a call as strace prints it.
var (
	aPath = lazyregexp.New(`(?:^|[\s'"` + "`" + `(=])(/[^\s'"` + "`" + `,;:)]+)`)
	aCall = lazyregexp.New(`\b([a-z_0-9]+)\(([^()]*)\)\s*=\s*-1 E`)
)

// find is the entry that a text is of, and the named parts of its pattern; nil where there is none.
func find(text string) (*message, map[string]string) {
	all := messages()
	for i := range all {
		m := &all[i]
		at := m.pattern.FindStringSubmatch(text)
		if at == nil {
			continue
		}
		named := map[string]string{}
		for k, name := range m.pattern.SubexpNames() {
			if name != "" && at[k] != "" {
				named[name] = at[k]
			}
		}
		return m, named
	}
	return nil, nil
}

// about adds to a question about an error the subject of its text: a call, a name of the network, a
// path.
func (q *Question) about(arch string) {
	if q.Kind != OfError {
		return
	}
	m, named := find(q.Text)
	if at := aCall().FindStringSubmatch(q.Text); at != nil && isCall(at[1], arch) {
		q.Inner = fromStrace(at[1], at[2], arch)
	} else if c := named["call"]; c != "" && isCall(strings.ToLower(c), arch) {
		q.Inner, _, _ = parseCall(strings.ToLower(c), arch)
	}
	if m != nil && m.Target {
		q.Name, q.Port, q.Addr = targetIn(q.Text)
	}
	if h := named["host"]; h != "" && q.Name == "" {
		if name, port, ok := target(h); ok {
			q.toward(name, cmp.Or(portOf(q.Text), port))
		}
	}
	if p := named["path"]; p != "" {
		q.Path = p
	} else if at := aPath().FindStringSubmatch(q.Text); at != nil && m != nil && m.Path {
		q.Path = at[1]
	}
}

// aTarget finds the other end of a connection in a message: NAME:PORT, "NAME port PORT", `"NAME"
// (ADDRESS), port PORT`, or a URL.
var aTarget = lazyregexp.New(`(?i)(?:^|[\s/@"'(\[=])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9-]+)+)(?:\.?["']?(?: \([^)]*\))?,? port[ :]+|:)([0-9]{1,5})\b`)

// aURL finds a URL with a name.
var aURL = lazyregexp.New(`(?i)\b([a-z][a-z+]*)://(?:[^\s/@]*@)?([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::([0-9]{1,5}))?`)

// aName finds a name behind the words that programs put before one.
var aName = lazyregexp.New(`(?i)(?:connection to|connect to host|connect to|connecting to|host(?: ?name)?) ["']?([a-z0-9-]+(?:\.[a-z0-9-]+)+)`)

// targetIn finds the other end of a connection in a message; "" where none is named.
func targetIn(text string) (string, uint16, netip.Addr) {
	q := Question{}
	try := func(name, port string) {
		if n, p, ok := target(net.JoinHostPort(name, port)); ok && q.Name == "" {
			q.toward(n, p)
		}
	}
	if at := aURL().FindStringSubmatch(text); at != nil {
		try(at[2], cmp.Or(at[3], strconv.Itoa(int(cmp.Or(protocols[strings.ToLower(at[1])], 443)))))
	}
	if at := aTarget().FindStringSubmatch(text); at != nil {
		try(at[1], at[2])
	}
	if at := aName().FindStringSubmatch(text); at != nil {
		try(at[1], strconv.Itoa(int(cmp.Or(portOf(text), 443))))
	}
	return q.Name, q.Port, q.Addr
}

// protocols are the ports of what messages name: the schemes of URLs, and programs.
var protocols = map[string]uint16{
	"http": 80, "https": 443, "ws": 80, "wss": 443, "ssh": 22, "sftp": 22, "git": 9418, "git+ssh": 22, "ftp": 21, "smtp": 25,
	"smtps": 465, "imaps": 993,
	"ldap": 389, "ldaps": 636, "postgres": 5432, "postgresql": 5432, "psql": 5432, "pg": 5432, "mysql": 3306, "mariadb": 3306,
	"redis":  6379,
	"rediss": 6379, "mongodb": 27017, "amqp": 5672, "amqps": 5671, "nats": 4222, "kafka": 9092, "rsync": 873, "scp": 22,
	"redis-cli": 6379, "svn": 3690,
	"telnet": 23, "whois": 43, "apt": 80, "apt-get": 80,
}

// aProtocol finds a scheme or a program at the beginning of a message, and git's way of writing a
// remote.
var (
	aProtocol = lazyregexp.New(`(?i)\b([a-z][a-z+]*)://|^(?:e: |w: |err:\d+ )?([a-z][a-z-]*): `)
	aRemote   = lazyregexp.New(`\bgit@[a-z0-9.-]+`)
	aDebian   = lazyregexp.New(`(?i)temporary failure resolving|debian\.org|archive\.ubuntu\.com`)
	aDatabase = lazyregexp.New(`(?i)could not translate host name|connection to server at`)
)

// portOf is the port of the protocol that a message names by a scheme, a program or its own words;
// 0 where it names none.
func portOf(text string) uint16 {
	switch {
	case aRemote().MatchString(text):
		return 22
	case aDatabase().MatchString(text):
		return 5432
	}
	if at := aProtocol().FindStringSubmatch(text); at != nil {
		if port := protocols[strings.ToLower(cmp.Or(at[1], at[2]))]; port != 0 {
			return port
		}
	}
	if aDebian().MatchString(text) {
		return 80
	}
	return 0
}

// fromStrace reads a call as strace prints it; arguments that are no numbers or constants are not
// known.
func fromStrace(name, args, arch string) Call {
	c, _, _ := parseCall(name, arch)
	for i, word := range strings.Split(args, ",") {
		if i >= len(c.Args) {
			break
		}
		if v, known, err := argument(strings.TrimSpace(word)); err == nil {
			c.Args[i], c.Known[i] = v, known
		}
	}
	return c
}

// ofError answers for the text of an error: the causes that the jail shows come first.
func (f *Facts) ofError(q Question) (*Answer, error) {
	a := &Answer{Question: q.Text, Kind: OfError, Verdict: Unknown}
	if len(a.Question) > 200 {
		a.Question = a.Question[:200] + "..."
	}
	f.resolve(&q)
	if err := f.answerInner(a, q); err != nil {
		return nil, err
	}
	m, _ := find(q.Text)
	if own := ownRefusal(q.Text); own != nil {
		a.Causes = append(a.Causes, *own)
		if m != nil && !m.Own || m != nil && m.ID == "refused" {
			m = nil
		}
	}
	if m == nil {
		if len(a.Causes) == 0 {
			a.Why = "no message of the table is like it"
			a.Instead = "the system call, path or name that it is about: `strace -f PROGRAM` outside of the jail shows it; `agentjail why ID CALL`"
		} else {
			a.Verdict = a.Causes[0].Verdict
		}
		return a, nil
	}
	inner := a.Causes
	var shown, rest []Answer
	for _, c := range m.Causes {
		b, sure := f.cause(c)
		if b != nil {
			b.Remedies = f.filled(b.Remedies, q)
			if a.entry != nil { // never what is allowed already
				b.Remedies = slices.DeleteFunc(b.Remedies, func(r Remedy) bool { return strings.Contains(r.Write, "network.allow") })
			}
		}
		switch {
		case b == nil:
		case sure:
			shown = append(shown, *b)
		default:
			rest = append(rest, *b)
		}
	}
	a.Causes = slices.Concat(shown, a.Causes, rest)
	certain := len(shown) > 0 || len(inner) > 0 && inner[0].Kind == OfName
	if a.Verdict = Depends; len(a.Causes) == 1 || certain {
		a.Verdict = a.Causes[0].Verdict
	}
	return a, nil
}

// aRefusal finds a text of agentjail's own with a remedy (package refusal, and errors of commands).
var aRefusal = lazyregexp.New(`(?s)(?:\brefused: |\bagentjail: )(.*?)\s*\(remedy: (.*)\)`)

// ownRefusal answers for a text of agentjail's own, which has its reason and its remedy itself; nil
// for others.
func ownRefusal(text string) *Answer {
	at := aRefusal().FindStringSubmatch(text)
	if at == nil {
		return nil
	}
	return &Answer{
		Question: at[1], Kind: OfError, Verdict: Refused, By: []string{"agentjail itself"},
		Remedies: []Remedy{{Write: at[2], Opens: "what the remedy names"}},
	}
}

// answerInner answers for what an error's text is about.
func (f *Facts) answerInner(a *Answer, q Question) error {
	if q.Inner.Name != "" && f.Filters != nil {
		b, err := f.Filters.ofCall(q.Inner.Name, q.Inner)
		if err != nil {
			return err
		}
		if b.Verdict != Passes {
			a.Causes = append(a.Causes, *b)
		}
	}
	a.name = q.Name
	if q.Addr.IsValid() && !q.unresolved() {
		a.Seen = append(a.Seen, q.Addr.String()+" stands for "+q.Name)
	}
	if q.Name != "" && f.Network.ByRules && !q.unresolved() {
		if b := f.ofName(q.Name+":"+strconv.Itoa(int(q.Port)), q.Name, q.Port); b.Verdict == Refused {
			a.Causes = append(a.Causes, *b)
		} else if b.entry != nil {
			a.Seen, a.entry = append(a.Seen, fmt.Sprintf("%s is allowed, by %s", b.Question, b.Rule)), b.entry
		}
	}
	if q.Path != "" && f.Path != nil {
		if b := f.ofPath(q.Path); b.Verdict != Passes {
			a.Causes = append(a.Causes, *b)
		}
	}
	return nil
}

// cause is one reason of an entry, compared with the state of the jail. It is nil if the jail rules
// the cause out; sure means that the jail confirms it.
func (f *Facts) cause(c cause) (a *Answer, sure bool) {
	a = &Answer{
		Question: c.What, Kind: OfError, Verdict: Refused, Ring: c.ring(), Remedies: c.remedies(), Purpose: c.Purpose,
		Instead: c.Instead,
	}
	if c.By != "" {
		a.By = []string{c.By}
	} else {
		a.Verdict = Unknown
	}
	if c.Sign == "" {
		return a, false
	}
	sign, without := strings.CutPrefix(c.Sign, "no ")
	if name, ok := strings.CutPrefix(sign, "call "); ok {
		passes, known := f.passes(name)
		if known && passes == without {
			return nil, false
		}
		return a, known
	}
	for _, s := range f.Signs {
		if s.Sign == c.Sign && len(s.Remedies) > 0 {
			a.Remedies = s.Remedies
		}
		switch {
		case s.Sign != c.Sign:
		case s.Shown:
			a.Seen = append(a.Seen, s.Text)
			return a, true
		case s.Rules:
			return nil, false
		default:
			a.Seen = append(a.Seen, s.Text)
			return a, false
		}
	}
	return a, false
}

// filled has what a question is about in the place of the table's words.
func (f *Facts) filled(in []Remedy, q Question) []Remedy {
	out := slices.Clone(in)
	for i := range out {
		r := &out[i]
		if q.Name != "" && !q.unresolved() {
			entry := q.Name + ":" + strconv.Itoa(int(q.Port))
			r.Write = strings.ReplaceAll(strings.ReplaceAll(r.Write, "NAME:PORT", entry), "--allow NAME", "--allow "+entry)
		}
		if r.Where == ThePolicy {
			r.Where = f.where()
		}
	}
	return out
}

// passes reports whether a call passes for some arguments at least.
func (f *Facts) passes(call string) (passes, known bool) {
	if f.Filters == nil {
		return false, false
	}
	c, ok, err := parseCall(call, f.Filters.Arch)
	if !ok || err != nil {
		return false, false
	}
	v, err := bpf.Passes(f.Filters.Inner, c.partial(f.Filters.Arch))
	return v, err == nil
}

// A Sign is something that a jail shows of a cause.
type Sign struct {
	// Sign is the cause's: "memory", "pids", "layer", "layer files", "tmpfs", "nofile", "sentry",
	// "network none", "network names", "name", "kill", "protected", "other user", "tls end".
	Sign string
	// Shown reports that it is there; Rules, where it is not, that the cause cannot be it.
	Shown, Rules bool
	Text         string
	// Remedies are those of this jail, in place of the table's.
	Remedies []Remedy
}
