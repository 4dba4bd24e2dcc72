package receipt

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"agentjail.dev/runtime/kernel/printable"
)

// A part is a section of the receipt, as text and page show it.
type part struct {
	ID, Title string
	Rows      []row
	Remedy    string
}

// A row is a line of a part.
type row struct {
	Cells []string
	Notes []string
	Loud  bool
}

func (p *part) add(cells ...string) { p.Rows = append(p.Rows, row{Cells: cells}) }

// known adds a row whose value is known.
func (p *part) known(name, value string) {
	if value != "" {
		p.add(name, value)
	}
}

// parts are all sections: first what the host may run and protections that were lost, then what was
// refused.
func (r *Receipt) parts() []part {
	t := &r.Touched
	out := t.warnings()
	out = append(out, r.denials(), r.run(), r.rings(), r.usage(), r.hits(), t.written())
	for _, m := range t.mounted() {
		p := part{Title: "mounted at " + m.At + ": " + m.words()}
		for _, c := range m.Changed {
			p.add(c)
		}
		out = append(out, p)
	}
	out = append(out, r.torn(), r.identity())
	return out
}

func (r *Receipt) title() string {
	return "receipt of jail " + cmp.Or(r.Identity.Name, r.Identity.ID)
}

// verdict is one line: how far the jail got, and what is most important of the whole.
func (r *Receipt) verdict() string {
	out := []string{map[State]string{Running: "running", Ended: "ended", Refused: "refused: no jail was made"}[r.State]}
	if out[0] == "" {
		out[0] = "gone without a delete"
	}
	add := func(is bool, text string) {
		if is {
			out = append(out, text)
		}
	}
	exit := r.Exit.text()
	add(exit != "", exit)
	add(len(r.Touched.Arrived) > 0, "look before you run git or an editor there")
	add(len(r.Touched.Stale) > 0, "compare before you merge")
	broken := 0
	for _, ring := range r.Rings {
		broken += len(ring.Start.Broken) + len(ring.End.Broken)
	}
	add(broken > 0, "a protection was BROKEN")
	v, torn := r.Journal.Verified, !r.Teardown.At.IsZero()
	add(v != nil && *v, "journal verified")
	add(v != nil && !*v, "journal does NOT verify")
	add(torn && r.Teardown.Done, "torn down")
	add(torn && !r.Teardown.Done, "not all torn down")
	return strings.Join(out, ", ")
}

// text is how the first process ended, or "" where it has not.
func (e Exit) text() string {
	var words []string
	if e.Signal != "" {
		words = append(words, "ended by "+printable.Line(e.Signal, 20))
	}
	if e.Status != nil {
		words = append(words, "exit status "+strconv.Itoa(*e.Status))
	}
	switch {
	case e.Engine != nil:
		words = append(words, "exit status "+strconv.Itoa(*e.Engine)+" (Docker's record)")
	case e.Unknown != "":
		words = append(words, "exit status "+printable.Line(e.Unknown, 60))
	}
	if e.Killed {
		words = append(words, "a process was killed for want of memory")
	}
	return strings.Join(words, ", ")
}

// warnings are what needs a look before the host uses the mounted directories.
func (t *Touched) warnings() []part {
	lost := part{
		Title:  "A protected path LOST its protection while the jail ran: the jail could write to it",
		Remedy: "look at it before the host runs it",
	}
	for _, l := range t.Lost {
		lost.add(l.Path + ": " + l.Why)
	}
	arrived := part{
		ID:     "arrived",
		Title:  "LOOK before git, an editor or an agent runs there: this came or was changed, and the host runs it or is led by it",
		Remedy: "`agentjail git DIR status`, diff and log show it without running it on the host",
	}
	for _, a := range t.Arrived {
		arrived.add(a.Kind, a.Path+": "+a.Why)
	}
	if n := t.ArrivedTotal - len(t.Arrived); n > 0 && len(t.Arrived) > 0 {
		arrived.add("...", fmt.Sprintf("and %d more", n))
	}
	unseen := part{Title: "NOT KNOWN of mounted directories"}
	for _, u := range t.arrivedUnseen() {
		unseen.add(u)
	}
	stale := part{
		Title:  "COMPARE before you merge: git kept protected files of another branch in the jail",
		Remedy: "compare the protected files of the jail's commits before they are merged; `git restore` on the host",
	}
	for i := range t.Stale {
		t.Stale[i].rows(&stale)
	}
	return slices.DeleteFunc([]part{lost, arrived, unseen, stale}, func(p part) bool { return p.Rows == nil })
}

