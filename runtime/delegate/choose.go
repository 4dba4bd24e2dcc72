package delegate

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/delegate/flaws"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

// A Choice reports why a delegate was taken of those that the host has.
type Choice struct {
	// Why is what speaks for it.
	Why string `json:"why"`
	// Not has, for each better candidate, the reason why it was not taken.
	Not []string `json:"not,omitempty"`
	// Also has, for each other one, the reason against it.
	Also []string `json:"also,omitempty"`
	// Doubt reports that none ran a trial.
	Doubt bool `json:"doubt,omitempty"`
}

// Auto is policy for the best delegate of the host.
const Auto = "auto"

// Choose finds the delegate that policy names. For Auto it returns the best delegate that passes a
// trial, which runs a container: the quickest without known flaws, a crun of release 1.9 or later,
// then the newest runc. The choice is kept in the directory cacheDir ("" keeps none) until a
// delegate, the control groups' layout or the boot changes. It is an error if there is no delegate.
// If none passes its trial, Choose returns the newest runc, whose own error then shows the reason.
func Choose(want, cacheDir string) (*Runtime, error) {
	if want != Auto || os.Geteuid() != 0 { // an ordinary user cannot have it tried
		return Resolve(want)
	}
	all := distinct(All())
	if len(all) == 0 {
		return Resolve(want) // which reports where it looked
	}
	rec := choiceRecord{Form: choiceForm, Boot: state.BootID(), Layout: cgroupLayout()}
	for _, r := range all {
		rec.Candidates = append(rec.Candidates, candidate{r.Path, r.id()})
	}
	if r := rec.chosen(all, cacheDir); r != nil {
		return r, nil
	}
	chosen, err := decide(all, cacheDir)
	if err != nil {
		return nil, err
	}
	rec.Path, rec.Choice = chosen.Path, *chosen.Choice
	if len(rec.Not) > 0 {
		// The trial may have failed for want of memory.
		rec.Until = time.Now().Add(retry).Unix()
	}
	keep(cacheDir, choiceFile, rec)
	return chosen, nil
}

// retry is how long a choice lasts for which a better delegate failed.
const retry = 10 * time.Minute

type candidate struct {
	Path string
	File fileID
}

// choiceRecord is a choice and all that it depends on.
type choiceRecord struct {
	Form         int // choiceForm of the program that wrote it
	Boot, Layout string
	Candidates   []candidate
	Path         string
	Until        int64 // seconds since 1970; 0 is for ever
	Choice
}

// choiceForm changes with choiceRecord, the tables of flaws, and the trial.
const (
	choiceForm = 2
	choiceFile = "delegate.json"
)

// chosen returns the delegate of an earlier choice that still holds.
func (c *choiceRecord) chosen(all []*Runtime, dir string) *Runtime {
	var old choiceRecord
	if !recall(dir, choiceFile, &old) || old.Form != c.Form || old.Boot != c.Boot || old.Layout != c.Layout ||
		!slices.Equal(old.Candidates, c.Candidates) || old.Until != 0 && time.Now().Unix() > old.Until {
		return nil
	}
	i := slices.IndexFunc(all, func(r *Runtime) bool { return r.Path == old.Path })
	if i < 0 {
		return nil
	}
	all[i].Choice = &old.Choice
	return all[i]
}

// cgroupLayout distinguishes hierarchies that delegates treat differently: by their versions, and
// by controllers in a hierarchy of version 2 beside version 1, which crun refuses.
func cgroupLayout() string {
	var b strings.Builder
	for _, dir := range []string{cgroups.Root, cgroups.Root + "/unified"} {
		controllers, _ := cgroups.Controllers(dir)
		fmt.Fprintf(&b, "%d %s ", cgroups.Version(dir), controllers)
	}
	return b.String()
}

// rank is the order in which delegates are tried.
type rank int

const (
	quickest rank = iota
	sound
	flawed
	old
	oldAndFlawed
)

