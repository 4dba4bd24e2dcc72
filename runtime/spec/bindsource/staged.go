package bindsource

import (
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
)

// shares are the kinds of volume that are one file system in every pod that has
// them: the oldest mount of it is another pod's. (kubelet, pkg/volume)
var shares = []string{
	"kubernetes.io~csi", // drivers without a stage: csi-driver-nfs, -smb
	"kubernetes.io~nfs", "kubernetes.io~cephfs", "kubernetes.io~glusterfs", "kubernetes.io~azure-file",
}

// staged reports whether the kubelet mounted a volume for the pod from where it is
// staged on the node (NodeStageVolume of the Container Storage Interface;
// kubelet, pkg/volume/csi and pkg/volume/local), or from a share.
func (f Fact) staged() bool {
	_, below, ok := strings.Cut(f.Also, "/kubelet/")
	if !ok || f.Plugin == "" {
		return false
	}
	p := strings.Split(below, "/")
	switch {
	case p[0] == "plugins" && len(p) >= 5 && p[1]+"~"+p[2] == f.Plugin:
		// csi/DRIVER/HASH/globalmount, and csi/pv/NAME/globalmount before
		// Kubernetes 1.24; local-volume/mounts/NAME; iscsi/..., fc/...
		return p[2] != "csi" || len(p) >= 6 && p[5] == "globalmount"
	case p[0] == "pods" && len(p) >= 5 && p[2] == "volumes":
		return p[3] == f.Plugin && slices.Contains(shares, f.Plugin)
	}
	return false
}

// plugin is the kind of volume that a path in the pod's directory is of. Of a
// subPath it is that of the pod's volume of the same name which the same files
// are in: a hostPath volume has none, since the kubelet mounts none.
func (ms *Mounts) plugin(id, path, uid string) (string, error) {
	dir, below, ok := podDir(path, uid)
	p := strings.Split(below, "/")
	switch {
	case !ok || len(p) < 3:
		return "", nil
	case p[0] == "volumes":
		return p[1], nil
	case p[0] != "volume-subpaths":
		return "", nil
	}
	own, inside, err := ms.onMount(id, path)
	if own == nil {
		return "", err
	}
	for m := range ms.all {
		rel, ok := strings.CutPrefix(m.Point, dir+"/volumes/")
		v := strings.Split(rel, "/")
		if ok && len(v) >= 2 && v[1] == p[1] && (len(v) == 2 || len(v) == 3 && v[2] == "mount") && m.Dev == own.Dev &&
			pathname.Within(inside, m.Root) {
			return v[0], nil
		}
	}
	return "", ms.err
}
