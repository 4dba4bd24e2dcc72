package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/http1"
	"agentjail.dev/runtime/spec/credential/secret"
)

// TestScan: a placeholder is found however it is cut, and its last byte is never let through.
func TestScan(t *testing.T) {
	c := &credentials{all: []helperproto.Credential{{Name: "a", Placeholder: "agentjail-0123456789"}, {Name: "b", Placeholder: "short-0123"}}}
	for _, p := range c.all {
		text := "before " + p.Placeholder + " after"
		for size := 1; size <= len(text); size++ {
			s, through, err := c.scan(nil, nil), "", error(nil)
			for rest := text; rest != "" && err == nil; rest = rest[min(size, len(rest)):] {
				part := rest[:min(size, len(rest))]
				if err = s.see([]byte(part)); err == nil {
					through += part
				}
			}
			bad := new(http1.Error)
			if !errors.As(err, &bad) || bad.Status != 403 || !s.hit || strings.Contains(through, p.Placeholder) {
				t.Errorf("%s by %d: %v, %q", p.Name, size, err, through)
			}
		}
	}
	s := c.scan(nil, nil)
	for _, part := range []string{"agentjail-", "012345678", "short-", "9agentjail-01234", "x56789"} {
		if err := s.see([]byte(part)); err != nil {
			t.Errorf("%q: %v", part, err)
		}
	}
	if err := new(credentials).scan(nil, nil).see([]byte("x")); err != nil {
		t.Error(err)
	}
}

// TestScanOwn: the placeholders of the host's own credentials pass, however they are cut, and each is reported; others are refused.
func TestScanOwn(t *testing.T) {
	c := &credentials{all: []helperproto.Credential{{Name: "a", Placeholder: "agentjail-0123456789"}, {Name: "b", Placeholder: "short-0123"}}}
	for size := 1; size <= 30; size++ {
		seen := ""
		s := c.scan([]*helperproto.Credential{&c.all[0]}, func(c *helperproto.Credential) { seen += c.Name })
		for rest := "env: agentjail-0123456789 agentjail-012345678"; rest != ""; rest = rest[min(size, len(rest)):] {
			if err := s.see([]byte(rest[:min(size, len(rest))])); err != nil {
				t.Fatalf("by %d: %v", size, err)
			}
		}
		if !strings.HasPrefix(seen, "a") || s.hit {
			t.Errorf("by %d: reported %q, hit %v", size, seen, s.hit)
		}
		if err := s.see([]byte(" short-0123")); err == nil || !s.hit {
			t.Errorf("by %d: another credential's: %v", size, err)
		}
	}
}

// TestWork: values reach the helper by Encode alone.
func TestWork(t *testing.T) {
	const value = "hunter2-hunter2"
	w := &helperproto.Work{Allow: []string{"a.example.test"}, Credentials: []helperproto.Credential{{Name: "a", Value: secret.New([]byte(value))}}}
	data, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := helperproto.Decode(data)
	if err != nil || len(got.Credentials) != 1 || string(got.Credentials[0].Value.Reveal()) != value || got.Allow[0] != "a.example.test" {
		t.Fatalf("%+v, %v", got, err)
	}
	plain, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{string(plain), fmt.Sprintf("%+v %#v", w, w), fmt.Sprintf("%+v %#v", got.Credentials, got.Credentials)} {
		if strings.Contains(s, "hunter2") || strings.Contains(s, "aHVudGVy") {
			t.Errorf("shown: %s", s)
		}
	}
	if _, err := helperproto.Decode(plain); err == nil {
		t.Error("work without the values is taken")
	}
}
