package journal

import (
	"bytes"
	"reflect"
	"strconv"
)

// encode is the event as JSON, as encoding/json has it but for what that escapes without need.
// Every verb of an engine is a process of its own that appends a line or two: encoding/json would
// look at the type anew each time, which takes longer than all else here.
func (e *Event) encode(b []byte) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(e.Version), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	b = always(b, "time", e.Time)
	b = always(b, "jail", e.Jail)
	b = text(b, "key", e.Key)
	b = always(b, "kind", e.Kind.String())
	b = append(append(b, `,"ring":`...), strconv.Itoa(int(e.Ring))...)
	b = always(b, "verdict", e.Verdict)
	for _, n := range []struct {
		name  string
		value int
	}{{"class_uid", e.Class}, {"activity_id", e.Activity}, {"disposition_id", e.Disposition}, {"severity_id", e.Severity}} {
		b = strconv.AppendInt(field(b, n.name), int64(n.value), 10)
	}
	b = always(b, "source", e.Source)
	b = number(b, "count", int64(e.Count))
	b = number(b, "pid", int64(e.Pid))
	if e.UID != nil {
		b = strconv.AppendUint(field(b, "uid"), uint64(*e.UID), 10)
	}
	b = text(b, "program", e.Program)
	b = number(b, "ppid", int64(e.PPid))
	b = text(b, "parent", e.Parent)
	b = list(b, "argv", e.Argv)
	for _, s := range [][2]string{{"cwd", e.Cwd}, {"hash", e.Hash}, {"target", e.Target}, {"path", e.Path}, {"name", e.Name}} {
		b = text(b, s[0], s[1])
	}
	b = number(b, "port", int64(e.Port))
	b = text(b, "address", e.Address)
	b = text(b, "credential", e.Credential)
	b = number(b, "sent", e.Sent)
	b = number(b, "got", e.Got)
	b = number(b, "ms", e.Millis)
	b = text(b, "syscall", e.Syscall)
	if e.Number != nil {
		b = strconv.AppendInt(field(b, "number"), int64(*e.Number), 10)
	}
	b = text(b, "arch", e.Arch)
	b = list(b, "arguments", e.Arguments)
	for _, s := range [][2]string{
		{"errno", e.Errno},
		{"value", e.Value},
		{"limit", e.Limit},
		{"status", e.Status},
		{"rule", e.Rule},
		{"reason", e.Reason},
		{"remedy", e.Remedy},
	} {
		b = text(b, s[0], s[1])
	}
	if e.ArgvOmitted {
		b = append(field(b, "argv_omitted"), "true"...)
	}
	if e.Detail != nil {
		b = appendDetail(field(b, "detail"), reflect.ValueOf(e.Detail))
	}
	b = number(b, "cut", int64(e.Cut))
	b = text(b, "policy", e.Policy)
	b = number(b, "dropped", int64(e.Dropped))
	return append(always(b, "prev", e.Prev), '}')
}

func field(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}

func number(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(field(b, name), n, 10)
}

func text(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return always(b, name, s)
}

func always(b []byte, name, s string) []byte { return quote(field(b, name), s) }

func list(b []byte, name string, all []string) []byte {
	if len(all) == 0 {
		return b
	}
	b = append(field(b, name), '[')
	for i, s := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(b, s)
	}
	return append(b, ']')
}

// quote writes text that Clean has made printable.
func quote(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// seqOf is the number in a line of ours; 0 is none.
func seqOf(line []byte) uint64 {
	rest, ok := bytes.CutPrefix(line, []byte(`{"v":`))
	if !ok || len(line) > maxLine || line[len(line)-1] != '}' {
		return 0
	}
	_, rest, _ = bytes.Cut(rest, []byte(`,"seq":`))
	digits, _, ok := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || !ok {
		return 0
	}
	return n
}
