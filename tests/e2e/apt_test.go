package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestApt: apt of an untouched Debian image updates its lists in a jail, where it cannot become another user. The setting for
// that is in no layer of the engine's, and an image's own setting stays.
func TestApt(t *testing.T) {
	needAgentjail(t)
	if _, err := os.Stat("/usr/bin/apt-get"); err != nil {
		t.Skip("no apt on this machine:", err)
	}
	d := d(t)
	env.Check(t, docker.ImportApt())
	env.Contain(t, "apt's setting", mustRunJail(d, engine.Apt, "apt-config", "dump", "APT::Sandbox::User"), `APT::Sandbox::User "root";`)
	id := d.Detached(jail, "--entrypoint", "", engine.Apt, "apt-get", "-q", "update")
	code := d.Must("wait", id)
	logs := d.Docker("logs", id)
	if code != "0" || strings.Contains(logs.Stdout+logs.Stderr, "setgroups") || strings.Contains(logs.Stdout+logs.Stderr, "E: ") {
		t.Errorf("apt-get update ends with %s: %s", code, logs)
	}
	upper := d.Must("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", id)
	if _, err := os.Lstat(upper + "/etc/apt"); err == nil {
		t.Error("the engine's layer has apt's setting")
	}
}

// packages are what a stock Debian installs in TestAptStock: name, the script after unpacking, and a file with its mode.
var packages = []struct {
	name, postinst, file string
	mode                 os.FileMode
}{
	{"hello-jail", "echo configured", "usr/bin/hello-jail", 0o755},
	// The shape of openssh-client: a program of a group of its own, which the script makes.
	{"agent-jail", `groupadd --system _jail
useradd --system --no-create-home _jailer
dpkg-statoverride --list /usr/bin/ssh-agent >/dev/null || { chgrp _jail /usr/bin/ssh-agent; chmod 2755 /usr/bin/ssh-agent; }`, "usr/bin/ssh-agent", os.ModeSetgid | 0o755},
	{"other-jail", "true", "usr/bin/other-jail", 0o755},
	{"set-id-jail", "true", "usr/bin/set-id-jail", os.ModeSetuid | 0o755},
}

// aptRepository makes a repository of packages that apt reads by file: and by HTTP.
func aptRepository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	env.Check(t, err)
	repo := filepath.Join(dir, "repo")
	var index strings.Builder
	for _, p := range packages {
		root := filepath.Join(dir, p.name)
		for _, d := range []string{filepath.Join(root, "DEBIAN"), filepath.Join(root, filepath.Dir(p.file)), repo} {
			env.Check(t, os.MkdirAll(d, 0o755))
		}
		control := fmt.Sprintf("Package: %s\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: test\n", p.name)
		env.Put(t, filepath.Join(root, "DEBIAN/control"), control, 0o644, 0)
		env.Put(t, filepath.Join(root, "DEBIAN/postinst"), "#!/bin/sh\nset -e\n"+p.postinst+"\n", 0o755, 0)
		env.Put(t, filepath.Join(root, p.file), "#!/bin/sh\necho "+p.name+"\n", 0o755, 0)
		env.Check(t, os.Chmod(filepath.Join(root, p.file), p.mode))
		deb := filepath.Join(repo, p.name+".deb")
		if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", root, deb).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text := string(env.Read(t, deb))
		fmt.Fprintf(&index, "%sFilename: ./%s.deb\nSize: %d\nSHA256: %x\n\n", control, p.name, len(text), sha256.Sum256([]byte(text)))
	}
	env.Put(t, filepath.Join(repo, "Packages"), index.String(), 0o644, 0)
	env.Check(t, os.Chown(repo, 1000, 1000))
	return repo
}

// aptScript installs from the source that stands in its first argument, and shows nothing that differs from run to run.
const aptScript = `set -e; exec 2>&1; export DEBIAN_FRONTEND=noninteractive
echo "deb [trusted=yes] $1 ./" > /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*
apt-get -qq update; apt-get -qq -o Dpkg::Use-Pty=0 install -y hello-jail agent-jail | grep -v -e '^Selecting' -e Reading -e '^Preparing' -e debconf
hello-jail; ssh-agent; getent group _jail | cut -d: -f1; getent passwd _jailer | cut -d: -f1; apt-get -qq remove -y hello-jail > /dev/null; command -v hello-jail || echo removed
if [ -e /repo/other-jail.deb ]; then dpkg -i /repo/other-jail.deb > /dev/null; other-jail; fi; useradd -m dev; id -un dev; apt-get -qq -y upgrade; dpkg --audit; echo end`

// TestAptStock: apt and dpkg of a stock Debian update, install, remove and upgrade as a jail's root, from a directory and
// over the engine's network, and print what they print under runc. A program that would be set-id is installed without.
func TestAptStock(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	env.Check(t, docker.ImportStock())
	repo := aptRepository(t)
	mount := []string{"-v", repo + ":/repo:ro", engine.Stock, "sh", "-c", aptScript, "sh", "file:/repo"}
	want := d.Docker(append([]string{"run", "--rm", "--runtime=runc", "--network=none"}, mount...)...)
	if want.Code != 0 || !strings.HasSuffix(want.Stdout, "end\n") {
		t.Fatalf("under runc: %s", want)
	}
	got := runJail(d, mount...)
	if got.Code != 0 {
		t.Errorf("in a jail: %s", got)
	}
	env.Equal(t, "what a jail prints, from a directory", got.Stdout, want.Stdout)
	env.Equal(t, "the mode of a set-id program", mustRunJail(d, "-v", repo+":/repo:ro", engine.Stock, "sh", "-c", "dpkg -i /repo/agent-jail.deb >/dev/null; stat -c '%a %U %G' /usr/bin/ssh-agent"), "755 root root")
	r := runJail(d, "-v", repo+":/repo:ro", engine.Stock, "dpkg", "-i", "/repo/set-id-jail.deb")
	env.Contain(t, "a set-id program that no list has", r.Stderr, "error setting permissions of './usr/bin/set-id-jail': Operation not permitted")
	if len(d.Degraded) > 0 {
		t.Log("not over the network, which is limited here:", d.Degraded)
		return
	}
	const network = "e2e-apt"
	d.Must("network", "create", network)
	t.Cleanup(func() { d.Docker("network", "rm", network) })
	server := d.Detached("--runtime=runc", "--network", network, "--name", "e2e-apt-server", "-v", repo+":/repo:ro", engine.Busybox, "httpd", "-f", "-p", "80", "-h", "/repo")
	env.Eventually(d, "the repository", func() bool {
		return d.Docker("exec", server, "wget", "-q", "-O", "/dev/null", "http://127.0.0.1/Packages").Code == 0
	})
	over := d.Docker("run", "--rm", "--runtime=agentjail-net", "--network", network, engine.Stock, "sh", "-c", aptScript, "sh", "http://e2e-apt-server/")
	env.Equal(t, "what a jail prints, over the network", over.Stdout, strings.Replace(want.Stdout, "other-jail\n", "", 1))
}
