package sandbox

import (
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/bindsource"
)

// maxMounted bounds the file systems that Mounted shows: each takes time at every start.
const maxMounted = 64

// Mounted returns the places below / of the file systems that a sandbox shows, read-only, as the
// root: of this machine's disks and memory. left are those that a person mounted and a sandbox does
// not show: a network's, and those with files of a directory that is empty in a sandbox or that no
// jail may mount. Places in such a directory are in neither.
func Mounted(all []mountinfo.Mount) (shown, left []string) {
	var visible []mountinfo.Mount
	for _, m := range all { // the last one covers those at and below its place
		visible = append(slices.DeleteFunc(visible, func(v mountinfo.Mount) bool { return pathname.Within(v.Point, m.Point) }), m)
	}
	withheld := bindsource.Withheld()
	for _, h := range hidden {
		withheld = append(withheld, h.path)
	}
	for _, m := range visible {
		switch {
		case m.Point == "/" || Mounts(m.Point) || under(m.Point, withheld...):
		case isLocal(m) && !showsOther(visible, m, withheld):
			shown = append(shown, m.Point)
		case strings.ContainsAny(m.Source, "/:"): // a device's, a server's; the kernel's own have a word
			left = append(left, m.Point)
		}
	}
	slices.Sort(shown) // a directory before those in it
	if len(shown) > maxMounted {
		shown, left = shown[:maxMounted], append(left, shown[maxMounted:]...)
	}
	return shown, left
}

// isLocal reports whether a file system's files are on this machine, and no program answers for it.
func isLocal(m mountinfo.Mount) bool {
	block := !strings.HasPrefix(m.Dev, "0:")
	return (block || slices.Contains([]string{"tmpfs", "overlay", "btrfs", "zfs"}, m.FS)) && !strings.HasPrefix(m.FS, "fuse")
}

// showsOther reports whether a mount shows files of one of the directories at another place.
func showsOther(visible []mountinfo.Mount, m mountinfo.Mount, dirs []string) bool {
	for _, v := range visible {
		for _, dir := range dirs {
			at, inside := dir, v.Root // of the file system, in the directory
			if rest, ok := pathname.Rel(dir, v.Point); ok {
				inside = filepath.Join(v.Root, rest)
			} else if at = v.Point; !pathname.Within(at, dir) {
				continue
			}
			if v.Dev != m.Dev || dir == "/sysroot" || dir == "/ostree" {
				continue // image-based systems mount their /var and /usr from there (ostree(1))
			}
			rest, below := pathname.Rel(inside, m.Root)
			if pathname.Within(m.Root, inside) || below && filepath.Join(m.Point, rest) != at {
				return true
			}
		}
	}
	return false
}
