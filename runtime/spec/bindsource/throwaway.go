package bindsource

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// SetThrowAway makes a bind mount of an overlay that Podman requests for a directory whose changes
// end with the container (`-v DIR:/place:O`), and reports whether the mount is one. Its upper
// directory is in the container's own (containers/common, pkg/overlay): where a person names it,
// the changes are to stay.
func SetThrowAway(m *specs.Mount, id string, e Engine) bool {
	if m.Type != "overlay" || isShort(id) {
		return false
	}
	value := map[string]string{}
	for _, o := range m.Options {
		k, v, _ := strings.Cut(o, "=")
		if value[k] != "" || !slices.Contains([]string{
			"lowerdir", "upperdir", "workdir", "private", "rprivate", "userxattr",
			"volatile",
		}, k) {
			return false
		}
		value[k] = v
	}
	lower, dir := value["lowerdir"], filepath.Dir(value["upperdir"])
	if !isPodmans(dir, id, e) || value["upperdir"] != dir+"/upper" || value["workdir"] != dir+"/work" || !filepath.IsAbs(lower) ||
		strings.ContainsAny(lower, `:\`) {
		return false
	}
	m.Type, m.Source, m.Options = "bind", lower, []string{"bind", "rprivate"}
	return true
}

// SetPodmanImage makes a bind mount of an overlay that Podman requests for an image (`--mount
// type=image`): of the mounted image, and an empty directory of the container's own.
func SetPodmanImage(m *specs.Mount, id string, e Engine) bool {
	if m.Type != "overlay" || isShort(id) || len(m.Options) == 0 || slices.ContainsFunc(m.Options[1:], func(o string) bool {
		return o != "private" && o != "rprivate"
	}) {
		return false
	}
	layers, ok := strings.CutPrefix(m.Options[0], "lowerdir=")
	image, empty, _ := strings.Cut(layers, ":")
	if !ok || strings.ContainsAny(empty, `:\`) || strings.Contains(image, `\`) || filepath.Base(empty) != "lower" ||
		!isPodmans(filepath.Dir(empty), id, e) {
		return false
	}
	m.Type, m.Source, m.Options = "bind", image, []string{"bind", "rprivate", "ro"}
	return true
}

// SetReadOnlyImage is SetImage for a source that is the root of an overlay without an upper layer.
// Podman mounts an image so, and a container's root with one.
func (s *Source) SetReadOnlyImage(e Engine) error {
	_, options, err := e.Mounts.Super(int(s.File.Fd()))
	if err != nil || strings.Contains(options, "upperdir=") {
		return err
	}
	return s.SetImage(s.Path, e)
}

// isPodmans reports whether a directory is one that Podman makes for an overlay of a container's.
func isPodmans(dir, id string, e Engine) bool {
	return RunRoot(dir, id) != "" && strings.HasSuffix(filepath.Dir(dir), "/"+id+"/userdata/overlay") &&
		filepath.Clean(dir) == dir && storageAt(dir, e) != ""
}

// isShort reports whether an id could be a directory's name. Engines' are long and random.
func isShort(id string) bool { return len(id) < 12 }
