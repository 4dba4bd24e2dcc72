package install

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestWay: Docker calls the shim from the release on that can, unless something is missing or the
// command line is requested.
func TestWay(t *testing.T) {
	trustAny(t)
	api := func(version string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				fmt.Fprintf(w, `{"Version": %q}`, version)
			} else {
				http.Error(w, "no such page", http.StatusNotFound)
			}
		})
	}
	other := func(o Options) Options {
		o.Runtimes = []Runtime{{Name: "other", Path: "/opt/other"}}
		return o
	}
	with := func(by By, socket string) Options {
		o := byShim
		o.By, o.Socket = by, socket
		return o
	}
	noShim := with("", api("29.9.3"))
	noShim.Shim = ""
	for _, c := range []struct {
		o    Options
		want By
		note string
	}{
		{with("", api("20.10.24+dfsg1")), ByPath, ""},
		{with("", api("23.0.1")), ByPath, ""},
		{with("", api("24.0.0")), ByShim, ""},
		{with("", api("26.1.5+dfsg1")), ByShim, ""},
		{with("", api("29.9.3")), ByShim, ""},
		{with("", api("master")), ByPath, ""},
		{with(ByPath, api("29.9.3")), ByPath, ""},
		{with(ByShim, api("20.10.24")), ByShim, ""},
		{other(with("", api("29.9.3"))), ByPath, "no shim of its own"},
		{noShim, ByPath, ""},
	} {
		by, note, err := wayOf(c.o)
		if err != nil || by != c.want || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%+v: %q, %q, %v, want %q", c.o, by, note, err, c.want)
		}
	}
	if _, _, err := wayOf(with("both", "")); err == nil || !strings.Contains(err.Error(), "remedy: shim or path") {
		t.Errorf("an unknown way: %v", err)
	}
	checkBinary = func(string) error { return errors.New("others can write it") }
	if by, note, err := wayOf(with("", api("29.9.3"))); by != ByPath || err != nil || !strings.Contains(note, "others can write it") {
		t.Errorf("a shim that others can write: %q, %q, %v", by, note, err)
	}
	if _, _, err := wayOf(with(ByShim, "")); err == nil {
		t.Error("a shim that others can write is registered where it is requested")
	}
}
