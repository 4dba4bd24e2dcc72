package egress

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/credential/secret"
)

// TestReveals: a text has a credential's value in each case and encoding, and a part of 16 bytes of it, but for the beginning that values of a kind
// have in common.
func TestReveals(t *testing.T) {
	const value = "sk-ant-api03-Zx9_Qw8-eR7tY6uI5oP4aS3dF2gH1jK0lM/+="
	var all []helperproto.Credential
	for _, text := range []string{value, "short-key"} {
		all = append(all, helperproto.Credential{Value: secret.New([]byte(text))})
	}
	p := newParts(all)
	percent := func(s string) string {
		out := ""
		for _, c := range []byte(s) {
			out += fmt.Sprintf("%%%02x", c)
		}
		return out
	}
	b64 := func(e *base64.Encoding) func(string) string {
		return func(s string) string { return e.EncodeToString([]byte(s)) }
	}
	encodings := map[string]func(string) string{
		"plain": func(s string) string { return s }, "upper": strings.ToUpper, "lower": strings.ToLower,
		"percent": percent, "PERCENT": func(s string) string { return strings.ToUpper(percent(s)) }, "query": url.QueryEscape,
		"hex": func(s string) string { return hex.EncodeToString([]byte(s)) }, "HEX": func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"std": b64(base64.StdEncoding), "raw": b64(base64.RawStdEncoding), "url": b64(base64.URLEncoding), "raw url": b64(base64.RawURLEncoding),
	}
	for name, encode := range encodings {
		for _, text := range []string{value, value[13:29], value[20:36], value[len(value)-16:], "short-key"} {
			for _, before := range []string{"", "a", "ab", "abc", "user:"} {
				if got := before + encode(before+text) + " more"; !p.in([]byte(got), nesting) && !(before != "" && (name == "hex" || name == "HEX")) {
					t.Errorf("%s: %q is not found in %q", name, text, got)
				}
				for again, twice := range encodings {
					if got := "x=" + twice(encode(before+text)); !p.in([]byte(got), nesting) && name != "upper" && again != "upper" && again != "lower" {
						t.Errorf("%s of %s: %q is not found in %q", again, name, text, got)
					}
				}
			}
		}
		for _, text := range []string{value[:28], value[13:28], "sk-ant-api03-", "another text of some length, with 0123456789abcdef and dGV4dA=="} {
			if got := encode(text); p.in([]byte(got), nesting) {
				t.Errorf("%s: %q is taken for the value", name, got)
			}
		}
	}
	// Time in proportion to the length: a head that is all digits.
	head := []byte(strings.Repeat("0a", 32<<10))
	half, whole := testing.Benchmark(looks(p, head[:len(head)/2])), testing.Benchmark(looks(p, head))
	if whole.NsPerOp() > 4*half.NsPerOp()+int64(time.Millisecond) {
		t.Errorf("%v for half of a head, %v for a head", half, whole)
	}
}

func looks(p *parts, head []byte) func(*testing.B) {
	return func(b *testing.B) {
		for b.Loop() {
			p.in(head, nesting)
		}
	}
}

func BenchmarkReveals(b *testing.B) {
	p := newParts([]helperproto.Credential{{Value: secret.New([]byte("sk-ant-api03-Zx9_Qw8-eR7tY6uI5oP4aS3dF2gH1jK0lM"))}})
	looks(p, []byte(strings.Repeat("0a", 32<<10)))(b)
}
