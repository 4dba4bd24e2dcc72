package guest

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/spec/rings"
)

// checks are the protections that have to be in force before anything of the image runs. Each check
// returns the fault, or "". guest is the check in a kernel of the jail's own; nil if the host holds
// the protection from outside.
var checks = []struct {
	name       string
	ring       rings.Ring
	run, guest func(*jailinit.Orders) string
}{
	{"ids", rings.Access, ids, guestIDs},
	{"namespaces", rings.Resources, namespaces, nil},
	{"status", rings.Access, status, status},
	{"seccomp", rings.Kernel, filtered, filtered},
	{"label", rings.Access, label, nil},
	{"network", rings.Resources, network, network},
	{"cwd", rings.Access, cwd, cwd},
	{"files", rings.Access, files, files},
	{"mounts", rings.Access, mounts, guestMounts},
	{"limits", rings.Resources, limits, nil},
	{"oom score", rings.Resources, oomScore, nil},
}

// check looks at every ring and names all that is broken.
func check(o *jailinit.Orders) error {
	var out []string
	for _, c := range checks {
		if slices.Contains(o.Without, c.name) {
			continue
		}
		run := c.run
		if o.Guest {
			run = c.guest
		}
		if run == nil {
			continue
		}
		if why := run(o); why != "" {
			out = append(out, c.ring.String()+": "+why)
		}
	}
	if out == nil {
		return nil
	}
	return refusal(strings.Join(out, "; "))
}

// ids: the jail's user namespace has the mapping that was assigned.
func ids(o *jailinit.Orders) string {
	for _, m := range [][2]string{{"/proc/self/uid_map", o.UIDMap}, {"/proc/self/gid_map", o.GIDMap}} {
		text, err := file(m[0])
		if err != nil {
			return err.Error()
		}
		if singleSpaced(text) != m[1] {
			return m[0] + " is not the jail's mapping"
		}
	}
	return ""
}

// namespaces: none is the host's.
func namespaces(o *jailinit.Orders) string {
	buf := make([]byte, 64)
	for _, n := range o.Namespaces {
		k, err := unix.Readlink("/proc/self/ns/"+n.Name, buf)
		if err != nil {
			return "reading the " + n.Name + " namespace: " + err.Error()
		}
		if string(buf[:k]) == n.Name+":["+itoa(n.Host)+"]" {
			return "the " + n.Name + " namespace is the host's"
		}
	}
	return ""
}

// threadStatus has the fields of /proc/thread-self/status, which is read once.
var threadStatus map[string]string

func statusOf(key string) (value, why string) {
	if threadStatus == nil {
		text, err := file("/proc/thread-self/status")
		if err != nil {
			return "", err.Error()
		}
		threadStatus = statusFields(text)
	}
	return threadStatus[key], ""
}