// rows adds a sentence for each file, and what is known beyond them.
func (s *Stale) rows(p *part) {
	for _, name := range s.Files {
		p.add(fmt.Sprintf("a commit from this jail can revert %s of another branch", path.Join(s.Repository, name)))
	}
	if n := s.Total - len(s.Files); n > 0 {
		p.add(fmt.Sprintf("a commit from this jail can revert %d more files of another branch in %s", n, s.Repository))
	}
	if s.Committed {
		p.add(fmt.Sprintf("commits were made in %s after a switch of branch: they can have reverted protected files already", s.Repository))
	}
}

// denials are what was refused, and why.
func (r *Receipt) denials() part {
	p := part{ID: "denied", Title: "denied"}
	if len(r.Denied) == 0 {
		p.add("nothing, as far as the journal knows")
	}
	for _, d := range r.Denied {
		l := row{Cells: []string{strconv.Itoa(d.Count) + " x", d.Kind + ": " + d.What}, Loud: d.RingPassed}
		note := func(name, value string) {
			if value != "" {
				l.Notes = append(l.Notes, name+value)
			}
		}
		note("", d.Ring)
		if d.RingPassed {
			note("", "PASSED the outer rings: an inner one refused it")
		}
		note("rule: ", d.Rule)
		note("because ", d.Reason)
		note("to allow it: ", d.Remedy)
		note("first at ", moment(d.First))
		p.Rows = append(p.Rows, l)
	}
	return p
}

// run is the command and the numbers of the whole.
func (r *Receipt) run() part {
	p := part{Title: "run"}
	p.known("command", commandLine(r.Identity.Command))
	p.add("duration", span(r.Seconds))
	denied := 0
	for _, d := range r.Denied {
		denied += d.Count
	}
	p.add("denied", strconv.Itoa(denied))
	if t := r.Touched; t.Known {
		p.add("paths written", strconv.Itoa(len(t.Files))+map[bool]string{true: "+"}[t.More])
	}
	p.add("names connected to", strconv.Itoa(len(r.Used.Names)))
	p.labelled(&r.Used.Amounts)
	return p
}

// labelled adds the known fields of a struct that have a label, each with its unit.
func (p *part) labelled(of any) {
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag
		if f.IsZero() || tag.Get("label") == "" {
			continue
		}
		value := fmt.Sprint(f.Interface())
		switch tag.Get("unit") {
		case "bytes":
			value = size(f.Int())
		case "seconds":
			value = span(f.Float())
		}
		p.add(tag.Get("label"), value)
	}
}

func (r *Receipt) rings() part {
	p := part{Title: "rings"}
	for _, ring := range r.Rings {
		p.Rows = append(p.Rows, ring.Start.row(ring.Name, "at start"), ring.End.row(ring.Name, "last look"))
	}
	return p
}

