package bindsource

import (
	"path"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
)

// A userPlace is a place in a user's home that holds keys, or programs that run for that user
// automatically. The table is in userplaces.go.
type userPlace struct {
	path string // below the home
	// anywhere: the name alone is enough, wherever the home is.
	anywhere bool
	kind     *placeKind
	by       string // the program that runs it, or keeps it there
	// caches are directories in it, or beside it, that jails may have: no program runs files in
	// them by name.
	caches []string
}

// A placeKind reports why a place is kept from jails.
type placeKind struct {
	why string
	// opens is the access that a policy opens by allowing the place.
	opens string
	// reads: refused also read-only, for a jail that is mapped to the owner.
	reads bool
}

// homes are the directories that hold users' homes.
var homes = []string{"/home", "/var/home", "/export/home", "/Users"}

// inHome splits a path into a user's home and the rest below it.
func inHome(path string) (home, below string, ok bool) {
	if pathname.Within(path, "/root") {
		below, _ = pathname.Rel(path, "/root")
		return "/root", below, true
	}
	for _, dir := range homes {
		rest, is := pathname.Rel(path, dir)
		if !is {
			continue
		}
		user, below, _ := strings.Cut(rest, "/")
		return dir + "/" + user, below, true
	}
	return "", "", false
}

// forbiddenOfUsers returns why no jail may have a path of a user's, and the remedy; "" for none.
func forbiddenOfUsers(at string, readOnly bool) (why, remedy string) {
	home, below, known := inHome(at)
	// The path itself matters more than the paths that it holds.
	for i := range userPlaces {
		p := &userPlaces[i]
		switch {
		case readOnly && !p.kind.reads:
		case known && pathname.Within(below, p.path) && !p.isCache(below):
			return p.because(), p.remedy(home+"/"+p.path, p.caches)
		case p.anywhere && strings.Contains(at+"/", "/"+p.path+"/"):
			return p.because(), p.remedy("it", p.caches)
		}
	}
	if !known {
		return "", ""
	}
	for i := range userPlaces {
		p := &userPlaces[i]
		if readOnly && !p.kind.reads || below != "" && !pathname.Below(p.path, below) {
			continue
		}
		dir, caches := home+"/"+p.path, p.caches
		if j := slices.IndexFunc(userPlaces, func(q userPlace) bool { return q.path == below && len(q.caches) > 0 }); j >= 0 {
			dir, caches = at, userPlaces[j].caches
		}
		return "it holds " + home + "/" + p.path + ", and " + p.because(), p.remedy(dir, caches)
	}
	return "", ""
}

// isCache reports whether a path below the home is in a cache of the place.
func (p *userPlace) isCache(below string) bool {
	return slices.ContainsFunc(p.caches, func(c string) bool { return pathname.Within(below, p.path+"/"+c) })
}

// because is the reason, with the program that it is about.
func (p *userPlace) because() string { return p.kind.why + " (" + p.by + ")" }

// remedy returns the alternatives that can be mounted, among them the caches below at, and the
// access that policy would open.
func (p *userPlace) remedy(at string, caches []string) string {
	var instead []string
	for _, c := range caches {
		instead = append(instead, path.Join(at, c))
	}
	switch {
	case len(instead) > 0:
		return "mount a cache in it instead: " + strings.Join(instead, ", ") + "; or " + allows(p.kind.opens)
	case !p.kind.reads:
		return "mount the project instead, or this read-only; or " + allows(p.kind.opens)
	}
	return "mount the project instead; or " + allows(p.kind.opens)
}
