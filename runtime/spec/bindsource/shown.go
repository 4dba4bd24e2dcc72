package bindsource

import (
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
)

// Shown are the further places of the host's file tree that have the content of a source: a write
// to the source is one to them. The mounts of the source's file system show them
// (proc_pid_mountinfo(5)). A file system that a program copies (FUSE) shows in none.
type Shown struct {
	// Names are other names of the source itself.
	Names []string `json:"names,omitempty"`
	// Parts are mount points outside of it that show a directory in it.
	Parts []string `json:"parts,omitempty"`
}

// shown returns the further places of a path that is a directory of a file system's.
func (ms *Mounts) shown(dev, inside, path string) (s Shown) {
	for m := range ms.all {
		switch {
		case m.Dev != dev:
		case pathname.Within(inside, m.Root):
			if at := filepath.Join(m.Point, strings.TrimPrefix(inside, m.Root)); at != path && !slices.Contains(s.Names, at) {
				s.Names = append(s.Names, at)
			}
		case pathname.Below(m.Root, inside) && !pathname.Within(m.Point, path) && !slices.Contains(s.Parts, m.Point):
			s.Parts = append(s.Parts, m.Point)
		}
	}
	return s
}

// counted are the places by which the content is judged. Services mount directories of others for
// themselves: the kubelet for its pods, and programs below /run.
func (s Shown) counted() []string {
	return slices.DeleteFunc(slices.Concat(s.Names, s.Parts), func(at string) bool {
		return KubeletRoot(at) != "" || pathname.Below(at, "/run") || pathname.Within(at, "/proc")
	})
}

// AllNames are the source's own path and its other names.
func (f Fact) AllNames() []string {
	names := append([]string{f.Path}, f.Shown.Names...)
	if f.Also != "" && !slices.Contains(names, f.Also) {
		names = append(names, f.Also)
	}
	return names
}

// Reached are all places of the host's file tree that a writable mount of the source opens to its
// writer, with those of the mounts below it. A source that an engine made is no place of the host's
// itself.
func (f Fact) Reached() (places []string) {
	if !f.IsEngines() {
		places = f.AllNames()
	}
	return slices.Concat(places, f.Shown.Parts, f.ReachedBelow)
}

// Home is the user's home that the source lies in, or is; "" for none.
func (f Fact) Home() string {
	for _, h := range homesAt(f.Path, f.Homes) {
		if pathname.Within(f.Path, h.dir) {
			return h.dir
		}
	}
	return ""
}
