package promise

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// The names of the promises about a process.
const (
	namespaces   = "eight namespaces of its own"
	hostIDs      = "container root is an unprivileged host uid"
	capabilities = "no capability in any set"
	noNewPrivs   = "no_new_privs"
	filters      = "two system call filters"
	module       = "AppArmor or SELinux"
	network      = "no network interface up but lo"
)

// aspects are what makes a process jailed, whatever it was started with: by the engine's run, by its exec, as any user. Each function states
// what is wrong, or nil.
var aspects = []struct {
	name  string
	wrong func(engine.Who) error
}{
	{namespaces, ownNamespaces},
	{hostIDs, ownIDs},
	{capabilities, func(w engine.Who) error {
		for _, set := range []string{"inheritable", "permitted", "effective", "bounding", "ambient"} {
			if caps := w.Caps[set]; caps == "" || strings.Trim(caps, "0") != "" {
				return fmt.Errorf("%s capabilities %q", set, caps)
			}
		}
		return nil
	}},
	{noNewPrivs, func(w engine.Who) error { return want("NoNewPrivs in /proc/self/status", w.NoNewPrivs, "1") }},
	{filters, func(w engine.Who) error {
		if err := want("the seccomp mode", w.Seccomp, "2"); err != nil || w.Filters == "" {
			return err
		}
		return want("the number of filters", w.Filters, "2")
	}},
	{module, confined},
	{network, func(w engine.Who) error { return want("interfaces that are up", strings.Join(w.Up, " "), "lo") }},
}

// want compares.
func want[V comparable](what string, got, want V) error {
	if got != want {
		return fmt.Errorf("%s: %v, not %v", what, got, want)
	}
	return nil
}

// Jailed tests everything that makes a process jailed, whatever it was started with, where the engine is root's: but the network,
// which may be the engine's (OnlyLo).
func Jailed(t testing.TB, what string, w engine.Who) {
	t.Helper()
	wholly(t, what, w, module, network)
}

// Held is Jailed for a jail whose host ids are the engine's to choose, as with an ordinary user's podman.
func Held(t testing.TB, what string, w engine.Who) {
	t.Helper()
	wholly(t, what, w, module, network, hostIDs)
}

// OnlyLo tests that no other network interface is there, not even one that is down: so it is where the engine plugs none in.
func OnlyLo(t testing.TB, what string, w engine.Who) {
	t.Helper()
	if err := want("interfaces", strings.Join(w.Links, " "), "lo"); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// Confined reports what of a process in an empty network is not a jail's: what Jailed looks at, the security module that this machine
// has, and its network.
func Confined(t testing.TB, what string, w engine.Who) {
	t.Helper()
	wholly(t, what, w)
}

func wholly(t testing.TB, what string, w engine.Who, but ...string) {
	t.Helper()
	if err := process(w, but...); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// process reports what of a process is not as in a jail.
func process(w engine.Who, but ...string) error {
	var wrong []string
	for _, a := range aspects {
		if slices.Contains(but, a.name) {
			continue
		}
		if err := a.wrong(w); err != nil {
			wrong = append(wrong, a.name+": "+err.Error())
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// kinds are all kinds of namespaces (namespaces(7)).
var kinds = []string{"pid", "net", "mnt", "user", "uts", "ipc", "cgroup", "time"}

// ownNamespaces compares with the namespaces of this process.
func ownNamespaces(w engine.Who) error {
	for _, kind := range kinds {
		host, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return err
		}
		if own := w.Namespaces[kind]; own == host || own == "" {
			return fmt.Errorf("the %s namespace is %q, the host's %q", kind, own, host)
		}
	}
	return nil
}

// firstRangeID is the lowest host id that a jail may have: of the tests' own pool (hack/alone.sh), which lies below the default one.
const firstRangeID = 0x70000000

func ownIDs(w engine.Who) error {
	for _, m := range []string{w.UIDMap, w.GIDMap} {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(m, &inside, &outside, &count); err != nil || inside != 0 || outside < firstRangeID || outside%65536 != 0 || count != 65536 || len(strings.Fields(m)) != 3 {
			return fmt.Errorf("id map %q", m)
		}
	}
	return nil
}

// seLinuxLabel is a jail's: the container domain, with a pair of categories (policy/modules container.te).
var seLinuxLabel = regexp.MustCompile(`^\S+:\S+:container_t:s0:c\d+,c\d+$`)

// confined does not check where the machine has no module: see withoutModule.
func confined(w engine.Who) error {
	switch {
	case hasAppArmor() && (!strings.Contains(w.Label, "agentjail-") || !strings.HasSuffix(w.Label, " (enforce)")):
		return fmt.Errorf("AppArmor's label is %q", w.Label)
	case hasSELinux() && !seLinuxLabel.MatchString(w.Label):
		return fmt.Errorf("SELinux's label is %q", w.Label)
	}
	return nil
}

func hasAppArmor() bool {
	text, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(text), "Y")
}

func hasSELinux() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// withoutModule is the reason why this machine cannot show that a module confines a process.
func withoutModule() string {
	if hasAppArmor() || hasSELinux() {
		return ""
	}
	return "this kernel has neither AppArmor nor SELinux on"
}

// Identity decodes the answer of `probe identity`.
func Identity(t testing.TB, answer string) engine.Who {
	t.Helper()
	var w engine.Who
	if err := json.Unmarshal([]byte(answer), &w); err != nil {
		t.Fatalf("the probe printed no JSON: %v\n%s", err, answer)
	}
	return w
}

// Service are the promises that a jail of policy service does not give as others do, with what stands in their place.
var Service = map[string]string{capabilities: "policy leaves six to the jail's root"}

// ServiceInSandbox are those where a sandbox runs the jail.
var ServiceInSandbox = map[string]string{
	capabilities: Service[capabilities],
	views:        "a person's writable directory is refused: chown in it would return success and change nothing",
}

// Rootless are the promises that a jail of an ordinary user's podman cannot give, with the reasons.
var Rootless = map[string]string{
	hostIDs:      "all jails of an ordinary user share the user's ids",
	module:       "an ordinary user cannot load a profile",
	memoryLimits: "an ordinary user has no control group to limit without systemd",
	pidsLimits:   "an ordinary user has no control group to limit without systemd; the resource limit bounds them (tests/podman)",
	ownHostIDs:   "all jails of an ordinary user share the user's ids",
	views:        "an ordinary user can make no view: refused (docs/workspace.md)",
}

// Shared are the promises that a container of runc alone keeps by chance, because this machine has nothing to break them with, and the
// reasons.
func Shared() (map[string]string, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 && l.Name != "lo" {
			return nil, nil
		}
	}
	return map[string]string{network: "this machine, whose network the container shares, has no interface up but lo"}, nil
}
