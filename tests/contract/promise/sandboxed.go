package promise

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/tests/engine"
)

// Jails behind a sandbox (runtime/spec/traits) keep a promise in one of three places: on the sandbox's processes, which the host sees; in
// the guest kernel, which is checked from inside; or nowhere.

// void are promises that a sandbox does not give, with what stands in their place.
var void = map[string]string{
	"a signal does not leave the Landlock domain": "void: the guest kernel has no Landlock; its processes are the jail's alone",
	"AppArmor or SELinux":                         "void: the sandbox's own filter and ids",
}

// sandboxed are the promises that are looked for elsewhere than on the jail's own processes. The others hold there as in any jail, by the
// guest kernel.
var sandboxed = map[string]func(*Subject) error{
	namespaces: func(s *Subject) error { return outsideNamespaces(s.Jail.PID) },
	hostIDs: func(s *Subject) error {
		w, err := outside(s.Jail.PID)
		if err == nil {
			err = ownIDs(w)
		}
		return err
	},
	"an exec is in the first process's world":                  sameGuest,
	"nothing that the probe tries gets through":                guestAttempts,
	"no file of the kernel's takes a write":                    hostKeepsFiles,
	"masked and read-only paths, also when privileged":         guestPaths,
	"the standard devices and no others, also when privileged": guestDevices,
	pidsLimits: func(s *Subject) error {
		limit := engine.CgroupLimit(s.Jail.PID, "pids", "pids.max", "pids.max")
		return most("processes, the sandbox's included", limit, uint64(s.Traits.Pids(mostPids)))
	},
	ownHostIDs: outsideApart,
}

// under sets the traits of the delegate that the tests' agentjail has.
func (s *Subject) under() { s.Traits = traits.Of(os.Getenv(engine.DelegateEnv)) }

// Sandbox is the boundary of the delegate that the tests' agentjail has; "" is the host's kernel.
func Sandbox() string { return traits.Of(os.Getenv(engine.DelegateEnv)).Sandbox }

// wrong is the promise's question, as it is put to a jail of this delegate.
func (s *Subject) wrong(p Promise) error {
	if f := sandboxed[p.Name]; f != nil && s.Traits.Sandbox != "" {
		return f(s)
	}
	return p.Wrong(s)
}

// sandboxKinds are the namespaces that a sandbox has.
var sandboxKinds = []string{"pid", "net", "mnt", "user", "uts", "ipc"}

// outside is what the host sees of a sandbox's process.
func outside(pid int) (w engine.Who, err error) {
	w.Namespaces = map[string]string{}
	for _, kind := range sandboxKinds {
		if w.Namespaces[kind], err = os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); err != nil {
			return w, err
		}
	}
	for name, to := range map[string]*string{"uid_map": &w.UIDMap, "gid_map": &w.GIDMap} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			return w, err
		}
		*to = strings.Join(strings.Fields(string(text)), " ")
	}
	return w, nil
}

func outsideNamespaces(pid int) error {
	w, err := outside(pid)
	if err != nil {
		return err
	}
	for kind, own := range w.Namespaces {
		if host, err := os.Readlink("/proc/self/ns/" + kind); err != nil || own == host {
			return fmt.Errorf("the sandbox's %s namespace is %q, the host's %q, %w", kind, own, host, err)
		}
	}
	return nil
}

func outsideApart(s *Subject) error {
	a, err := outside(s.Jail.PID)
	if err != nil {
		return err
	}
	b, err := outside(s.other.PID)
	if err != nil {
		return err
	}
	if a.UIDMap == b.UIDMap || a.GIDMap == b.GIDMap {
		return fmt.Errorf("two have the id maps %s and %s", a.UIDMap, a.GIDMap)
	}
	for kind, own := range a.Namespaces {
		if own == b.Namespaces[kind] {
			return fmt.Errorf("two share the %s namespace", kind)
		}
	}
	return nil
}

// sameGuest compares with the first process's namespaces of the guest kernel.
func sameGuest(s *Subject) error {
	for _, kind := range sandboxKinds {
		r := s.Jail.Exec("sh", "-c", "readlink /proc/1/ns/"+kind+"; readlink /proc/self/ns/"+kind)
		if f := strings.Fields(r.Stdout); r.Code != 0 || len(f) != 2 || f[0] != f[1] {
			return fmt.Errorf("the %s namespace: %s", kind, r)
		}
	}
	return nil
}

// guestAttempts are the probe's, but for those that reach nothing but the guest kernel.
func guestAttempts(s *Subject) error {
	all, err := answer[map[string]engine.Outcome](s.Jail.Exec("probe", "attempts"))
	if err != nil {
		return err
	}
	if len(all) < 50 {
		return fmt.Errorf("only %d attempts were made", len(all))
	}
	var through []string
	for name, o := range all {
		if !engine.Refused(name, o) && !slices.Contains(s.Permits, name) && name != "nice_negative" { // the guest's own scheduler
			through = append(through, strings.TrimSpace(name+" "+o.Errno))
		}
	}
	slices.Sort(through)
	return none("these get through", through)
}

// hostFiles are files of the host's kernel that the probe writes to, where it can.
func (s *Subject) hostFiles() string {
	var b strings.Builder
	for _, path := range []string{
		"/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/core_pattern", fmt.Sprintf("/proc/%d/oom_score_adj", s.Jail.PID),
	} {
		text, err := os.ReadFile(path)
		fmt.Fprintln(&b, path, string(text), err)
	}
	for _, l := range [][3]string{{"pids", "pids.max", "pids.max"}, {"memory", "memory.limit_in_bytes", "memory.max"}} {
		fmt.Fprintln(&b, l[0], engine.CgroupLimit(s.Jail.PID, l[0], l[1], l[2]))
	}
	return b.String()
}

// hostKeepsFiles: what gives way is the guest kernel's, and nothing of the host's changes.
func hostKeepsFiles(s *Subject) error {
	before := s.hostFiles()
	if _, err := answer[map[string]string](s.Jail.Exec("probe", "attack")); err != nil {
		return err
	}
	if after := s.hostFiles(); after != before {
		return fmt.Errorf("the host's files were %s and are %s", before, after)
	}
	return nil
}

// guestPaths: files that describe the machine describe the guest's, which has neither firmware nor keys of the host.
func guestPaths(s *Subject) error {
	read, err := answer[map[string]engine.Outcome](s.Run(s.TB, true, append([]string{"probe", "read"}, maskedPaths...)...))
	if err != nil {
		return err
	}
	for path, o := range read {
		if o.Errno == "" && o.Text != "" {
			return errors.New("readable: " + path)
		}
	}
	return hostKeepsFiles(s)
}

// guestDevices are the sentry's own, none of which is a device of the host's.
var guestOwnDevices = []string{"agentjail-step", "char", "fuse", "net"}

func guestDevices(s *Subject) error {
	r := s.Run(s.TB, true, "ls", "/dev")
	if r.Code != 0 {
		return fmt.Errorf("%w: %s", ErrNoAnswer, r)
	}
	return none("further devices", slices.DeleteFunc(strings.Fields(r.Stdout), func(d string) bool {
		return slices.Contains(standardDevices, d) || slices.Contains(guestOwnDevices, d)
	}))
}
