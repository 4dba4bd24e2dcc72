package remedies

// called calls a system call of x86-64 by python, with arguments as long as registers; it fails if the call does.
func called(call string) string {
	return `python3 -c 'import ctypes,os,sys; l=ctypes.CDLL(None,use_errno=True); r=l.syscall(*(ctypes.c_long(x) if type(x) is int else x for x in (` + call + `))); r<0 and sys.exit(os.strerror(ctypes.get_errno()))'`
}

// answer is a row of `agentjail why` whose text is a policy: before is the one under which do fails.
func answer(name, row, before, do, says, after string) remedy {
	return remedy{
		name: "why: " + name, sites: []string{"runtime/observe/why/messages.toml: " + row},
		fails: "printf '%s\\n' '" + before + "' >$D/policy.toml; aj sandbox -- " + do, says: says,
		works: []string{"printf '%s\\n' '" + after + "' >$D/policy.toml; aj sandbox -- " + do},
	}
}

// ofAnswers are rows of `agentjail why` whose text is a policy that is written as it stands.
var ofAnswers = []remedy{
	answer("debugger", `seccomp.profile = "debug"`, "", called("101,0,0,0,0"), "Function not implemented", `seccomp.profile = "debug"`),
	answer("shared memory", `seccomp.profile = "server`, "", called("29,0,4096,0o1600"), "Function not implemented", `seccomp.profile = "server"`),
	answer("own filters", `(2) seccomp.profile = "server`, "", called("317,2,0,ctypes.byref(ctypes.c_uint32(0x7fff0000))"), "Function not implemented", `seccomp.profile = "server"`),
	answer("no sockets", `seccomp.profile = "default`, `seccomp.profile = "tools"`, `python3 -c 'import socket; socket.socket()'`, "Address family not supported", `seccomp.profile = "default"`),
	answer("kill", `seccomp.on_violation = "errno`, `seccomp.on_violation = "kill"`, "sh -c '"+`python3 -c "import ctypes; ctypes.CDLL(None).syscall(250,0,0)"`+"'", "", `seccomp.on_violation = "errno"`),
	answer("processes", "limits.pids = 4096", "limits.pids = 16", `sh -c 'for i in $(seq 40); do sleep 100 & done'`, "annot fork", "limits.pids = 4096"),
	answer("memory", `limits.memory = "8GiB`, `limits.memory = "64MiB"`, `python3 -c 'b=bytearray(150<<20); print(len(b))'`, "", `limits.memory = "8GiB"`),
	answer("open files", "limits.nofile = 65536", "limits.nofile = 32", `python3 -c 'f=[open("/dev/null") for i in range(60)]'`, "Too many open files", "limits.nofile = 65536"),
	answer("tmpfs", `tmpfs.size = "1GiB`, `tmpfs.size = "1MiB"`, "sh -c 'head -c 3000000 /dev/zero >/tmp/f'", "No space left on device", `tmpfs.size = "1GiB"`),
	answer("files of a tmpfs", "tmpfs.inodes = 65536", "tmpfs.inodes = 64", "sh -c 'cd /tmp; for i in $(seq 200); do : >f$i || exit 1; done'", "No space left on device", "tmpfs.inodes = 65536"),
	answer("locked memory", `limits.memlock = "8MiB`, `limits.memlock = "64KiB"`, called("149,ctypes.create_string_buffer(1<<20),1<<20"), "Cannot allocate memory", `limits.memlock = "8MiB"`),
	answer("a name", `network.allow = ["NAME:PORT"]`, `network.mode = "names"`, "getent hosts pypi.example.com", "", `network.mode = "names"
network.allow = ["pypi.example.com:443"]`),
	answer("a name without a network", `network.mode = "names", network.allow = ["NAME:PORT"]`, "", "getent hosts pypi.example.com", "", `network.mode = "names"
network.allow = ["pypi.example.com:443"]`),
	{
		name: "why: protected", sites: []string{`runtime/observe/why/messages.toml: binds.unprotect = ["PATH"] (absolute)`, `runtime/observe/why/messages.toml: binds.unprotect = [".git/hooks"]`, `runtime/observe/why/messages.toml: binds.unprotect = ["PATH"]`},
		fails: `mkdir $W/.vscode; chown 1000:1000 $W/.vscode; aj sandbox --workspace $W -- git init -q .; aj sandbox --workspace $W -- touch .git/hooks/x .vscode/tasks.json`, says: "touch: cannot touch",
		works: []string{`policy "binds.unprotect = [\".git/hooks\", \"$W/.vscode\"]"; aj sandbox --workspace $W -- touch .git/hooks/x .vscode/tasks.json`},
	},
	{
		name: "why: read-only", sites: []string{"runtime/observe/why/messages.toml: -v DIR:/place without :ro; docker run without --read-only"},
		fails: `run "mount(W,'/place','ro'); s['root']['readonly']=True; sh('echo 1 >/place/new || echo 1 >/new')"`, says: "Read-only file system",
		works: []string{`run "mount(W,'/place'); s['root']['readonly']=False; sh('echo 1 >/place/new && echo 1 >/new')"`},
	},
}