// why is the text for each rank.
var why = map[rank]string{
	quickest:     "quick, and without known flaws",
	sound:        "without known flaws, slower than crun",
	flawed:       "without fixes of known flaws",
	old:          "before release 1.9: does not report its features",
	oldAndFlawed: "old, and without fixes of known flaws",
}

// rated is a candidate with what is known of it.
type rated struct {
	*Runtime
	caps Caps
	rank rank
	at   traits.Version
}

func rate(r *Runtime, cacheDir string) (rated, error) {
	c := rated{Runtime: r}
	var err error
	if c.caps, err = r.Capabilities(cacheDir); err != nil {
		return c, err
	}
	if c.caps.NoSeccomp {
		return c, errors.New("built without seccomp")
	}
	name, at, _, known := flaws.Version(c.caps.Version)
	c.at = at
	tr := traits.Of(name) // the program's own word, whatever the file's name
	good := flaws.Judge(r.Path, c.caps.Version, flaws.Debian).OK
	switch {
	case !known:
		c.rank = oldAndFlawed
	case tr.FastSince != traits.Version{} && !at.Less(tr.FastSince) && c.caps.OCIMax != "" && good:
		c.rank = quickest
	case tr.EveryReleaseWorks && good:
		c.rank = sound
	case tr.EveryReleaseWorks:
		c.rank = flawed
	case good:
		c.rank = old
	default:
		c.rank = oldAndFlawed
	}
	return c, nil
}

// decide rates the candidates and takes the first that passes a trial. A single candidate is taken
// without a trial: its own errors show what it lacks.
func decide(all []*Runtime, cacheDir string) (*Runtime, error) {
	if len(all) == 1 {
		all[0].Choice = &Choice{Why: "the only one here"}
		return all[0], nil
	}
	var order []rated
	var no []string
	for _, r := range all {
		c, err := rate(r, cacheDir)
		if err != nil {
			no = append(no, fmt.Sprintf("%s: %v", r.Path, err))
			continue
		}
		order = append(order, c)
	}
	slices.SortStableFunc(order, func(a, b rated) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), slices.Compare(b.at[:], a.at[:]))
	})
	for i, c := range order {
		// A trial would need some of the ids and groups that the user has for jails.
		if rootless.Inside() {
			c.Choice = &Choice{Why: why[c.rank] + " (not tried)", Not: no}
			return c.Runtime, nil
		}
		if err := c.try(); err != nil {
			no = append(no, fmt.Sprintf("%s (%s): %v", c.Path, c.caps.Version, err))
			continue
		}
		c.Choice = &Choice{Why: why[c.rank], Not: no}
		for _, o := range order[i+1:] {
			c.Choice.Also = append(c.Choice.Also, fmt.Sprintf("%s (%s): %s", o.Path, o.caps.Version, why[o.rank]))
		}
		return c.Runtime, nil
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("%w that can be used: %s (remedy: install one that can, or name it as delegate in the policy)", ErrNone, strings.Join(no, "; "))
	}
	// If no delegate passes its trial, the trial may be at fault: a security module can permit
	// jails and refuse the trial. If it is not, the delegate reports the error, and the jail does
	// not start.
	best := order[0]
	if i := slices.IndexFunc(order, func(c rated) bool { return c.Traits().EveryReleaseWorks }); i >= 0 {
		best = order[i]
	}
	best.Choice = &Choice{Why: "none ran a trial", Not: no, Doubt: true}
	return best.Runtime, nil
}

// distinct leaves out further names of the same file.
func distinct(all []*Runtime) []*Runtime {
	var out []*Runtime
	for _, r := range all {
		if !slices.ContainsFunc(out, func(o *Runtime) bool { return o.stat.Dev == r.stat.Dev && o.stat.Ino == r.stat.Ino }) {
			out = append(out, r)
		}
	}
	return out
}
