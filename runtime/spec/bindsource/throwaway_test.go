package bindsource

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestSetThrowAway: only an overlay whose upper directory Podman made for this container is one.
func TestSetThrowAway(t *testing.T) {
	const id, store = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "/var/lib/containers/storage/overlay-containers/"
	const own = store + id + "/userdata/overlay/7"
	for options, want := range map[string]bool{
		"lowerdir=/i/merged:" + own + "/lower private":                   true,
		"lowerdir=/i/merged:" + own + "/lower":                           true,
		"lowerdir=/i/merged:" + own + "/lower upperdir=/srv":             false,
		"lowerdir=/i/merged:" + own + "/upper":                           false,
		"lowerdir=/i/merged:/srv/lower":                                  false,
		"lowerdir=/i/merged:/srv:" + own + "/lower":                      false,
		"lowerdir=/i/merged":                                             false,
		"lowerdir=/i/merged:" + store + "other/userdata/overlay/7/lower": false,
		"": false,
	} {
		m := specs.Mount{Destination: "/o", Type: "overlay", Source: own + "/merge", Options: strings.Fields(options)}
		if got := SetPodmanImage(&m, id, Engine{}); got != want || got && m.Source != "/i/merged" {
			t.Errorf("%s: %t, %+v", options, got, m)
		}
	}
	for _, c := range []struct {
		kind, options string
		want          bool
	}{
		{"overlay", "lowerdir=/srv/d upperdir=" + own + "/upper workdir=" + own + "/work private", true},
		{"overlay", "lowerdir=/srv/d upperdir=" + own + "/upper workdir=" + own + "/work private userxattr", true},
		{"bind", "lowerdir=/srv/d upperdir=" + own + "/upper workdir=" + own + "/work private", false},
		{"overlay", "lowerdir=/srv/d upperdir=/srv/up workdir=/srv/work private", false},
		{"overlay", "lowerdir=/srv/d upperdir=" + own + "/../upper workdir=" + own + "/../work", false},
		{"overlay", "lowerdir=/srv/d upperdir=" + own + "/upper workdir=" + own + "/other", false},
		{"overlay", "lowerdir=/srv/d:/etc upperdir=" + own + "/upper workdir=" + own + "/work", false},
		{"overlay", "lowerdir=srv upperdir=" + own + "/upper workdir=" + own + "/work", false},
		{"overlay", "lowerdir=/srv/d lowerdir=/etc upperdir=" + own + "/upper workdir=" + own + "/work", false},
		{"overlay", "lowerdir=/srv/d upperdir=" + own + "/upper workdir=" + own + "/work metacopy=on", false},
		{"overlay", "lowerdir=/srv/d upperdir=" + store + "other/userdata/overlay/7/upper workdir=" + store + "other/userdata/overlay/7/work", false},
		{"overlay", "lowerdir=/srv/d upperdir=/srv" + own + "/upper workdir=/srv" + own + "/work", false},
		{"overlay", "", false},
	} {
		m := specs.Mount{Destination: "/o", Type: c.kind, Source: own + "/merge", Options: strings.Fields(c.options)}
		if got := SetThrowAway(&m, id, Engine{}); got != c.want || got && (m.Type != "bind" || m.Source != "/srv/d") {
			t.Errorf("%s %s: %t, %+v", c.kind, c.options, got, m)
		}
	}
}

func TestRunRoot(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for path, want := range map[string]string{
		"/srv/run/overlay-containers/" + id + "/userdata/hosts": "/srv/run",
		"/srv/run/vfs-containers/" + id + "/userdata/shm":       "/srv/run",
		"/srv/run/my-containers/" + id + "/userdata/hosts":      "",
		"/srv/run/overlay-containers/" + id + "/other/hosts":    "",
		"/overlay-containers/" + id + "/userdata/hosts":         "",
		"overlay-containers/" + id + "/userdata/hosts":          "",
		"/srv/overlay-containers/short/userdata/hosts":          "",
		"": "",
	} {
		if got := RunRoot(path, id); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}