// row is what was seen of a ring.
func (l *Look) row(ring, when string) row {
	out := row{Cells: []string{ring, when, "not looked at"}, Loud: len(l.Broken) > 0}
	if l.By == "" {
		return out
	}
	var words []string
	for _, n := range []struct {
		n    int
		what string
	}{{len(l.Broken), "BROKEN"}, {l.Holds, "hold"}, {l.Set, "set"}, {len(l.Missing), "missing"}, {l.Denied, "privileges denied"}} {
		if n.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	out.Cells[2] = fmt.Sprintf("%s (%s)", cmp.Or(strings.Join(words, ", "), "nothing to change"),
		strings.TrimSuffix(l.By+", "+moment(l.At), ", "))
	for _, b := range l.Broken {
		out.Notes = append(out.Notes, "BROKEN: "+b)
	}
	for _, m := range l.Missing {
		out.Notes = append(out.Notes, "missing: "+m)
	}
	return out
}

func (r *Receipt) usage() part {
	p, u := part{Title: "used"}, &r.Used
	for _, n := range u.Names {
		name := n.Name
		if n.Port != 0 {
			name += ":" + strconv.Itoa(n.Port)
		}
		p.add("name", fmt.Sprintf("%s: %d connections, %s sent, %s received (rule: %s)", name, n.Count, size(n.Sent),
			size(n.Got), n.Rule))
	}
	for _, c := range u.Credentials {
		p.add("credential", fmt.Sprintf("%s: %d times; the jail never had its value", c.Name, c.Count))
	}
	for _, d := range u.Decisions {
		verb := map[bool]string{true: "allowed", false: "denied"}[d.Allowed]
		p.add("decision", fmt.Sprintf("%s:%d: %s %s by %s at %s", d.Name, d.Port, verb, d.Span, d.By, moment(d.At)))
	}
	p.known("programs", strings.Join(u.Programs, ", "))
	if p.Rows == nil {
		p.add("no name and no credential")
	}
	return p
}

func (r *Receipt) hits() part {
	p := part{Title: "limits hit"}
	for _, l := range r.Limits {
		line := row{Cells: []string{fmt.Sprintf("%d x", l.Count), l.Name, l.value()}}
		if l.Remedy != "" {
			line.Notes = []string{"for more: " + l.Remedy}
		}
		p.Rows = append(p.Rows, line)
	}
	if p.Rows == nil {
		p.add("none")
	}
	return p
}

func (t *Touched) written() part {
	p := part{Title: "written: the layer was not looked at before its removal"}
	if t.Known {
		p.Title = fmt.Sprintf("written: in the jail's own layer, which is removed with it: %s, %d files", size(t.Bytes), t.Inodes)
	}
	for _, f := range t.Files {
		p.add(f.Kind, f.Path)
	}
	if t.More {
		p.add("...", "and more that are not listed")
	}
	for _, a := range t.Applied {
		p.add("applied", fmt.Sprintf("%d paths of view %s", a.Paths, a.View), a.Directory, a.Sums)
	}
	return p
}

func (r *Receipt) torn() part {
	t := r.Teardown
	var p part
	switch {
	case t.At.IsZero() && r.State == Running:
		p.Title = "torn down: not yet, it runs"
	case r.State == Refused && t.At.IsZero():
		p.Title = "torn down: no jail was made"
	case t.At.IsZero():
		p.Title = "torn down: not recorded"
	case t.Done:
		p.Title = fmt.Sprintf("torn down at %s by %s: nothing that was looked for is left", moment(t.At), t.By)
	default:
		p.Title = fmt.Sprintf("torn down at %s by %s: NOT all of it", moment(t.At), t.By)
	}
	for _, x := range t.Gone {
		p.add("gone", x.Kind, x.What)
	}
	for _, x := range t.Remains {
		p.add("REMAINS", x.Kind, x.What)
	}
	return p
}

func (r *Receipt) identity() part {
	p := part{Title: "identity"}
	p.labelled(&r.Identity)
	p.known("began", moment(r.Began))
	p.known("ended", moment(r.Ended))
	p.known("receipt made", moment(r.Made))
	p.add("journal", strconv.FormatUint(r.Journal.Events, 10)+" events")
	if r.Journal.Lost > 0 {
		p.add("not recorded", strconv.FormatInt(r.Journal.Lost, 10)+" events")
	}
	p.known("last hash", r.Journal.Last)
	if v := r.Journal.Verified; v != nil {
		p.add("chain", map[bool]string{true: "verified", false: "does NOT verify"}[*v])
	}
	p.known("problem", r.Journal.Problem)
	return p
}

// timeline is every event that the receipt keeps.
func (r *Receipt) timeline() part {
	p := part{Title: "timeline"}
	if r.Omitted > 0 {
		p.Title = fmt.Sprintf("timeline: %d more events in the middle are not shown", r.Omitted)
	}
	for _, e := range r.Events {
		p.Rows = append(p.Rows, row{Cells: []string{moment(e.At), e.Kind, e.Text}, Loud: e.Denied})
	}
	return p
}

// until is the end, or now.
func (r *Receipt) until() time.Time {
	if !r.Ended.IsZero() {
		return r.Ended
	}
	return r.Made
}

// moment is a time for people, "" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// Bounds of a command line that is shown.
const (
	maxArgs    = 64
	maxArg     = 400
	maxCommand = 4000
)

// commandLine writes a command so that its words can be distinguished.
func commandLine(args []string) string {
	var b strings.Builder
	for n, a := range args {
		if n == maxArgs || b.Len() > maxCommand {
			fmt.Fprintf(&b, " ... and %d more", len(args)-n)
			break
		}
		if n > 0 {
			b.WriteByte(' ')
		}
		text := printable.Line(a, maxArg)
		if text == "" || strings.ContainsAny(text, " '\"\\$&|;<>()*?`") {
			text = printable.ShellQuote(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// size is a number of bytes for readers.
func size(n int64) string { return units.BytesSize(float64(n)) }

// span is a time for people.
func span(seconds float64) string {
	switch {
	case seconds < 0:
		return "0 s"
	case seconds < 1:
		return strconv.FormatFloat(seconds*1000, 'f', 1, 64) + " ms"
	case seconds < 120:
		return strconv.FormatFloat(seconds, 'f', 2, 64) + " s"
	case seconds < 7200:
		return strconv.FormatFloat(seconds/60, 'f', 1, 64) + " min"
	}
	return strconv.FormatFloat(seconds/3600, 'f', 1, 64) + " h"
}