// statusFields returns the fields of a process (proc_pid_status(5)), their words separated by
// single spaces.
func statusFields(text string) map[string]string {
	fields := map[string]string{}
	for l := range strings.Lines(text) {
		if name, value, ok := strings.Cut(l, ":"); ok {
			fields[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	return fields
}

// status: the process is who it should be and has no privilege beyond its orders.
func status(o *jailinit.Orders) string {
	groups := slices.Clone(o.Groups)
	slices.Sort(groups)
	var words []string
	for _, g := range slices.Compact(groups) {
		words = append(words, itoa(uint64(g)))
	}
	uid, gid := itoa(uint64(o.UID)), itoa(uint64(o.GID))
	const none = "0000000000000000"
	kept := strconv.FormatUint(o.Capabilities, 16)
	kept = none[:len(none)-len(kept)] + kept
	var bad []string
	for _, w := range [][2]string{
		{"Uid", strings.Join([]string{uid, uid, uid, uid}, " ")},
		{"Gid", strings.Join([]string{gid, gid, gid, gid}, " ")},
		{"CapInh", none},
		{"CapPrm", kept},
		{"CapEff", kept},
		{"CapBnd", kept},
		{"CapAmb", none},
		{"NoNewPrivs", "1"},
	} {
		have, why := statusOf(w[0])
		if why != "" {
			return why
		}
		if have != w[1] {
			bad = append(bad, w[0]+" is "+have+" and must be "+w[1])
		}
	}
	// Delegates may add the process's own group to the list.
	have, _ := statusOf("Groups")
	for g := range strings.FieldsSeq(have) {
		if g != gid && !slices.Contains(words, g) {
			bad = append(bad, "the process is in group "+g+", which it is not to be in: runc takes the number of an additional group "+
				"for the name of one, where the image's etc/group has that name (remedy: the number of a group without such a name)")
		}
	}
	return strings.Join(bad, ", ")
}

// filtered: a filter is loaded.
func filtered(*jailinit.Orders) string {
	have, why := statusOf("Seccomp")
	if why == "" && have != "2" {
		why = "no system call filter is loaded"
	}
	return why
}

// label: the security module confines the process.
func label(o *jailinit.Orders) string {
	if o.Label == "" {
		return ""
	}
	text, err := file(o.LabelFile)
	if err != nil {
		return err.Error()
	}
	if have := strings.TrimRight(text, "\n\x00"); !labelled(have, o.Label) {
		return "the process is labelled " + strconv.Quote(have) + " and must be " + strconv.Quote(o.Label)
	}
	return ""
}

// labelled compares labels. The kernel lists AppArmor's stacked profiles in an
// order of its own, and calls their mode mixed where they do not all have the
// same (apparmor(7)); a single one must be enforced.
func labelled(have, want string) bool {
	if have == want {
		return true
	}
	want, ok := strings.CutSuffix(want, " (enforce)")
	if !ok || !strings.Contains(want, "//&") {
		return false
	}
	name, mode, _ := strings.Cut(have, " ")
	if mode != "(enforce)" && mode != "(mixed)" {
		return false
	}
	parts := strings.Split(name, "//&")
	for p := range strings.SplitSeq(want, "//&") {
		if !slices.Contains(parts, p) {
			return false
		}
	}
	return true
}

// network: only lo has routes and addresses. Interfaces that the engine put
// there stay, down and without either.
func network(o *jailinit.Orders) string {
	if !o.Loopback {
		return ""
	}
	for path, column := range map[string]int{"/proc/self/net/route": 0, "/proc/self/net/if_inet6": 5} {
		text, err := file(path)
		if err != nil {
			if unix.Access(path, unix.F_OK) == unix.ENOENT {
				continue // no IPv6
			}
			return err.Error()
		}
		for l := range strings.Lines(text) {
			if f := strings.Fields(l); len(f) > column && f[column] != "lo" && f[column] != "Iface" {
				return "the network interface " + f[column] + " is in use (" + path + ")"
			}
		}
	}
	return ""
}

// cwd: a working directory outside the root is a way out (CVE-2024-21626).
func cwd(*jailinit.Orders) string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return "the working directory: " + err.Error()
	}
	if n < 1 || buf[0] != '/' {
		return "the working directory is outside the jail's root (CVE-2024-21626)"
	}
	return ""
}

// files: nothing is open but the standard files, and those are no directories.
func files(*jailinit.Orders) string {
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return "standard file " + itoa(uint64(fd)) + " is a directory"
		}
	}
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "listing open files: " + err.Error()
	}
	defer unix.Close(dir)
	buf := make([]byte, 4096)
	var names []string
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil {
			return "listing open files: " + err.Error()
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < 3 || fd == dir {
			continue
		}
		// This program's own files are close-on-exec; those that a delegate left open are not.
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			target := make([]byte, 256)
			n, _ := unix.Readlink("/proc/self/fd/"+name, target)
			return "file " + name + " was left open (" + string(target[:max(n, 0)]) + ")"
		}
	}
	return ""
}

// limits: the control groups bound the jail.
func limits(o *jailinit.Orders) string {
	for _, l := range o.Limits {
		for _, path := range l.Files {
			text, err := file(path)
			if err != nil {
				continue
			}
			text = strings.TrimSpace(text)
			if n, err := strconv.ParseUint(text, 10, 64); err != nil || n > l.Max {
				return path + " is " + text + " and must be at most " + itoa(l.Max)
			}
			break
		}
	}
	return ""
}

// oomScore: the process dies before the host's own when memory runs out.
func oomScore(o *jailinit.Orders) string {
	if o.OOMScore == 0 {
		return ""
	}
	const path = "/proc/self/oom_score_adj"
	text, err := file(path)
	if err != nil {
		return err.Error()
	}
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(text); err != nil || n < int(o.OOMScore) {
		return path + " is " + text + " and must be at least " + itoa(uint64(o.OOMScore))
	}
	return ""
}
