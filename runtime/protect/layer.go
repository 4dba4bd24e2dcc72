package protect

import (
	"os"
	"path"
	"strings"
)

// A Layer has files that are to be in a tree, or to leave it: with one, a search sees the tree as
// it is then.
type Layer struct {
	files  map[string]LayerFile
	names  map[string][]string // those in files, by their directory
	folded map[string]string   // paths in files, as Fold returns them
}

// A LayerFile is what is to be at a path, with nothing below it but other files of the layer.
type LayerFile struct {
	Mode   uint32 // with the type (inode(7)); 0 for no file
	Old    uint64 // the inode number of the tree's file at the path; 0 for none
	Target string // a link's
	// Open opens a regular file for reading.
	Open func() (*os.File, error)
}

// NewLayer returns the layer of files by their paths in the tree.
func NewLayer(files map[string]LayerFile) *Layer {
	l := &Layer{files: files, names: map[string][]string{}, folded: make(map[string]string, len(files))}
	for at := range files {
		l.names[path.Dir(at)] = append(l.names[path.Dir(at)], path.Base(at))
		if old, ok := l.folded[Fold(at)]; !ok || at < old {
			l.folded[Fold(at)] = at
		}
	}
	return l
}

// over returns what the layer has at a path of the tree; ok is false where the tree's own file
// counts.
func (t tree) over(rel string) (f LayerFile, ok bool) {
	switch {
	case t.layer == nil:
		return f, false
	case rel != path.Clean(rel): // a link may stand before a "..": it is walked
		return f, true
	}
	rel = t.spelt(rel)
	if f, ok = t.layer.files[rel]; ok {
		return f, true
	}
	for dir := path.Dir(rel); !ok && dir != "." && dir != "/"; dir = path.Dir(dir) {
		_, ok = t.layer.files[dir]
	}
	return f, ok
}

// spelt returns a path as the layer has it. File systems may ignore the case of letters: a name of
// the layer stands for each of its other spellings that the tree does not have, or has as the same
// file.
func (t tree) spelt(rel string) string {
	for end := 0; end < len(rel); end++ {
		if i := strings.IndexByte(rel[end:], '/'); i >= 0 {
			end += i
		} else {
			end = len(rel)
		}
		at := rel[:end]
		own, ok := t.layer.folded[Fold(at)]
		if _, exact := t.layer.files[at]; !ok || exact || len(own) == 0 {
			continue
		}
		if st, err := t.statOwn(at); err == nil && st.Ino != t.layer.files[own].Old {
			continue
		}
		rel, end = own+rel[end:], len(own)
	}
	return rel
}

// merge adds to the listing of a directory what the layer has there.
func (t tree) merge(rel string, l *listing, wanted func(name []byte, typ byte) bool) {
	if t.layer == nil {
		return
	}
	var kept []dirent
	for _, d := range l.names {
		if _, ok := t.over(below(rel, d.name)); !ok {
			kept = append(kept, d)
		}
	}
	for _, name := range t.layer.names[t.spelt(rel)] {
		f := t.layer.files[below(t.spelt(rel), name)]
		if typ := kind(f.Mode); f.Mode != 0 && wanted([]byte(name), typ) {
			kept = append(kept, dirent{name, typ})
		}
	}
	l.names, l.read = kept, l.read+len(t.layer.names[rel])
}
