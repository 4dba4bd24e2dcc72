package check

import (
	"fmt"
	"path/filepath"
	"strings"

	"agentjail.dev/runtime/install"
	"agentjail.dev/runtime/kernel/programs"
)

// programs is the directory of agentjail's programs.
func (e *env) programs() (string, error) {
	if e.opts.Programs != "" {
		return e.opts.Programs, nil
	}
	return programs.Dir()
}

// registered reports which engines start jails by these programs: what `agentjail install` did, and
// a package does not.
func registered(e *env) answer {
	dir, err := e.programs()
	if err != nil {
		return warn("start agentjail by its path", "%v", err)
	}
	var found, bad []string
	for _, engine := range []install.Engine{install.Docker, install.Podman, install.Containerd} {
		d := engine.Defaults()
		o := install.Options{Config: e.below(d.Config), DropIn: e.below(d.DropIn)}
		all, err := install.Registered(engine, o, dir)
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", engine.Title(), err))
			continue
		}
		var names []string
		for _, r := range all {
			name := r.Name
			if engine == install.Docker {
				if c, _, err := e.dockerSettings(); err == nil && c.Default == name {
					name += " (its default)"
				}
			}
			names = append(names, name)
		}
		if len(names) > 0 {
			found = append(found, engine.Title()+" as "+strings.Join(names, ", "))
			if engine == install.Docker && e.dockerAddsInterfaces() {
				found = append(found, "this Docker makes an interface for each container, which a jail without a network takes down: docker run --network=none saves that")
			}
		}
	}
	switch {
	case len(bad) > 0:
		return warn("repair that file", "%s", strings.Join(append(bad, found...), "; "))
	case len(found) == 0:
		return ok("no engine's configuration leads to %s: agentjail install docker, podman or containerd changes that", dir)
	}
	return ok("%s: %s", dir, strings.Join(found, "; "))
}

// dockerAddsInterfaces reports whether dockerd connects a container between its creation and its
// start, whatever the runtime does (Docker 28, moby daemon/start_linux.go).
func (e *env) dockerAddsInterfaces() bool {
	path := e.program("dockerd")
	if path == "" {
		return false
	}
	line, err := versionLine(path)
	return err == nil && install.DockerRelease(line) >= 28
}

// below is a path of /etc in the directory that is looked at in its place.
func (e *env) below(path string) string {
	rest, in := strings.CutPrefix(path, "/etc/")
	if !in {
		return path
	}
	return filepath.Join(e.etc, rest)
}
