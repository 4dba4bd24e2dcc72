package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/seccomp"
)

// A Key is one setting of the policy. The type of its field in Policy is the type of its value.
type Key struct {
	// Name is the key with dots, as in the file.
	Name string
	// About is one line for people.
	About string
	// OneOf are the only values, of a ranked key from the loosest to the tightest; nil for a key
	// with others.
	OneOf []string
	// narrow is the change that a project's own file may make.
	narrow narrowing
}

// A narrowing is the kind of change to a key by which a policy permits less, or the same.
type narrowing int

const (
	never         narrowing = iota // none: the key is the host's owner's
	always                         // any: a choice between equal rights
	lowerBound                     // a lower number, where 0 sets no bound
	lowerValue                     // a lower number
	onlyTrue                       // true
	onlyFalse                      // false
	later                          // a later value of OneOf
	fewerEntries                   // only entries of the policy's list
	moreEntries                    // all entries of the policy's list, and others
	onlyNone                       // NetworkNone
	onlyStrict                     // the profile "strict" in place of "default"
	narrowerRules                  // names and ports that the policy's rules allow
)

// Keys are all settings of a policy, in the order of the documentation. Each is a field of Policy,
// and each field is one of them.
var Keys = []Key{
	{Name: "delegate", About: "the best that works here (`agentjail check` names it), \"runc\", \"crun\", \"runsc\" (boundaries.md) or an absolute path"},
	{Name: "passthrough", About: "true, in a [policies.NAME] only: every call goes to the delegate as it came"},
	{"on_loosen", "a grant beyond policy: \"strip\" it and start, or \"refuse\" to start", []string{LoosenStrip, LoosenRefuse}, later},

	{"userns.map", "container root is the first id of the jail's own range; \"" + MapNobody + "\": host 65534", []string{MapRange, MapNobody}, never},
	{Name: "userns.pool", About: "FIRST:COUNT, host ids for ranges of 65536"},
	{Name: "userns.ids", About: "more ids from 65536 on, for `exec` (differences.md)"},

	{
		"root.backing", "where the layer over the image is (root-on-disk.md)",
		[]string{RootDisk, RootMemory},
		later,
	},
	{"root.size", "the layer, in memory", nil, lowerBound},
	{"root.disk", "the layer, on disk", nil, lowerValue},
	{"root.inodes", "files in it", nil, lowerBound},
	{"root.engine_links", "false: the engine follows no symbolic link in its view of the root (engines.md)", nil, onlyFalse},
	{"tmpfs.size", "every other tmpfs without a size of its own (--shm-size, --tmpfs size=)", nil, lowerBound},
	{
		Name: "tmpfs.max", About: "the largest such size; 0B: limits.memory. Without a memory control group: " +
			"tmpfs.size",
	},
	{"tmpfs.inodes", "files in each", nil, lowerBound},

	{"limits.pids", "for each jail; 0 sets no bound", nil, lowerBound},
	{"limits.memory", "at most three quarters of the host's", nil, lowerBound},
	{"limits.swap", "beyond memory", nil, lowerValue},
	{"limits.cpus", "processors; 0 sets no bound", nil, lowerBound},
	{"limits.io_read", "per second, on each disk behind a writable mount or a layer on disk", nil, lowerBound},
	{"limits.io_write", "as io_read", nil, lowerBound},
	{"limits.nofile", "open files of each process (host-limits.md)", nil, lowerBound},
	{"limits.memlock", "locked memory of each process", nil, lowerBound},
	{"limits.sockets", "socket buffers, on control groups of version 1", nil, lowerBound},
	{"limits.mounts", "in one bundle", nil, lowerBound},

	{
		"binds.root", "a writable directory of the host's root: refuse; " + RootNobody + ": writes are an unmapped user's; " +
			"allow: write as root (mounts.md)", []string{RootAllow, RootNobody, RootRefuse}, later,
	},
	{
		"binds.owner", "who of the jail owns mounted directories: the first process's user; or \"1000\", \"1000:1000\", \"node\" (mounts.md)",
		nil, always,
	},
	{
		"binds.setid", "programs that run as a system account's, in a writable directory of its: report, refuse",
		[]string{SetIDReport, SetIDRefuse},
		later,
	},
	{"binds.allow", "host paths that may be mounted although refused by default, and all below", nil, fewerEntries},
	{"binds.protect", "what the host runs of a mounted directory is read-only in the jail (protected-paths.md)", nil, onlyTrue},
	{
		"binds.lost", "a lost protection: an alert in the journal; \"pause\": the jail is paused, too",
		[]string{LostReport, LostPause},
		later,
	},
	{
		"binds.unprotect", "what of it jails may change: \".git/config\", \".vscode\", or an absolute path with all below it",
		nil, fewerEntries,
	},
	{"binds.hide", "patterns of names that are covered in mounted directories: \".env\", \"*.pem\", \"id_*\"", nil, moreEntries},
	{
		"binds.sockets", "the host's sockets and pipes that stay usable in mounts: \"/run/app/app.sock\", \"/srv/app/**\"",
		nil, fewerEntries,
	},
	{"devices.allow", "devices beyond null, zero, full, random, urandom, tty, console and ptmx", nil, fewerEntries},

	{
		"seccomp.profile", "or \"debug\": also ptrace; \"server\": also SysV shared memory, filters of its own; \"service\": both less filters; \"tools\": no sockets; \"strict\": the shortest list (seccomp.md)",
		seccomp.Profiles(), onlyStrict,
	},
	{Name: "seccomp.only", About: "a file with a list of calls that narrows the profile (learn.md#lists)"},
	{"seccomp.on_violation", "\"kill\": what is not listed ends the process", []string{"errno", "kill"}, later},

	{Name: "apparmor.profile", About: "loaded when missing"},
	{"apparmor.required", "true: no jail on a kernel without AppArmor or SELinux", nil, onlyTrue},
	{"landlock.required", "true: no jail on a kernel without Landlock (Linux 5.19)", nil, onlyTrue},
	{"process.deny_write_execute", "true: no memory that was writable becomes executable; ends node, java and browsers", nil, onlyTrue},
	{
		"process.environment", "sets TAR_OPTIONS, ASAN_OPTIONS, LSAN_OPTIONS where missing (differences.md)",
		nil, always,
	},
	{
		"process.capabilities", "of the jail's root: CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID (compatibility.md#users)",
		nil, fewerEntries,
	},

	{
		"network.mode", "nothing but lo; \"engine\": the engine's network; \"names\": what network.allow names " +
			"(network.md)", NetworkModes, onlyNone,
	},
	{"network.allow", "mode \"names\": what may be connected to, as NAME[:PORT,...]", nil, narrowerRules},
	{"network.deny", "mode \"names\": what may not, whatever network.allow has", nil, moreEntries},
	{Name: "network.servers", About: "mode \"names\": the name servers, as ADDRESS[:PORT]; none: the host's"},
	{
		"network.approval", "mode \"names\": \"prompt\": names without an entry wait for a decision (approval.md)", approvalModes, later,
	},
	{Name: "network.approval_command", About: "for `agentjail watch --command`: a program's path and arguments (approval.md)"},
	{
		"network.publish", "mode \"names\": what jails may publish, as [ADDRESS:]PORT[-PORT]; 127.0.0.1 without ADDRESS; or " +
			"engine[:PORT[-PORT]], as docker -p", nil, fewerEntries,
	},
	{
		Name: "credentials", About: "mode \"names\": keys that a jail can use and not read, as credentials.NAME = { hosts, ... } (credentials.md)",
	},
	{"network.filter", "\"optional\": also on a kernel without nf_tables", []string{"optional", "required"}, later},

	{Name: "shim.loggers", About: "programs that binary:// log URIs may run as root: \"/path?ARGUMENT=VALUE\", all arguments (engines.md)"},
	{Name: "shim.logs", About: "directories below which file:// log URIs may write"},

	{Name: "journal.enabled", About: "keep what happens in each jail, outside its reach (journal.md)"},
	{Name: "journal.dir", About: "where; \"\": /var/log/agentjail, for others than root ~/.local/state/agentjail/journal"},
	{Name: "journal.size", About: "of one jail's journal; its beginning and its end are kept"},
	{Name: "journal.required", About: "true: no jail starts whose journal cannot be written"},
	{Name: "journal.keep", About: "journals of deleted jails; the oldest go first"},
	{Name: "journal.keep_size", About: "their size together; 0B sets no bound"},
	{Name: "journal.keep_for", About: "since each last line: \"12h\", \"30d\"; 0s sets no bound"},
	{
		"journal.receipt", "\"full\": the receipt names up to 4096 files of the layer, not 256 (receipt.md)", []string{ReceiptBrief, ReceiptFull}, never,
	},
	{
		"journal.inside", "a file in the jail with its own refusals: \"on\", or \"" + InsideAsk +
			"\" for containers that request it (receipt.md)",
		[]string{InsideOn, InsideAsk, InsideOff},
		later,
	},

	{"workspace.review", "patterns of directories whose writable mounts are views: \"/home/*/src/**\" (workspace.md)", nil, moreEntries},
	{"workspace.size", "of each view's layer, taken from the disk at once", nil, lowerValue},
	{"workspace.files", "files in it: at most one per 4KiB", nil, lowerValue},
	{Name: "workspace.keep_for", About: "views unused for longer are reported; 0s sets no bound"},
	{Name: "workspace.keep_size", About: "of all views; the oldest beyond are reported; 0B sets no bound"},

	{Name: "disk.layers", About: "layers on disk at once"},
	{Name: "disk.free", About: "beside a new one"},

	{
		"ebpf.block", "what eBPF programs refuse beyond their default: \"exec\", \"trace\", \"connect\", \"bind\"; takes agentjail-journal, " +
			"restarted (security/ebpf.md)", nil, moreEntries,
	},
}

