package journal

import (
	"fmt"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// String is the event in one line, for people and for grep.
func (e *Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %-7s %s", e.Time, e.Jail, e.Verdict, e.Kind)
	if e.Count > 1 {
		fmt.Fprintf(&b, " x%d", e.Count)
	}
	b.WriteString(printable.Labelled("", e.What(), "by", e.Rule, "with", e.Credential, "errno", e.Errno, "in", e.Cwd,
		"program", e.Program, "parent", e.Parent, "status", e.Status, "value", e.Value, "limit", e.Limit, "because", e.Reason))
	if e.Pid != 0 {
		fmt.Fprintf(&b, " pid %d", e.Pid)
	}
	if e.Dropped > 0 {
		fmt.Fprintf(&b, " (%d missing)", e.Dropped)
	}
	if e.Refused() && e.Remedy != "" {
		b.WriteString(" remedy: " + e.Remedy)
	}
	return printable.Line(b.String(), 0)
}

// What is what the event is about, in a few words.
func (e *Event) What() string {
	switch {
	case len(e.Argv) > 0 && e.Path != "":
		return e.Path + " [" + strings.Join(e.Argv, " ") + "]" // the first argument can be any
	case len(e.Argv) > 0:
		return strings.Join(e.Argv, " ")
	case e.Syscall != "":
		return e.Syscall + "(" + strings.Join(e.Arguments, ", ") + ")"
	case e.Number != nil:
		return fmt.Sprintf("system call %d", *e.Number)
	case e.Name != "" && e.Port != 0:
		return fmt.Sprintf("%s:%d", e.Name, e.Port)
	case e.Name != "":
		return e.Name
	case e.Address != "" && e.Port != 0:
		return fmt.Sprintf("%s port %d", e.Address, e.Port)
	case e.Address != "":
		return e.Address
	case e.Path != "":
		return e.Path
	}
	return e.Target
}
