package harden

import (
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/seccomp"
)

// A variable is an environment default that keeps a program from using a feature that no jail
// has.
type variable struct {
	name, value, why string
	// applies reports whether a process needs it.
	applies func(p *pass, pr *specs.Process) bool
}

const leaksNeedPtrace = "leaks are looked for with ptrace, which the profile denies"

// variables are set where the process's environment has none of the name. Each switches off a
// function that would make a program end with an error.
var variables = []variable{
	{
		// As root, GNU tar sets each file's owner as in the archive (tar(1)).
		name: "TAR_OPTIONS", value: "--no-same-owner", why: "chown to another owner fails",
		applies: func(_ *pass, pr *specs.Process) bool {
			return pr.User.UID == 0 && !slices.Contains(pr.Capabilities.Effective, "CAP_CHOWN")
		},
	},
	{
		// A program that is built with -fsanitize=address looks for leaks when it ends,
		// and ends with 1 where it cannot (AddressSanitizerLeakSanitizer in LLVM's wiki).
		name: "ASAN_OPTIONS", value: "detect_leaks=0", why: leaksNeedPtrace,
		applies: leaksFail("LSAN_OPTIONS"),
	},
	{
		// The same of -fsanitize=leak; and of the former, where a script has options of
		// its own for that.
		name: "LSAN_OPTIONS", value: "detect_leaks=0", why: leaksNeedPtrace,
		applies: leaksFail("ASAN_OPTIONS"),
	},
}

// leaksFail reports whether to switch leak detection off: where the profile denies ptrace and the
// other variable does not request it. If the other variable requests leak detection, it stays on
// and fails: switched off, it would seem to find no leaks.
func leaksFail(other string) func(*pass, *specs.Process) bool {
	return func(p *pass, pr *specs.Process) bool {
		v, _ := lookUp(pr.Env, other)
		enabled := strings.Contains(v, "detect_leaks") && !strings.Contains(v, "detect_leaks=0")
		return !enabled && !seccomp.Traces(p.pol.Seccomp.Profile)
	}
}

// passed are the variables that count and name the descriptors that a process gets from the third
// on (sd_listen_fds(3)).
var passed = []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}

// withoutPassed drops the variables of descriptors. A jail's process gets only the standard ones,
// and a program that relies on the variables would fail on descriptors that are not open. Podman
// sets them where it was started with a socket.
func withoutPassed(p *pass, pr *specs.Process) {
	for _, name := range passed {
		v, has := lookUp(pr.Env, name)
		if !has {
			continue
		}
		pr.Env = slices.DeleteFunc(slices.Clone(pr.Env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
		p.change(rings.Access, report.Dropped, "process.env["+name+"]", v, "", "a jail gets no descriptors of the host's")
	}
}

// environment drops variables that are not true of a jail, and sets the defaults.
func environment(p *pass) {
	pr := p.spec.Process
	withoutPassed(p, pr)
	if !p.pol.Process.Environment {
		return
	}
	for _, v := range variables {
		if v.applies(p, pr) {
			setVariable(p, v.name, v.value, v.value, v.why)
		}
	}
}

// setVariable sets a variable that the process does not have, and reports it as shown.
func setVariable(p *pass, name, value, shown, why string) {
	pr := p.spec.Process
	if _, has := lookUp(pr.Env, name); !has {
		pr.Env = append(slices.Clip(pr.Env), name+"="+value)
		p.change(rings.Access, report.Set, "process.env["+name+"]", "", shown, why)
	}
}

// lookUp returns a variable's value. The first of a name counts (getenv(3)).
func lookUp(env []string, name string) (string, bool) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v, true
		}
	}
	return "", false
}
