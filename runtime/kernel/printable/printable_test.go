package printable

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		max            int
	}{
		{"plain", "/srv/Grüße", "/srv/Grüße", 0},
		{"terminal escape", "a\x1b[2Jb", `a\x1b[2Jb`, 0},
		{"line break", "x\nholds  everything\r", `x\x0aholds  everything\x0d`, 0},
		{"delete and C1", "\x7f\u009b31m", `\x7f\u{9b}31m`, 0},
		{"direction override", "a\u202egnp.exe", `a\u{202e}gnp.exe`, 0},
		{"zero width", "a\u200bb", `a\u{200b}b`, 0},
		{"broken UTF-8", "a\xff\xc3", `a\xff\xc3`, 0},
		{"line separator", "a\u2028b", `a\u{2028}b`, 0},
		{"cut", "abcdef", "abc...", 3},
		{"fits", "abc", "abc", 3},
		{"cut does not halve an escape", "ab\x1bcd", "ab...", 4},
		{"empty", "", "", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Line(c.in, c.max); got != c.want {
				t.Errorf("Line(%q, %d) = %q, want %q", c.in, c.max, got, c.want)
			}
		})
	}
}

// TestCopy: what is copied is printable wherever the reads cut it, and keeps its lines.
func TestCopy(t *testing.T) {
	const in, want = "a\tb\nGrüße \x1b[2J\r\n\u202ex\xffy\xc3", "a\tb\nGrüße \\x1b[2J\\x0d\n\\u{202e}x\\xffy\\xc3"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)), "with the end": iotest.DataErrReader(strings.NewReader(in))} {
		var out strings.Builder
		if err := Copy(&out, r); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}
