package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/lazyregexp"
)

// part is how many bytes of a credential's value reveal it, behind the beginning that its kind has
// in common.
const part = 16

// nesting is how many encodings of one another are undone.
const nesting = 2

// fixed is the beginning that values of a kind have in common: sk-ant-api03-, ghp_, github_pat_.
var fixed = lazyregexp.New(`^(?:[a-z]{1,8}[0-9]{0,2}[-_]){1,3}`)

// parts are the parts of credentials' values that reveal these, in lower case. A value that is
// shorter is one itself.
type parts struct {
	windows map[[part]byte]bool
	begins  [256]bool // by their first byte: a look in the map takes longer
	short   [][]byte
}

func newParts(all []helperproto.Credential) *parts {
	p := &parts{windows: map[[part]byte]bool{}}
	for i := range all {
		value := all[i].Value.Reveal()
		common := len(fixed().Find(value))
		value = bytes.ToLower(value)
		secret := value[common:]
		if len(secret) < part {
			p.short = append(p.short, value)
			continue
		}
		for ; len(secret) >= part; secret = secret[1:] {
			p.windows[[part]byte(secret)], p.begins[secret[0]] = true, true
		}
	}
	return p
}

// in reports whether a text has a part of a value, in any case, as it is or in percent-encoding,
// hexadecimal digits or base64 of either alphabet, at any offset, up to `depth` of these in one
// another. The time is in proportion to the text's length: at most some 30 times that of one look.
func (p *parts) in(text []byte, depth int) bool {
	lower := bytes.ToLower(text)
	for _, short := range p.short {
		if bytes.Contains(lower, short) {
			return true
		}
	}
	for i := 0; i+part <= len(lower); i++ {
		if p.begins[lower[i]] && p.windows[[part]byte(lower[i:])] {
			return true
		}
	}
	if depth == 0 {
		return false
	}
	if plain := unescape(text); len(plain) < len(text) && p.in(plain, depth-1) {
		return true
	}
	found := false
	runs(text, isHex, func(run []byte) {
		for at := 0; at < 2 && !found; at++ {
			digits := run[at : at+(len(run)-at)/2*2]
			out := make([]byte, len(digits)/2)
			_, err := hex.Decode(out, digits)
			found = err == nil && p.in(out, depth-1)
		}
	})
	runs(text, isBase64, func(run []byte) {
		run = bytes.Map(func(r rune) rune {
			switch r {
			case '-':
				return '+'
			case '_':
				return '/'
			}
			return r
		}, run)
		for at := 0; at < 4 && !found; at++ {
			digits := run[min(at, len(run)):]
			if len(digits)%4 == 1 {
				digits = digits[:len(digits)-1]
			}
			out := make([]byte, base64.RawStdEncoding.DecodedLen(len(digits)))
			n, err := base64.RawStdEncoding.Decode(out, digits)
			found = err == nil && p.in(out[:n], depth-1)
		}
	})
	return found
}

// runs calls f with the longest runs of such bytes. Runs that are too short for any part are left
// out.
func runs(text []byte, is func(byte) bool, f func([]byte)) {
	const least = 8
	begin := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && is(text[i]) {
			continue
		}
		if i-begin >= least {
			f(text[begin:i])
		}
		begin = i + 1
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isBase64(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '+' || c == '/' || c == '-' || c == '_'
}

// unescape decodes percent-encoding, and what is none of it stays.
func unescape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			var b [1]byte
			_, _ = hex.Decode(b[:], text[i+1:i+3])
			out, i = append(out, b[0]), i+2
			continue
		}
		out = append(out, text[i])
	}
	return out
}
