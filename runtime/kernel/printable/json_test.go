package printable

import (
	"encoding/json"
	"testing"
)

// TestJSON: nothing that a terminal acts on is left, and a reader gets the same value.
func TestJSON(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "{\n\t\"a\": \"Grüße, 世界 😀\"\r\n}", "{\n\t\"a\": \"Grüße, 世界 😀\"\r\n}"},
		{"direction override", "\"a\u202eb\"", `"a\u202eb"`},
		{"isolate, mark and zero width", "\"\u2066\u200f\u200b\ufeff\"", `"\u2066\u200f\u200b\ufeff"`},
		{"delete and C1", "\"\x7f\u0085\u009b31m\"", `"\u007f\u0085\u009b31m"`},
		{"in a key", "{\"\u202ea\":1}", `{"\u202ea":1}`},
		{"after a backslash", "\"\\\\\u202e\"", `"\\\u202e"`},
		{"a tag above the first plane", "\"\U000e0041\"", `"\udb40\udc41"`},
		{"broken UTF-8", "\"a\xffb\"", `"a\ufffdb"`},
		{"no-break space", "\"a\u00a0b\"", `"a\u00a0b"`},
		{"empty", "", ""},
	} {
		got := string(JSON([]byte(c.in)))
		if got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
		if c.in == "" {
			continue
		}
		var before, after any
		if err1, err2 := json.Unmarshal([]byte(c.in), &before), json.Unmarshal([]byte(got), &after); err1 != nil || err2 != nil {
			t.Errorf("%s: %v, %v", c.name, err1, err2)
			continue
		}
		b, _ := json.Marshal(before)
		a, _ := json.Marshal(after)
		if string(a) != string(b) {
			t.Errorf("%s: means %s, not %s", c.name, a, b)
		}
	}
}
