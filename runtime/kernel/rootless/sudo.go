package rootless

import (
	"os"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// WithSudo returns this process's command line as root's, for a shell.
func WithSudo() string { return withSudo(os.Args[1:]) }

func withSudo(args []string) string {
	words := []string{"sudo", "agentjail"}
	for _, a := range args {
		words = append(words, shellWord(a))
	}
	return printable.Line(strings.Join(words, " "), 0)
}

// shellWord quotes what a shell would not take as it is.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_./:=@,+%", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return printable.ShellQuote(s)
}
