// Package workloads is the real work that agents do, as data: what it needs, the
// script, and where a jail is meant to answer differently. Tests run it with
// filters alone over the host's own programs (seccomp) and in whole jails over
// an image (tests/e2e).
package workloads

import (
	"os"
	"slices"
)

// Work is one piece: a shell script, run by /bin/sh in /tmp, whose output must
// be the same everywhere.
type Work struct {
	Name string
	// Needs are programs. On a host without them the work is skipped; an image
	// has to have them.
	Needs []string
	// Packages are Debian's that bring them, beyond those of the work image.
	Packages []string
	Script   string
	// Strict and Tools mark work that these profiles are for, strict's being that of
	// tools as well. Server work needs the server profile, Debug work the debug profile.
	Strict, Tools, Server, Debug bool
	// User is the uid in a container. Root is what most images start as.
	User uint32
	// OnlyImage marks work that needs an image's packages, or writes to the file
	// system that it runs in; OnlyHost marks work that builds its programs first,
	// outside the profile that it is for, or that other work in an image includes.
	OnlyImage, OnlyHost bool
	// Root marks work that only root does.
	Root bool
	// Workspace marks work that is also run in a mounted directory, as a workspace is.
	Workspace bool
	// Heavy marks work that takes too long, in time or in packages, for every
	// run: WORKLOADS=all runs it.
	Heavy bool
	// Differs are the lines in which a jail is meant to differ from a plain
	// container, each with the reason.
	Differs []Difference
}

// Difference is a line of output under runc and in a jail. A side may be "" where
// there is no such line.
type Difference struct{ Runc, Jail, Why string }

// All reports whether heavy work is requested.
func All() bool { return os.Getenv("WORKLOADS") == "all" }

// Servers are the packages of the servers whose images' entry points tests/e2e
// rebuilds in the same image.
var Servers = []string{"apache2", "gosu", "mariadb-server", "memcached", "nginx-light", "postgresql-15", "redis-server"}

// Packages are those of all the work that is to run and of the servers, in order
// and each once.
func Packages() []string {
	out := slices.Clone(Servers)
	for _, w := range List {
		if w.OnlyHost {
			continue
		}
		if !w.Heavy || All() {
			out = append(out, w.Packages...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
