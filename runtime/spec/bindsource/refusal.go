package bindsource

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// A place is a part of the host's file tree that jails may not have.
type place struct {
	path string
	tree bool // and everything below
	// writable: only a writable mount is refused; files that every user of the host can read are
	// harmless when read.
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
	{"/efi", true, false, "it holds the host's boot loader"},
	{"/root", true, false, "it is the host root's home"},
	{"/run", true, false, "it holds the sockets of the host's services"},
	{"/var/run", true, false, "it holds the sockets of the host's services"},
	{"/tmp/.X11-unix", true, false, "it holds the sockets of users' screens"},
	{"/var", false, false, "it holds the host's own state"},
	{"/var/backups", true, false, "it holds copies of the host's secrets"},
	{"/var/crash", true, false, "it holds memory images of the host's programs"},
	{"/var/lib", false, false, "it holds the state of the host's services"},
	{"/var/lib/buildkit", true, false, "an engine keeps its layers in it"},
	{"/var/lib/cloud", true, false, "the host's first start is steered from it"},
	{"/var/lib/cni", true, false, "the node's network plugins keep their state in it"},
	{"/var/lib/dbus", true, false, "it holds the machine's id"},
	{"/var/lib/dkms", true, false, "the host's kernel modules are made in it"},
	{"/var/lib/etcd", true, false, "it holds a cluster's state and secrets"},
	{"/var/lib/k0s/etcd", true, false, "it holds a cluster's state and secrets"},
	{"/var/lib/k0s/pki", true, false, "it holds a cluster's state and secrets"},
	{"/var/lib/libvirt", true, false, "it holds virtual machines"},
	{"/var/lib/lxc", true, false, "an engine keeps its containers in it"},
	{"/var/lib/lxd", true, false, "an engine keeps its containers in it"},
	{"/var/lib/machines", true, false, "it holds containers and virtual machines"},
	{"/var/lib/rancher", false, false, "it holds a cluster's state and secrets"},
	{"/var/lib/rancher/k3s", false, false, "it holds a cluster's state and secrets"},
	{"/var/lib/rancher/k3s/agent", true, false, "it holds a node's state and secrets"},
	{"/var/lib/rancher/k3s/server", true, false, "it holds a cluster's state and secrets"},
	{"/var/lib/rancher/rke2", true, false, "it holds a cluster's state and secrets"},
	{"/var/lib/NetworkManager", true, false, "it holds the state of the host's services"},
	{"/var/lib/private", true, false, "it holds the state of the host's services"},
	{"/var/lib/sss", true, false, "it holds the state of the host's services"},
	{"/var/lib/systemd", true, false, "it holds the state of the host's services"},
	{"/var/snap", true, false, "it holds the state of the host's services"},
	{"/var/log", true, false, "it holds the host's logs"},
	{"/var/mail", true, false, "it holds every user's mail"},
	{"/var/spool", true, false, "it holds jobs that the host's services run"},
	{"/ostree", true, false, "it holds the host's system"},
	{"/sysroot", true, false, "it holds the host's system"},
	{"/usr", true, true, "the host runs programs from it"},
	{"/bin", true, true, "the host runs programs from it"},
	{"/sbin", true, true, "the host runs programs from it"},
	{"/lib", true, true, "the host runs programs from it"},
	{"/lib32", true, true, "the host runs programs from it"},
	{"/lib64", true, true, "the host runs programs from it"},
	{"/nix", true, true, "the host runs programs from it"},
	{"/snap", true, true, "the host runs programs from it"},
	{"/var/lib/dpkg", true, true, "the host's package manager keeps its records in it"},
	{"/var/lib/rpm", true, true, "the host's package manager keeps its records in it"},
	{"/home", false, false, "it holds every user's home"},
	{"/tmp", false, false, "every user of the host shares it"},
	{"/var/tmp", false, false, "every user of the host shares it"},
}

// storage are the directories in which engines keep images, containers and their
// own state; a custom directory is found by the bundle's place in it.
var storage = []string{
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet",
	nerdctl, "/run/containers", "/run/containerd", "/var/lib/agentjail", "/run/agentjail",
}

// nerdctl is the data directory of nerdctl, with a directory for each containerd; the containers'
// bundles lie elsewhere.
const nerdctl = "/var/lib/nerdctl"

// allows returns the remedy in policy, with the access that it opens.
func allows(what string) string { return "policy: binds.allow, which opens " + what }

// The access that binds.allow opens.
const (
	ofListener = "every action that its listener performs for a client"
	ofEngine   = "the host: a client of a container engine can become root there"
	ofHost     = "this part of the host to the jail, with its owner's rights, root's too"
)

// ofStorage is the remedy for an engine's storage. It opens none of it.
const ofStorage = "a volume by its name, an image by type=image, or a directory outside the storage"

// ofDevice is the remedy for a device that not every jail has.
const ofDevice = "to hide a file, /dev/null or an empty file as the source; for the device itself the engine's --device " +
	"instead, and policy: devices.allow, which opens all functions of its driver"

