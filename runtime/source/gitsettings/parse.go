package gitsettings

import (
	"errors"
	"strings"
)

// A setting is one line of git's configuration.
type setting struct {
	section, sub string
	hasSub       bool
	key          string // "" for the section's own line
	value        string
	hasValue     bool // a key without a value is true
}

var errSyntax = errors.New("it is not git's configuration (git-config(1), SYNTAX)")

// parser reads git-config(1)'s syntax, and takes nothing that git would not.
type parser struct {
	text string
	at   int
}

// next is the next character; 0 at the end, which parse has excluded from the
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

// parse lists a configuration's sections and settings in their order.
func parse(text string) ([]setting, error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	if strings.ContainsRune(text, 0) {
		return nil, errSyntax
	}
	p := &parser{text: text}
	var out []setting
	var in setting
	for {
		c := p.next()
		switch {
		case c == 0:
			return out, nil
		case c == '#' || c == ';':
			p.skipLine()
			continue
		case isSpace(c):
			continue
		}
		var err error
		if c == '[' {
			in, err = p.section()
			out = append(out, in)
		} else {
			p.back()
			s := in
			if in.section == "" {
				return nil, errSyntax
			}
			err = p.setting(&s)
			out = append(out, s)
		}
		if err != nil {
			return nil, err
		}
		if len(out) > maxSettings {
			return nil, errors.New("it has too many settings")
		}
	}
}

func (p *parser) skipLine() {
	for c := p.next(); c != '\n' && c != 0; c = p.next() {
	}
}

// section reads what follows a bracket: name], or name "sub"].
func (p *parser) section() (s setting, err error) {
	for {
		switch c := p.next(); {
		case c == ']' && s.section != "":
			// The old form, whose second part is a subsection in lower case.
			if name, sub, ok := strings.Cut(s.section, "."); ok {
				s.section, s.sub, s.hasSub = name, sub, true
			}
			return s, nil
		case (c == ' ' || c == '\t') && s.section != "":
			s.sub, err = p.subsection()
			s.hasSub = true
			return s, err
		case isKeyChar(c) || c == '.' && s.section != "":
			s.section += string(lower(c))
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
func (p *parser) setting(s *setting) error {
	c := p.next()
	if !isAlpha(c) {
		return errSyntax
	}
	for isKeyChar(c) {
		s.key += string(lower(c))
		c = p.next()
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	switch c {
	case '\n', 0:
		return nil
	case '=':
		s.hasValue = true
		var err error
		s.value, err = p.value()
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

// format writes settings so that parse, and git, read the same.
func format(settings []setting) string {
	var b strings.Builder
	for _, s := range settings {
		if s.key == "" {
			b.WriteString("[" + s.section)
			if s.hasSub {
				b.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.sub) + `"`)
			}
			b.WriteString("]\n")
			continue
		}
		b.WriteString("\t" + s.key)
		if s.hasValue {
			b.WriteString(` = "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(s.value) + `"`)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
