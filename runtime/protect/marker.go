package protect

import (
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A placeholder that is a directory holds a marker, a file that git ignores
// (gitignore(5)). With it the directory is neither untracked nor empty: `git clean
// -d`, `git stash -u` and `find -empty -delete` leave it, on the host and in the
// jail, and git status does not show it. A directory that was there before and
// empty gets one as well.
const marker = ".gitignore"

// Kinds of markers, as placeholder.Text has them.
const (
	markerMade  = "marker: made"
	markerBoth  = "marker: made with its parent"
	markerStood = "marker: was there"
)

// markers are the texts, by kind.
var markers = map[string]string{
	markerMade:  "# This name is kept from a jail of agentjail's, and is removed with it.\n/.gitignore\n",
	markerBoth:  "# This name and the directory that it is in are kept from a jail of agentjail's, and are removed with it.\n/.gitignore\n",
	markerStood: "# This directory was empty before; the file is removed with a jail of agentjail's.\n/.gitignore\n",
}

// maxMarker is longer than each of them.
const maxMarker = 256

// isMarker reports whether a placeholder's text is a kind of marker.
func isMarker(text string) bool { return markers[text] != "" }

// markerOf is the kind of marker that a file's text is; "" where it is none.
func markerOf(text string) string {
	for kind, t := range markers {
		if t == text {
			return kind
		}
	}
	return ""
}

// text is the content of a placeholder's file.
func (m *placeholder) text() string {
	if t, ok := markers[m.Text]; ok {
		return t
	}
	return m.Text
}

// stake begins the name of an empty directory that this ledger makes in another ledger's
// placeholder: a directory that is not empty is not removed with the other ledger's last jail. git
// does not show empty directories.
const stake = ".agentjail."

// bareDir is a directory that is there and holds nothing, or a marker.
type bareDir struct {
	rel    string
	marker string // its kind; "" where there is none
}

// bare finds those of the protected directories that a host's program takes for
// empty: they are removed as lightly as a placeholder.
func (t tree) bare(paths []Path) (out []bareDir) {
	for _, p := range paths {
		if !p.Dir || p.Link || p.Treatment != ReadOnly {
			continue
		}
		names, ok := t.few(p.Rel)
		if !ok {
			continue
		}
		d, marked := bareDir{rel: p.Rel}, false
		for _, name := range names {
			marked = marked || name == marker
			ok = ok && (name == marker || strings.HasPrefix(name, stake))
		}
		if marked && ok {
			text, _, err := t.read(path.Join(p.Rel, marker), maxMarker)
			d.marker = markerOf(text)
			ok = err == nil && d.marker != ""
		}
		if ok {
			out = append(out, d)
		}
	}
	return out
}

// few lists the names of a directory; ok is false where there are many.
func (t tree) few(rel string) (names []string, ok bool) {
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	const most = 8
	names, _ = f.Readdirnames(most) // io.EOF for none
	return names, len(names) < most
}

// stand plans markers that keep bare directories in place; in another ledger's placeholder the
// marker is a stake. foreign are those placeholders: the last of the ledgers removes them.
func (l Ledger) stand(t tree, source string, bare []bareDir, known map[identity]placeholder) (stakes,
	foreign []placeholder,
) {
	for _, d := range bare {
		at := path.Join(source, d.rel)
		m := placeholder{Path: at, Dir: true}
		st, err := t.statx(d.rel)
		if err != nil {
			continue
		}
		m.identity = identityOf(&st)
		if _, ours := known[m.identity]; ours {
			continue
		}
		if d.marker == "" {
			stakes = append(stakes, placeholder{Path: path.Join(at, marker), Text: markerStood})
			continue
		}
		st, err = t.statx(path.Join(d.rel, marker))
		if err != nil {
			continue
		}
		if _, ours := known[identityOf(&st)]; ours {
			continue
		}
		stakes = append(stakes, placeholder{Path: path.Join(at, stake+l.name()), Dir: true})
		if d.marker == markerStood {
			continue
		}
		foreign = append(foreign, m)
		if st, err := t.statx(path.Dir(d.rel)); err == nil && d.marker == markerBoth {
			foreign = append(foreign, placeholder{Path: path.Dir(at), Dir: true, identity: identityOf(&st)})
		}
	}
	return stakes, foreign
}

// optional reports that a jail is protected without the placeholder: it only keeps programs of
// the host from removing an existing directory.
func (m *placeholder) optional() bool {
	return m.Text == markerStood || strings.HasPrefix(path.Base(m.Path), stake)
}

// name identifies this ledger among others.
func (l Ledger) name() string {
	h := fnv.New32a()
	fmt.Fprint(h, l.Dir, "\x00", l.Store, "\x00", os.Geteuid())
	return fmt.Sprintf("%08x", h.Sum32())
}
