package receipt

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
)

//go:embed page.css
var style string

//go:embed page.html
var page string

// parsed is the page, made when it is first requested.
var parsed = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("receipt").Funcs(template.FuncMap{
		"line": printable.Line, "bytes": size, "command": commandLine,
		"clock": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}).Parse(page))
})

// A chip is a word with a colour.
type chip struct{ Class, Text string }

// An entry is one large number of the page, and a row of its identity.
type entry struct{ Name, Value, Class string }

// A circle is a ring of the picture.
type circle struct {
	R     int
	Class string
}

// A dot is an event on the line of time.
type dot struct {
	X, Radius string
	No        bool
	Label     string
}

// view is what the page shows.
type view struct {
	R           *Receipt
	ID, Title   string
	Style       template.CSS
	StyleHash   string
	Chips       []chip
	Facts       []entry
	Loud        []Denial
	Circles     []circle
	DeniedTotal int
	Dots        []dot
	From, To    string
	Identity    []entry
	Mounted     []Mounted
	// Arrived stands first; see Touched.
	Arrived       []Arrival
	ArrivedMore   int
	ArrivedUnseen []string
	Warnings      []warning
	Look, First   string
}

// HTML writes the receipt as one page that loads nothing and runs nothing: its content security
// policy forbids both, and knows the page's own style by its hash.
func (r *Receipt) HTML(w io.Writer) error {
	sum := sha256.Sum256([]byte(style))
	v := &view{
		R: r, ID: r.Identity.ID, Title: r.title(), Style: template.CSS(style), StyleHash: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		Chips: r.chips(), Facts: r.facts(), Circles: r.circles(), Dots: r.dots(), Identity: r.identity(), Mounted: r.Touched.mounted(),
		Arrived: r.Touched.Arrived, ArrivedMore: r.Touched.ArrivedTotal - len(r.Touched.Arrived), ArrivedUnseen: r.Touched.arrivedUnseen(), Warnings: r.Touched.warnings(), Look: look, First: loud,
		From: r.Began.UTC().Format("2006-01-02 15:04:05"), To: r.until().UTC().Format("2006-01-02 15:04:05"),
	}
	for _, d := range r.Denied {
		v.DeniedTotal += d.Count
		if d.Blocked {
			v.Loud = append(v.Loud, d)
		}
	}
	if err := parsed().Execute(w, v); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func (r *Receipt) title() string {
	if r.Identity.Name != "" {
		return r.Identity.Name
	}
	return r.Identity.ID
}

// until is the end, or now.
func (r *Receipt) until() time.Time {
	if !r.Ended.IsZero() {
		return r.Ended
	}
	return r.Made
}

// chips are the verdicts.
func (r *Receipt) chips() []chip {
	var out []chip
	switch r.State {
	case Running:
		out = append(out, chip{"", "running"})
	case Ended:
		out = append(out, chip{"", "ended"})
	case Refused:
		out = append(out, chip{"bad", "refused: no jail was made"})
	default:
		out = append(out, chip{"warn", "gone without a delete"})
	}
	if text := r.Exit.Text(); text != "" {
		out = append(out, chip{r.Exit.class(), text})
	}
	broken := 0
	for _, ring := range r.Rings {
		broken += len(ring.Start.Broken) + len(ring.End.Broken)
	}
	if len(r.Touched.Arrived) > 0 {
		out = append(out, chip{"bad", "look before you run git or an editor there"})
	}
	if len(r.Touched.Stale) > 0 {
		out = append(out, chip{"bad", "compare before you merge"})
	}
	if broken > 0 {
		out = append(out, chip{"bad", "a protection was BROKEN"})
	}
	switch v := r.Journal.Verified; {
	case v != nil && *v:
		out = append(out, chip{"ok", "journal verified"})
	case v != nil:
		out = append(out, chip{"bad", "journal does NOT verify"})
	}
	if t := r.Teardown; !t.At.IsZero() {
		if t.Done {
			out = append(out, chip{"ok", "torn down"})
		} else {
			out = append(out, chip{"bad", "not all torn down"})
		}
	}
	return out
}

// Text is how the first process ended, or "" where it has not.
func (e Exit) Text() string {
	var words []string
	if e.Signal != "" {
		words = append(words, "ended by "+printable.Line(e.Signal, 20))
	}
	if e.Status != nil {
		words = append(words, "exit status "+strconv.Itoa(*e.Status))
	}
	if e.Unknown != "" {
		words = append(words, "exit status "+printable.Line(e.Unknown, 60))
	}
	if e.Killed {
		words = append(words, "a process was killed for want of memory")
	}
	return strings.Join(words, ", ")
}

func (e Exit) class() string {
	if e.Status != nil && *e.Status == 0 {
		return "ok"
	}
	return "warn"
}

// facts are the page's large numbers.
func (r *Receipt) facts() []entry {
	denied := 0
	for _, d := range r.Denied {
		denied += d.Count
	}
	class := func(n int, c string) string {
		if n > 0 {
			return c
		}
		return ""
	}
	out := []entry{{Name: "duration", Value: span(r.Seconds)}, {Name: "denied", Value: strconv.Itoa(denied), Class: class(denied, "bad")}}
	if r.Touched.Known {
		n := strconv.Itoa(len(r.Touched.Files))
		if r.Touched.More {
			n += "+"
		}
		out = append(out, entry{Name: "paths written", Value: n})
	}
	out = append(out, entry{Name: "names connected to", Value: strconv.Itoa(len(r.Used.Names))})
	out = append(out, amounts(&r.Used.Amounts)...)
	if len(r.Limits) > 0 {
		out = append(out, entry{Name: "limits hit", Value: strconv.Itoa(len(r.Limits)), Class: "warn"})
	}
	return out
}

// amounts are the page's numbers of what control groups count.
func amounts(a *journal.Amounts) (out []entry) {
	v := reflect.ValueOf(a).Elem()
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag
		if f.IsZero() {
			continue
		}
		e := entry{Name: tag.Get("label"), Value: fmt.Sprint(f.Interface())}
		switch n := f.Interface().(type) {
		case int64:
			if tag.Get("unit") == "bytes" {
				e.Value = size(n)
			}
		case float64:
			if tag.Get("unit") == "seconds" {
				e.Value = span(n)
			}
		}
		out = append(out, e)
	}
	return out
}

