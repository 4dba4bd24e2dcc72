package inside

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// profile is the one that every jail gets.
const profile = "agentjail-default"

// TestProfile: the profile is in force for every process of a jail, whatever the engine was
// requested.
func TestProfile(t *testing.T) {
	need(t, "apparmor")
	const want = profile + " (enforce)"
	each(t, func(t *testing.T, runtime string) {
		for _, options := range [][]string{nil, {"--privileged"}, {"--pid=host"}, {"--security-opt", "apparmor=unconfined"}} {
			if runtime != "--runtime="+runtimes[0] && len(options) == 2 {
				continue // the delegate has no influence in it
			}
			what := strings.Join(options, " ")
			id := detached(t, append([]string{runtime}, options...)...)
			pid := docker(t, "inspect", "-f", "{{.State.Pid}}", id)
			env.Equal(t, what, read(t, "/proc/"+pid+"/attr/current"), want)
			env.Equal(t, what+" exec --privileged", docker(t, "exec", "--privileged", "-u", "0", id, "cat", "/proc/self/attr/current"), want)
		}
		env.Equal(t, "exec", docker(t, "exec", aJail(t, runtime), "cat", "/proc/self/attr/current"), want)
	})
}

// TestServiceProfile: a jail whose root keeps capabilities has a profile that permits these and no others, and no other jail has it.
func TestServiceProfile(t *testing.T) {
	need(t, "apparmor")
	const service = "--runtime=agentjail-service"
	id := detached(t, service, "--privileged")
	env.Equal(t, "first process", docker(t, "exec", id, "cat", "/proc/1/attr/current"), "agentjail-service (enforce)")
	env.Equal(t, "exec", docker(t, "exec", "--privileged", "-u", "0", id, "cat", "/proc/self/attr/current"), "agentjail-service (enforce)")
	env.Equal(t, "another owner", docker(t, "exec", id, "sh", "-c", "touch /f && chown 33:33 /f && stat -c %u:%g /f"), "33:33")
	for _, refused := range []string{"mount -t tmpfs none /mnt", "chroot / true", "mknod /dev/x b 8 0"} {
		if r := run(t, "docker", "exec", "--privileged", id, "sh", "-c", refused); r.Code == 0 {
			t.Errorf("%s: %s", refused, r)
		}
	}
	env.Equal(t, "another jail", docker(t, "run", "--rm", "--runtime=agentjail", image, "cat", "/proc/self/attr/current"), profile+" (enforce)")
}

// TestProfileStacks: a profile made for this container stays in force beside agentjail's.
func TestProfileStacks(t *testing.T) {
	need(t, "apparmor")
	const mine = "a-vm-test" // the kernel lists it before agentjail's
	load(t, "profile "+mine+" { file, deny /tmp/forbidden rw, unix, signal, }")
	each(t, func(t *testing.T, runtime string) {
		id := detached(t, runtime, "--security-opt", "apparmor="+mine)
		label := docker(t, "exec", id, "cat", "/proc/self/attr/current")
		if !strings.Contains(label, mine) || !strings.Contains(label, profile) {
			t.Errorf("label %q", label)
		}
		if r := run(t, "docker", "exec", id, "touch", "/tmp/forbidden"); r.Code == 0 {
			t.Error("the container's own profile does not hold")
		}
	})
}

// TestDelegateProfile: distributions give delegates a profile that confines nothing. A jail has its
// own alone all the same, under which its processes signal each other. One that confines is not
// left.
func TestDelegateProfile(t *testing.T) {
	need(t, "apparmor")
	const want = profile + " (enforce)"
	for _, name := range []string{"crun", "runc"} {
		load(t, "abi <abi/4.0>, profile "+name+" /usr/{bin,sbin}/"+name+" flags=(unconfined) { userns, }")
	}
	const left = "/crun: crun (unconfined), which confines nothing and is left"
	if r := run(t, "agentjail", "check", "-v"); !strings.Contains(r.Stdout, left) {
		t.Errorf("check does not state %q: %s", left, r)
	}
	each(t, func(t *testing.T, runtime string) {
		id := detached(t, runtime)
		env.Equal(t, "first process", docker(t, "exec", id, "cat", "/proc/1/attr/current"), want)
		env.Equal(t, "exec", docker(t, "exec", id, "cat", "/proc/self/attr/current"), want)
		docker(t, "exec", id, "sh", "-c", "sleep 1000 & kill $!")
	})
	env.Equal(t, "crun alone", docker(t, "run", "--rm", "--runtime=crun", "--security-opt=no-new-privileges", "--security-opt=apparmor="+profile, image, "cat", "/proc/self/attr/current"),
		profile+"//&crun (mixed)")
	replace(t, "abi <abi/4.0>, profile crun /usr/{bin,sbin}/crun { all, }")
	if r := run(t, "docker", "run", "--rm", "--runtime=agentjail-crun", image, "true"); r.Code == 0 || !strings.Contains(r.String(), "crun") {
		t.Errorf("with a profile that confines the delegate: %s", r)
	}
	const stays = "/crun: crun (enforce), which stays and would confine the jail's init step"
	if r := run(t, "agentjail", "check", "-v"); !strings.Contains(r.Stdout, stays) || !strings.Contains(r.Stdout, "aa-disable crun") {
		t.Errorf("check does not state %q: %s", stays, r)
	}
}

