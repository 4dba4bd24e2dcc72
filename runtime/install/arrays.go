package install

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Editing an array of strings at the top of a TOML text in place, as tables.go does it with tables.

// span is a part of the text, [start, end).
type span struct{ start, end int }

func (s span) of(text []byte) []byte { return text[s.start:s.end] }

// splice returns the text with a part of it replaced.
func splice(text []byte, s span, with string) []byte {
	return slices.Concat(text[:s.start], []byte(with), text[s.end:])
}

// addedLine is a line that agentjail adds for an array that is not there. The removal knows it by
// its remark.
func addedLine(key, value string) string {
	return key + " = [" + strconv.Quote(value) + "] # added by agentjail\n"
}

// array is one in a text.
type array struct {
	found    bool
	elements []span
	open     int // the position after its bracket
	// after is where a line may be added: behind the line of the last key before it and before all
	// tables.
	after int
}

// findArray looks for an array of scalars among the keys before the first table.
func findArray(text []byte, key string) (array, error) {
	var a array
	p := unstable.Parser{}
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue {
			break
		}
		keys := e.Key()
		keys.Next()
		k := keys.Node()
		end := int(k.Raw.Offset + k.Raw.Length)
		if string(k.Data) != key || !keys.IsLast() {
			if string(k.Data) == "version" {
				a.after = lineEnd(text, end)
			}
			continue
		}
		value := e.Value()
		if value.Kind != unstable.Array {
			return a, fmt.Errorf("%s is not an array", key)
		}
		a.found, a.open = true, end+bytes.IndexByte(text[end:], '[')+1
		for elements := value.Children(); elements.Next(); {
			raw := elements.Node().Raw
			if raw.Length == 0 {
				return a, fmt.Errorf("%s is not an array of strings", key)
			}
			a.elements = append(a.elements, span{int(raw.Offset), int(raw.Offset + raw.Length)})
		}
		return a, nil
	}
	if err := p.Error(); err != nil {
		return a, fmt.Errorf("not valid TOML: %w", err)
	}
	return a, nil
}

// lineEnd is the position behind the line that position i is on.
func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(text)
}

// putInArray adds a string at the end of an array; one that is not there becomes a line behind that
// of the version.
func putInArray(text []byte, key, value string) ([]byte, error) {
	a, err := findArray(text, key)
	switch {
	case err != nil:
		return nil, err
	case !a.found:
		line := addedLine(key, value)
		if a.after > 0 && text[a.after-1] != '\n' {
			line = "\n" + line
		}
		return splice(text, span{a.after, a.after}, line), nil
	case len(a.elements) == 0:
		return splice(text, span{a.open, a.open}, strconv.Quote(value)), nil
	}
	end := a.elements[len(a.elements)-1].end
	return splice(text, span{end, end}, ", "+strconv.Quote(value)), nil
}

// cutFromArray takes a string out of an array, and the line of an array that agentjail has added.
func cutFromArray(text []byte, key, value string) ([]byte, error) {
	if line := []byte(addedLine(key, value)); bytes.Contains(text, line) {
		if i := bytes.Index(text, line); i == 0 || text[i-1] == '\n' {
			return splice(text, span{i, i + len(line)}, ""), nil
		}
	}
	a, err := findArray(text, key)
	if err != nil {
		return nil, err
	}
	quoted := []byte(strconv.Quote(value))
	i := slices.IndexFunc(a.elements, func(s span) bool {
		raw := s.of(text)
		return bytes.Equal(raw, quoted) || string(raw) == "'"+value+"'"
	})
	switch {
	case i < 0:
		return nil, fmt.Errorf("%s is written in a way that cannot be edited", key)
	case i > 0:
		return splice(text, span{a.elements[i-1].end, a.elements[i].end}, ""), nil
	case len(a.elements) > 1:
		return splice(text, span{a.elements[0].start, a.elements[1].start}, ""), nil
	}
	return splice(text, a.elements[0], ""), nil
}
