package receipt

import (
	"fmt"
	"io"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/printable"
)

// maxLine bounds a line, in characters.
const maxLine = 600

// printer keeps the first error, and every line one line.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, printable.Line(fmt.Sprintf(format, args...), maxLine))
	}
}

// Text writes the receipt for a terminal.
func (r *Receipt) Text(w io.Writer) error {
	p := &printer{w: w}
	r.head(p)
	r.arrived(p)
	r.rings(p)
	r.denials(p)
	r.written(p)
	r.usage(p)
	r.torn(p)
	p.line("identity")
	for _, f := range r.identity() {
		p.line("  %-20s  %s", f.Name, f.Value)
	}
	return p.err
}

func (r *Receipt) head(p *printer) {
	var words []string
	for _, c := range r.chips() {
		words = append(words, c.Text)
	}
	p.line("receipt of jail %s: %s", r.title(), strings.Join(words, ", "))
	if len(r.Identity.Command) > 0 {
		p.line("  %s", commandLine(r.Identity.Command))
	}
	for _, f := range r.facts() {
		p.line("  %-20s  %s", f.Name, f.Value)
	}
}

// arrived prints first what the host may run.
func (r *Receipt) arrived(p *printer) {
	t := r.Touched
	if len(t.Arrived) > 0 {
		p.line("%s", loud)
	}
	for _, a := range t.Arrived {
		p.line("  %-10s  %s: %s", a.Kind, a.Path, a.Why)
	}
	if n := t.ArrivedTotal - len(t.Arrived); n > 0 {
		p.line("  ... and %d more", n)
	}
	if len(t.Arrived) > 0 {
		p.line("  %s", look)
	}
	t.warn(p)
	for _, u := range t.arrivedUnseen() {
		p.line("  NOT KNOWN   %s", u)
	}
}

// warn prints what else needs a look before the host uses the mounted directories.
func (t *Touched) warn(p *printer) {
	for _, w := range t.warnings() {
		p.line("%s", w.Title)
		for _, l := range w.Lines {
			p.line("  %s", l)
		}
		p.line("  %s", w.Remedy)
	}
}

func (r *Receipt) rings(p *printer) {
	for _, ring := range r.Rings {
		p.line("%s", ring.Name)
		for _, at := range []struct {
			when string
			look Look
		}{{"at start", ring.Start}, {"last look", ring.End}} {
			l := at.look
			if l.By == "" {
				p.line("  %-9s  not looked at", at.when)
				continue
			}
			p.line("  %-9s  %s (%s)", at.when, l.words(), l.By)
			for _, b := range l.Broken {
				p.line("    BROKEN   %s", b)
			}
			for _, m := range l.Missing {
				p.line("    missing  %s", m)
			}
		}
	}
}

// words are a look's numbers.
func (l Look) words() string {
	var out []string
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(len(l.Broken), "BROKEN")
	add(l.Holds, "hold")
	add(l.Set, "set")
	add(len(l.Missing), "missing")
	add(l.Denied, "privileges denied")
	if out == nil {
		return "nothing to change"
	}
	return strings.Join(out, ", ")
}

func (r *Receipt) denials(p *printer) {
	p.line("denied")
	if len(r.Denied) == 0 {
		p.line("  nothing, as far as the journal knows")
	}
	for _, d := range r.Denied {
		p.line("  %4d x  %s: %s", d.Count, d.Kind, d.What)
		if d.Ring != "" {
			p.line("          %s", d.Ring)
		}
		if d.Rule != "" {
			p.line("          rule: %s", d.Rule)
		}
		if d.Remedy != "" {
			p.line("          to allow it: %s", d.Remedy)
		}
	}
}

func (r *Receipt) written(p *printer) {
	p.line("written")
	t := r.Touched
	if !t.Known {
		p.line("  the layer was not looked at before its removal")
	} else {
		p.line("  in the jail's own layer: %s, %d files", size(t.Bytes), t.Inodes)
	}
	for _, f := range t.Files {
		p.line("  %s %s", f.Kind, f.Path)
	}
	if t.More {
		p.line("  ... and more that are not listed")
	}
	for _, m := range t.mounted() {
		p.line("  mounted at %s: %s", m.At, m.Words())
		for _, c := range m.Changed {
			p.line("    %s", c)
		}
	}
}

func (r *Receipt) usage(p *printer) {
	p.line("used")
	u := r.Used
	for _, n := range u.Names {
		where := n.Name
		if n.Port != 0 {
			where = fmt.Sprintf("%s:%d", n.Name, n.Port)
		}
		p.line("  %s: %d connections, %s sent, %s received (rule: %s)", where, n.Count, size(n.Sent), size(n.Got), n.Rule)
	}
	for _, c := range u.Credentials {
		p.line("  credential %s: %d times", c.Name, c.Count)
	}
	if len(u.Programs) > 0 {
		p.line("  programs: %s", strings.Join(u.Programs, ", "))
	}
	if len(u.Names)+len(u.Credentials)+len(u.Programs) == 0 {
		p.line("  no name and no credential")
	}
	for _, l := range r.Limits {
		p.line("  limit hit: %s, %d times %s", l.Name, l.Count, l.Value)
		if l.Remedy != "" {
			p.line("          for more: %s", l.Remedy)
		}
	}
}

func (r *Receipt) torn(p *printer) {
	t := r.Teardown
	switch {
	case t.At.IsZero() && r.State == Running:
		p.line("torn down: not yet, it runs")
	case r.State == Refused && t.At.IsZero():
		p.line("torn down: no jail was made")
	case t.At.IsZero():
		p.line("torn down: not recorded")
	case t.Done:
		p.line("torn down at %s by %s: nothing that was looked for is left", t.At.UTC().Format(time.RFC3339), t.By)
	default:
		p.line("torn down at %s by %s: NOT all of it", t.At.UTC().Format(time.RFC3339), t.By)
	}
	for _, x := range t.Gone {
		p.line("  gone     %-17s  %s", x.Kind, x.What)
	}
	for _, x := range t.Remains {
		p.line("  REMAINS  %-17s  %s", x.Kind, x.What)
	}
}
