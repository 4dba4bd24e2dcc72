package printable

import "strings"

// ShellQuote returns s as one word of a POSIX shell's.
func ShellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
