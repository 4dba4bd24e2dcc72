package bindsource

import (
	"path"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/users"
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

// A home is a user's home directory that a path is, lies in, or holds.
type home struct {
	dir   string
	below string // the path below it; "" where the path is the home, or holds it
}

// homesAt lists the homes of a path: those that the host's users have, and those below directories
// of homes.
func homesAt(at string, known []string) (out []home) {
	add := func(dir string) {
		below, _ := pathname.Rel(at, dir)
		if h := (home{dir, below}); !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	if pathname.Within(at, "/root") {
		add("/root")
	}
	for _, parent := range users.Parents {
		if rest, is := pathname.Rel(at, parent); is {
			name, _, _ := strings.Cut(rest, "/")
			add(parent + "/" + name)
		}
	}
	for _, dir := range known {
		if pathname.Within(at, dir) || pathname.Below(dir, at) {
			add(dir)
		}
	}
	return out
}

// forbiddenOfUsers returns why no jail may have a path of a user's, and the remedy; "" for none.
// known are further homes there (Fact.Homes).
func forbiddenOfUsers(at string, known []string, readOnly bool) (why, remedy string) {
	all := homesAt(at, known)
	// The path itself matters more than the paths that it holds.
	for i := range userPlaces {
		p := &userPlaces[i]
		if readOnly && !p.kind.reads {
			continue
		}
		for _, h := range all {
			if pathname.Within(h.below, p.path) && !p.isCache(h.below) {
				return p.because(), p.remedy(h.dir+"/"+p.path, p.caches)
			}
		}
		if p.anywhere && strings.Contains(at+"/", "/"+p.path+"/") {
			return p.because(), p.remedy("it", p.caches)
		}
	}
	for _, h := range all {
		if why, remedy = h.forbidden(at, readOnly); why != "" {
			return why, remedy
		}
	}
	return "", ""
}

// forbidden returns why no jail may have a path that is a home or holds a place of it.
func (h home) forbidden(at string, readOnly bool) (why, remedy string) {
	for i := range userPlaces {
		p := &userPlaces[i]
		if readOnly && !p.kind.reads || h.below != "" && !pathname.Below(p.path, h.below) {
			continue
		}
		dir, caches := h.dir+"/"+p.path, p.caches
		if j := slices.IndexFunc(userPlaces, func(q userPlace) bool { return q.path == h.below && len(q.caches) > 0 }); j >= 0 {
			dir, caches = at, userPlaces[j].caches
		}
		return "it holds " + h.dir + "/" + p.path + " where there is one, and " + p.because(), p.remedy(dir, caches)
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
