package main

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A style is an SGR sequence of terminals (ECMA-48, 8.3.117); "" is none.
type style string

const (
	bold    style = "1"
	typed   style = "36"
	good    style = "32"
	missing style = "33"
	bad     style = "1;31"
)

// of is the style of a word that agentjail's own reports begin their lines with.
func of(word string) style {
	switch word {
	case "ok", "holds":
		return good
	case "warning", "missing":
		return missing
	case "BROKEN":
		return bad
	}
	return ""
}

// colours reports whether standard output shows colours: a terminal whose user did not request none
// (no-color.org).
var colours = sync.OnceValue(func() bool {
	_, err := unix.IoctlGetTermios(int(os.Stdout.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
})

// paint gives text a style where colours are shown.
func paint(s style, text string) string {
	if s == "" || !colours() {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// heading shows what comes.
func heading(text string) { fmt.Println("\n" + paint(bold, text)) }

// prompt shows a command as it would be typed.
func prompt(command string) { fmt.Println("  " + paint(typed, "$ "+command)) }

func indent(s string) {
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		fmt.Println("    " + line)
	}
}
