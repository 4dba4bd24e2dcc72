package podman

import (
	"fmt"
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

// TestServiceEntryPoints: images of servers run over Podman as they are, as over runc: each as its own user, to exit 0, and one finds on a
// volume what the other wrote.
func TestServiceEntryPoints(t *testing.T) {
	p := root(t)
	debs, err := engine.Debs("gosu", "nginx-light", "redis-server")
	env.Check(t, err)
	tar, err := engine.WorkTar()
	env.Check(t, err)
	stock, err := os.ReadFile(tar + ".stock")
	env.Check(t, err)
	env.Check(t, place.Import(false, stock, "stock", "CMD /bin/bash", "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))
	entries, err := filepath.Abs("../e2e/testdata/entry")
	env.Check(t, err)
	link := filepath.Join(t.TempDir(), "agentjail-service")
	env.Check(t, os.Symlink(under, link))
	const build = `set -e
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install /debs/*.deb >/dev/null
install -m 755 /entries/entry-redis* /usr/local/bin; install -d -o redis -g redis /data; echo served >/var/www/html/f
sed -i '/::/d' /etc/nginx/sites-enabled/default`
	t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", "--ignore", "build") })
	p.Must("--runtime", "runc", "run", "--name", "build", "--network=none", "-v", debs+":/debs:ro", "-v", entries+":/entries:ro", "stock", "sh", "-c", build)
	p.Must("commit", "-q", "build", "servers")
	const get = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/80; printf \"GET /f HTTP/1.0\\r\\n\\r\\n\" >&3; tail -1 <&3'"
	for _, e := range []struct {
		program, volume, ask, answer, users string
		command                             []string
	}{
		{"redis-server", "entry-redis7", "redis-cli incr n && redis-cli save", "%d OK", "redis", []string{"entry-redis7"}},
		{"redis-server", "entry-redis8", "redis-cli incr n && redis-cli save", "%d OK", "redis", []string{"entry-redis8"}},
		{"nginx", "", get, "served", "root www-data", []string{"nginx", "-g", "daemon off;"}},
	} {
		options := []string{"--network=none"}
		if e.volume != "" {
			newVolume(p, e.volume)
			options = append(options, "-v", e.volume+":/data")
		}
		for i, runtime := range []string{"runc", link, "runc"} {
			id := p.Must(append(append([]string{"--runtime", runtime, "run", "-d"}, append(options, "servers")...), e.command...)...)
			t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", "--ignore", id) })
			want := e.answer + "\n" + e.users
			if e.volume != "" {
				want = fmt.Sprintf(want, i+1)
			}
			r := p.Podman("exec", id, "bash", "-c", `until out=$(bash -c "$1" 2>/dev/null); do sleep 0.1; done; echo $out; echo $(for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != $2 ] || stat -c %U $p; done 2>/dev/null | sort -u)`, "bash", e.ask, e.program)
			if r.Code != 0 {
				t.Fatalf("%s: %s\n%s\n%s", runtime, r, p.Podman("logs", id), p.Podman("inspect", "--format", "{{.BoundingCaps}} {{.HostConfig.CapAdd}}", id))
			}
			env.Equal(t, fmt.Sprint(e.command, " over ", filepath.Base(runtime)), strings.TrimSpace(r.Stdout), want)
			p.Must("stop", "-t", "20", id)
			env.Equal(t, fmt.Sprint(e.command, " over ", filepath.Base(runtime), ": its end"), p.Must("inspect", "--format", "{{.State.ExitCode}}", id), "0")
			p.Must("rm", "-f", id)
		}
	}
}
