package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// section is the manual's for what is called by who administers a machine.
const section = "8"

// manPages are the pages by file name: one for each command, and one for each other program.
func manPages(help *page, others []*page, version string, at time.Time) map[string][]byte {
	out := map[string][]byte{}
	var add func(p *page)
	add = func(p *page) {
		out[manName(p)+"."+section] = manPage(p, version, at)
		for _, c := range p.Commands {
			add(c)
		}
	}
	add(help)
	for _, p := range others {
		add(p)
	}
	return out
}

// manName is a page's name: agentjail-install-docker.
func manName(p *page) string { return strings.Join(p.Path, "-") }

// manPage writes a page in the macros of man(7).
func manPage(p *page, version string, at time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s %s %s %s\n", strings.ToUpper(roff(manName(p))), section, at.Format(time.DateOnly), quoted("agentjail "+version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(p)), roff(p.Short))
	if len(p.Usage) > 0 {
		b.WriteString(".SH SYNOPSIS\n.nf\n")
		for _, l := range p.Usage {
			b.WriteString(roffLine(l))
		}
		b.WriteString(".fi\n")
	}
	if len(p.Description) > 0 {
		b.WriteString(".SH DESCRIPTION\n")
		description(&b, p.Description)
	}
	if len(p.Commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range p.Commands {
			fmt.Fprintf(&b, ".TP\n.BR %s (%s)\n%s", roff(manName(c)), section, roffLine(c.Short))
		}
	}
	manOptions(&b, "GLOBAL OPTIONS", p.Globals)
	manOptions(&b, "OPTIONS", p.Options)
	also(&b, p)
	return b.Bytes()
}

// description keeps lines that are indented as they are, and lets the others flow.
func description(b *bytes.Buffer, lines []string) {
	verbatim := false
	for _, l := range lines {
		indented := strings.HasPrefix(l, "  ") || strings.HasPrefix(l, "\t")
		switch {
		case strings.TrimSpace(l) == "":
			if !verbatim {
				b.WriteString(".PP\n")
			}
			continue
		case indented && !verbatim:
			b.WriteString(".RS 4\n.nf\n")
		case !indented && verbatim:
			b.WriteString(".fi\n.RE\n.PP\n")
		}
		verbatim = indented
		b.WriteString(roffLine(strings.TrimSpace(l)))
	}
	if verbatim {
		b.WriteString(".fi\n.RE\n")
	}
}

func manOptions(b *bytes.Buffer, title string, options []option) {
	if len(options) == 0 {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	for _, o := range options {
		var names []string
		for _, n := range o.Names {
			names = append(names, `\fB`+roff(n)+`\fR`)
		}
		head := strings.Join(names, ", ")
		if o.Value != "" {
			head += ` \fI` + roff(o.Value) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s", head, roffLine(o.Text))
	}
}

// also names the page above.
func also(b *bytes.Buffer, p *page) {
	above := "agentjail"
	if len(p.Path) > 1 {
		above = strings.Join(p.Path[:len(p.Path)-1], "-")
	}
	b.WriteString(".SH SEE ALSO\n")
	if manName(p) != above {
		fmt.Fprintf(b, ".BR %s (%s),\n", roff(above), section)
	}
	b.WriteString("/usr/share/doc/agentjail\n")
}

// roff escapes what means something to troff (groff_char(7)).
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}

func quoted(s string) string { return `"` + roff(s) + `"` }

// roffLine is a line of text: one that begins with a dot would be a request.
func roffLine(s string) string {
	s = roff(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s + "\n"
}
