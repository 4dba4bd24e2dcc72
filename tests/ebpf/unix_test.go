package ebpf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestHostSockets: a socket of the host's that comes while a jail runs is refused to it and reported, whether its ids or its registration show the
// programs that it is a jail. Sockets of its own are not, and neither are the host's where policy lists some.
func TestHostSockets(t *testing.T) {
	if can, err := needsPrograms(t); can != ebpf.Blocks {
		t.Skipf("programs refuse nothing on this kernel: %v", err)
	}
	p := newPlace(t)
	mountBPF(t)
	p.unloadAtEnd(t, ebpf.Pins)
	c := p.collect(t)
	path := p.runtime(t)
	for name, row := range map[string]struct {
		policy string
		listed bool
	}{
		"by ids": {"", false}, "registered": {"ebpf.block = [\"trace\"]\n", false}, "listed": {"binds.sockets = [\"/nowhere/x\"]\n", true},
	} {
		dir := engine.TempDir(t, p.base, "work-")
		env.Check(t, engine.FillWorkspace(dir, nil))
		b := p.bundle(t)
		b.Mount(dir, "/work/mounted")
		caller := p.caller(path, "")
		config := filepath.Join(t.TempDir(), "config.toml")
		env.Check(t, os.WriteFile(config, []byte(row.policy), 0o644))
		caller.Args = append(caller.Args, "--config", config)
		end := stays(t, b, caller, "probe own-endpoints /tmp /work/mounted; touch /work/mounted/waits; until [ -e /work/mounted/go ]; do sleep .1; done; probe endpoints /work/mounted")
		env.Eventually(t, "the jail waits", func() bool {
			_, err := os.Lstat(dir + "/waits")
			return err == nil
		})
		listen := engine.ListenIn(t, dir)
		env.Check(t, os.WriteFile(dir+"/go", nil, 0o644))
		own, tried, _ := strings.Cut(env.Get(t, end), "\n")
		for what, o := range env.Decode[map[string]engine.Outcome](t, own) {
			if o.Errno != "" {
				t.Errorf("%s: a socket of the jail's own: %s: %+v", name, what, o)
			}
		}
		isPipe := func(path string) bool { return strings.Contains(path, "pipe") }
		if row.listed {
			if got := env.Decode[map[string]engine.Outcome](t, tried); got["/work/mounted/stream"].Errno != "" {
				t.Errorf("policy lists sockets: %v", got)
			}
			continue
		}
		listen.Kept(t, name, tried, isPipe)
		for at, o := range env.Decode[map[string]engine.Outcome](t, tried) {
			if !isPipe(at) && o.Errno != "EPERM" {
				t.Errorf("%s: %s: %+v", name, at, o)
			}
		}
		c.await(t, "an event of a refused socket", func() bool {
			return c.find(func(e *journal.Event) bool {
				return e.Kind == journal.UnixBlocked && e.Path == dir+"/stream" && e.Errno == "EPERM" && e.Jail != ""
			}) != nil
		})
	}
}
