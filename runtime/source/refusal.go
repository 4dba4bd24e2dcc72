package source

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A place is a part of the host's file tree that jails may not have.
type place struct {
	path string
	tree bool // and everything below
	// writable: only a writable mount is refused; to read what every user of
	// the host can read harms nobody.
	writable bool
	why      string
}

var places = []place{
	{"/", false, false, "it is the host's whole file tree"},
	{"/etc", true, false, "it holds the host's configuration and secrets"},
	{"/proc", true, false, "it steers the host's kernel"},
	{"/sys", true, false, "it steers the host's kernel"},
	{"/dev", true, false, "it holds the host's devices"},
	{"/boot", true, false, "it holds the host's kernel"},
	{"/root", true, false, "it is the host root's home"},
	{"/run", true, false, "it holds the sockets of the host's services"},
	{"/var/run", true, false, "it holds the sockets of the host's services"},
	{"/var", false, false, "it holds the host's own state"},
	{"/var/lib", false, false, "it holds the state of the host's services"},
	{"/var/spool", true, false, "it holds jobs that the host's services run"},
	{"/usr", true, true, "the host runs programs from it"},
	{"/bin", true, true, "the host runs programs from it"},
	{"/sbin", true, true, "the host runs programs from it"},
	{"/lib", true, true, "the host runs programs from it"},
	{"/lib32", true, true, "the host runs programs from it"},
	{"/lib64", true, true, "the host runs programs from it"},
	{"/home", false, false, "it holds every user's home"},
	{"/tmp", false, false, "every user of the host shares it"},
	{"/var/tmp", false, false, "every user of the host shares it"},
}

// storage are the folders in which engines keep images, containers and their
// own state; a custom folder is found by the bundle's place in it.
var storage = []string{
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet",
	"/var/lib/agentjail", "/run/agentjail",
}

// Refusal says why a source may not be mounted; "" when it may.
func Refusal(f Fact, readOnly bool, allow []string) string {
	for _, a := range allow {
		if within(f.Path, a) && f.Link == "" {
			return ""
		}
	}
	const remedy = " (policy: binds.allow)"
	switch f.Kind {
	case Dir, File:
	case Socket:
		return "refused: a socket speaks for whoever listens on it" + remedy
	default:
		return fmt.Sprintf("refused: a %s is not a file or folder%s", f.Kind, remedy)
	}
	if f.Link != "" {
		return fmt.Sprintf("refused: the symbolic link %s leads out of its folder, to %s (name the real path, if it is meant)", f.Link, f.Path)
	}
	if f.Role != Plain {
		return ""
	}
	if f.Storage != "" {
		return "refused: an engine keeps its containers in " + f.Storage + remedy
	}
	for _, p := range places {
		if f.Path != p.path && !(p.tree && within(f.Path, p.path)) {
			continue
		}
		if p.writable && readOnly {
			continue
		}
		how := "refused: "
		if p.writable {
			how = "refused to be writable: "
		}
		return how + p.why + remedy
	}
	return ""
}

// injectedFiles are the files that an engine makes for each container and
// mounts at these names.
var injectedFiles = map[string]bool{
	"hosts": true, "hostname": true, "resolv.conf": true, "shm": true, ".containerenv": true,
}

// role recognises the engine's own sources. An injected file lies in a folder
// named by the container's own id within the engine's storage, or by that of a jail
// whose namespaces it joins, so that nobody can name another container's.
func role(f Fact, e Engine) Role {
	for _, dir := range append(e.Storage, storage...) {
		rest, ok := strings.CutPrefix(f.Path, dir+"/")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		// DOCKER/volumes/NAME/_data, CONTAINERS/storage/volumes/NAME/_data and
		// what lies below.
		for i, p := range parts {
			if p == "volumes" && i <= 1 && len(parts) > i+2 && parts[i+2] == "_data" {
				return Volume
			}
		}
		for _, p := range parts[:len(parts)-1] {
			// Ids are long and random; a short name could be a folder's.
			if len(p) >= 12 && slices.Contains(e.IDs, p) && injectedFiles[filepath.Base(f.Path)] {
				return Injected
			}
		}
	}
	return Plain
}
