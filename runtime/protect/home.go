package protect

import (
	"os"
	"path"
	"slices"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/users"
)

// For returns the options for a directory of the host's that follow from the users who may run git
// there: root, the owner, the caller, and those whose home it lies in. list may be nil.
func For(source string, owner uint32, list *users.List) Options {
	if list == nil {
		list = users.New()
	}
	caller := users.Caller()
	o := Options{
		Source: source, Homes: map[string]string{}, Readers: []uint32{owner, caller}, Settings: slices.Clone(systemSettings),
	}
	runs := list.Of(0, owner, caller)
	for _, u := range list.All() {
		if u.Home == "" {
			continue
		}
		o.Homes[u.Name] = u.Home
		o.Home = o.Home || u.Real == source || u.Home == source
		if slices.Contains(runs, u) || pathname.Within(source, u.Real) || pathname.Within(source, u.Home) {
			o.Own = append(o.Own, u.Home)
		}
	}
	if home := os.Getenv("HOME"); path.IsAbs(home) && path.Clean(home) != "/" {
		o.Own = append(o.Own, path.Clean(home))
	}
	slices.Sort(o.Own)
	o.Own = slices.Compact(o.Own)
	for _, home := range o.Own {
		o.Settings = append(o.Settings, home+"/.gitconfig", home+"/.config/git/config")
	}
	for name, file := range map[string]string{"XDG_CONFIG_HOME": "git/config", "GIT_CONFIG_GLOBAL": ""} {
		if at := os.Getenv(name); path.IsAbs(at) {
			o.Settings = append(o.Settings, path.Join(at, file))
		}
	}
	return o
}
