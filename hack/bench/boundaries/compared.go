package main

import (
	"fmt"
	"strconv"
	"strings"
)

// pairs are the delegates alone, and the jails over them.
var pairs = [][2]string{{"runc", "agentjail"}, {"crun", "agentjail, crun"}, {"gVisor alone", "agentjail, gVisor"}}

// A probe is a row of the second table.
type probe struct {
	name string
	of   func(r *row) float64
	// more reports that more is better; near is the part by which two values may differ and be
	// the same.
	more bool
	near float64
	text func(r *row) string
}

var probes = []probe{
	{name: "start", of: func(r *row) float64 { return float64(r.start) }, near: 0.2, text: func(r *row) string { return fmt.Sprintf("%d ms", r.start.Milliseconds()) }},
	{name: "exec", of: func(r *row) float64 { return float64(r.exec) }, near: 0.2, text: func(r *row) string { return fmt.Sprintf("%d ms", r.exec.Milliseconds()) }},
	{name: "memory", of: func(r *row) float64 { return float64(r.memory) }, near: 0.2, text: func(r *row) string { return size(r.memory) }},
	{name: "files a second", of: func(r *row) float64 { return float64(r.files) }, more: true, near: 0.3, text: func(r *row) string { return strconv.Itoa(rounded(r.files)) }},
	{name: "system calls of the host", of: func(r *row) float64 { return float64(r.calls) }, text: func(r *row) string { return strconv.Itoa(r.calls) }},
	{name: "shown of the host", of: func(r *row) float64 { return float64(r.shown) }, text: func(r *row) string { return strconv.Itoa(r.shown) }},
	{name: "attacks stopped", of: func(r *row) float64 { return float64(r.stopped()) }, more: true, text: func(r *row) string { return strconv.Itoa(r.stopped()) }},
}

// compared is the table of what a jail changes of its delegate.
func compared(rows []row) string {
	var b strings.Builder
	b.WriteString("| jail, against the delegate alone | runc | crun | gVisor |\n|---|---|---|---|\n")
	for _, p := range probes {
		fmt.Fprintf(&b, "| %s |", p.name)
		for _, pair := range pairs {
			alone, jail := named(rows, pair[0]), named(rows, pair[1])
			if alone == nil || jail == nil {
				b.WriteString(" not run here |")
				continue
			}
			fmt.Fprintf(&b, " %s: %s, %s |", p.judge(p.of(alone), p.of(jail)), p.text(jail), p.text(alone))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// named is the row of a subject that ran, or nil.
func named(rows []row, name string) *row {
	for i := range rows {
		if rows[i].name == name && rows[i].why == "" {
			return &rows[i]
		}
	}
	return nil
}

// judge compares a jail's value with the delegate's own. A negative one is not known.
func (p probe) judge(alone, jail float64) string {
	switch {
	case alone < 0 || jail < 0:
		return "not known"
	case jail >= alone*(1-p.near) && jail <= alone*(1+p.near):
		return "same"
	case (jail > alone) == p.more:
		return "better"
	}
	return "worse"
}
