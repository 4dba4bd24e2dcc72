package shim

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"agentjail.dev/runtime/verbs"
)

// A name is what the task service knows the runtime by. It keeps it in the
// bundle, also for the clean-up after a shim that was killed, and it is how each
// container of a group has its own profile: agentjail, agentjail-PROFILE, and
// with another policy file agentjail:FILE or agentjail-PROFILE:FILE.
type name struct{ profile, policy string }

func (n name) String() string {
	s := verbs.Program
	if n.profile != "" {
		s += "-" + n.profile
	}
	if n.policy != "" {
		s += ":" + n.policy
	}
	return s
}

// ownProfile is the profile of a shim that is installed by another file name,
// containerd-shim-agentjail-PROFILE-v2: the runtime io.containerd.agentjail-PROFILE.v2
// has it without any option. A symbolic link is not enough, as the serving
// process is started by the file.
var ownProfile = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return profileOf(filepath.Base(path))
})

func profileOf(program string) string {
	rest, ok := strings.CutPrefix(program, "containerd-shim-"+verbs.Program+"-")
	if !ok {
		return ""
	}
	profile, ok := strings.CutSuffix(rest, "-v2")
	if !ok || !profileName.MatchString(profile) {
		return ""
	}
	return profile
}

// parseName reads a name. That of anything else is the default profile's.
func parseName(s string) name {
	prog, file, _ := strings.Cut(s, ":")
	if !strings.HasPrefix(prog, verbs.Program) {
		return name{}
	}
	n := name{profile: verbs.Profile(prog)}
	if filepath.IsAbs(file) {
		n.policy = file
	}
	return n
}
