package facts

import (
	"os"
	"testing"
)

func TestConmon(t *testing.T) {
	for _, c := range []struct {
		what string
		args []string
		want string
	}{
		{"Podman's", []string{"/usr/bin/conmon", "--api-version", "1", "-c", "abc", "-u", "abc", "-n", "busy", "--exit-dir", "/run/libpod/exits", ""}, "busy"},
		{"another container's", []string{"conmon", "-c", "abcd", "-n", "busy"}, ""},
		{"long options", []string{"conmon", "--cid", "abc", "--name", "busy"}, "busy"},
		{"an option without a value", []string{"conmon", "-c", "abc", "-n"}, ""},
		{"none", nil, ""},
	} {
		if got := conmonName(c.args, "abc"); got != c.want {
			t.Errorf("%s: %q", c.what, got)
		}
	}
	if got := readConmon(os.Getpid(), "abc"); got != "" {
		t.Errorf("another program: %q", got)
	}
}
