package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
)

// helpWidth is how many columns help has: a terminal's, by default.
const helpWidth = 80

// printHelp prints the library's help in lines of a terminal's width. hack/release reads its form.
func printHelp(out io.Writer, template string, data any) {
	var whole bytes.Buffer
	cli.HelpPrinterCustom(&whole, template, data, nil)
	h := helpText{}
	for line := range strings.Lines(whole.String()) {
		h.add(strings.TrimRight(line, " \n"))
	}
	h.endParagraph()
	_, _ = h.Buffer.WriteTo(out) // as the library, which has no use for the error
}

// helpText is help that is being made.
type helpText struct {
	bytes.Buffer
	section   string
	paragraph string
}

// add adds a line of the library's.
func (h *helpText) add(line string) {
	text, indented := strings.CutPrefix(line, "   ")
	if h.section != "DESCRIPTION:" || !indented || strings.HasPrefix(text, " ") {
		h.endParagraph()
	}
	switch {
	case !indented:
		if line != "" {
			h.section = line
		}
		h.WriteString(line + "\n")
	case strings.HasSuffix(h.section, "OPTIONS:"):
		h.option(text)
	case h.section == "COMMANDS:" && strings.HasSuffix(text, verbsOfEngines+":"):
		h.WriteString("\n" + verbsOfEngines + ":\n")
	case h.section == "COMMANDS:" && strings.HasPrefix(text, "  ") && strings.TrimLeft(text, " ") != "": // of a category
		name, short, _ := strings.Cut(strings.TrimLeft(text, " "), "  ")
		h.wrap(fmt.Sprintf("   %-10s  ", name), strings.TrimLeft(short, " "))
	case h.section == "COMMANDS:":
		_, short, _ := strings.Cut(text, "  ")
		head := strings.TrimSuffix(line, strings.TrimLeft(short, " "))
		h.wrap(head, short)
	case h.section == "DESCRIPTION:" && !strings.HasPrefix(text, " "):
		h.paragraph += " " + text
	case h.section == "NAME:" || h.section == "USAGE:":
		h.wrap("   ", text)
	default:
		h.WriteString(line + "\n")
	}
}

// option adds an option: its names, and below them the text.
func (h *helpText) option(text string) {
	names, what, _ := strings.Cut(text, "  ")
	names, _, repeated := strings.Cut(names, " [ -")
	names = strings.ReplaceAll(names, " value", " VALUE") // of runc's options, whose texts name none
	what = strings.NewReplacer("(default: false)", "", "(default: 0s)", "").Replace(what)
	if repeated {
		what += " (may be repeated)"
	}
	const column = 24
	head := "   " + names
	if utf8.RuneCountInString(head)+2 > column {
		h.WriteString(head + "\n")
		head = ""
	}
	h.wrap(head+strings.Repeat(" ", column-utf8.RuneCountInString(head)), what)
}

// endParagraph adds the paragraph that the lines before were.
func (h *helpText) endParagraph() {
	if h.paragraph != "" {
		h.wrap("   ", h.paragraph)
	}
	h.paragraph = ""
}

// wrap adds a text behind head.
func (h *helpText) wrap(head, text string) {
	h.WriteString(strings.TrimRight(printable.Wrap(head, text, helpWidth), " ") + "\n")
}