// circles are the rings of the picture, from outside.
func (r *Receipt) circles() []circle {
	radius := map[int]int{2: 88, 1: 67, 0: 46}
	var out []circle
	for _, ring := range r.Rings {
		c := circle{R: radius[ring.Ring], Class: "none"}
		for _, l := range []Look{ring.Start, ring.End} {
			switch {
			case l.By == "":
			case len(l.Broken) > 0:
				c.Class = "bad"
			case len(l.Missing) > 0 && c.Class != "bad":
				c.Class = "warn"
			case c.Class == "none":
				c.Class = "ok"
			}
		}
		out = append(out, c)
	}
	return out
}

// dots places the events on a line of 960 by their time.
func (r *Receipt) dots() []dot {
	whole := r.until().Sub(r.Began)
	if whole <= 0 {
		return nil
	}
	var out []dot
	for _, e := range r.Events {
		at := min(max(float64(e.At.Sub(r.Began))/float64(whole), 0), 1)
		d := dot{X: strconv.FormatFloat(20+960*at, 'f', 1, 64), Radius: "5", No: e.Denied, Label: e.Kind + ": " + e.Text}
		if e.Denied {
			d.Radius = "7"
		}
		out = append(out, d)
	}
	return out
}

// identity are the rows at the page's end.
func (r *Receipt) identity() []entry {
	i := r.Identity
	var out []entry
	add := func(name, value string) {
		if value != "" {
			out = append(out, entry{Name: name, Value: value})
		}
	}
	add("id", i.ID)
	add("name", i.Name)
	add("engine", i.Engine)
	add("run", i.Run)
	add("image root", i.Root)
	add("bundle", i.Bundle)
	add("policy", i.PolicyName)
	add("system calls", i.Filter)
	add("delegate", i.Delegate)
	add("working directory", i.Dir)
	add("user", i.User)
	add("agentjail", i.Version)
	add("policy in effect", i.Policy)
	add("hardened config.json", i.Config)
	add("began", i.stamp(r.Began))
	add("ended", i.stamp(r.Ended))
	add("journal", strconv.FormatUint(r.Journal.Events, 10)+" events")
	if r.Journal.Lost > 0 {
		add("not recorded", strconv.FormatInt(r.Journal.Lost, 10)+" events")
	}
	add("last hash", r.Journal.Last)
	if v := r.Journal.Verified; v != nil {
		add("chain", map[bool]string{true: "verified", false: "does NOT verify"}[*v])
	}
	add("problem", r.Journal.Problem)
	add("signed by", r.Journal.Signed)
	add("signature", r.Signature)
	return out
}

func (Identity) stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
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
			text = "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		}
		b.WriteString(text)
	}
	return b.String()
}

// size is a number of bytes for people.
func size(n int64) string {
	v := float64(n)
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < 1024 || u == "GiB" {
			if u == "B" {
				return strconv.FormatInt(n, 10) + " B"
			}
			return strconv.FormatFloat(v, 'f', 1, 64) + " " + u
		}
		v /= 1024
	}
	return ""
}

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
