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
	if m.Type != "overlay" || IsShort(id) {
		return false
	}
	value := map[string]string{}
	for _, o := range m.Options {
		k, v, _ := strings.Cut(o, "=")
		if value[k] != "" || !slices.Contains([]string{"lowerdir", "upperdir", "workdir", "private", "rprivate", "userxattr", "volatile"}, k) {
			return false
		}
		value[k] = v
	}
	lower, dir := value["lowerdir"], filepath.Dir(value["upperdir"])
	own := strings.HasSuffix(filepath.Dir(dir), "/overlay-containers/"+id+"/userdata/overlay") && storageAt(dir, e) != ""
	if !own || value["upperdir"] != dir+"/upper" || value["workdir"] != dir+"/work" || !filepath.IsAbs(lower) || strings.ContainsAny(lower, `:\`) {
		return false
	}
	m.Type, m.Source, m.Options = "bind", lower, []string{"bind", "rprivate"}
	return true
}

// IsShort reports whether an id could be a directory's name. Engines' are long and random.
func IsShort(id string) bool { return len(id) < 12 }
