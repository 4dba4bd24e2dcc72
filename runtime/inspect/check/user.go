package check

import (
	"errors"
	"path/filepath"

	"agentjail.dev/apparmor"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/rootless"
)

// Remedies for most of what an ordinary user cannot have.
const (
	asRoot    = "run the engine as root"
	delegated = "control groups version 2 and a login through systemd, whose user@.service has the controllers delegated (systemd.resource-control(5), Delegate=); or " + asRoot
)

// ofUser takes the place of probes for the engine of an ordinary user. That engine is root of a
// user namespace only. Each function names the privilege on the machine that the probe lacks: jails
// start without it.
var ofUser = map[string]func(*env) answer{
	namePrivileges:     userPrivileges,
	"overlay-idmapped": func(*env) answer { return ok("not needed: jails have the ids of the engine's own user namespace") },
	"cgroup":           userCgroups,
	"cgroup-pids":      userLimit("pids"),
	"cgroup-memory":    userLimit("memory"),
	"cgroup-swap":      userLimit("swap"),
	"cgroup-cpu":       userLimit("cpu"),
	"cgroup-io":        userLimit("io"),
	"user-namespace":   nestedNamespace,
	"id-pool":          userIDs,
	"idmapped-mounts": func(*env) answer {
		return warn(asRoot, "takes a privilege on the machine: files in mounted directories have the ids that the engine maps for the jail")
	},
	"layers": func(*env) answer { return ok("not for rootless engines") },
	"views":  func(*env) answer { return ok("not for rootless engines") },
	"lsm":    userLSM,
	"ebpf":   userPrograms,
}

// sandboxRootless reports whether ordinary users can have sandboxes, and what these lack. Where no
// user has subordinate ids they are not meant to, and nothing is missing.
func sandboxRootless(e *env) answer {
	users, err := rootless.Possible(filepath.Dir(e.sysctl), e.etc)
	switch {
	case err == nil && users > 0:
		return ok("users with subordinate ids (%d) can have sandboxes: %s", users, rootless.Less)
	case users == 0:
		return ok("no user has subordinate ids (/etc/subuid, /etc/subgid): sandboxes are root's")
	}
	obstacle, is := errors.AsType[*rootless.Obstacle](err)
	if !is {
		obstacle = &rootless.Obstacle{What: err.Error()}
	}
	return warn(obstacle.Remedy, "ordinary users cannot have sandboxes: %s", obstacle.What)
}

func userPrivileges(*env) answer {
	has, err := effective()
	if err != nil {
		return fail("", "reading the capabilities: %v", err)
	}
	for _, c := range privilegesNeeded {
		if !has(c.bit) {
			return fail("start it with `podman unshare`", "root of a user namespace, but without %s (%s)", c.name, c.why)
		}
	}
	return warn(asRoot+" for what is missing below",
		"root of a user's own user namespace: jails of a rootless engine, with every protection that takes no privilege on the machine")
}

// nestedNamespace makes one inside the engine's, with all of its ids.
func nestedNamespace(*env) answer {
	uids, gids, err := rootless.Maps()
	if err != nil {
		return fail("mount /proc", "%v", err)
	}
	f, err := fork.UserNS(idmap.Text(uids), idmap.Text(gids))
	f.Close()
	return tried(err, "set the sysctl user.max_user_namespaces above 1", "made, inside the engine's")
}

func userIDs(*env) answer {
	uids, gids, err := rootless.Maps()
	if err != nil {
		return fail("mount /proc", "%v", err)
	}
	var u, g uint64
	for _, m := range uids {
		u += uint64(m.Size)
	}
	for _, m := range gids {
		g += uint64(m.Size)
	}
	if min(u, g) < 2 {
		return warn("install uidmap and add ids for the user in /etc/subuid and /etc/subgid (usermod --add-subuids)",
			"the user has no id but its own: images whose files have other owners do not work, and container root is the user")
	}
	return warn(asRoot+", or start containers with --userns=nomap",
		"the user's own %d, which all of its jails share; container root is the user, unless the engine maps another", u)
}

func userCgroups(e *env) answer {
	c := e.host.Cgroup
	if !c.Pids && !c.Memory && !c.CPU {
		return warn(delegated, "none is the user's: a jail is bounded by the size of its layer and by resource limits (ulimit), not in memory and processors")
	}
	return ok("delegated to the user")
}

// userLimit reports whether one limit can be set in the user's own groups.
func userLimit(name string) func(*env) answer {
	l := limitFacts[name]
	return func(e *env) answer {
		switch {
		case l.have(e.host.Cgroup):
			return ok("can be set")
		case name == "swap" && noSwap("/proc/swaps"):
			return ok("not needed: the host has no swap")
		}
		return warn(delegated, "not the user's to set: %s", l.without)
	}
}

// userLSM: a profile is there if root has loaded it.
func userLSM(e *env) answer {
	if !apparmor.Enabled() {
		return lsmConfines(e)
	}
	name := e.policy.AppArmor.Profile
	if loaded, err := apparmor.Loaded(name); err == nil && loaded {
		return ok("AppArmor, profile %s is loaded", name)
	}
	return fail("have root load it: `sudo agentjail install podman`", "AppArmor is on, but profile %s is not loaded, which is root's to do", name)
}
