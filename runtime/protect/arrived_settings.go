package protect

import (
	"path"
	"slices"
	"strings"

	"agentjail.dev/runtime/protect/gitconfig"
)

// maxKeys bounds the settings of a repository that are named.
const maxKeys = 8

// programSettings returns the names of those settings of a repository's config that have git run
// a program.
func (a *arrivals) programSettings(gitDir string) string {
	text, _, err := a.read(path.Join(gitDir, "config"), maxCopy)
	if err != nil {
		return ""
	}
	var keys []string
	for _, s := range gitconfig.Scan(text) {
		n, ok := namedBy(s)
		value := strings.TrimSpace(s.Value)
		switch {
		case !ok, n.what == shellAlias && !strings.HasPrefix(value, "!"),
			n.what == external && s.Key != "" && !strings.HasPrefix(value, ext):
			continue
		}
		if !slices.Contains(keys, n.name) {
			keys = append(keys, n.name)
		}
	}
	if more := len(keys) - maxKeys; more > 0 {
		keys = append(keys[:maxKeys], "...")
	}
	return strings.Join(keys, ", ")
}

// modules lists the directories of submodules that a .gitmodules names (gitmodules(5)).
func (a *arrivals) modules(rel string) (paths []string) {
	text, _, err := a.read(rel, maxCopy)
	if err != nil {
		return nil
	}
	for _, s := range gitconfig.Scan(text) {
		if s.Section == "submodule" && s.Key == "path" {
			paths = append(paths, path.Clean(s.Value))
		}
	}
	return paths
}
