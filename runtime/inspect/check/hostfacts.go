package check

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/policy"
)

// policyFile is read already, by newEnv: its content decides other probes.
func policyFile(e *env) answer {
	problems, err := policy.Examine(e.opts.PolicyPath)
	if err == nil && len(problems) > 0 {
		var all []string
		for _, p := range problems {
			all = append(all, strings.TrimPrefix(p.String(), e.opts.PolicyPath+": "))
		}
		found := warn
		if e.policyErr != nil {
			found = fail
		}
		return found("correct it: `agentjail policy validate`", "%s: %s", e.opts.PolicyPath, strings.Join(all, "; "))
	}
	if e.policyErr != nil {
		return fail("correct it; until then no jail starts", "%v", e.policyErr)
	}
	if _, err := os.Lstat(e.opts.PolicyPath); errors.Is(err, os.ErrNotExist) {
		return ok("there is no %s: the built-in policy is in force", e.opts.PolicyPath)
	}
	if e.opts.PolicyName != "" {
		return ok("[policies.%[2]s] of %[1]s is valid", e.opts.PolicyPath, e.opts.PolicyName)
	}
	return ok("%s is valid", e.opts.PolicyPath)
}

// passthrough names the policies that make no jails.
func passthrough(e *env) answer {
	if e.policy.Passthrough {
		return warn("for conformance tests only: take the policy out of the policy file elsewhere",
			"passthrough: nothing is hardened by policy %s, what it makes are no jails", e.opts.PolicyName)
	}
	if names := policy.PassingThrough(e.opts.PolicyPath); len(names) > 0 {
		return warn("for conformance tests only: take them out of the policy file elsewhere",
			"passthrough: nothing is hardened by policy %s, reached by a link named agentjail-%s", strings.Join(names, ", "), names[0])
	}
	return ok("all harden")
}

// owns refuses a directory that is not that of whose jails these are.
func (e *env) owns(dir string, st *unix.Stat_t) error {
	if e.user {
		return rootless.Own(dir, st)
	}
	return trusted.Owner(dir, st)
}

// stateDir reports whether the jails' records can be written: with a file that
// never gets a name (open(2), O_TMPFILE).
func stateDir(e *env) answer {
	dir := e.store.Root
	var st unix.Stat_t
	switch err := unix.Lstat(dir, &st); {
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fail("remove it", "%s is not a directory", dir)
	case err == nil:
		if err := e.owns(dir, &st); err != nil {
			return fail("see the error", "%v", err)
		}
	case errors.Is(err, unix.ENOENT):
		// Made by the first create.
		if dir = filepath.Dir(dir); unix.Lstat(dir, &st) != nil {
			return fail("mount a tmpfs at "+dir, "%s does not exist", dir)
		}
		if st.Mode&unix.S_ISVTX == 0 {
			if err := e.owns(dir, &st); err != nil {
				return fail("see the error", "%v", err)
			}
		}
	default:
		return fail("", "%s: %v", dir, err)
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	switch {
	case err == nil:
		unix.Close(fd)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR):
		// A file system without nameless files: what access(2) knows must do.
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return fail("make it writable", "%s: %v", dir, err)
		}
	default:
		return fail("make it writable, with free space", "%s cannot be written: %v", dir, err)
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil && int64(fs.Type) != unix.TMPFS_MAGIC {
		return warn("mount a tmpfs at /run", "%s is not on tmpfs: records outlive a reboot, until `agentjail gc`", dir)
	}
	return ok("%s can be written", e.store.Root)
}
