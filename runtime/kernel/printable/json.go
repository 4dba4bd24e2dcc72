package printable

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns a JSON text in which each character that is not printable is written
// as \uNNNN (RFC 8259, section 7): a reader decodes the same text, and a terminal
// gets nothing that turns it around. encoding/json escapes only what is below a
// space. White space between the text's parts stays as it is, and a byte that is no
// UTF-8 becomes U+FFFD, as each reader would have it.
func JSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, unprintable) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !unprintable(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

// unprintable reports whether a rune of a JSON text is to be escaped. In a valid text the
// three that are control characters here stand between its parts.
func unprintable(r rune) bool {
	return r == utf8.RuneError || r != '\n' && r != '\t' && r != '\r' && !unicode.IsPrint(r)
}
