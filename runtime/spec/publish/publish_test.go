package publish

import (
	"errors"
	"strings"
	"testing"

	"agentjail.dev/runtime/refusal"
)

// TestParse: entries in full, and what is none.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"8080:80":               "127.0.0.1:8080:80",
		"127.0.0.1:9000:9001":   "127.0.0.1:9000:9001",
		"0.0.0.0:1:65535":       "0.0.0.0:1:65535",
		"[::1]:8080:80":         "[::1]:8080:80",
		"[0:0::]:8080:80":       "[::]:8080:80",
		"":                      "",
		"80":                    "",
		"8080:":                 "",
		":80":                   "",
		"0:80":                  "",
		"8080:0":                "",
		"08080:80":              "",
		"+8080:80":              "",
		"65536:80":              "",
		"8080:80:80":            "",
		"8080:80/udp":           "",
		"127.1:8080:80":         "",
		"127.0.0.1:8080":        "",
		"localhost:8080:80":     "",
		"::1:8080:80":           "",
		"[::1]8080:80":          "",
		"[127.0.0.1]:8080:80":   "",
		"[::ffff:1.2.3.4]:80:1": "",
		"[fe80::1%eth0]:80:1":   "",
		"224.0.0.1:80:1":        "",
		" 8080:80":              "",
		"8080:80\n":             "",
		"[" + strings.Repeat("0:", 60) + "]:80:1": "",
	} {
		e, err := Parse(text)
		if (err != nil) != (want == "") || err == nil && e.String() != want {
			t.Errorf("%q: %s, %v", text, e, err)
		}
	}
}

// TestWithin: what policy lets be published, by address and port.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		may, entry string
		ok         bool
	}{
		{"8000-8999", "8000:80", true},
		{"8000-8999", "8999:80", true},
		{"8000-8999", "9000:80", false},
		{"8000-8999", "7999:80", false},
		{"127.0.0.1:8000", "127.0.0.1:8000:80", true},
		{"127.0.0.1:8000", "0.0.0.0:8000:80", false},
		{"127.0.0.1:8000", "127.0.0.2:8000:80", false},
		{"127.0.0.1:8000", "[::1]:8000:80", false},
		{"0.0.0.0:8000", "0.0.0.0:8000:80", true},
		{"0.0.0.0:8000", "192.0.2.1:8000:80", true},
		{"0.0.0.0:8000", "[::1]:8000:80", false},
		{"[::]:8000", "[::1]:8000:80", true},
		{"[::]:8000", "127.0.0.1:8000:80", false},
		{"8000-8999", "80:8000", false},
	} {
		r, err := ParseRange(c.may)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Parse(c.entry)
		if err != nil {
			t.Fatal(err)
		}
		if err := Within([]Range{r}, e); (err == nil) != c.ok || err != nil && !errors.Is(err, refusal.Err) {
			t.Errorf("%s by %s: %v", c.entry, c.may, err)
		}
	}
	if e, _ := Parse("8000:80"); Within(nil, e) == nil {
		t.Error("without a word of policy's a port is published")
	}
	for _, bad := range []string{"", "-", "0", "8000-", "9000-8000", "8000-8999-9999", "8000:80", "*:8000", "127.0.0.1", "127.0.0.1:", "[::1]", "1-65536"} {
		if r, err := ParseRange(bad); err == nil {
			t.Errorf("%q: %+v", bad, r)
		}
	}
}

// TestEngine: entries for the engine's network, and what policy lets of them.
func TestEngine(t *testing.T) {
	for text, want := range map[string]Range{
		"engine": {First: 1, Last: 65535}, "engine:80": {First: 80, Last: 80}, "engine:8000-8999": {First: 8000, Last: 8999},
		"engine:": {}, "engine:0": {}, "engine:9-8": {}, "engine:80:80": {}, "engine:1-": {}, "engines": {}, "engine:080": {}, " engine": {},
		"engine:" + strings.Repeat("8", 100): {},
	} {
		if r, err := ParseEngine(text); r != want || (err != nil) != (want == Range{}) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	for _, c := range []struct {
		may, asked string
		ok         bool
	}{
		{"engine", "engine", true},
		{"engine", "engine:80", true},
		{"engine:80", "engine:80", true},
		{"engine:80", "engine", false},
		{"engine:80-90", "engine:90-91", false},
		{"engine:80-90", "engine:79-80", false},
		{"engine:80-90", "engine:81-89", true},
	} {
		may, err := ParseEngine(c.may)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := ParseEngine(c.asked)
		if err != nil {
			t.Fatal(err)
		}
		if err := WithinEngine([]Range{may}, asked); (err == nil) != c.ok || err != nil && !errors.Is(err, refusal.Err) {
			t.Errorf("%s by %s: %v", c.asked, c.may, err)
		}
	}
	if r, _ := ParseEngine("engine"); WithinEngine(nil, r) == nil {
		t.Error("without a word of policy's the engine's ports are published")
	}
	if e, _ := Parse("0.0.0.0:80:80"); Within([]Range{{First: 1, Last: 65535}}, e) == nil {
		t.Error("the engine's ports let one be published on the host")
	}
}

// TestList: two entries never listen at one place, and there are not too many.
func TestList(t *testing.T) {
	for text, ok := range map[string]bool{
		"8080:80 8081:80":                        true,
		"8080:80 8080:81":                        false,
		"8080:80 127.0.0.2:8080:80":              true,
		"8080:80 0.0.0.0:8080:80":                false,
		"8080:80 [::]:8080:80":                   true,
		"8080:80 80":                             false,
		strings.Repeat("8080:80 ", MaxEntries+1): false,
	} {
		if got, _, err := List(strings.Fields(text)); (err == nil) != ok {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// FuzzParse: what is read is written so that it is read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"8080:80", "127.0.0.1:9000:9000", "[::1]:8080:80", "8000-8999", "0.0.0.0:443", "[::]:1-2", "engine", "engine:8000-8999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := Parse(text); err == nil {
			again, err := Parse(e.String())
			if err != nil || again != e || e.Port == 0 || e.At.Port() == 0 {
				t.Errorf("%q: %+v, %+v, %v", text, e, again, err)
			}
			if r, err := ParseRange(e.At.String()); err != nil || Within([]Range{r}, e) != nil {
				t.Errorf("%q is not within itself: %+v, %v", text, r, err)
			}
		}
		if r, err := ParseEngine(text); (err == nil) && (!IsEngine(text) || r.First == 0 || r.Last < r.First || WithinEngine([]Range{r}, r) != nil) {
			t.Errorf("%q: %+v", text, r)
		}
		if r, err := ParseRange(text); err == nil && (r.First == 0 || r.Last < r.First || !r.Addr.IsValid()) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}
