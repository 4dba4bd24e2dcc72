// Package why tries `agentjail why` and `agentjail learn`: what they state to write is written, and lets through what was refused, and no more.
package why

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

func TestMain(m *testing.M) { os.Exit(engine.MainBare(m, "it runs jails", &bin)) }

// agentjail runs agentjail.
func agentjail(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	r := engine.Run(t, bin, args...)
	return r.Code, r.Stdout, r.Stderr
}

// place is a directory for policies and lists, which only root can have written.
func place(t *testing.T) string {
	t.Helper()
	return engine.TempDir(t, "/etc", "agentjail-why-")
}

// write writes a file of a place; in its text DIR is the place.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	env.Check(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644))
	return path
}

// python calls a system call and ends well if it does not fail. Its arguments are as long as registers: the last one goes over the stack, where
// the upper half of a shorter one would be anything.
func python(nr int, args string) string {
	return fmt.Sprintf(`python3 -c 'import ctypes,os,sys; l=ctypes.CDLL(None,use_errno=True); r=l.syscall(*(ctypes.c_long(x) if type(x) is int else x for x in (%d,%s))); e=ctypes.get_errno(); print(os.strerror(e),file=sys.stderr) if r<0 else None; sys.exit(r<0)'`, nr, args)
}

// inet sets an option of a UDP socket; s is python's module.
func inet(option string) string {
	return fmt.Sprintf(`python3 -c "import socket as s; s.socket(s.AF_INET,s.SOCK_DGRAM).setsockopt(%s)"`, option)
}

// mlock locks so many bytes.
func mlock(bytes int) string {
	return fmt.Sprintf(`python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).mlock(ctypes.create_string_buffer(%d),%d))'`, bytes, bytes)
}

// workspace has a repository's hooks and an editor's settings.
func workspace(t *testing.T) string {
	t.Helper()
	files := engine.Repository()
	files[".vscode/"] = ""
	return engine.Workspace(t, files)
}

// A question is something that fails in a jail, the command line that explains it, and the change that lets it through.
type question struct {
	name string
	// before is the policy under which do fails; args are the sandbox's.
	before string
	args   []string
	do     string
	// line is what why gets; "" is what do printed. states is in the answer.
	line, says string
	// after is the policy, and with the sandbox's options, under which do works and not still fails.
	after string
	with  []string
	not   string
	list  string // what is in DIR/list.json after the change
}

