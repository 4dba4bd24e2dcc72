package bindsource

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
)

// isSubpath recognises DOCKER/tmp/safe-mountN, where Docker 26 and later mount a part of a volume,
// and Docker 28 and later a part of an image (moby, volume/safepath); and ID/userdata/subpathN in
// the storage of Podman 5.4 and later (libpod, safeMountSubPath).
func isSubpath(path string, e Engine) bool {
	dir, name := filepath.Split(path)
	if strings.HasPrefix(name, "subpath") && role(dir+podmanMark, e) == Injected {
		return true
	}
	return strings.HasPrefix(name, "safe-mount") && slices.ContainsFunc(e.Storage, func(s string) bool { return dir == s+"/tmp/" })
}

// podmanMark is a file that Podman makes for each container, beside which it mounts subpaths.
const podmanMark = ".containerenv"

// setSubpath makes a part of a volume a volume's, also where the storage is mounted from elsewhere.
// Other parts of an engine's storage stay refused.
func (s *Source) setSubpath(e Engine) {
	ofVolume := func(at string) bool { return role(at, e) == Volume && (at == s.Also || sameVolume(at, s.Also)) }
	switch {
	case ofVolume(s.Also), slices.ContainsFunc(s.Shown.Names, ofVolume):
		s.Role, s.Also = Volume, ""
	case storageAt(s.Also, e) == "":
		s.Role = Volume // a directory that was made one is judged where it is
	}
}

// imageVolumes is where containerd mounts images that a pod has as volumes, below its own state:
// each at the id of the pod's sandbox and the digest of the image (containerd, internal/cri/server,
// mutateImageMount).
const imageVolumes = "/io.containerd.grpc.v1.cri/image-volumes/"

// PodImage is where containerd has mounted the image that a path lies in, for the container's own
// pod; "" where it is no such path.
func PodImage(path string, e Engine) string {
	before, rest, _ := strings.Cut(path, imageVolumes)
	sandbox, rest, _ := strings.Cut(rest, "/")
	digest, _, _ := strings.Cut(rest, "/")
	if len(sandbox) != 64 || len(digest) != 64 || !slices.Contains(e.IDs, sandbox) {
		return ""
	}
	return before + imageVolumes + sandbox + "/" + digest
}

// SetImage makes a source an image's, of which the engine's record reports that it is mounted at
// root for this container. A source elsewhere than on that mount's file system, or whose root is
// not in the engine's storage, stays as it is.
func (s *Source) SetImage(root string, e Engine) error {
	var own, st unix.Stat_t
	inStorage := slices.ContainsFunc(e.Storage, func(dir string) bool { return pathname.Within(root, dir) })
	if s.Role != Plain || !inStorage || unix.Lstat(root, &st) != nil || unix.Fstat(int(s.File.Fd()), &own) != nil ||
		own.Dev != st.Dev {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(s.File.Fd()), &fs); err != nil || int64(fs.Type) != unix.OVERLAYFS_SUPER_MAGIC {
		return err
	}
	inside, err := e.Mounts.inside(int(s.File.Fd()), s.Path)
	if err != nil || inside == "" {
		return err
	}
	s.Role, s.ImageRoot, s.Inside, s.Also, s.Storage = EngineImage, root, inside, "", ""
	return nil
}

// inside is the path of an open file in its file system; "" where the mounts do not show it.
func (ms *Mounts) inside(fd int, path string) (string, error) {
	id, err := mountOf(fd)
	if err == nil {
		_, path, err = ms.onMount(id, path)
	}
	return path, err
}
