package cloud

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

const verdictFile = "/var/log/agentjail-host.verdict"

// TestCloudInit: cloud-init took the user data without an error, and the machine is what they state. What it needs of the network is in the
// machine's image, and the address of the package that of a file.
func TestCloudInit(t *testing.T) {
	if os.Getenv(madeEnv) == "" {
		// Not skipped: this machine is booted by name only, and no test may be skipped everywhere.
		t.Log("nothing to look at: only in the virtual machine that cloud-init makes (go run ./hack/vm -machine cloud)")
		return
	}
	if r := run(t, "cloud-init", "schema", "--config-file", "/work/user-data"); r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, "deprecat") {
		t.Error(r)
	}
	r := run(t, "cloud-init", "status", "--wait", "--format", "json")
	var status struct {
		Status      string
		Errors      []string
		Recoverable map[string][]string `json:"recoverable_errors"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &status); err != nil || r.Code != 0 || status.Status != "done" || len(status.Errors)+len(status.Recoverable) > 0 {
		said, _ := os.ReadFile("/var/log/cloud-init-output.log")
		t.Errorf("%s (%v)\n%s", r, err, said)
	}
	verdict, err := os.ReadFile(verdictFile)
	if err != nil || !strings.HasPrefix(string(verdict), "agentjail-host: ok: jails are Docker's default here; agentjail ") {
		t.Fatalf("the verdict: %q (%v)\n%s\n%s", verdict, err, run(t, "journalctl", "--no-pager", "--lines", "50", "--unit", "docker"), run(t, "ausearch", "--message", "AVC,SECCOMP"))
	}
	t.Logf("%s%s", verdict, must(t, "cloud-init", "analyze", "show"))
	env.Check(t, importBusybox(t))
	t.Run("hardened", hardened)
	t.Run("compatibility", compatibility)
	t.Run("other package", otherPackage)
}

// hardened: the host is as the user data have it, beside its engine.
func hardened(t *testing.T) {
	suggested := must(t, "cat", "/usr/share/agentjail/sysctl.d/90-agentjail.conf")
	if got := must(t, "cat", "/etc/sysctl.d/90-agentjail.conf"); got != suggested {
		t.Errorf("at the next boot the kernel gets\n%s", got)
	}
	for line := range strings.SplitSeq(suggested, "\n") {
		key, want, found := strings.Cut(line, " = ")
		if !found || strings.HasPrefix(key, "#") {
			continue
		}
		if got := must(t, "sysctl", "-n", key); got != want {
			t.Errorf("%s is %s, not %s", key, got, want)
		}
	}
	if r := run(t, "agentjail", "check", "-v"); r.Code != 0 || strings.Contains(r.Stdout, "missing ") || !strings.Contains(r.Stdout, "ok       ring 2  open files ") {
		t.Error(r)
	}
	for what, command := range map[string][]string{
		`APT::Periodic::Unattended-Upgrade "1";`:    {"apt-config", "dump"},
		"key=agentjail":                             {"auditctl", "-l"},
		"/var/log/journal/":                         {"sh", "-c", "journalctl --header | grep '^File path'"},
		`"live-restore": true`:                      {"cat", "/etc/docker/daemon.json"},
		"profiles are in enforce mode":              {"aa-status"},
		"agentjail-default":                         {"aa-status"},
		"enabled\nenabled\nenabled\nenabled":        {"systemctl", "is-enabled", "docker", "auditd", "unattended-upgrades", "apt-daily-upgrade.timer"},
		"install ok installed install ok installed": {"dpkg-query", "-W", "-f", "${Status} ", "agentjail", "auditd"},
		"agentjail io.containerd.runc.v2":           {"docker", "info", "--format", "{{.DefaultRuntime}} {{range $k, $v := .Runtimes}}{{$k}} {{end}}"},
	} {
		if r := run(t, command...); !strings.Contains(r.Stdout, what) {
			t.Errorf("no %q: %s", what, r)
		}
	}
}

// compatibility: what docs/compatibility.md states holds of a container that was not requested as a jail, with the programs of the package.
func compatibility(t *testing.T) {
	if path := must(t, "sh", "-c", "command -v agentjail"); path != "/usr/bin/agentjail" {
		t.Errorf("agentjail is %s", path)
	}
	dir := t.TempDir()
	env.Check(t, os.Chown(dir, 1000, 1000))
	for _, s := range engine.Symptoms {
		if err := s.Met(run(t, append([]string{"docker", "run", "--rm"}, s.Args(dir)...)...)); err != nil {
			t.Error(err)
		}
	}
}

// otherPackage: one whose sum is another's is not installed, and the verdict reports it.
func otherPackage(t *testing.T) {
	before := must(t, "dpkg-query", "-W", "agentjail")
	file := must(t, "sh", "-c", "echo /work/packages/*test2/agentjail_*.deb")
	if r := run(t, "/usr/local/sbin/agentjail-host", "file:"+file, strings.Repeat("0", 64)); r.Code == 0 {
		t.Error(r)
	}
	if verdict := must(t, "cat", verdictFile); !strings.HasPrefix(verdict, "agentjail-host: FAILED to download the package") {
		t.Errorf("the verdict: %s", verdict)
	}
	if after := must(t, "dpkg-query", "-W", "agentjail"); after != before {
		t.Errorf("installed is %s", after)
	}
}

func importBusybox(t *testing.T) error {
	var tree bytes.Buffer
	if err := engine.BusyboxTree(&tree); err != nil {
		return err
	}
	file := t.TempDir() + "/busybox.tar"
	if err := os.WriteFile(file, tree.Bytes(), 0o644); err != nil {
		return err
	}
	must(t, "docker", "import", file, engine.Busybox)
	return nil
}
