package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Containerd is containerd with its CRI plugin, as Kubernetes has it. Its handlers are what a
// RuntimeClass names.
//
// From containerd 2.0 on they are in a drop-in of agentjail's own, which an entry of `imports` in
// the configuration file has containerd read: no release reads a directory by itself. containerd
// 2.2 and later print conf.d/*.toml among the imports that they have by default, but follow only
// those that a file has (cmd/containerd/server/config: LoadConfig).
//
// Before 2.0 the handlers are at the end of the configuration file itself. There an imported file
// that has a plugin's table replaces all that the configuration file sets for that plugin
// (services/server/config: mergeConfig, "Replace entire sections"): with a drop-in, every other
// setting of CRI would be lost. So it would be in 2.0 to 2.2 if the files were of different
// versions, for these migrate the tables of version 2 only if the file that was read last is of
// version 2, too.
//
// The driver of control groups is runc's there.
var Containerd Engine = containerd{}

type containerd struct{}

const (
	containerdConfig = "/etc/containerd/config.toml"
	containerdDropIn = "/etc/containerd/conf.d/agentjail.toml"
)

func (containerd) Name() string  { return "containerd" }
func (containerd) Title() string { return "containerd" }

func (containerd) Defaults() Options {
	return Options{
		Runtimes: []Runtime{{Name: DefaultName}, {Name: DefaultName + "-net"}}, Config: containerdConfig,
		DropIn: containerdDropIn,
	}
}

// reserved reports whether a name is one of a handler that containerd's own default configuration
// has, or the name of a shim.
func (containerd) reserved(name string) bool {
	return name == "runc" || strings.HasPrefix(name, "io.containerd.")
}

func (containerd) plan(p *Plan) error {
	if !plainPath(p.options.Shim) {
		return fmt.Errorf("shim %q is not a plain absolute path", p.options.Shim)
	}
	p.live = restarted{}
	if p.options.Undo {
		return unregisterCRI(p)
	}
	return registerCRI(p)
}

// restarted is a containerd: it reads its configuration when it starts.
type restarted struct{ noDaemon }

func (restarted) settle(_ context.Context, p *Plan, r *Result) error {
	if r.Changed {
		r.Messages = append(r.Messages, "containerd reads it when it starts: systemctl restart containerd")
	}
	for _, f := range p.Files {
		if f.exists {
			continue
		}
		// A backup without a file is left from an earlier time; the removal shall not take it for
		// this one's.
		if err := dropBackup(f.Path); err != nil {
			return err
		}
	}
	return nil
}

// registerCRI plans the registration of handlers.
func registerCRI(p *Plan) error {
	o := &p.options
	if err := checkBinary(o.Shim); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	e, err := effectiveConfig(*o)
	if err != nil {
		return err
	}
	p.Note = e.note
	main, err := p.toml(o.Config)
	if err != nil {
		return err
	}
	version, err := versionFor(main, e)
	if err != nil {
		return err
	}
	if e.program == "" && len(main.doc) > 0 {
		e.version, e.systemd = version, systemdOf(main.doc, version)
	}
	if e.version < firstMerging || main.hasAny(*o, version) || !sameVersions(main, *o, e.version) {
		return main.register(*o, version, e.systemd)
	}
	dropIn, err := p.toml(o.DropIn)
	if err != nil {
		return err
	}
	if err := dropIn.register(*o, version, e.systemd); err != nil {
		return err
	}
	if err := main.addImport(o.DropIn, version); err != nil {
		return err
	}
	p.Files = []*File{dropIn.File}
	if main.Changed() { // as the last: what it imports must be there
		p.Files = append(p.Files, main.File)
	}
	return nil
}

// versionFor is the version that agentjail's tables shall have: that of the configuration file, or
// the release's.
func versionFor(main *tomlFile, e effective) (int64, error) {
	if len(main.doc) > 0 {
		return versionOf(main.doc, main.Path)
	}
	if e.version == 0 {
		return 2, nil // every release reads it
	}
	return e.version, nil
}

// sameVersions reports whether a drop-in and what the configuration file imports besides are of
// versions that this release can merge.
func sameVersions(main *tomlFile, o Options, release int64) bool {
	if release > firstMerging {
		return true // containerd 2.3 and later migrate each file by itself
	}
	want := main.doc["version"]
	for _, pattern := range main.imports() {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return false
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return false
			}
			doc, err := readTOML(text)
			if err != nil || doc["version"] != nil && doc["version"] != want && file != o.DropIn {
				return false
			}
		}
	}
	return true
}

// unregisterCRI plans the removal of handlers from both files, wherever they are, and of the
// import. A file that is left without content is removed if it was agentjail's.
func unregisterCRI(p *Plan) error {
	o := p.options
	main, err := p.toml(o.Config)
	if err != nil {
		return err
	}
	dropIn, err := p.toml(o.DropIn)
	if err != nil {
		return err
	}
	for _, f := range []*tomlFile{main, dropIn} {
		if err := f.unregister(o); err != nil {
			return err
		}
	}
	dropIn.Remove = dropIn.Changed() && dropIn.empty()
	if dropIn.Remove || !dropIn.exists {
		if err := main.dropImport(o.DropIn); err != nil {
			return err
		}
	}
	if main.Changed() && main.empty() { // the file is agentjail's if there was none before
		_, err := os.Lstat(main.Path + backupSuffix)
		main.Remove = errors.Is(err, os.ErrNotExist)
	}
	p.Files = nil
	if main.Changed() || !dropIn.Changed() { // as the first: what it imports must be there
		p.Files = append(p.Files, main.File)
	}
	if dropIn.Changed() {
		p.Files = append(p.Files, dropIn.File)
	}
	return nil
}
