package ebpf

// A Hook is something that a jail queries the kernel for: a bit of a verdict. src/programs.c has
// the same list.
type Hook uint32

// Hooks.
const (
	Socket Hook = iota
	IOUring
	Userfaultfd
	Userns
	Key
	BPF
	Perf
	Mount
	Ptrace
	Module
	Exec
	Syscall
	Trace
	Connect
	Bind
	OOM
	Unix  // a Unix socket of another network namespace
	hooks // how many there are
)

// names of hooks, as policy and events have them.
var names = [hooks]string{
	"socket", "io_uring", "userfaultfd", "userns", "key", "bpf", "perf", "mount", "ptrace", "module", "exec",
	"syscall", "trace", "connect", "bind", "oom", "unix",
}

// String is the hook as policy and events name it.
func (h Hook) String() string {
	if h < hooks {
		return names[h]
	}
	return "unknown"
}

// noHook marks a program that no setting of a jail concerns.
const noHook = hooks

// Verdict is what a jail is refused: a bit for each hook.
type Verdict uint32

// Default refuses what ring 0 refuses in every profile, so that it is silent unless a filter
// failed; and the host's Unix sockets, unless policy leaves some to the jail (binds.sockets).
const Default = Verdict(1<<Socket | 1<<IOUring | 1<<Userfaultfd | 1<<Userns | 1<<Key | 1<<BPF |
	1<<Perf | 1<<Mount | 1<<Ptrace | 1<<Module | 1<<Unix)

// Names of the hooks that are refused.
func (v Verdict) Names() []string {
	var out []string
	for h := range hooks {
		if v>>h&1 == 1 {
			out = append(out, names[h])
		}
	}
	return out
}

// A program is one of src/programs.c.
type program struct {
	name string
	hook Hook
	// target is the function of the kernel, and parameters how its prototype must begin ("*" is any
	// pointer): what the program reads.
	target     string
	parameters []string
	// instead names the program that takes this one's place where the prototype is another.
	instead string
	// exact reports that the function has these parameters and no others.
	exact bool
	// tracepoint reports that the target is one, whose prototype begins with what the kernel itself
	// needs.
	tracepoint bool
	// syscalls reports that the program only reports refused system calls.
	syscalls bool
	// connections reports that the program is on the way of every connection, where the report
	// costs what a jail feels.
	connections bool
}

// programs in the order of their worth.
var programs = []program{
	{name: "socket_create", hook: Socket, target: "security_socket_create", parameters: []string{"int", "int", "int", "int"}},
	{name: "anon_inode", hook: IOUring, target: "security_inode_init_security_anon", parameters: []string{"*inode", "*qstr"}},
	{name: "uring_allowed", hook: IOUring, target: "security_uring_allowed"},
	{name: "create_user_ns", hook: Userns, target: "security_create_user_ns"},
	{name: "key_alloc", hook: Key, target: "security_key_alloc"},
	{name: "key_permission", hook: Key, target: "security_key_permission"},
	{name: "bpf_call", hook: BPF, target: "security_bpf", parameters: []string{"int"}},
	{name: "perf_event_open", hook: Perf, target: "security_perf_event_open"},
	{
		name: "sb_mount", hook: Mount, target: "security_sb_mount",
		parameters: []string{"*char", "*path", "*char", "long unsigned int"},
	},
	{name: "move_mount", hook: Mount, target: "security_move_mount"},
	{
		name: "ptrace_access", hook: Ptrace, target: "security_ptrace_access_check",
		parameters: []string{"*task_struct", "unsigned int"},
	},
	{name: "module_request", hook: Module, target: "security_kernel_module_request", parameters: []string{"*char"}},
	{name: "bprm_check", hook: Exec, target: "security_bprm_check", parameters: []string{"*linux_binprm"}},
	{
		name: "exec_done", hook: noHook, target: "sched_process_exec", parameters: []string{"*task_struct", "pid_t", "*linux_binprm"},
		tracepoint: true,
	},
	{
		name: "socket_connect", hook: Connect, target: "security_socket_connect", parameters: []string{"*socket", "*", "int"},
		connections: true,
	},
	{
		name: "socket_bind", hook: Bind, target: "security_socket_bind", parameters: []string{"*socket", "*", "int"},
		connections: true,
	},
	{name: "unix_connect", hook: Unix, target: "security_unix_stream_connect", parameters: []string{"*sock", "*sock", "*sock"}},
	{name: "unix_send", hook: Unix, target: "security_unix_may_send", parameters: []string{"*socket", "*socket"}},
	{name: "oom_victim", hook: OOM, target: "mark_victim", parameters: []string{"*task_struct"}, tracepoint: true},
	{name: "namespace_end", hook: noHook, target: "retire_userns_sysctls", parameters: []string{"*user_namespace"}},
	{name: "seccomp_none", hook: Syscall, target: "__secure_computing", exact: true, syscalls: true, instead: "seccomp_one"},
	{
		name: "seccomp_one", hook: Syscall, target: "__secure_computing", parameters: []string{"*seccomp_data"}, exact: true,
		syscalls: true,
	},
}

// fallback reports refused system calls where no trampolines can be had.
const fallback = "syscall_exit"
