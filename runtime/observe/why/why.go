// Package why explains why something does not work in a jail: a system call, a path, a name of the
// network, or the text of an error. An answer names the protection that refuses it, the rule, and
// the change that lets this pass and nothing else.
//
// The package is pure: the caller gathers the facts about the jail.
package why

import (
	"fmt"
	"io"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/rings"
)

// Verdict is the short answer.
type Verdict string

// The verdicts. Depends is for a call of which some arguments pass, and for an error with several
// causes.
const (
	Passes  Verdict = "passes"
	Refused Verdict = "refused"
	Depends Verdict = "depends"
	Unknown Verdict = "unknown"
)

// Remedy is one change that lets something through.
type Remedy struct {
	// Write is what to write or to call, and Where it goes.
	Write string `json:"write"`
	Where string `json:"where,omitempty"`
	// Opens is what it lets through beside that; "" is nothing.
	Opens string `json:"opens,omitempty"`
}

// Answer is all that is known of one question.
type Answer struct {
	Question string  `json:"question"`
	Kind     Kind    `json:"kind"`
	Verdict  Verdict `json:"verdict"`
	// Errno is what a program sees; By what refuses, in the order in which they are checked.
	Errno string   `json:"errno,omitempty"`
	By    []string `json:"by,omitempty"`
	// Ring is that of the protection; nil where there is none, as for a limit of the host's.
	Ring *rings.Ring `json:"ring,omitempty"`
	// Rule is the rule that refuses or lets pass, or that there is none, and Why the reason for it.
	Rule string `json:"rule,omitempty"`
	Why  string `json:"why,omitempty"`
	// Then is what else would refuse it.
	Then     string   `json:"then,omitempty"`
	Remedies []Remedy `json:"remedies,omitempty"`
	// Purpose reports that there is no change on purpose; Instead is what serves.
	Purpose bool   `json:"purpose,omitempty"`
	Instead string `json:"instead,omitempty"`
	// Seen is what the jail itself shows of it.
	Seen []string `json:"seen,omitempty"`
	// Causes are those of an error, the likeliest first.
	Causes []Answer `json:"causes,omitempty"`

	entry *netrules.Rule // that lets a name pass
	name  string         // that the question's address stands for
}

// Text prints the answer for people. Everything in it may have come from a jail.
func (a *Answer) Text(w io.Writer) error {
	var b strings.Builder
	a.text(&b, "")
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Answer) text(b *strings.Builder, indent string) {
	head := string(a.Verdict)
	if a.Errno != "" {
		head += ", " + a.Errno
	}
	fmt.Fprintf(b, "%s%s: %s\n", indent, printable.Line(a.Question, 400), head)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "%s  %-8s %s\n", indent, name, printable.Line(text, 0))
		}
	}
	by := strings.Join(a.By, ", ")
	if a.Ring != nil && by != "" {
		by += " (" + a.Ring.String() + ")"
	}
	line("by", by)
	line("rule", a.Rule)
	line("reason", a.Why)
	for _, s := range a.Seen {
		line("seen", s)
	}
	for _, r := range a.Remedies {
		text := r.Write
		if r.Where != "" {
			text += "   in " + r.Where
		}
		line("remedy", text)
		if opens := r.Opens; opens != "" {
			line("", "opens also: "+opens)
		} else {
			line("", "opens nothing else")
		}
	}
	if a.Purpose {
		line("remedy", "none, on purpose")
	}
	line("instead", a.Instead)
	line("then", a.Then)
	for i := range a.Causes {
		a.Causes[i].text(b, indent+"  ")
	}
}
