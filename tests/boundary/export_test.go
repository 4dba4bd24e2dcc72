package boundary

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestExportedBundleRuns: the hardened bundle runs in runc and, adapted, in systemd-nspawn, where it loses what `export` lists.
func TestExportedBundleRuns(t *testing.T) {
	b := engine.NewBundle(t, "/var/tmp")
	c := engine.Caller{Path: bin, Args: []string{"--root", filepath.Join(b.Dir, "state")}}
	b.Spec.Process.Args = []string{"sleep", "1000"}
	b.Write(t)
	id := b.ID()
	for _, args := range [][]string{{"create", "--bundle", b.Dir, id}, {"start", id}} {
		if _, _, err := b.Call(t, c, args...); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _, _ = b.Call(t, c, "delete", "--force", id) })
	status := "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status"
	for _, target := range []string{"", "nspawn"} {
		dir := filepath.Join(engine.TempDir(t, "/var/tmp", "agentjail-export-"), "bundle")
		args := []string{"export", "--bundle"}
		if target != "" {
			args = append(args, "--for", target)
		}
		r := engine.Run(t, bin, append(args, id, dir)...)
		if r.Code != 0 || !strings.Contains(r.Stderr, "not in the bundle: the init step") {
			t.Fatal(r)
		}
		if r := engine.Run(t, bin, append(args, id, dir)...); r.Code == 0 {
			t.Errorf("a directory that was there is written to: %s", r)
		}
		config := filepath.Join(dir, "config.json")
		text := env.Read(t, config)
		changed := strings.Replace(string(text), `"sleep",`, `"sh", "-c",`, 1)
		env.Check(t, os.WriteFile(config, []byte(strings.Replace(changed, `"1000"`, `"`+status+`"`, 1)), 0o600))
		if target == "" {
			runc, err := exec.LookPath("/usr/sbin/runc")
			if err != nil {
				t.Skip(err)
			}
			out := engine.Run(t, runc, "--root", filepath.Join(dir, "state"), "run", "--bundle", dir, id+"-exported")
			if strings.Join(strings.Fields(out.Stdout), " ") != "CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2" {
				t.Errorf("runc: %s", out)
			}
			continue
		}
		for _, want := range []string{"the system call filter", "no_new_privs", "read-only paths", "limits of resources"} {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("%q is not reported as missing: %s", want, r)
			}
		}
		nspawn, err := exec.LookPath("systemd-nspawn")
		if err != nil {
			t.Skip("no systemd-nspawn (apt-get install systemd-container)")
		}
		out := engine.Run(t, nspawn, "--quiet", "--keep-unit", "--register=no", "--oci-bundle="+dir)
		if !strings.Contains(out.Stdout, "NoNewPrivs:\t0") || strings.Contains(out.Stdout, "CapEff:\t0000000000000000") {
			t.Errorf("nspawn: %s", out)
		}
	}
}
