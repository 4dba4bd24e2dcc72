package shim

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"agentjail.dev/runtime/runccli"
)

// A name is the name by which the task service knows the runtime. The service keeps it in the
// bundle, also for the clean-up after a shim that was killed. By the name each container of a group
// has its own policy: agentjail, agentjail-NAME, and with another file agentjail:FILE or
// agentjail-NAME:FILE.
type name struct{ policy, config string }

func (n name) String() string {
	s := runccli.Program
	if n.policy != "" {
		s += "-" + n.policy
	}
	if n.config != "" {
		s += ":" + n.config
	}
	return s
}

// ownPolicy returns the named policy of a shim that is installed by another file name,
// containerd-shim-agentjail-NAME-v2: the runtime io.containerd.agentjail-NAME.v2 has it without any
// option. A symbolic link is not enough, as the serving process is started by the file.
var ownPolicy = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return policyOf(filepath.Base(path))
})

func policyOf(program string) string {
	rest, ok := strings.CutPrefix(program, "containerd-shim-"+runccli.Program+"-")
	if !ok {
		return ""
	}
	policy, ok := strings.CutSuffix(rest, "-v2")
	if !ok || !policyName.MatchString(policy) {
		return ""
	}
	return policy
}

// parseName reads a name. Any other text means the default policy.
func parseName(s string) name {
	prog, file, _ := strings.Cut(s, ":")
	if !strings.HasPrefix(prog, runccli.Program) {
		return name{}
	}
	n := name{policy: runccli.PolicyName(prog)}
	if filepath.IsAbs(file) {
		n.config = file
	}
	return n
}
