// Package printable makes text from containers fit for terminals and logs:
// paths, labels and names that a jail or a bundle has chosen may hold escape
// sequences, line breaks that pass for further lines, or marks that turn the
// direction of the text around.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line of at most max characters of printable text.
// Everything else is written as \xNN or \u{NNNN}; what is cut off is marked by
// "...". A max of 0 or less sets no bound.
func Line(s string, max int) string {
	if (max <= 0 || len(s) <= max) && IsASCII(s) {
		return s
	}
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && !unicode.IsPrint(r):
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case !unicode.IsPrint(r): // also formatting and direction marks
			piece = fmt.Sprintf(`\u{%x}`, r)
		}
		if n += utf8.RuneCountInString(piece); max > 0 && n > max {
			return b.String() + "..."
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

// Copy writes what it reads, made printable as by Line but for line breaks and tabs, until the end
// of what is read.
func Copy(w io.Writer, r io.Reader) error {
	buf := make([]byte, 32<<10)
	kept := 0 // the beginning of a character whose rest is still to come
	for {
		n, err := r.Read(buf[kept:])
		text := buf[:kept+n]
		whole := len(text)
		if err == nil {
			whole -= begun(text)
		}
		var out bytes.Buffer
		for rest := text[:whole]; len(rest) > 0; {
			i := bytes.IndexAny(rest, "\n\t")
			if i < 0 {
				i = len(rest)
			}
			out.WriteString(Line(string(rest[:i]), 0))
			if rest = rest[i:]; len(rest) > 0 {
				out.WriteByte(rest[0])
				rest = rest[1:]
			}
		}
		if _, werr := w.Write(out.Bytes()); werr != nil {
			return werr
		}
		kept = copy(buf, text[whole:])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// begun is how many bytes at the end of a text are the beginning of a character.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		last := text[len(text)-n:]
		if utf8.RuneStart(last[0]) {
			if last[0] >= utf8.RuneSelf && !utf8.FullRune(last) {
				return n
			}
			break
		}
	}
	return 0
}

// IsASCII reports that a text is printable ASCII, as nearly all is.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
