package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func init() {
	engine.Policies["agentjail-plain-environment"] = "[process]\nenvironment = false\n"
}

// TestEnvironmentDefaults: variables with which programs do without what no jail has are set where a process's
// environment lacks them, at create and exec, and not where the policy switches them off. What they bring is in the
// list of workloads ("sanitizers", "tar of others' files as root").
func TestEnvironmentDefaults(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const show = "env | grep _OPTIONS= | sort | tr '\\n' ' '"
	const leaks = "ASAN_OPTIONS=detect_leaks=0 LSAN_OPTIONS=detect_leaks=0"
	env.Equal(t, "of root", strings.TrimSpace(mustRunJail(d, engine.Busybox, "sh", "-c", show)), leaks+" TAR_OPTIONS=--no-same-owner")
	env.Equal(t, "of a user", strings.TrimSpace(mustRunJail(d, "-u", "1000", engine.Busybox, "sh", "-c", show)), leaks)
	env.Equal(t, "its own", strings.TrimSpace(mustRunJail(d, "-e", "TAR_OPTIONS=-v", "-e", "ASAN_OPTIONS=detect_leaks=1", engine.Busybox, "sh", "-c", show)), "ASAN_OPTIONS=detect_leaks=1 TAR_OPTIONS=-v")
	env.Equal(t, "switched off", strings.TrimSpace(d.Must("run", "--rm", "--runtime=agentjail-plain-environment", engine.Busybox, "sh", "-c", show)), "")
	id := sleeper(d, "-u", "1000")
	env.Equal(t, "of exec", strings.TrimSpace(sh(d, id, show)), leaks)
	env.Equal(t, "of exec as root", strings.TrimSpace(d.Must("exec", "-u", "0", id, "sh", "-c", show)), leaks+" TAR_OPTIONS=--no-same-owner")
	// busybox' tar reads no TAR_OPTIONS, and ends well although it cannot give the file away either.
	dir := directory(t, 1000)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	env.Check(t, errors.Join(w.WriteHeader(&tar.Header{Name: "f", Mode: 0o644, Uid: 1234, Gid: 1234, Size: 2}), second(w.Write([]byte("x\n"))), w.Close()))
	env.Put(t, filepath.Join(dir, "a.tar"), b.String(), 0o644, 1000)
	env.Equal(t, "busybox' tar", mustRunJail(d, "-v", dir+":/w", engine.Busybox, "sh", "-c", "cd /tmp; tar xf /w/a.tar; echo extract $?; cat f"), "extract 0\nx")
}

func second(_ int, err error) error { return err }
