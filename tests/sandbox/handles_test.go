package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestHandles: a script has the id, a name and the receipt of its own sandbox, wherever the jail moves what they are written to.
func TestHandles(t *testing.T) {
	engine.NeedsRoot(t, "root's jails have a journal")
	w, elsewhere := engine.TempDir(t, "/var/tmp", "agentjail-handles-"), t.TempDir()
	env.Check(t, os.Chown(w, 1000, 1000))
	idFile := filepath.Join(t.TempDir(), "id")
	for _, c := range []struct {
		file, script string
		status       int
		want         string
	}{
		{"r.txt", "exit 3", 3, "status 3"},
		{"r.json", "true", 0, `"schema": "agentjail.receipt/1"`},
		{"r.html", "true", 0, "<html"},
		{"r.txt", "rm r.txt; ln -s " + elsewhere + "/x r.txt", 0, "status 0"},
		{"out/r.txt", "mv out old; ln -s " + elsewhere + " out", 0, "status 0"},
	} {
		env.Check(t, errors.Join(os.MkdirAll(filepath.Join(w, "out"), 0o755), os.Chown(filepath.Join(w, "out"), 1000, 1000)))
		at := filepath.Join(w, c.file)
		r := engine.Run(t, bin, "sandbox", "--no-tty", "-w", w, "--name", "job-1", "--id-file", idFile, "--receipt", at, "--", "sh", "-c", c.script)
		if strings.HasPrefix(c.script, "mv out") {
			at = filepath.Join(w, "old/r.txt")
		}
		text, err := os.ReadFile(at)
		id := strings.TrimSpace(string(env.Read(t, idFile)))
		if r.Code != c.status || err != nil || !strings.Contains(string(text), c.want) || !strings.Contains(string(text), id) {
			t.Errorf("%s, %s: %v, %v, %s", c.file, c.script, r, err, text)
		}
		// Of several ended ones with a name, it is the last one's.
		if named := engine.Run(t, bin, "receipt", "job-1"); named.Code != 0 || !strings.Contains(named.Stdout, id) {
			t.Errorf("receipt by name: %v, want %s", named, id)
		}
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("where the jail's links lead: %v, %v", left, err)
	}
	var list struct{ Jails []struct{ ID, Name string } }
	env.Check(t, json.Unmarshal([]byte(engine.Run(t, bin, "ls", "--json").Must(t)), &list))
	if list.Jails[0].Name != "job-1" {
		t.Errorf("ls: %+v", list.Jails[0])
	}
	first := exec.Command(bin, "sandbox", "--no-tty", "--name", "job-2", "-w", w, "--", "sh", "-c", "touch runs; exec sleep 1000")
	env.Check(t, first.Start())
	env.Eventually(t, "the first jail", func() bool { _, err := os.Stat(filepath.Join(w, "runs")); return err == nil })
	for _, args := range [][]string{{"--name", "job-2"}, {"--name", "a b"}, {"--receipt", "/proc/r.txt"}, {"--receipt", w}, {"--id-file", "/nowhere/id"}, {"--id-file", "/dev/null"}} {
		r := engine.Run(t, bin, append(append([]string{"sandbox", "--no-tty"}, args...), "--", "echo", "ran")...)
		if r.Code != 125 || r.Stdout != "" || !strings.Contains(r.Stderr, args[0]) {
			t.Errorf("%q: %v, want 125 before anything runs", args, r)
		}
	}
	_ = first.Process.Kill()
	if err := first.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
}