// changes are questions whose answer is a change. W is the workspace.
func changes(w string) []question {
	const server = "seccomp.profile = \"server\"\n"
	shm := python(unix.SYS_SHMGET, "0,4096,0o1600")
	trace := python(unix.SYS_PTRACE, "0,0,0,0")
	send := `python3 -c 'import os; a=os.open("/etc/hostname",0); b=os.open("/tmp/o",66); os.sendfile(b,a,0,1)'`
	return []question{
		{
			name: "sendfile, and nothing else", do: send, line: "sendfile", says: `seccomp.only = "/etc/agentjail/seccomp/default-sendfile.json"`,
			after: server + `seccomp.only = "DIR/list.json"`, list: `{"extends": "default", "allow": [{"names": ["sendfile"], "why": "nginx"}]}`, not: shm,
		},
		{name: "shared memory", do: shm, line: "could not create shared memory segment: Function not implemented", says: `seccomp.profile = "server"`, after: server, not: trace},
		{name: "ptrace", do: trace, line: "ptrace: Function not implemented.", says: `seccomp.profile = "debug"`, after: `seccomp.profile = "debug"`, not: shm},
		{name: "own filters", do: python(unix.SYS_SECCOMP, "2,0,ctypes.byref(ctypes.c_uint32(0x7fff0000))"), line: "seccomp(SECCOMP_SET_MODE_FILTER)", says: `seccomp.profile = "server"`, after: server, not: trace},
		{name: "sockets", before: `seccomp.profile = "tools"`, do: `python3 -c 'import socket; socket.socket()'`, says: `seccomp.profile = "default"`, after: `seccomp.profile = "default"`, not: `python3 -c 'import socket; socket.socket(40)'`},
		{
			name: "a list", before: "seccomp.only = \"DIR/short.json\"", do: `python3 -c 'import os; os.mkfifo("/tmp/p")'`, line: "mknodat", says: "short.json",
			after: `seccomp.only = "DIR/list.json"`, list: `{"extends": "strict", "allow": [{"names": ["mknodat", "mknod"], "why": "fifos"}]}`, not: `python3 -c 'import socket; socket.socket()'`,
		},
		{name: "kill", before: `seccomp.on_violation = "kill"`, do: python(unix.SYS_KEYCTL, "0,0") + "; test $? = 1", line: "Bad system call (core dumped)", says: `seccomp.on_violation = "errno"`, after: `seccomp.on_violation = "errno"`, not: python(unix.SYS_KEYCTL, "0,0")},
		{name: "memory", before: `limits.memory = "64MiB"`, do: `python3 -c 'b=bytearray(150<<20); print(len(b))'`, line: "Killed", says: "limits.memory", after: `limits.memory = "512MiB"`, not: `python3 -c 'b=bytearray(600<<20)'`},
		{
			name: "processes", before: "limits.pids = 16", do: `python3 -c 'import threading,time; t=[threading.Thread(target=time.sleep,args=(1000,),daemon=True) for i in range(40)]; [x.start() for x in t]'`, says: "limits.pids", after: "limits.pids = 100",
			not: `python3 -c 'import threading,time; t=[threading.Thread(target=time.sleep,args=(1000,),daemon=True) for i in range(200)]; [x.start() for x in t]'`,
		},
		{name: "tmpfs", before: `tmpfs.size = "1MiB"`, do: "head -c 3000000 /dev/zero > /tmp/f", says: "tmpfs.size", after: `tmpfs.size = "8MiB"`, not: "head -c 20000000 /dev/zero > /tmp/f"},
		{name: "files of a tmpfs", before: "tmpfs.inodes = 64", do: "cd /tmp; for i in $(seq 200); do : > f$i || exit 1; done", says: "tmpfs.inodes", after: "tmpfs.inodes = 1000", not: "cd /tmp; for i in $(seq 2000); do : > f$i || exit 1; done"},
		{name: "locked memory", before: `limits.memlock = "64KiB"`, do: mlock(1 << 20), line: "gpg: Warning: using insecure memory!", says: "limits.memlock", after: `limits.memlock = "2MiB"`, not: mlock(4 << 20)},
		{name: "open files", before: "limits.nofile = 32", do: `python3 -c 'f=[open("/dev/null") for i in range(60)]'`, says: "limits.nofile", after: "limits.nofile = 128", not: `python3 -c 'f=[open("/dev/null") for i in range(200)]'`},
		{
			name: "a name", do: "getent hosts pypi.example.com", line: "curl: (6) Could not resolve host: pypi.example.com", says: `network.allow = ["pypi.example.com:443"]`,
			after: "network.mode = \"names\"\nnetwork.allow = [\"pypi.example.com:443\"]", not: "getent hosts other.example.com",
		},
		{name: "a read-only directory", args: []string{"--workspace", w, "--read-only"}, do: "touch " + w + "/f", says: ":ro", with: []string{"--workspace", w}, not: "touch /usr/f"},
		{name: "protected", args: []string{"--workspace", w}, do: "touch " + w + "/.git/hooks/pre-commit", says: `binds.unprotect = [".git/hooks"]`, after: `binds.unprotect = [".git/hooks"]`, with: []string{"--workspace", w}, not: "touch " + w + "/.vscode/tasks.json"},
		{name: "watching files", before: `seccomp.profile = "strict"`, do: python(unix.SYS_INOTIFY_INIT1, "0"), line: "inotify_init1", says: `seccomp.profile = "tools"`, after: `seccomp.profile = "tools"`, not: `python3 -c 'import socket; socket.socket()'`},
		{
			name: "another's memory, and nothing else", do: python(unix.SYS_PROCESS_VM_READV, "os.getpid(),0,0,0,0,0"), line: "process_vm_readv", says: `seccomp.only = "/etc/agentjail/seccomp/default-process_vm_readv.json"`,
			after: "seccomp.profile = \"debug\"\nseccomp.only = \"DIR/list.json\"", list: `{"extends": "default", "allow": [{"names": ["process_vm_readv"], "why": "py-spy"}]}`, not: trace,
		},
		{
			name: "a name that is denied", before: "network.mode = \"names\"\nnetwork.allow = [\"*.example.com:443\"]\nnetwork.deny = [\"pypi.example.com\", \"other.example.com\"]", do: "getent hosts pypi.example.com", line: "pypi.example.com:443", says: `network.deny without "pypi.example.com"`,
			after: "network.mode = \"names\"\nnetwork.allow = [\"*.example.com:443\"]\nnetwork.deny = [\"other.example.com\"]", not: "getent hosts other.example.com",
		},
		{name: "a name, by an option", do: "getent hosts pypi.example.com", line: "pypi.example.com:443", says: "agentjail sandbox --allow pypi.example.com:443", with: []string{"--allow", "pypi.example.com:443"}, not: "getent hosts other.example.com"},
		{name: "an editor's settings", args: []string{"--workspace", w}, do: "touch " + w + "/.vscode/tasks.json", says: `".vscode"`, after: `binds.unprotect = [".vscode"]`, with: []string{"--workspace", w}, not: "touch " + w + "/.git/hooks/pre-commit"},
	}
}

