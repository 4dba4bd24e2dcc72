package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestNotShown: no way of printing or marshaling shows the secret, of a Value or of what holds one.
func TestNotShown(t *testing.T) {
	const text = "hunter2-hunter2"
	v := New([]byte(text))
	holder := struct {
		A Value
		B *Value
		C map[string]Value
		D []Value
	}{v, &v, map[string]Value{"k": v}, []Value{v}}
	var out []string
	for _, x := range []any{v, &v, holder, &holder} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10.3s"} {
			out = append(out, fmt.Sprintf(verb, x))
		}
		data, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "x", x)
		out = append(out, string(data), log.String(), fmt.Errorf("%v: %w", x, errors.New("e")).Error())
	}
	hex := fmt.Sprintf("%x", text)
	numbers := strings.Trim(fmt.Sprint([]byte(text)), "[]")
	for _, s := range out {
		if strings.Contains(s, text) || strings.Contains(s, hex) || strings.Contains(s, numbers) {
			t.Errorf("shown: %s", s)
		}
	}
	if string(v.Reveal()) != text {
		t.Errorf("revealed: %q", v.Reveal())
	}
	v.Wipe()
	if strings.Contains(string(holder.A.Reveal()), "hunter") {
		t.Error("a copy has it after Wipe")
	}
}