// engineSockets are the names of sockets of container engines and virtual machines: a client can
// start programs as root.
var engineSockets = []string{
	"docker.sock", "podman.sock", "containerd.sock", "crio.sock", "buildkitd.sock", "cri-dockerd.sock",
	"libvirt-sock", "lxd.sock", "unix.socket", "incus.sock",
}

// socketOpens returns the access that a socket opens.
func socketOpens(path string) string {
	if slices.Contains(engineSockets, path[strings.LastIndex(path, "/")+1:]) {
		return ofEngine
	}
	return ofListener
}

// Refusal reports why a source may not be mounted; nil when it may.
func Refusal(f Fact, readOnly bool, b policy.Binds) *refusal.Error {
	switch notFile := refusal.New(refusal.BindDevice, "a %s is not a file or directory", f.Kind); {
	case f.Node != "":
		return nil
	case f.Kind == Device: // it works in no bind mount
		return notFile.WithRemedy("%s", ofDevice)
	case Allowed(f, b) || (f.Kind == Socket || f.Kind == Pipe) && f.Link == "" && protect.IsReachable(b.Sockets, f.Path):
		return nil
	case f.Kind == Socket:
		return refusal.New(refusal.BindSocket, "a Unix socket lets the container act through a host program").WithRemedy("%s", allows(socketOpens(f.Path)))
	case f.Kind != Dir && f.Kind != File:
		return notFile.WithRemedy("%s", allows("all that is done at its other end"))
	}
	if f.IsPublic() && elsewhereRefusal(f, true) == nil {
		return nil // a copy, or read-only: it is never mounted writable
	}
	// Podman's --init mounts /usr/libexec/podman/catatonit, a link of Debian's to another
	// directory. Every user can read the directories from which the host runs programs.
	if f.Link != "" && !(readOnly && f.Rooted && f.System) {
		real := f
		if real.Link = ""; Refusal(real, readOnly, b) != nil { // the real path is no remedy
			return Refusal(real, readOnly, b)
		}
		return refusal.New(refusal.BindLink, "the symbolic link %s leads out of its directory, to %s", f.Link,
			f.Path).WithRemedy("name the real path, if it is meant")
	}
	if f.Role == Pod {
		return refusalOfPods(f, readOnly)
	}
	if why := elsewhereRefusal(f, readOnly); why != nil {
		return why
	}
	if f.IsEngines() {
		return nil
	}
	if why := placeRefusal(f, readOnly, b); why != nil {
		return why
	}
	if f.HostPath {
		return hostPathRefusal(readOnly)
	}
	return rootRefusal(f, readOnly, b)
}

// elsewhereRefusal judges the other places of the host's file tree that show a source, or a part of
// it: a write to it is one to them.
func elsewhereRefusal(f Fact, readOnly bool) *refusal.Error {
	places := f.Shown.counted()
	if f.Also != "" && !slices.Contains(places, f.Also) {
		places = append([]string{f.Also}, places...)
	}
	for _, at := range places {
		code, why, remedy := refusal.BindSystem, forbiddenElsewhere(at, readOnly), allows(ofHost)
		if why == "" && !f.IsEngines() {
			code = refusal.BindUsers
			why, remedy = forbiddenOfUsers(at, f.Homes, readOnly)
		}
		part := slices.Contains(f.Shown.Parts, at)
		holds := part && f.Role == Plain && slices.ContainsFunc(storage, func(dir string) bool { return pathname.Within(dir, at) })
		if why == "" && (holds || f.Role == Volume && f.Storage != "") {
			code, why, remedy = refusal.BindEngine, "an engine keeps its containers in "+cmp.Or(f.Storage, at), ofStorage
		}
		switch {
		case why == "":
		case part:
			return refusal.New(code, "a part of it is mounted at %s, and %s", at, why).WithRemedy("%s", remedy)
		default:
			return refusal.New(code, "it is %s, mounted there, and %s", at, why).WithRemedy("%s", remedy)
		}
	}
	return nil
}

// placeRefusal judges a source's own place.
func placeRefusal(f Fact, readOnly bool, b policy.Binds) *refusal.Error {
	if f.Role == Volume {
		return nil // its place is the engine's, and was judged where it is really at
	}
	ofRoots := b.Root != policy.RootRefuse && b.Root != "" && strings.HasPrefix(f.Path, "/root/") &&
		!strings.HasPrefix(f.Path, "/root/.")
	code, why, remedy := refusal.BindSystem, "", allows(ofHost)
	if !ofRoots {
		why = forbidden(f.Path, readOnly)
	}
	switch {
	case why != "" && strings.HasPrefix(f.Path, "/root/"):
		remedy = `where root works in directories of its own, policy: binds.root = "nobody", which opens files that everybody may write to, or "allow", which opens all that is root's below it; or ` + remedy
	case why != "":
	case f.Storage != "":
		code, why, remedy = refusal.BindEngine, "an engine keeps its containers in "+f.Storage, ofStorage
	default:
		code = refusal.BindUsers
		why, remedy = forbiddenOfUsers(f.Path, f.Homes, readOnly)
	}
	if why == "" {
		return nil
	}
	if f.Withheld != "" {
		why += ", and no copy is made: " + f.Withheld
	}
	return refusal.New(code, "%s", why).WithRemedy("%s", remedy)
}