// TestAnswersLetThrough runs why for something that fails, makes the change of the answer, and sees that it works and that something next to it does not.
func TestAnswersLetThrough(t *testing.T) {
	if n := len(changes("/")); n < 20 {
		t.Errorf("%d questions", n)
	}
	for _, q := range changes(workspace(t)) {
		t.Run(q.name, func(t *testing.T) {
			dir := place(t)
			write(t, dir, "short.json", `{"extends": "strict", "allow": []}`)
			before := write(t, dir, "before.toml", q.before+"\n")
			code, _, errOut := agentjail(t, append(append([]string{"--config", before, "sandbox"}, q.args...), "--", "sh", "-c", q.do)...)
			if code == 0 {
				t.Fatalf("%s works before the change", q.do)
			}
			line := q.line
			if line == "" {
				line = errOut
			}
			code, out, errs := agentjail(t, "why", "--config", before, line)
			if code != 1 || !strings.Contains(out, q.says) {
				t.Fatalf("for %q, status %d: %s%s\nwant %q", line, code, out, errs, q.says)
			}
			write(t, dir, "list.json", q.list)
			after := write(t, dir, "after.toml", q.after+"\n")
			if code, _, errOut := agentjail(t, append(append([]string{"--config", after, "sandbox"}, q.with...), "--", "sh", "-c", q.do)...); code != 0 {
				t.Errorf("after the change, %s: status %d, %s", q.do, code, errOut)
			}
			if code, _, _ := agentjail(t, append(append([]string{"--config", after, "sandbox"}, q.with...), "--", "sh", "-c", q.not)...); code == 0 {
				t.Errorf("the change lets through %s as well", q.not)
			}
		})
	}
}

// purposes are what no change lets through: the script, what why gets where that is not what it prints, and what serves instead.
var purposes = []struct{ name, do, line, instead string }{
	{"namespaces", "unshare -U true", "", "true"},
	{"mounts", "mount -t tmpfs x /mnt", "", "mkdir /tmp/m"},
	{"chown", "touch /tmp/c; chown 1 /tmp/c", "", ""},
	{"set-id bits", "touch /tmp/s; chmod u+s /tmp/s", "chmod(_, 04755)", "chmod 755 /tmp/s"},
	{"set-gid directories", "mkdir -m 2775 /tmp/g", "", "mkdir -m 775 /tmp/h"},
	{"device files", "mknod /tmp/d c 1 3", "", "mkfifo /tmp/p"},
	{"raw sockets", `python3 -c 'import socket; socket.socket(socket.AF_INET,socket.SOCK_RAW,1)'`, "ping: socket: Operation not permitted", `python3 -c 'import socket; socket.socket()'`},
	{"vsock", `python3 -c 'import socket; socket.socket(40)'`, "socket(AF_VSOCK)", ""},
	{"io_uring", python(unix.SYS_IO_URING_SETUP, "8,0"), "io_uring_setup", ""},
	{"perf", python(unix.SYS_PERF_EVENT_OPEN, "0,0,0,0,0"), "perf_event_open(...): Function not implemented", ""},
	{"bpf", python(unix.SYS_BPF, "0,0,0"), "bpf", ""},
	{"keyrings", python(unix.SYS_KEYCTL, "0,0"), "keyctl_join_session_keyring: Function not implemented", ""},
	{"attributes", `touch /tmp/x; python3 -c 'import os; os.setxattr("/tmp/x","user.a",b"1")'`, "", ""},
	{"the clock", "date -s 2001-01-01", "", "date"},
	{"the kernel's log", "dmesg", "", ""},
	{"multicast groups", inet("s.IPPROTO_IP,35,bytes([224,0,0,251,127,0,0,1])"), "", inet("s.IPPROTO_IP,s.IP_MULTICAST_TTL,1")},
	{"an interface", inet("s.SOL_SOCKET,25,b'lo'"), "setsockopt: Protocol not available", ""},
	{"message queues", python(unix.SYS_MSGGET, "0,0o1600"), "fakeroot, while creating message channels: Function not implemented", "! command -v fakeroot-tcp || fakeroot-tcp id -u"},
	{"all that is not written", "sync -f /tmp", "", "sync /tmp"},
	{"locked memory of later", python(unix.SYS_MLOCKALL, "2"), "mlockall: Function not implemented", mlock(4096)},
	{"personas", "linux32 true", "", python(unix.SYS_PERSONALITY, "0xffffffff")},
	{"set-gid bit of a directory", "mkdir /tmp/e; chmod g+s /tmp/e", "", "chmod 770 /tmp/e"},
	{"FUSE", ": < /dev/fuse", "fuse: device not found, try 'modprobe fuse' first", ""},
}

