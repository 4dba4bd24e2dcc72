package receipt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/observe/journal"
)

// Mounted is a directory of the host's that could be written to, and what of it was changed since
// the jail was made: by it or by another process. Something that was removed shows as a change of
// its directory.
type Mounted struct {
	At string `json:"at"` // in the jail
	// Changed are the first paths, those of directories with a slash at the end, and Total how many
	// there were.
	Changed []string `json:"changed,omitempty"`
	Total   int      `json:"total"`
	// Entries is how many files were looked at, and Short why that was not all; "" where it was.
	Entries int    `json:"entries"`
	Short   string `json:"short,omitempty"`
	// Unseen is why it was not looked at; "" where it was.
	Unseen string `json:"unseen,omitempty"`
	// View is the id of the view into which the jail wrote, in place of the directory.
	View string `json:"view,omitempty"`
}

// mounted is what was seen of a mounted directory: an event of numbers, or why there are none, and
// some of names.
func (m *maker) mounted(e *journal.Event, f journal.Mounted) {
	t := &m.r.Touched
	at := slices.IndexFunc(t.Mounted, func(d Mounted) bool { return d.At == e.Path })
	switch {
	case at < 0 && len(t.Mounted) >= maxNoted:
		return
	case at < 0:
		at = len(t.Mounted)
		t.Mounted = append(t.Mounted, Mounted{At: e.Path})
	}
	d := &t.Mounted[at]
	d.View = cmp.Or(f.View, d.View)
	d.Unseen, d.Short = cmp.Or(f.Unseen, d.Unseen), cmp.Or(f.Short, d.Short)
	d.Entries, d.Total = max(d.Entries, f.Entries), max(d.Total, f.Changed)
	for _, name := range f.Names {
		if len(d.Changed) < maxListed {
			d.Changed = append(d.Changed, strings.TrimSuffix(d.At, "/")+name)
		}
	}
}

// mounted are all directories that could be written to, looked at or not.
func (t *Touched) mounted() []Mounted {
	out := slices.Clone(t.Mounted)
	for _, at := range t.Writable {
		if !slices.ContainsFunc(out, func(m Mounted) bool { return m.At == at }) {
			out = append(out, Mounted{At: at, Unseen: "it was not looked at"})
		}
	}
	return out
}

// words describes what is known of a mounted directory.
func (m *Mounted) words() string {
	text := fmt.Sprintf("%d of %d files and directories were changed since the jail was made, by it or by anybody else", m.Total, m.Entries)
	if m.View != "" {
		text = fmt.Sprintf("%d files and directories are in view %s (agentjail workspace diff %[2]s); the directory itself was not written to", m.Total, m.View)
	}
	if m.Unseen != "" {
		text = "what was changed there is not known: " + m.Unseen
		if m.View != "" {
			text += "; the jail wrote into view " + m.View
		}
	}
	if m.Short != "" {
		text += "; not all were looked at: the look ended " + m.Short
	}
	if n := m.Total - len(m.Changed); n > 0 && m.Unseen == "" {
		text += fmt.Sprintf("; %d are not listed", n)
	}
	return text
}

// arrived is something that the host runs: an event of numbers, or one of it.
func (m *maker) arrived(e *journal.Event, d journal.Arrived) {
	t := &m.r.Touched
	if d.What != "" && len(t.Arrived) < maxNoted {
		t.Arrived = append(t.Arrived, Arrival{d.What, e.Target, e.Reason})
	}
	t.ArrivedTotal += max(0, d.Total)
	if d.Short != "" && len(t.ArrivedUnseen) < maxNoted {
		t.ArrivedUnseen = append(t.ArrivedUnseen, e.Path+": the look for what the host runs ended "+d.Short)
	}
}

// arrivedUnseen are the mounted directories in which files that the host runs can be unknown: they
// were not looked at, or not all of them.
func (t *Touched) arrivedUnseen() []string {
	out := slices.Clone(t.ArrivedUnseen)
	for _, m := range t.mounted() {
		if m.Unseen != "" && m.View == "" {
			out = append(out, m.At+": whether something came that the host runs is not known: "+m.Unseen)
		}
	}
	return out
}

// stale adds a repository in which git could not replace protected files.
func (m *maker) stale(e *journal.Event, d journal.Stale) {
	if t := &m.r.Touched; len(t.Stale) < maxNoted {
		t.Stale = append(t.Stale, Stale{e.Path, d})
	}
}
