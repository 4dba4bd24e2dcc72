package enginerecord

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConmon(t *testing.T) {
	for _, c := range []struct {
		what string
		args []string
		want Conmon
	}{
		{
			"Podman's",
			[]string{"/usr/bin/conmon", "--api-version", "1", "-c", "abc", "-u", "abc", "-n", "busy", "--exit-dir", "/run/libpod/exits", ""},
			Conmon{Name: "busy", Events: "/run/libpod/events/events.log"},
		},
		{"another container's", []string{"conmon", "-c", "abcd", "-n", "busy", "--exit-dir", "/run"}, Conmon{}},
		{"long options", []string{"conmon", "--cid", "abc", "--name", "busy"}, Conmon{Name: "busy"}},
		{"options without a value", []string{"conmon", "-c", "abc", "-n", "busy", "--exit-dir"}, Conmon{Name: "busy"}},
		{"a relative directory", []string{"conmon", "-c", "abc", "--exit-dir", "exits"}, Conmon{}},
		{"none", nil, Conmon{}},
	} {
		if got := conmonOf(c.args, "abc"); got != c.want {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
	if got := ReadConmon(os.Getpid(), "abc"); got != (Conmon{}) {
		t.Errorf("another program: %+v", got)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPodmanStatus: the last event of the container's end counts, if it is of this run.
func TestPodmanStatus(t *testing.T) {
	dir := t.TempDir()
	died := func(id, code string, second int) string {
		return `{"ContainerExitCode":` + code + `,"ID":"` + id + `","Status":"died","Time":"` + time.Unix(int64(second), 5).UTC().Format(time.RFC3339Nano) + `","Type":"container"}` + "\n"
	}
	const later = `{"ID":"abc","Status":"cleanup","Time":"1970-01-01T00:00:30Z"}` + "\n"
	for _, c := range []struct {
		what, events string
		want         uint32
		known        bool
	}{
		{"one run", died("def", "1", 11) + died("abc", "7", 12) + later + died("def", "2", 13), 7, true},
		{"two runs", died("abc", "3", 2) + died("abc", "255", 12), 255, true},
		{"the run's before", died("abc", "3", 2) + later, 0, false},
		{"another container's, which names it", died("abcd", "3", 12), 0, false},
		{"no status", died("abc", "null", 12), 0, false},
		{"no status of a process", died("abc", "256", 12) + died("abc", "-1", 12) + died("abc", `"7"`, 12), 0, false},
		{"a line cut short", died("abc", "7", 12)[:30], 0, false},
		{"nothing", "", 0, false},
	} {
		put(t, filepath.Join(dir, "events"), c.events)
		if got, known := PodmanStatus(filepath.Join(dir, "events"), "abc", time.Unix(10, 0)); got != c.want || known != c.known {
			t.Errorf("%s: %d, %v", c.what, got, known)
		}
	}
	put(t, filepath.Join(dir, "events"), died("abc", "7", 12)+strings.Repeat("\n", maxEvents-400)+died("abc", "8", 13))
	if got, _ := PodmanStatus(filepath.Join(dir, "events"), "abc", time.Unix(10, 0)); got != 8 {
		t.Errorf("a long file: %d", got)
	}
	if err := os.Chmod(filepath.Join(dir, "events"), 0o622); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", dir, filepath.Join(dir, "events"), filepath.Join(dir, "none")} {
		if got, known := PodmanStatus(path, "abc", time.Unix(10, 0)); known {
			t.Errorf("%q: %d", path, got)
		}
	}
}

// TestPodmanImage: the name is that of the container's own entry, in either list.
func TestPodmanImage(t *testing.T) {
	top := t.TempDir()
	entry := func(id, image string) string {
		return `{"id":"` + id + `","metadata":"{\"image-name\":\"` + image + `\"}"}`
	}
	put(t, filepath.Join(top, "containers.json"), "["+entry("abc", "busybox")+","+entry("def", "alpine")+`,{"id":"bad","metadata":"{"}]`)
	put(t, filepath.Join(top, "volatile-containers.json"), "["+entry("tmp", "debian")+"]")
	for _, c := range []struct{ bundle, id, want string }{
		{"abc/userdata", "abc", "busybox"},
		{"def/userdata", "def", "alpine"},
		{"tmp/userdata", "tmp", "debian"},
		{"bad/userdata", "bad", ""},
		{"ghi/userdata", "ghi", ""},
		{"abc/userdata", "def", ""},
		{"abc/bundle", "abc", ""},
	} {
		if got, _ := PodmanImage(filepath.Join(top, c.bundle), c.id); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestDockerStatus: only the record of the same run, after its end, has the status. Docker 29's
// start is before the create, and its end after the delete.
func TestDockerStatus(t *testing.T) {
	dir := t.TempDir()
	at := func(second int) string { return time.Unix(int64(second), 0).UTC().Format(time.RFC3339) }
	for _, c := range []struct {
		what, record string
		known        bool
	}{
		{"Docker 20.10's", `{"ID":"abc","State":{"ExitCode":7,"StartedAt":"` + at(11) + `","FinishedAt":"` + at(19) + `"}}`, true},
		{"Docker 29's", `{"ID":"abc","State":{"ExitCode":7,"StartedAt":"` + at(9) + `","FinishedAt":"` + at(21) + `"}}`, true},
		{"another container's", `{"ID":"def","State":{"ExitCode":7,"StartedAt":"` + at(11) + `","FinishedAt":"` + at(19) + `"}}`, false},
		{"one that runs again", `{"ID":"abc","State":{"Running":true,"StartedAt":"` + at(22) + `","FinishedAt":"` + at(19) + `"}}`, false},
		{"the run's before", `{"ID":"abc","State":{"ExitCode":7,"StartedAt":"` + at(1) + `","FinishedAt":"` + at(9) + `"}}`, false},
		{"the run's after", `{"ID":"abc","State":{"ExitCode":7,"StartedAt":"` + at(21) + `","FinishedAt":"` + at(22) + `"}}`, false},
		{"one without an end", `{"ID":"abc","State":{"StartedAt":"` + at(11) + `"}}`, false},
		{"no JSON", `{`, false},
	} {
		put(t, filepath.Join(dir, "config.v2.json"), c.record)
		got := ReadDocker(dir).Status("abc", time.Unix(10, 0), time.Unix(20, 0))
		if (got != nil) != c.known || got != nil && *got != 7 {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	if ReadDocker("relative") != nil || ReadDocker("") != nil {
		t.Error("a record without a place")
	}
}
