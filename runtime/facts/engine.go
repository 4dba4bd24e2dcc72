package facts

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/harden"
)

// nodes returns the host's own device nodes with the names that policy allows.
func nodes(names []string) map[string]harden.Node {
	out := map[string]harden.Node{}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(name, &st) != nil {
			continue // then there is nothing to allow
		}
		n := harden.Node{Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev))}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFCHR:
			n.Type = "c"
		case unix.S_IFBLK:
			n.Type = "b"
		default:
			continue
		}
		out[name] = n
	}
	return out
}

// Where engines mount a container's root, as patterns of path elements below
// their storage directory; * is one element.
var rootPatterns = []string{
	"overlay2/*/merged",                        // Docker, overlay2 driver
	"overlay/*/merged",                         // containers/storage
	"overlay-containers/*/userdata/rootfs",     // containers/storage, a bundle of CRI-O's in its directory of state
	"vfs/dir/*",                                // Docker, vfs driver
	"btrfs/subvolumes/*",                       // Docker, btrfs driver
	"rootfs/*/*",                               // Docker, containerd image store
	"io.containerd.runtime.v2.task/*/*/rootfs", // containerd
}

// engineStorage guesses the engine's storage directory from the place of the root,
// since it can be configured; the well-known ones are refused anyway.
func engineStorage(root, bundleDir string) []string {
	var out []string
	for _, path := range []string{root, filepath.Join(bundleDir, "rootfs")} {
		parts := strings.Split(path, "/")
		for _, pat := range rootPatterns {
			n := len(parts) - strings.Count(pat, "/") - 1
			if n < 2 {
				continue
			}
			if ok, _ := filepath.Match(pat, strings.Join(parts[n:], "/")); ok {
				out = append(out, strings.Join(parts[:n], "/"))
			}
		}
	}
	return out
}