// keyOf returns the row of a key.
func keyOf(name string) (Key, bool) {
	i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return Key{}, false
	}
	return Keys[i], true
}

// keyNames lists the names of Keys.
func keyNames() []string {
	var out []string
	for _, k := range Keys {
		out = append(out, k.Name)
	}
	return out
}

// isTable reports whether keys stand below a name.
func isTable(name string) bool {
	name += "."
	return slices.ContainsFunc(Keys, func(k Key) bool { return strings.HasPrefix(k.Name, name) })
}

// valueAt returns a policy's value of a key, or of a table of keys. It panics if there is none
// (TestKeys).
func valueAt(v reflect.Value, name string) reflect.Value {
	for part := range strings.SplitSeq(name, ".") {
		v = v.Field(fieldOf(v.Type(), part))
	}
	return v
}

// fieldOf returns the index of the field with a toml tag; -1 for none.
func fieldOf(t reflect.Type, tag string) int {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("toml") == tag {
			return i
		}
	}
	return -1
}

// expected names a type for people, with an example.
func expected(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Size]():
		return "a size, as \"512m\""
	case reflect.TypeFor[Span]():
		return "a time, as \"12h\" or \"30d\""
	case reflect.TypeFor[idmap.Pool]():
		return "an id pool, as \"2013265920:134086656\""
	case reflect.TypeFor[credential.Set]():
		return "a table of credentials"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string, as \"...\""
	case reflect.Float64:
		return "a number, as 2 or 0.5"
	case reflect.Slice:
		return "a list of strings, as [\"...\"]"
	case reflect.Struct:
		return "a table"
	}
	return "a whole number"
}

// given names the type of a value of TOML.
func given(v any) string {
	switch v := v.(type) {
	case bool:
		return "true or false"
	case string:
		return fmt.Sprintf("the string %q", clipped(v))
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

func clipped(s string) string {
	if len(s) > 100 {
		return s[:97] + "..."
	}
	return s
}
