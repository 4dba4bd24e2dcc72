package install

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
)

// tomlFile is a file of containerd's configuration.
type tomlFile struct {
	*File
	doc map[string]any // its content before the change
}

// toml reads a file for the plan.
func (p *Plan) toml(path string) (*tomlFile, error) {
	f, err := p.file(path)
	if err != nil {
		return nil, err
	}
	doc, err := readTOML(f.Before)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &tomlFile{f, doc}, nil
}

// hasAny reports whether the file has a handler of one of the names.
func (f *tomlFile) hasAny(o Options, version int64) bool {
	return slices.ContainsFunc(o.Runtimes, func(r Runtime) bool {
		_, _, ok := handlerAt(f.doc, version, r.Name)
		return ok
	})
}

// empty reports whether the file would have nothing but a version.
func (f *tomlFile) empty() bool {
	version, ok := f.doc["version"].(int64)
	return ok && string(bytes.TrimSpace(f.After)) == fmt.Sprintf("version = %d", version)
}

// begin writes the first line of a file without content.
func (f *tomlFile) begin(version int64) {
	if len(bytes.TrimSpace(f.After)) == 0 {
		f.After = fmt.Appendf(nil, "version = %d\n", version)
	}
}

// register adds the handlers at the end of the file. Those that are there and lead to the same
// programs are renewed; a handler that leads elsewhere is an errConflict, unless with o.Force.
func (f *tomlFile) register(o Options, version int64, systemd bool) error {
	if v, ok := f.doc["version"].(int64); ok && v != version {
		if err := f.startAnew(o); err != nil {
			return err
		}
	}
	for _, r := range o.Runtimes {
		want := handlerOf(o, r, systemd)
		have, exact, ok := handlerAt(f.doc, version, r.Name)
		switch {
		case ok && exact && reflect.DeepEqual(have, want):
			continue
		case ok && !have.leadsTo(want) && !o.Force:
			return f.conflict(r, have)
		case ok:
			var err error
			if f.After, err = cutTables(f.After, runtimesPath(version, r.Name)...); err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
		}
		f.begin(version)
		if !bytes.HasSuffix(f.After, []byte("\n")) {
			f.After = append(slices.Clip(f.After), '\n')
		}
		f.After = append(slices.Clip(f.After), "\n"+want.text(version, r.Name)...)
	}
	return f.verify(o, version, systemd)
}

// startAnew empties a drop-in of another version than the configuration file, which has nothing but
// handlers of agentjail's in it.
func (f *tomlFile) startAnew(o Options) error {
	if err := f.unregister(o); err != nil {
		return err
	}
	if !f.empty() {
		return fmt.Errorf("%s is not of the version of %s (remedy: set the same version in both)", f.Path, o.Config)
	}
	f.After, f.doc = nil, map[string]any{}
	return nil
}

func (f *tomlFile) conflict(r Runtime, have handler) error {
	return fmt.Errorf("%s: handler %s leads to %s, %s: %w", f.Path, r.Name, have.Path, have.Options.BinaryName, errConflict)
}

// verify reads what is to be written: the handlers as they should be, and everything else as it
// was.
func (f *tomlFile) verify(o Options, version int64, systemd bool) error {
	after, err := f.reread()
	if err != nil {
		return err
	}
	for _, r := range o.Runtimes {
		if have, exact, ok := handlerAt(after, version, r.Name); !ok || !exact || !reflect.DeepEqual(have, handlerOf(o, r, systemd)) {
			return fmt.Errorf("%s: handler %s would not come out as meant", f.Path, r.Name)
		}
	}
	return f.sameBesides(o, after)
}

// reread reads what is to be written.
func (f *tomlFile) reread() (map[string]any, error) {
	doc, err := readTOML(f.After)
	if err != nil {
		return nil, fmt.Errorf("%s: its tables are written in a way that cannot be edited: %w", f.Path, err)
	}
	return doc, nil
}

// sameBesides compares what is to be written with what is there, but for the handlers and the
// version.
func (f *tomlFile) sameBesides(o Options, after map[string]any) error {
	before, err := readTOML(f.Before)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	for _, doc := range []map[string]any{before, after} {
		for _, r := range o.Runtimes {
			for v := range cri {
				dropAt(doc, runtimesPath(v, r.Name)...)
			}
		}
		prune(doc)
		delete(doc, "version")
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("%s: something else would change", f.Path)
	}
	return nil
}

// prune removes empty tables, which mean nothing.
func prune(doc map[string]any) {
	for k, v := range doc {
		if t, ok := v.(map[string]any); ok {
			if prune(t); len(t) == 0 {
				delete(doc, k)
			}
		}
	}
}

// unregister takes the handlers out. A handler that leads elsewhere is an errConflict, unless with
// o.Force.
func (f *tomlFile) unregister(o Options) error {
	version, err := versionOf(f.doc, f.Path)
	if err != nil {
		return nil // there is nothing of ours in it
	}
	for _, r := range o.Runtimes {
		have, _, ok := handlerAt(f.doc, version, r.Name)
		if !ok {
			continue
		}
		if !o.Force && !have.leadsTo(handlerOf(o, r, false)) {
			return f.conflict(r, have)
		}
		if f.After, err = cutTables(f.After, runtimesPath(version, r.Name)...); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	after, err := f.reread()
	if err != nil {
		return err
	}
	for _, r := range o.Runtimes {
		if _, _, ok := handlerAt(after, version, r.Name); ok {
			return fmt.Errorf("%s: handler %s is written in a way that cannot be edited", f.Path, r.Name)
		}
	}
	return f.sameBesides(o, after)
}

// imports are the files and patterns that the file imports, as containerd resolves them: relative
// to its own directory.
func (f *tomlFile) imports() []string {
	var out []string
	list, _ := f.doc["imports"].([]any)
	for _, v := range list {
		if path, ok := v.(string); ok {
			if path = filepath.Clean(path); !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(f.Path), path)
			}
			out = append(out, path)
		}
	}
	return out
}

// addImport has the file import another, unless it does.
func (f *tomlFile) addImport(path string, version int64) error {
	for _, have := range f.imports() {
		if ok, err := filepath.Match(have, path); ok && err == nil {
			return nil
		}
	}
	f.begin(version)
	return f.editImports(putInArray, path, append(listOf(f.doc), path))
}

// dropImport has the file no longer import another by its own name. A pattern that it matches
// stays: containerd takes no offence at a pattern without a match.
func (f *tomlFile) dropImport(path string) error {
	list := listOf(f.doc)
	if !slices.Contains(list, any(path)) {
		return nil
	}
	return f.editImports(cutFromArray, path, slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == path }))
}

// listOf is what a document imports, as it is written.
func listOf(doc map[string]any) []any {
	list, _ := doc["imports"].([]any)
	return slices.Clip(list)
}

// editImports edits the imports, and reads what is to be written: the imports as they should be,
// and everything else as it was.
func (f *tomlFile) editImports(edit func(text []byte, key, value string) ([]byte, error), path string, want []any) error {
	before, err := f.reread()
	if err != nil {
		return err
	}
	if f.After, err = edit(f.After, "imports", path); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	after, err := f.reread()
	if err != nil {
		return err
	}
	have := listOf(after)
	delete(before, "imports")
	delete(after, "imports")
	if !slices.Equal(have, want) || !reflect.DeepEqual(before, after) {
		return fmt.Errorf("%s: the imports would not come out as meant", f.Path)
	}
	return nil
}
