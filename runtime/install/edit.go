package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Editing JSON in place: all text outside of the edited members stays byte for byte as it was.
// hujson keeps it; this file decides how what is added is laid out.

var utf8BOM = []byte("\xef\xbb\xbf")

// maxConfig is far beyond any real daemon.json, in bytes.
const maxConfig = 1 << 20

// document is a JSON text whose top level is an object.
type document struct {
	bom    []byte
	root   hujson.Value
	layout layout
}

// parse reads a text. An empty text (or only white space) is an empty object, as later Docker
// versions have it. hujson also accepts comments and trailing commas, which Docker does not, so
// that the text has to be JSON first.
func parse(text []byte) (*document, error) {
	if len(text) > maxConfig {
		return nil, fmt.Errorf("longer than %d bytes", maxConfig)
	}
	body, bom := bytes.CutPrefix(text, utf8BOM)
	d := &document{}
	if bom {
		d.bom = utf8BOM
	}
	if len(bytes.TrimSpace(body)) == 0 {
		d.bom, body = nil, []byte("{}\n")
	}
	if !utf8.Valid(body) {
		return nil, errors.New("not UTF-8 text")
	}
	var probe json.RawMessage
	if err := json.Unmarshal(body, &probe); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line, column := position(body, int(syntax.Offset))
			return nil, fmt.Errorf("not valid JSON: line %d, column %d: %w", line, column, err)
		}
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	var err error
	if d.root, err = hujson.Parse(body); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	top, ok := d.root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("the top level is not a JSON object")
	}
	d.layout = layoutOf(body, top)
	return d, unique(top)
}

func position(text []byte, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, len(before) - bytes.LastIndexByte(before, '\n') - 1
}

// top is the object at the top level, and its indentation.
func (d *document) top() object {
	return object{d.root.Value.(*hujson.Object), lastLine(d.root.BeforeExtra)}
}

// bytes is the text.
func (d *document) bytes() []byte { return append(bytes.Clone(d.bom), d.root.Pack()...) }

// unique refuses a key that is there twice: programs differ in which one they take.
func unique(o *hujson.Object) error {
	seen := map[string]bool{}
	for _, m := range o.Members {
		name := nameOf(m)
		if seen[name] {
			return fmt.Errorf("key %q is there twice", name)
		}
		seen[name] = true
	}
	return nil
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// object is an object of a document, and the white space at the beginning of the line that it
// begins on.
type object struct {
	*hujson.Object
	indent string
}

// index returns the position of a member, below 0 where there is none.
func (o object) index(name string) int {
	return slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == name })
}

// find returns the value of a member, nil where there is none.
func (o object) find(name string) *hujson.Value {
	if i := o.index(name); i >= 0 {
		return &o.Members[i].Value
	}
	return nil
}

// memberIndent is the white space at the beginning of the line of a member.
func (o object) memberIndent(i int) string {
	if extra := o.Members[i].Name.BeforeExtra; bytes.ContainsRune(extra, '\n') {
		return lastLine(extra)
	}
	return o.indent
}

// text is a value's own text, without the white space around it.
func text(v *hujson.Value) []byte { return hujson.Value{Value: v.Value}.Pack() }

func lastLine(extra hujson.Extra) string {
	return string(extra[bytes.LastIndexByte(extra, '\n')+1:])
}

// layout is how a document is written.
type layout struct {
	newline string // "\n", "\r\n", or "" for a document on one line
	unit    string // one step of indentation
	// before and after the colon between key and value
	before, after string
}

// layoutOf learns the layout from the top-level object.
func layoutOf(body []byte, top *hujson.Object) layout {
	l := layout{newline: "\n", unit: "  ", after: " "}
	if bytes.Contains(body, []byte("\r\n")) {
		l.newline = "\r\n"
	}
	if len(top.Members) == 0 {
		return l
	}
	first := top.Members[0]
	l.before, l.after = string(first.Name.AfterExtra), string(first.Value.BeforeExtra)
	gap := string(first.Name.BeforeExtra)
	nl := strings.LastIndexByte(gap, '\n')
	if nl < 0 {
		l.newline, l.unit = "", ""
		return l
	}
	if unit := gap[nl+1:]; unit != "" {
		start := bytes.IndexByte(body, '{')
		line := body[bytes.LastIndexByte(body[:start], '\n')+1 : start]
		l.unit = strings.TrimPrefix(unit, string(line))
	}
	return l
}

// member is a key and a value in this layout.
func (l layout) member(name string, value hujson.ValueTrimmed) hujson.ObjectMember {
	return hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.String(name), AfterExtra: hujson.Extra(l.before)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(l.after), Value: value},
	}
}

// wrap is an object of these members, on several lines if the document is.
func (l layout) wrap(indent string, members ...hujson.ObjectMember) *hujson.Object {
	o := &hujson.Object{Members: members}
	for i := range members {
		switch {
		case l.newline != "":
			members[i].Name.BeforeExtra = hujson.Extra(l.newline + indent + l.unit)
		case i > 0:
			members[i].Name.BeforeExtra = hujson.Extra(" ")
		}
	}
	if l.newline != "" {
		o.AfterExtra = hujson.Extra(l.newline + indent)
	}
	return o
}

// put sets a member of the object: replaced in its place, or added at the end. Its value is what
// render returns for the layout and the indentation of the line that the member is on.
func put(o object, l layout, name string, render func(l layout, indent string) hujson.ValueTrimmed) {
	n := len(o.Members)
	if n > 0 && !bytes.Contains(hujson.Value{Value: o.Object}.Pack(), []byte("\n")) {
		l.newline, l.unit = "", "" // an object on one line stays there
	}
	if i := o.index(name); i >= 0 {
		o.Members[i].Value.Value = render(l, o.memberIndent(i))
		return
	}
	if n == 0 {
		*o.Object = *l.wrap(o.indent, l.member(name, render(l, o.indent+l.unit)))
		return
	}
	between, inner := o.Members[0].Name.BeforeExtra, o.indent+l.unit
	switch {
	case bytes.ContainsRune(between, '\n'):
		inner = lastLine(between)
		between = hujson.Extra(l.newline + inner)
	case n > 1: // on one line: as between the last two
		between = o.Members[n-1].Name.BeforeExtra
	default:
		between = hujson.Extra(" ")
	}
	m := l.member(name, render(l, inner))
	m.Name.BeforeExtra = between
	// Text between the last value and the brace stays in front of the brace.
	o.AfterExtra, o.Members[n-1].Value.AfterExtra = append(o.Members[n-1].Value.AfterExtra, o.AfterExtra...), nil
	o.Members = append(o.Members, m)
}

// remove takes a member out of the object. An object that becomes empty is written "{}".
func remove(o object, name string) {
	i := o.index(name)
	if i < 0 {
		return
	}
	if i == 0 && len(o.Members) > 1 {
		o.Members[1].Name.BeforeExtra = o.Members[0].Name.BeforeExtra
	}
	o.Members = slices.Delete(o.Members, i, i+1)
	if len(o.Members) == 0 {
		o.AfterExtra = nil
	}
}