// Withheld lists the directories of which no jail may have a part, but for /etc, whose files a
// sandbox shows as their modes allow: of the host's kernel, services and engines.
func Withheld() []string {
	out := slices.Clone(storage)
	for _, p := range places {
		if p.tree && !p.writable && p.path != "/etc" {
			out = append(out, p.path)
		}
	}
	return out
}

// forbidden returns the reason why no jail may have a path of the host; "" for none.
func forbidden(path string, readOnly bool) string {
	for _, p := range places {
		if path != p.path && !(p.tree && pathname.Within(path, p.path)) || p.writable && readOnly {
			continue
		}
		if p.writable {
			return p.why + ": it can be mounted read-only"
		}
		return p.why
	}
	return ""
}

// forbiddenElsewhere is forbidden for the real place of a directory that is mounted somewhere
// else. Image-based systems mount their /var and /home from below /sysroot (ostree(1)); these are
// treated as /var and /home.
func forbiddenElsewhere(path string, readOnly bool) string {
	if pathname.Within(path, "/sysroot") || pathname.Within(path, "/ostree") {
		return ""
	}
	return forbidden(path, readOnly)
}

// system reports whether a path is in a part of the host that may only be read.
func system(path string) bool {
	return slices.ContainsFunc(places, func(p place) bool { return p.writable && pathname.Within(path, p.path) })
}

// sameVolume reports whether two paths name the same volume of an engine whose storage appears at
// two places.
func sameVolume(a, b string) bool {
	const volumes = "/volumes/"
	i, j := strings.LastIndex(a, volumes), strings.LastIndex(b, volumes)
	return i >= 0 && j >= 0 && a[i:] == b[j:]
}

// injected are the files that an engine makes for each container, below a directory that is named
// by the container's id: Docker's, then Podman's. A name that ends in a slash stands for all
// names below.
var injected = []string{
	"hosts", "hostname", "resolv.conf", "mounts/shm", "mounts/secrets/",
	"userdata/hosts", "userdata/hostname", "userdata/resolv.conf", "userdata/shm", "userdata/.containerenv",
	"userdata/passwd", "userdata/group", "userdata/run/secrets", "userdata/run/secrets/", "userdata/secrets/", "userdata/localtime",
	"shm",
}

// role recognises the engine's own sources. An injected file lies in a directory named by the
// container's own id within the engine's storage, or by that of a jail whose namespaces it joins,
// so that no container can name another container's.
func role(path string, e Engine) Role {
	if r := podRole(path, e.Pod); r != Plain {
		return r
	}
	if slices.ContainsFunc(e.IDs, func(id string) bool { return isSandboxFile(path, id) }) {
		return Injected
	}
	for _, dir := range slices.Concat(e.Storage, storage) {
		rest, ok := pathname.Rel(path, dir)
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		if isVolume(parts) || dir == nerdctl && isNerdctlVolume(parts) {
			return Volume
		}
		if slices.ContainsFunc(e.IDs, func(id string) bool { return isInjected("/"+rest, id) }) {
			return Injected
		}
	}
	return Plain
}

// isInjected recognises an engine's own file for the container of that id. Ids
// are long and random; a short one could be a directory's name.
func isInjected(path, id string) bool {
	_, below, ok := strings.Cut(path, "/"+id+"/")
	if !ok || len(id) < 12 {
		return false
	}
	return slices.ContainsFunc(injected, func(name string) bool {
		return below == name || strings.HasSuffix(name, "/") && strings.HasPrefix(below, name)
	})
}

// isSecret recognises, among injected files, Docker's secrets and configurations, which swarm's
// services have, and Podman's secrets. Each is a separate file, and belongs to the user that the
// service or `--secret uid=` names.
func isSecret(path string) bool {
	dir, _ := filepath.Split(path)
	return strings.HasSuffix(dir, "/mounts/secrets/") || strings.HasSuffix(dir, "/userdata/secrets/")
}

// isVolume recognises DOCKER/volumes/NAME/_data and CONTAINERS/storage/volumes/NAME/_data, and
// paths below.
func isVolume(parts []string) bool {
	if len(parts) > 0 && parts[0] == "storage" {
		parts = parts[1:]
	}
	return len(parts) > 2 && parts[0] == "volumes" && parts[2] == volumeData
}

// isNerdctlVolume recognises ADDRESS/volumes/NAMESPACE/NAME/_data, and paths below.
func isNerdctlVolume(parts []string) bool {
	return len(parts) > 4 && parts[1] == "volumes" && parts[4] == volumeData
}