// TestRefusedUnderEveryPolicy: what is refused whatever the policy sets is stated to be, with what serves instead.
func TestRefusedUnderEveryPolicy(t *testing.T) {
	var script strings.Builder
	for _, p := range purposes {
		instead := p.instead
		if instead == "" {
			instead = "true"
		}
		fmt.Fprintf(&script, "( %s ) 2>/tmp/err >/dev/null; a=$?; ( %s ) >/dev/null 2>&1; echo \"$a $? $(tr '\\n' ' ' < /tmp/err)\"\n", p.do, instead)
	}
	code, out, errs := agentjail(t, "sandbox", "--", "sh", "-c", script.String())
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != len(purposes) {
		t.Fatalf("status %d\n%s%s", code, out, errs)
	}
	for i, p := range purposes {
		var failed, instead int
		if _, err := fmt.Sscan(lines[i], &failed, &instead); err != nil || failed == 0 || instead != 0 {
			t.Errorf("%s: %q", p.name, lines[i])
			continue
		}
		line := p.line
		if line == "" {
			_, rest, _ := strings.Cut(lines[i], " ")
			_, line, _ = strings.Cut(rest, " ")
		}
		code, out, errs := agentjail(t, "why", "--seccomp-profile", "default", line)
		none := strings.Contains(out, "none, on purpose") || strings.Contains(out, "policy service")
		if code != 1 || !none || !strings.Contains(out, "instead ") {
			t.Errorf("%s: for %q, status %d: %s%s", p.name, line, code, out, errs)
		}
	}
}

// TestWhyOfRunningJail explains failures of a running jail: its paths, its limits, its filters.
func TestWhyOfRunningJail(t *testing.T) {
	w, dir := workspace(t), place(t)
	config := write(t, dir, "c.toml", "limits.pids = 30\n")
	known := engine.JailIDs(state.DefaultRoot)
	cmd := exec.Command(bin, "--config", config, "sandbox", "--workspace", w, "--tighten", "limits.pids=16", "--", "sh", "-c",
		`head -c 400000000 /dev/zero > /tmp/f 2>/dev/null; python3 -c 'import threading,time; t=[threading.Thread(target=time.sleep,args=(1000,),daemon=True) for i in range(40)]; [x.start() for x in t]' 2>/dev/null; echo ready; read x`)
	s := env.Begin(t, cmd)
	defer func() { _ = s.End() }()
	s.Await(t, "ready")
	id := ""
	for _, j := range engine.JailIDs(state.DefaultRoot) {
		if strings.HasPrefix(j, "sandbox-") && !slices.Contains(known, j) {
			id = j
		}
	}
	for _, c := range []struct {
		line string
		code int
		says []string
	}{
		{w, 0, []string{"a directory or file of the host", "rwx"}},
		{w + "/.git/hooks", 1, []string{"protected paths", `binds.unprotect = ["` + w + `/.git/hooks"]`}},
		{"/proc/kcore", 1, []string{"hidden in every jail", "on purpose"}},
		{"/dev/kvm", 1, []string{"devices.allow"}},
		{"/usr/bin", 1, []string{"owner and mode"}},
		{"/tmp/f", 0, []string{"a tmpfs of the jail's own", "it is full"}},
		{"cp: No space left on device", 1, []string{"the tmpfs at /tmp is full", "tmpfs.size"}},
		{"sh: 1: Cannot fork", 1, []string{"limit of 16 processes was met", "--tighten limits.pids=32"}},
		{"OSError: [Errno 24] Too many open files", 1, []string{"16384 files open", "limits.nofile = 32768"}},
		{"/dev/shm/nope", 0, []string{"passes"}},
		{"/dev/pts/77", 1, []string{"no process of the jail has open"}},
		{"shmget", 1, []string{"both system call filters", `seccomp.profile = "server"`}},
		{"socket(AF_INET, SOCK_STREAM, 0)", 0, []string{"passes"}},
		{"example.org:443", 1, []string{`network.mode = "names"`}},
	} {
		code, out, errs := agentjail(t, "why", id, c.line)
		for _, s := range c.says {
			if code != c.code || !strings.Contains(out, s) {
				t.Errorf("%s: status %d, want %d and %q:\n%s%s", c.line, code, c.code, s, out, errs)
			}
		}
	}
	var a struct{ Verdict, Kind string }
	if _, out, _ := agentjail(t, "why", "--json", id, "clone3"); json.Unmarshal([]byte(out), &a) != nil || a.Verdict != "refused" || a.Kind != "call" {
		t.Errorf("as JSON: %s", out)
	}
}
