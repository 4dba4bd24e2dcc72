package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print the completion of commands and options for a shell", ArgsUsage: "SHELL",
		Description: "SHELL is bash, zsh or fish. Packages install all three.\n\n   source <(agentjail completion bash)",
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			shells := map[string]func(*page) []byte{"bash": bash, "zsh": zsh, "fish": fish}
			write, known := shells[shell]
			if !known {
				return usage("%q is no shell that is known (remedy: one of %s)", shell, strings.Join(slices.Sorted(maps.Keys(shells)), ", "))
			}
			_, err := c.App.Writer.Write(write(pageOf(c.App)))
			return err
		},
	}
}

// A page is what can be typed after a command.
type page struct {
	Path     []string // "agentjail", "install", "docker"
	Short    string
	Options  []option
	Commands []*page
}

// An option is one of a command's.
type option struct {
	Names []string // "--help", "-h"
	Value bool     // whether it takes one
	Text  string
}

func (p *page) name() string { return strings.Join(p.Path, " ") }
func (p *page) last() string { return p.Path[len(p.Path)-1] }

// pageOf returns what can be typed after the program's name.
func pageOf(app *cli.App) *page {
	top := &page{Path: []string{app.Name}, Short: app.Usage, Options: offered(app.Flags)}
	top.Commands = pagesOf(top.Path, app.Commands)
	return top
}

func pagesOf(above []string, commands []*cli.Command) (out []*page) {
	for _, c := range commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		path := append(slices.Clone(above), c.Name)
		out = append(out, &page{Path: path, Short: c.Usage, Options: offered(c.Flags), Commands: pagesOf(path, c.Subcommands)})
	}
	return out
}

// offered are the options that help has.
func offered(flags []cli.Flag) (out []option) {
	if !slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "help") }) {
		flags = append(slices.Clone(flags), cli.HelpFlag) // the library adds it when a command runs
	}
	for _, f := range flags {
		if v, is := f.(cli.VisibleFlag); is && !v.IsVisible() {
			continue
		}
		o := option{
			Text:  strings.ReplaceAll(f.(cli.DocGenerationFlag).GetUsage(), "`", ""),
			Value: f.(cli.DocGenerationFlag).TakesValue(),
		}
		for _, name := range f.Names() {
			o.Names = append(o.Names, dashed(name))
		}
		out = append(out, o)
	}
	return out
}

// walk calls f for a page and all below it.
func walk(p *page, f func(*page)) {
	f(p)
	for _, c := range p.Commands {
		walk(c, f)
	}
}

// words are what can follow a command.
func words(p *page) (out []string) {
	for _, c := range p.Commands {
		out = append(out, c.last())
	}
	for _, o := range p.Options {
		out = append(out, o.Names...)
	}
	return out
}

// valued are the options of all commands that take a value.
func valued(help *page) (out []string) {
	walk(help, func(p *page) {
		for _, o := range p.Options {
			if o.Value {
				out = append(out, o.Names...)
			}
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// verbs joins the quoted names of all commands.
func verbs(help *page, sep string) string {
	var out []string
	walk(help, func(p *page) { out = append(out, "'"+p.name()+"'") })
	return strings.Join(out[1:], sep) // the first is the program's
}

// head is what the three files begin with.
const head = "# Completion of agentjail's commands and options, made from their help.\n"

func bash(help *page) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	b.WriteString(`_agentjail()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=agentjail word i
	COMPREPLY=()
	case $prev in
`)
	fmt.Fprintf(&b, "\t%s) return ;; # a value: of a file's name, if anything\n", strings.Join(valued(help), " | "))
	b.WriteString(`	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$at ${COMP_WORDS[i]}" in
`)
	fmt.Fprintf(&b, "\t\t%s) at=\"$at ${COMP_WORDS[i]}\" ;;\n", verbs(help, " | "))
	b.WriteString("\t\tesac\n\tdone\n\tcase $at in\n")
	walk(help, func(p *page) { fmt.Fprintf(&b, "\t'%s') word='%s' ;;\n", p.name(), strings.Join(words(p), " ")) })
	b.WriteString("\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$word\" -- \"$cur\")\n}\ncomplete -o default -F _agentjail agentjail\n")
	return b.Bytes()
}

func zsh(help *page) []byte {
	var b bytes.Buffer
	b.WriteString("#compdef agentjail\n" + head)
	b.WriteString("local at=agentjail word\nlocal -a found\nfor word in ${words[2,CURRENT-1]}; do\n\tcase \"$at $word\" in\n")
	fmt.Fprintf(&b, "\t(%s)) at=\"$at $word\" ;;\n\tesac\ndone\n", verbs(help, "|"))
	fmt.Fprintf(&b, "case $words[CURRENT-1] in\n(%s) _files; return ;;\nesac\ncase $at in\n", strings.Join(valued(help), "|"))
	walk(help, func(p *page) {
		fmt.Fprintf(&b, "('%s') found=(", p.name())
		for _, c := range p.Commands {
			fmt.Fprintf(&b, " %s", zshWord(c.last(), c.Short))
		}
		for _, o := range p.Options {
			for _, n := range o.Names {
				fmt.Fprintf(&b, " %s", zshWord(n, o.Text))
			}
		}
		b.WriteString(" ) ;;\n")
	})
	b.WriteString("esac\n_describe -V 'agentjail' found\n[[ $PREFIX == -* ]] || _files\n")
	return b.Bytes()
}

// zshWord is an entry of _describe (zshcompsys(1)).
func zshWord(name, text string) string {
	return printable.ShellQuote(strings.ReplaceAll(name, ":", `\:`) + ":" + text)
}

func fish(help *page) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	walk(help, func(p *page) {
		on := condition(p)
		for _, c := range p.Commands {
			fmt.Fprintf(&b, "complete -c agentjail -n %s -a %s -d %s\n", fishQuote(on), c.last(), fishQuote(c.Short))
		}
		for _, o := range p.Options {
			fmt.Fprintf(&b, "complete -c agentjail -n %s", fishQuote(on))
			for _, n := range o.Names {
				if long, ok := strings.CutPrefix(n, "--"); ok {
					fmt.Fprintf(&b, " -l %s", long)
				} else {
					fmt.Fprintf(&b, " -s %s", strings.TrimPrefix(n, "-"))
				}
			}
			if o.Value {
				b.WriteString(" -r")
			}
			fmt.Fprintf(&b, " -d %s\n", fishQuote(o.Text))
		}
	})
	return b.Bytes()
}

// dashed is an option's name as it is typed.
func dashed(name string) string { return strings.Repeat("-", min(2, len(name))) + name }

// condition is fish's test that a page's words come next.
func condition(p *page) string {
	if len(p.Path) == 1 {
		return "__fish_use_subcommand"
	}
	var parts []string
	for _, word := range p.Path[1:] {
		parts = append(parts, "__fish_seen_subcommand_from "+word)
	}
	if subs := p.Commands; len(subs) > 0 {
		not := "not __fish_seen_subcommand_from"
		for _, c := range subs {
			not += " " + c.last()
		}
		parts = append(parts, not)
	}
	return strings.Join(parts, "; and ")
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