// load loads a profile for the length of the test.
func load(t *testing.T, text string) {
	t.Helper()
	file := t.TempDir() + "/profile"
	env.Check(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	must(t, "apparmor_parser", "--replace", "--skip-cache", file)
	t.Cleanup(func() { must(t, "apparmor_parser", "--remove", file) })
}

// TestProfileComesBack: a profile that was unloaded, or no longer enforces, is loaded before the
// next jail starts.
func TestProfileComesBack(t *testing.T) {
	need(t, "apparmor")
	defer removeShared(t)
	docker(t, "run", "--rm", "--runtime=agentjail", image, "true") // it is there
	for name, spoil := range map[string]func(){
		"unloaded": func() {
			env.Check(t, os.WriteFile("/sys/kernel/security/apparmor/.remove", []byte(profile), 0))
		},
		"complaining":    func() { replace(t, "profile "+profile+" flags=(complain) { file, }") },
		"another's text": func() { replace(t, "profile "+profile+" { file, network, mount, capability, }") },
	} {
		spoil()
		got := docker(t, "run", "--rm", "--runtime=agentjail", image, "sh", "-c", "cat /proc/self/attr/current")
		env.Equal(t, name, got, profile+" (enforce)")
		if r := run(t, "docker", "run", "--rm", "--network=none", "--runtime=runc", "--cap-add=ALL", "--security-opt=seccomp=unconfined",
			"--security-opt=apparmor="+profile, image, "mount", "-t", "tmpfs", "none", "/tmp"); r.Code == 0 {
			t.Errorf("%s: the profile allows mounting", name)
		}
	}
}

// TestProfileCannotBeLoaded: a jail whose policy requires a security module does not start without
// the profile, and states why; by default it starts, keeps the engine's own profile, and reports what
// is missing.
func TestProfileCannotBeLoaded(t *testing.T) {
	need(t, "apparmor")
	defer removeShared(t)
	docker(t, "run", "--rm", "--runtime=agentjail-strict", image, "true") // while it can be loaded, it starts
	const parser = "/usr/sbin/apparmor_parser"
	env.Check(t, os.Rename(parser, parser+".away"))
	defer func() {
		env.Check(t, os.Rename(parser+".away", parser))
		docker(t, "run", "--rm", "--runtime=agentjail", image, "true") // it comes back
	}()
	env.Check(t, os.WriteFile("/sys/kernel/security/apparmor/.remove", []byte(profile), 0))
	r := run(t, "docker", "run", "--rm", "--runtime=agentjail-strict", image, "echo", "started")
	if r.Code == 0 || r.Stdout != "" || !strings.Contains(r.Stderr, "policy requires AppArmor") || !strings.Contains(r.Stderr, "apparmor_parser") {
		t.Errorf("required: %s", r)
	}
	id := detached(t, "--runtime=agentjail")
	const engines = "docker-default (enforce)"
	env.Equal(t, "not required", read(t, "/proc/"+docker(t, "inspect", "-f", "{{.State.Pid}}", id)+"/attr/current"), engines)
	env.Equal(t, "not required, exec --privileged", docker(t, "exec", "--privileged", id, "cat", "/proc/self/attr/current"), engines)
	if r := run(t, "agentjail", "inspect", id); r.Code != 0 || !strings.Contains(r.Stdout, "apparmor_parser") {
		t.Errorf("the output does not name what is missing: %s", r)
	}
}

func replace(t *testing.T, text string) {
	t.Helper()
	file := t.TempDir() + "/profile"
	env.Check(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	must(t, "apparmor_parser", "--replace", "--skip-cache", file)
}

// onlyAppArmor are attempts of the probe that go through when everything but the profile is
// switched off. Each must fail with it.
var onlyAppArmor = []string{
	"mount_tmpfs", "mount_bind", "chroot", "mknod_block", "sethostname", "socket_packet", "socket_raw4", "unshare_mount", "unshare_net",
}

// TestOnlyAppArmor takes every other protection away (plain runc, host ids, all capabilities, no
// filter, /proc and /sys writable) and lets the probe try: with the profile alone each attempt
// fails that succeeds without.
func TestOnlyAppArmor(t *testing.T) {
	need(t, "apparmor")
	docker(t, "run", "--rm", "--runtime=agentjail", image, "true") // loads it
	bare := []string{"run", "--rm", "--runtime=runc", "--cap-add=ALL", "--security-opt=seccomp=unconfined", "--security-opt=systempaths=unconfined"}
	ask := func(option string, words ...string) map[string]struct{ Errno, Note string } {
		t.Helper()
		text := docker(t, append(append(append([]string{}, bare...), option, image, "probe"), words...)...)
		all := map[string]struct{ Errno, Note string }{}
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("the probe states %q: %v", text, err)
		}
		return all
	}
	attempts := append([]string{"attempts"}, onlyAppArmor...)
	free := ask("--security-opt=apparmor=unconfined", attempts...)
	held := ask("--security-opt=apparmor="+profile, attempts...)
	for _, name := range onlyAppArmor {
		switch o, ok := free[name]; {
		case !ok:
			t.Errorf("the probe does not try %s", name)
		case o.Errno != "":
			t.Errorf("%s fails even without the profile: %s %s", name, o.Errno, o.Note)
		case held[name].Errno == "":
			t.Errorf("%s goes through with the profile: %s", name, held[name].Note)
		}
	}
	// The kernel's knobs: all that gave way before holds now.
	gave := map[string]string{}
	for option, into := range map[string]*map[string]string{"unconfined": nil, profile: &gave} {
		text := docker(t, append(append([]string{}, bare...), "--security-opt=apparmor="+option, image, "probe", "attack")...)
		all := map[string]string{}
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("the probe states %q: %v", text, err)
		}
		if into != nil {
			*into = all
		} else if len(all) < 5 {
			t.Errorf("without the profile only %d things give way: %v", len(all), all)
		}
	}
	for what, how := range gave {
		if !strings.HasPrefix(what, "write /sys/fs/cgroup/") { // read-only by a mount in every jail
			t.Errorf("with the profile: %s: %s", what, how)
		}
	}
}
