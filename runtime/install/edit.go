package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Editing JSON in place: the text around the edited members stays byte for byte as it was, with the user's order, indentation, numbers
// and keys that nobody here knows. The text is checked to be valid JSON first, so the scanner below need not be careful.

// span is a part of the text, [start, end).
type span struct{ start, end int }

func (s span) of(text []byte) []byte { return text[s.start:s.end] }

// member is one key and value of an object.
type member struct {
	name string
	key  span // with quotes
	val  span
}

// object is a JSON object within a text.
type object struct {
	braces  span // from { to after }
	members []member
}

var utf8BOM = []byte("\xef\xbb\xbf")

// maxConfig is far beyond any real daemon.json, in bytes.
const maxConfig = 1 << 20

// parse checks the text and finds its top-level object. An empty text (or only white space) is an empty object, as later Docker
// versions have it: the result is then the text to go on with.
func parse(text []byte) ([]byte, object, error) {
	if len(text) > maxConfig {
		return nil, object{}, fmt.Errorf("longer than %d bytes", maxConfig)
	}
	body := bytes.TrimPrefix(text, utf8BOM)
	if len(bytes.TrimSpace(body)) == 0 {
		text = []byte("{}\n")
		body = text
	}
	if !utf8.Valid(body) {
		return nil, object{}, errors.New("not UTF-8 text")
	}
	var probe json.RawMessage
	if err := json.Unmarshal(body, &probe); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line, column := position(body, int(syntax.Offset))
			return nil, object{}, fmt.Errorf("not valid JSON: line %d, column %d: %w", line, column, err)
		}
		return nil, object{}, fmt.Errorf("not valid JSON: %w", err)
	}
	start := len(text) - len(bytes.TrimLeft(body, " \t\r\n"))
	if text[start] != '{' {
		return nil, object{}, errors.New("the top level is not a JSON object")
	}
	top, err := objectAt(text, start)
	return text, top, err
}

func position(text []byte, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, len(before) - bytes.LastIndexByte(before, '\n') - 1
}

// objectAt reads the members of the object that begins at start. A key that is there twice is refused: programs differ in which one
// they take.
func objectAt(text []byte, start int) (object, error) {
	o := object{braces: span{start, skipValue(text, start)}}
	seen := map[string]bool{}
	for i := skipSpace(text, start+1); text[i] == '"'; {
		var m member
		m.key = span{i, skipValue(text, i)}
		if err := json.Unmarshal(m.key.of(text), &m.name); err != nil {
			return o, err
		}
		if seen[m.name] {
			return o, fmt.Errorf("key %q is there twice", m.name)
		}
		seen[m.name] = true
		i = skipSpace(text, m.key.end) + 1 // the colon
		i = skipSpace(text, i)
		m.val = span{i, skipValue(text, i)}
		o.members = append(o.members, m)
		i = skipSpace(text, m.val.end)
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return o, nil
}

func skipSpace(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r' {
		i++
	}
	return i
}

// skipValue returns the position after the value that begins at i.
func skipValue(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
			if depth < 0 { // the end of what surrounds a number or word
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

func (o object) find(name string) (member, bool) {
	for _, m := range o.members {
		if m.name == name {
			return m, true
		}
	}
	return member{}, false
}

// layout is how a document is written.
type layout struct {
	newline string // "\n", "\r\n", or "" for a document on one line
	unit    string // one step of indentation
	colon   string // between key and value
}

// layoutOf learns the layout from the top-level object.
func layoutOf(text []byte, top object) layout {
	l := layout{newline: "\n", unit: "  ", colon: ": "}
	if bytes.Contains(text, []byte("\r\n")) {
		l.newline = "\r\n"
	}
	if len(top.members) == 0 {
		return l
	}
	first := top.members[0]
	l.colon = string(text[first.key.end:first.val.start])
	gap := string(text[top.braces.start+1 : first.key.start])
	nl := strings.LastIndexByte(gap, '\n')
	if nl < 0 {
		return layout{colon: l.colon}
	}
	if unit := gap[nl+1:]; unit != "" {
		l.unit = strings.TrimPrefix(unit, indentAt(text, top.braces.start))
	}
	return l
}

// indentAt is the white space at the beginning of the line that holds position i.
func indentAt(text []byte, i int) string {
	begin := bytes.LastIndexByte(text[:i], '\n') + 1
	end := begin
	for end < i && (text[end] == ' ' || text[end] == '\t') {
		end++
	}
	return string(text[begin:end])
}

// put sets a member of the object: replaced in its place, or added at the end. Its value is what render returns for the layout and the
// indentation of the line that the member is on.
func put(text []byte, o object, l layout, name string, render func(l layout, indent string) string) []byte {
	if len(o.members) > 0 && !bytes.Contains(o.braces.of(text), []byte("\n")) {
		l.newline, l.unit = "", "" // an object on one line stays there
	}
	if m, ok := o.find(name); ok {
		return splice(text, m.val, render(l, indentAt(text, m.key.start)))
	}
	key, _ := json.Marshal(name) // a string: cannot fail
	outer := indentAt(text, o.braces.start)
	inner := outer + l.unit
	if len(o.members) > 0 {
		last := o.members[len(o.members)-1]
		between := string(text[o.braces.start+1 : o.members[0].key.start])
		if nl := strings.LastIndexByte(between, '\n'); nl >= 0 {
			inner = between[nl+1:]
			between = l.newline + inner
		} else if len(o.members) > 1 {
			// On one line: as between the last two, without the comma.
			before := o.members[len(o.members)-2]
			between = strings.Replace(string(text[before.val.end:last.key.start]), ",", "", 1)
		} else {
			between = " "
		}
		return splice(text, span{last.val.end, last.val.end}, ","+between+string(key)+l.colon+render(l, inner))
	}
	body := "{" + string(key) + l.colon + render(l, inner) + "}"
	if l.newline != "" {
		body = "{" + l.newline + inner + string(key) + l.colon + render(l, inner) + l.newline + outer + "}"
	}
	return splice(text, o.braces, body)
}

// remove takes a member out of the object, with its comma and the white space before it. An object that becomes empty is written "{}".
func remove(text []byte, o object, name string) []byte {
	for i, m := range o.members {
		if m.name != name {
			continue
		}
		switch {
		case len(o.members) == 1:
			return splice(text, o.braces, "{}")
		case i == 0:
			return splice(text, span{m.key.start, o.members[1].key.start}, "")
		default:
			return splice(text, span{o.members[i-1].val.end, m.val.end}, "")
		}
	}
	return text
}

func splice(text []byte, s span, with string) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(out, text[:s.start]...)
	out = append(out, with...)
	return append(out, text[s.end:]...)
}
