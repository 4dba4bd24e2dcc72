package inside

import (
	"strconv"
	"strings"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// lines calls f for every line of s until it returns false.
func lines(s string, f func(string) bool) {
	for len(s) > 0 {
		line, rest, _ := strings.Cut(s, "\n")
		if !f(line) {
			return
		}
		s = rest
	}
}

// squeeze joins the words of every line by single spaces: the form in which the
// kernel's aligned columns are compared.
func squeeze(s string) string {
	var b strings.Builder
	lines(s, func(l string) bool {
		b.WriteString(strings.Join(strings.Fields(l), " "))
		b.WriteByte('\n')
		return true
	})
	return b.String()
}

// unoctal resolves the \ooo escapes of mountinfo (proc_pid_mountinfo(5)).
func unoctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b = append(b, byte(n))
				i += 3
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
