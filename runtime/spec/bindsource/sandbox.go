package bindsource

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/trusted"
)

// maxSandboxConfig bounds the configuration of a sandbox that is read.
const maxSandboxConfig = 4 << 20

// Sandboxes lists the ids of CRI-O's sandboxes whose files a container mounts. CRI-O makes the
// files of a pod, and its shared memory, in the directory of the pod's sandbox. If the pod's
// namespaces need no container, the sandbox's id belongs to no container of a jail. A pod's
// author may have chosen the path (hostPath), and an image the annotation. So the configuration
// beside the files has to be of the container's own pod, by the control group that the kubelet
// made for it (PodUID).
func Sandboxes(s *specs.Spec, dirs []string) []string {
	pod := PodUID(s)
	if pod == "" {
		return nil
	}
	dirs = slices.Concat(dirs, storage)
	var out []string
	for _, m := range s.Mounts {
		dir, id := sandboxOf(m.Source, dirs)
		if id != "" && !slices.Contains(out, id) && podOfSandbox(dir) == pod {
			out = append(out, id)
		}
	}
	return out
}

// storageDrivers are the drivers of containers/storage that name the directory of containers,
// STORAGE/DRIVER-containers/ID/userdata (storage/containers.go, drivers/driver.go).
var storageDrivers = []string{"overlay", "vfs", "btrfs", "zfs", "aufs"}

// isContainers reports whether a name is of such a directory.
func isContainers(name string) bool {
	driver, ok := strings.CutSuffix(name, "-containers")
	return ok && slices.Contains(storageDrivers, driver)
}

// RunRoot returns the storage directory of Podman's or CRI-O's file for the container of that id,
// wherever that is; "" for another file. No path with the container's id is known before.
func RunRoot(path, id string) string {
	dir, _, ok := strings.Cut(path, "/"+id+"/userdata/")
	if root := filepath.Dir(dir); ok && len(id) == 64 && isContainers(filepath.Base(dir)) && root != "/" && root != "." {
		return root
	}
	return ""
}

// sandboxOf returns the directory of a sandbox's file, STORAGE/DRIVER-containers/ID/userdata,
// and the id.
func sandboxOf(path string, dirs []string) (dir, id string) {
	for _, d := range dirs {
		below, ok := pathname.Rel(path, d)
		if !ok {
			continue
		}
		// The storage is the engine's, or within one that is well known.
		parts := strings.Split(below, "/")
		n := len(parts)
		if n >= 4 && n <= 5 && isContainers(parts[n-4]) && len(parts[n-3]) == 64 &&
			strings.Trim(parts[n-3], "0123456789abcdef") == "" && parts[n-2] == "userdata" && slices.Contains(sandboxFiles, parts[n-1]) {
			return filepath.Dir(path), parts[n-3]
		}
	}
	return "", ""
}

// podOfSandbox is the pod of a sandbox, or "".
func podOfSandbox(dir string) string {
	text, err := trusted.Read(filepath.Join(dir, "config.json"), maxSandboxConfig)
	var s specs.Spec
	if err != nil || json.Unmarshal(text, &s) != nil {
		return ""
	}
	return PodUID(&s)
}
