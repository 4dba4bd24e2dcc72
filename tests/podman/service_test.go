package podman

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestService: under the built-in policy of that name the jail's root keeps six capabilities over its own ids. Where Podman or a user
// chooses the ids, the jail is refused.
func TestService(t *testing.T) {
	p := root(t)
	link := filepath.Join(filepath.Dir(under), "agentjail-service")
	if err := os.Symlink(under, link); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	run := func(p *engine.PodmanT, args ...string) engine.Result {
		return p.Podman(append([]string{"--runtime", link, "run", "--rm", "--network=none"}, args...)...)
	}
	const script = "grep CapEff /proc/self/status; touch /v/f && chown 33:34 /v/f && stat -c %u:%g /v/f"
	volume := newVolume(p, "service")
	for name, c := range map[string]struct {
		options []string
		want    string
	}{
		"plain":      {nil, ""}, // Podman's default is its own
		"privileged": {[]string{"--privileged"}, "00000000000000eb 33:34"},
		"none":       {[]string{"--cap-drop=ALL"}, "0000000000000000"},
		"another":    {[]string{"--privileged", "--user", "1000"}, "0000000000000000"},
	} {
		r := run(p, append(append(c.options, "-v", "service:/v"), engine.Busybox, "sh", "-c", script)...)
		got := strings.Join(strings.Fields(strings.TrimPrefix(r.Stdout, "CapEff:")), " ")
		if got != c.want && (name != "plain" || !strings.HasSuffix(got, " 33:34")) {
			t.Errorf("%s: %s, not %s", name, r, c.want)
		}
	}
	if info, err := os.Stat(filepath.Join(volume, "f")); err != nil {
		t.Error(info, err)
	}
	const refused = "others than the jail may have files of its ids"
	if r := run(p, "--uidmap=0:300000:65536", "--gidmap=0:300000:65536", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, refused) {
		t.Errorf("Podman's ids: %s", r)
	}
	env.Check(t, os.Chmod(filepath.Dir(under), 0o755))
	if r := run(user(t), engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, refused) {
		t.Errorf("a user: %s", r)
	}
}
