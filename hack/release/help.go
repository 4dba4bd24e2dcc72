package main

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A page is the help of one command, as the command itself prints it.
type page struct {
	Path        []string // "agentjail", "install", "docker"
	Short       string
	Usage       []string
	Description []string
	Options     []option
	Globals     []option // options before the verb
	Commands    []*page
}

// An option is one of a command's.
type option struct {
	Names []string // "--help", "-h"
	Value string   // what it takes, "" for a switch
	Text  string
}

func (p *page) name() string { return strings.Join(p.Path, " ") }

// readHelp reads a program's help of a verb, and of those below it.
func readHelp(ctx context.Context, program string, verb []string) (*page, error) {
	cmd := exec.CommandContext(ctx, program, append(slices.Clone(verb), "--help")...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s --help: %w", filepath.Base(program), strings.Join(verb, " "), err)
	}
	p, subs, err := parseHelp(string(out))
	if err != nil {
		return nil, fmt.Errorf("%s %s --help: %w", filepath.Base(program), strings.Join(verb, " "), err)
	}
	for _, s := range subs {
		if s == "help" || s == delegated {
			continue
		}
		sub, err := readHelp(ctx, program, append(slices.Clone(verb), s))
		if err != nil {
			return nil, err
		}
		if len(sub.Path) != len(p.Path)+1 || sub.Path[len(sub.Path)-1] != s {
			return nil, fmt.Errorf("the help of %q is %q's", s, sub.name())
		}
		p.Commands = append(p.Commands, sub)
	}
	return p, nil
}

// delegated is the verb that another program answers, the one that jails are handed to; also its
// help.
const delegated = "spec"

// heading begins a section.
var heading = regexp.MustCompile(`^(NAME|USAGE|VERSION|DESCRIPTION|COMMANDS|RUNC'S COMMANDS, which engines call|OPTIONS|GLOBAL OPTIONS):$`)

// parseHelp reads the text that the command line library prints. subs are the names of its
// commands.
func parseHelp(text string) (p *page, subs []string, err error) {
	p = &page{}
	section := map[string][]string{}
	var at string
	for line := range strings.SplitSeq(text, "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			at = m[1]
			continue
		}
		section[at] = append(section[at], strings.TrimPrefix(line, "   "))
	}
	for name, lines := range section {
		lines = trimBlank(lines)
		switch name {
		case "NAME":
			path, short, _ := strings.Cut(strings.Join(lines, " "), " - ")
			p.Path, p.Short = strings.Fields(path), short
		case "USAGE":
			p.Usage = lines
		case "DESCRIPTION":
			p.Description = lines
		case "COMMANDS", "RUNC'S COMMANDS, which engines call":
			for _, l := range lines {
				if f := strings.Fields(l); len(f) > 0 && !strings.HasPrefix(l, " ") { // no continued line
					subs = append(subs, strings.TrimSuffix(f[0], ","))
				}
			}
		case "OPTIONS":
			p.Options, err = parseOptions(lines, err)
		case "GLOBAL OPTIONS":
			p.Globals, err = parseOptions(lines, err)
		}
	}
	if len(p.Path) == 0 || p.Short == "" {
		return nil, nil, errors.New("it does not begin with a name and what it is for")
	}
	return p, subs, err
}

// spec is an option's line: its names, what it takes, and two spaces or more before the text.
var spec = regexp.MustCompile(`^(-.*?)(?:  +(.*))?$`)

func parseOptions(lines []string, err error) ([]option, error) {
	var out []option
	for _, l := range lines {
		m := spec.FindStringSubmatch(l)
		if m == nil {
			if len(out) == 0 {
				return nil, fmt.Errorf("%q is no option", l)
			}
			last := &out[len(out)-1]
			last.Text = strings.TrimSpace(last.Text + " " + strings.TrimSpace(l))
			continue
		}
		var o option
		o.Text = m[2]
		for word := range strings.FieldsSeq(m[1]) {
			word = strings.TrimSuffix(word, ",")
			if strings.HasPrefix(word, "-") {
				o.Names = append(o.Names, word)
			} else {
				o.Value = word
			}
		}
		out = append(out, o)
	}
	return out, err
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// otherPrograms are those that no person calls. Their help is their package comment.
func otherPrograms(root string, mains []string) ([]*page, error) {
	var out []*page
	for _, name := range mains {
		if name == "agentjail" || name == "agentjailctl" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "cmd", name, "main.go"), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if f.Doc == nil {
			return nil, fmt.Errorf("cmd/%s/main.go has no package comment", name)
		}
		text := strings.TrimSpace(strings.TrimPrefix(f.Doc.Text(), "Command "))
		text = name + text[len(name):] // a sentence begins with a capital letter, a program's name does not
		short, _, _ := strings.Cut(strings.ReplaceAll(text[len(name):], "\n", " "), ". ")
		out = append(out, &page{Path: []string{name}, Short: strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(short), "is "), "."), Description: strings.Split(text, "\n")})
	}
	return out, nil
}
