// Package gitconfig reads git's configuration (git-config(1), SYNTAX). The text may be somebody
// else's: what is read of it is bounded by its length, and nothing of it is run or looked up.
package gitconfig

import (
	"errors"
	"strings"
)

// A Setting is one line of git's configuration.
type Setting struct {
	Section, Sub string // Section is in lower case
	HasSub       bool
	Key          string // in lower case; "" for the section's own line
	Value        string
	HasValue     bool // a key without a value is true
}

var errSyntax = errors.New("it is not git's configuration (git-config(1), SYNTAX)")

// parser reads git-config(1)'s syntax, and takes nothing that git would not.
type parser struct {
	text string
	at   int
}

// next is the next character; 0 at the end, which Parse has excluded from the
// text.
func (p *parser) next() byte {
	if p.at >= len(p.text) {
		p.at++
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

func (p *parser) back() { p.at-- }

// Parse lists a configuration's sections and settings in their order, of which there may be most.
func Parse(text string, most int) ([]Setting, error) {
	if strings.ContainsRune(text, 0) {
		return nil, errSyntax
	}
	p := newParser(text)
	var out []Setting
	var in Setting
	for {
		s, err := p.line(&in)
		if err != nil {
			return nil, err
		}
		if s == nil {
			return out, nil
		}
		if out = append(out, *s); len(out) > most {
			return nil, errors.New("it has too many settings")
		}
	}
}

// Scan lists what can be read of a text in which git may find an error: a later line of it, or
// what another version of git takes, counts too. It is for those who want too much rather than too
// little.
func Scan(text string) []Setting {
	p := newParser(strings.ReplaceAll(text, "\x00", "\n"))
	var out []Setting
	var in Setting
	for {
		begin := p.at
		s, err := p.line(&in)
		switch {
		case err != nil:
			// The next setting may begin on the same line, after the faulty character.
			if p.at = max(p.at-1, begin); p.at < len(p.text) && p.text[p.at] != '\n' {
				p.skipLine()
			} else {
				p.at = max(p.at, begin+1)
			}
		case s == nil:
			return out
		default:
			out = append(out, *s)
		}
	}
}

func newParser(text string) *parser {
	return &parser{text: strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")}
}

// line reads the next section or setting; nil at the end. in is the section that it is in.
func (p *parser) line(in *Setting) (*Setting, error) {
	for {
		c := p.next()
		switch {
		case c == 0:
			return nil, nil
		case c == '#' || c == ';':
			p.skipLine()
			continue
		case isSpace(c):
			continue
		case c == '[':
			s, err := p.section()
			if err == nil {
				*in = s
			}
			return &s, err
		}
		p.back()
		s := *in
		if s.Section == "" {
			p.next()
			return nil, errSyntax
		}
		return &s, p.setting(&s)
	}
}

func (p *parser) skipLine() {
	for c := p.next(); c != '\n' && c != 0; c = p.next() {
	}
}

// section reads what follows a bracket: name], or name "sub"].
func (p *parser) section() (s Setting, err error) {
	begin := p.at
	for {
		switch c := p.next(); {
		case c == ']' && p.at-1 > begin:
			s.Section = strings.ToLower(p.text[begin : p.at-1])
			// The old form, whose second part is a subsection in lower case.
			if name, sub, ok := strings.Cut(s.Section, "."); ok {
				s.Section, s.Sub, s.HasSub = name, sub, true
			}
			return s, nil
		case (c == ' ' || c == '\t') && p.at-1 > begin:
			s.Section, s.HasSub = strings.ToLower(p.text[begin:p.at-1]), true
			s.Sub, err = p.subsection()
			return s, err
		case isKeyChar(c) || c == '.' && p.at-1 > begin:
		default:
			return s, errSyntax
		}
	}
}

func (p *parser) subsection() (string, error) {
	c := p.next()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if c != '"' {
		return "", errSyntax
	}
	var sub strings.Builder
	for {
		switch c = p.next(); c {
		case 0, '\n':
			return "", errSyntax
		case '"':
			if p.next() != ']' {
				return "", errSyntax
			}
			return sub.String(), nil
		case '\\':
			if c = p.next(); c == 0 || c == '\n' {
				return "", errSyntax
			}
		}
		sub.WriteByte(c)
	}
}

// setting reads key, or key = value.
func (p *parser) setting(s *Setting) error {
	c := p.next()
	if !isAlpha(c) {
		return errSyntax
	}
	begin := p.at - 1
	for isKeyChar(c) {
		c = p.next()
	}
	s.Key = strings.ToLower(p.text[begin : p.at-1])
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	switch c {
	case '\n', 0:
		return nil
	case '=':
		s.HasValue = true
		var err error
		s.Value, err = p.value()
		return err
	}
	return errSyntax
}

// value reads up to the end of a line that nothing continues.
func (p *parser) value() (string, error) {
	var out strings.Builder
	end := 0 // of what is not trailing space
	quoted, comment := false, false
	for {
		c := p.next()
		switch {
		case c == '\n' || c == 0:
			if quoted {
				return "", errSyntax
			}
			return out.String()[:end], nil
		case comment:
			continue
		case isSpace(c) && !quoted:
			if out.Len() > 0 {
				out.WriteByte(' ') // as git before 2.45 has it
			}
			continue
		case (c == ';' || c == '#') && !quoted:
			comment = true
			continue
		case c == '"':
			quoted = !quoted
			end = max(end, out.Len()) // git keeps what is before a quote
			continue
		case c == '\\':
			switch c = p.next(); c {
			case '\n':
				continue
			case 't':
				c = '\t'
			case 'n':
				c = '\n'
			case 'b':
				c = '\b'
			case '\\', '"':
			default:
				return "", errSyntax
			}
		}
		out.WriteByte(c)
		end = out.Len()
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isAlpha(c byte) bool { return lower(c) >= 'a' && lower(c) <= 'z' }
func isKeyChar(c byte) bool {
	return isAlpha(c) || c >= '0' && c <= '9' || c == '-'
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// Format writes settings so that Parse, and git, read the same.
func Format(settings []Setting) string {
	var b strings.Builder
	for _, s := range settings {
		if s.Key == "" {
			b.WriteString("[" + s.Section)
			if s.HasSub {
				b.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.Sub) + `"`)
			}
			b.WriteString("]\n")
			continue
		}
		b.WriteString("\t" + s.Key)
		if s.HasValue {
			b.WriteString(` = "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(s.Value) + `"`)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
