package install

import "testing"

// TestPidFileOf: dockerd's own setting names its pidfile.
func TestPidFileOf(t *testing.T) {
	for text, want := range map[string]string{
		`{"pidfile": "/var/run/d.pid"}`: "/var/run/d.pid", `{"pidfile": "d.pid"}`: "", `{"pidfile": 1}`: "", `{}`: "", ``: "", `{`: "",
	} {
		if got := pidFileOf([]byte(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
