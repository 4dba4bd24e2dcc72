package install

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Editing TOML in place: tables are added at the end of the text or taken out of it; everything
// else stays byte for byte as it was, with the user's comments and order. The caller reads the
// result again, so that a text whose tables are written in another way (inline, with dotted keys)
// is an error and never a broken file.

// readTOML reads a whole document.
func readTOML(text []byte) (map[string]any, error) {
	if len(text) > maxConfig {
		return nil, fmt.Errorf("longer than %d bytes", maxConfig)
	}
	out := map[string]any{}
	if err := toml.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("not valid TOML: %w", err)
	}
	return out, nil
}

// at returns what is at a path of tables, nil for nothing.
func at(doc map[string]any, path ...string) any {
	var v any = doc
	for _, name := range path {
		t, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		if v, ok = t[name]; !ok {
			return nil
		}
	}
	return v
}

// dropAt removes what is at a path.
func dropAt(doc map[string]any, path ...string) {
	last := len(path) - 1
	if t, ok := at(doc, path[:last]...).(map[string]any); ok {
		delete(t, path[last])
	}
}

// cutTables takes the tables at and below a path out of a text, with the empty lines before them.
// Comments before the next table are that one's and stay.
func cutTables(text []byte, path ...string) ([]byte, error) {
	type table struct {
		start int // of the line with its name
		ours  bool
	}
	var tables []table
	p := unstable.Parser{}
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		var names []string
		start := -1
		for keys := e.Key(); keys.Next(); {
			k := keys.Node()
			if start < 0 {
				start = bytes.LastIndexByte(text[:k.Raw.Offset], '\n') + 1
			}
			names = append(names, string(k.Data))
		}
		ours := len(names) >= len(path) && slices.Equal(names[:len(path)], path)
		tables = append(tables, table{start, ours})
	}
	if err := p.Error(); err != nil {
		return nil, fmt.Errorf("not valid TOML: %w", err)
	}
	var out []byte
	from := 0
	for i := 0; i < len(tables); i++ {
		if !tables[i].ours {
			continue
		}
		first := tables[i].start
		for i+1 < len(tables) && tables[i+1].ours {
			i++
		}
		end := len(text)
		if i+1 < len(tables) {
			end = tables[i+1].start
		}
		body := text[first:end]
		// Comments and empty lines at the end belong to what follows.
		for end < len(text) {
			line := bytes.LastIndexByte(bytes.TrimSuffix(body, []byte("\n")), '\n') + 1
			if t := bytes.TrimSpace(body[line:]); line == 0 || len(t) > 0 && t[0] != '#' {
				break
			}
			body = body[:line]
		}
		out = append(out, bytes.TrimRight(text[from:first], "\n")...)
		from = first + len(body)
		if rest := text[from:]; len(out) > 0 {
			out = append(out, '\n')
			if len(rest) > 0 && rest[0] != '\n' {
				out = append(out, '\n')
			}
		}
	}
	return append(out, text[from:]...), nil
}
