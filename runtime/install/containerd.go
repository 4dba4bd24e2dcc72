package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"agentjail.dev/runtime/linux/trusted"
)

// Defaults of ContainerdOptions.
const (
	DefaultContainerdConfig = "/etc/containerd/config.toml"
	DefaultContainerdDropIn = "/etc/containerd/conf.d/agentjail.toml"
)

// ContainerdOptions say what to register with containerd's CRI plugin, and where. Empty fields get the defaults above.
type ContainerdOptions struct {
	// Runtimes are the handlers that a RuntimeClass can name. Each path is a name of the agentjail program, which picks the profile.
	Runtimes []Runtime
	// Shim is the path of agentjail's shim, beside the program.
	Shim string
	// Config is containerd's configuration file, DropIn the file to write instead where the running release reads that directory by itself.
	Config, DropIn string
	// Program is containerd's, to be asked what it makes of its configuration; "" looks for it in the usual directories. Without it, what
	// the file says is all that is known.
	Program string
	// Force replaces handlers of the same name that lead elsewhere.
	Force bool
}

// containerdsOwn says whether a name is one of a handler that containerd's own default configuration has, or the name of a shim.
func containerdsOwn(name string) bool {
	return name == "runc" || strings.HasPrefix(name, "io.containerd.")
}

func (o *ContainerdOptions) complete() error {
	if o.Config == "" {
		o.Config = DefaultContainerdConfig
	}
	if o.DropIn == "" {
		o.DropIn = DefaultContainerdDropIn
	}
	if err := registrable("containerd", containerdsOwn, o.Runtimes, ""); err != nil {
		return err
	}
	if !filepath.IsAbs(o.Shim) || filepath.Clean(o.Shim) != o.Shim {
		return fmt.Errorf("shim %q is not a plain absolute path", o.Shim)
	}
	if o.Program == "" {
		for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin"} {
			path := filepath.Join(dir, "containerd")
			if _, err := trusted.Executable(path); err == nil {
				o.Program = path
				break
			}
		}
	}
	return nil
}

// cri is where a version of the configuration has the CRI plugin's runtimes.
var cri = map[int64]string{2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime", 4: "io.containerd.cri.v1.runtime"}

func runtimesPath(version int64, more ...string) []string {
	return append([]string{"plugins", cri[version], "containerd", "runtimes"}, more...)
}

// handler is what containerd is told of one name. By its path, the shim is told with options of runc's kind, which is the only kind that
// containerd 2.4 can add a pod's own ids to; releases that take no notice of the path start their own shim, and that the program.
type handler struct {
	Type     string   `toml:"runtime_type"`
	Path     string   `toml:"runtime_path"`
	Devices  bool     `toml:"privileged_without_host_devices"`
	PodSays  []string `toml:"pod_annotations"`
	EachSays []string `toml:"container_annotations"`
	Options  struct {
		BinaryName    string `toml:"BinaryName"`
		SystemdCgroup bool   `toml:"SystemdCgroup"`
	} `toml:"options"`
}

func (o *ContainerdOptions) handler(r Runtime, systemd bool) handler {
	// The annotations can only tighten.
	says := []string{"dev.agentjail.*"}
	h := handler{Type: "io.containerd.runc.v2", Path: o.Shim, Devices: true, PodSays: says, EachSays: says}
	h.Options.BinaryName, h.Options.SystemdCgroup = r.Path, systemd
	return h
}

// text is the handler's tables.
func (h handler) text(version int64, name string) string {
	says := `["` + strings.Join(h.PodSays, `", "`) + `"]`
	table := fmt.Sprintf("plugins.%q.containerd.runtimes.%s", cri[version], bareKey(name))
	return fmt.Sprintf(`[%s]
  runtime_type = %q
  runtime_path = %q
  privileged_without_host_devices = %v
  pod_annotations = %s
  container_annotations = %s
[%s.options]
  BinaryName = %q
  SystemdCgroup = %v
`, table, h.Type, h.Path, h.Devices, says, says, table, h.Options.BinaryName, h.Options.SystemdCgroup)
}

// bareKey quotes a name that TOML would take for several.
func bareKey(name string) string {
	if strings.Contains(name, ".") {
		return `"` + name + `"`
	}
	return name
}

// handlerAt is what a document says of a name; ok is false for nothing, and exact for what this version would not have written.
func handlerAt(doc map[string]any, version int64, name string) (h handler, exact, ok bool) {
	v := at(doc, runtimesPath(version, name)...)
	if v == nil {
		return h, false, false
	}
	text, err := toml.Marshal(v)
	if err != nil {
		return h, false, true
	}
	err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&h)
	return h, err == nil, true
}

// leadsTo says whether a handler runs the same programs.
func (h handler) leadsTo(x handler) bool {
	return h.Path == x.Path && h.Options.BinaryName == x.Options.BinaryName
}

// ContainerdPlan is a change of containerd's configuration that was thought out but not made.
type ContainerdPlan struct {
	*Plan
	// Note says what was found out about the configuration.
	Note string
	undo bool
}

// Apply writes the file, or removes it, keeping the previous content of a file that was not agentjail's beside it. It fails with
// ErrFileChanged if the file is no longer as it was when the plan was made. containerd reads its configuration when it starts.
func (p *ContainerdPlan) Apply() (backup string, err error) {
	if !p.Changed() {
		return "", nil
	}
	if backup, err = p.write(p.After, p.Remove); err != nil {
		return "", err
	}
	if p.undo || p.Remove || !p.exists {
		return "", dropBackup(p.File)
	}
	return backup, nil
}

// effective is what containerd makes of its configuration.
type effective struct {
	version int64
	dropIns bool // it reads the directory of the drop-in by itself
	systemd bool // runc's control groups are made by systemd
	note    string
}

// programWait bounds a question to containerd.
const programWait = 20 * time.Second

// ask has containerd print what it makes of its configuration. Every release can.
func (o *ContainerdOptions) ask() (effective, error) {
	var e effective
	if o.Program == "" {
		e.note = "no containerd program was found: only its configuration file was read"
		return e, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), programWait)
	defer cancel()
	args := []string{"--config", o.Config, "config", "dump"}
	if _, err := os.Stat(o.Config); errors.Is(err, os.ErrNotExist) {
		args = []string{"config", "default"}
	}
	cmd := exec.CommandContext(ctx, o.Program, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return e, fmt.Errorf("%s %s: %w: %s", o.Program, strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	doc, err := readTOML(out)
	if err != nil {
		return e, fmt.Errorf("%s %s: %w", o.Program, strings.Join(args, " "), err)
	}
	e.version, _ = doc["version"].(int64)
	e.systemd = systemdOf(doc, e.version)
	imports, _ := doc["imports"].([]any)
	e.dropIns = e.version >= 3 && slices.Contains(imports, any(filepath.Join(filepath.Dir(o.DropIn), "*.toml")))
	return e, nil
}

// systemdOf says which driver runc's containers have.
func systemdOf(doc map[string]any, version int64) bool {
	name, _ := at(doc, "plugins", cri[version], "containerd", "default_runtime_name").(string)
	for _, n := range []string{"runc", name} {
		if v, ok := at(doc, runtimesPath(version, n, "options", "SystemdCgroup")...).(bool); ok && v {
			return true
		}
	}
	return false
}

// versionOf is the version of a file that is there.
func versionOf(doc map[string]any, file string) (int64, error) {
	v, ok := doc["version"].(int64)
	switch {
	case !ok || v == 1:
		return 0, fmt.Errorf("%s is of version 1 (remedy: `containerd config migrate`, or version = 2)", file)
	case cri[v] == "":
		return 0, fmt.Errorf("%s is of version %d, which this version of agentjail does not know", file, v)
	}
	return v, nil
}

// Containerd plans the registration of handlers with CRI: in a drop-in, where containerd reads one by itself, else at the end of its
// configuration file. The driver of control groups is runc's there. A second plan after Apply has no change.
//
// It fails when the file is not valid TOML or of version 1, when a program fails CheckBinary, and with ErrConflict when a name is
// registered otherwise, unless with Force.
func Containerd(o ContainerdOptions) (*ContainerdPlan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := checkBinary(o.Shim); err != nil {
		return nil, fmt.Errorf("shim: %w", err)
	}
	for _, r := range o.Runtimes {
		if err := checkBinary(r.Path); err != nil {
			return nil, fmt.Errorf("runtime %s: %w", r.Name, err)
		}
	}
	e, err := o.ask()
	if err != nil {
		return nil, err
	}
	p, doc, err := openTOML(o.Config)
	if err != nil {
		return nil, err
	}
	inMain := false
	if v, err := versionOf(doc, o.Config); err == nil {
		for _, r := range o.Runtimes {
			_, _, ok := handlerAt(doc, v, r.Name)
			inMain = inMain || ok
		}
		if o.Program == "" {
			e.version, e.systemd = v, systemdOf(doc, v)
		}
	}
	version := e.version
	if e.dropIns && !inMain {
		if p, doc, err = openTOML(o.DropIn); err != nil {
			return nil, err
		}
	} else if len(doc) > 0 {
		if version, err = versionOf(doc, o.Config); err != nil {
			return nil, err
		}
	} else if version == 0 {
		version = 2 // every release reads it
	}
	return o.register(p, doc, version, e)
}

func openTOML(file string) (*Plan, map[string]any, error) {
	p, err := newPlan(DockerOptions{Config: file})
	if err != nil {
		return nil, nil, err
	}
	doc, err := readTOML(p.Before)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, doc, nil
}

func (o *ContainerdOptions) register(p *Plan, doc map[string]any, version int64, e effective) (*ContainerdPlan, error) {
	if v, ok := doc["version"].(int64); ok {
		version = v
	}
	text := p.Before
	for _, r := range o.Runtimes {
		want := o.handler(r, e.systemd)
		have, exact, ok := handlerAt(doc, version, r.Name)
		switch {
		case ok && exact && reflect.DeepEqual(have, want):
			continue
		case ok && !have.leadsTo(want) && !o.Force:
			return nil, fmt.Errorf("%s: handler %s leads to %s, %s: %w", p.File, r.Name, have.Path, have.Options.BinaryName, ErrConflict)
		case ok:
			var err error
			if text, err = cutTables(text, runtimesPath(version, r.Name)...); err != nil {
				return nil, fmt.Errorf("%s: %w", p.File, err)
			}
		}
		if _, said := doc["version"]; !said && len(bytes.TrimSpace(text)) == 0 {
			text = fmt.Appendf(nil, "version = %d\n", version)
		}
		if !bytes.HasSuffix(text, []byte("\n")) {
			text = append(slices.Clip(text), '\n')
		}
		text = append(slices.Clip(text), "\n"+want.text(version, r.Name)...)
	}
	p.After = text
	if err := o.verify(p, version, e.systemd); err != nil {
		return nil, err
	}
	p, err := p.finish()
	return &ContainerdPlan{Plan: p, Note: e.note}, err
}

// verify reads what is to be written: the handlers as they should be, and everything else as it was.
func (o *ContainerdOptions) verify(p *Plan, version int64, systemd bool) error {
	before, err := readTOML(p.Before)
	if err != nil {
		return fmt.Errorf("%s: %w", p.File, err)
	}
	after, err := readTOML(p.After)
	if err != nil {
		return fmt.Errorf("%s: its tables are written in a way that cannot be edited: %w", p.File, err)
	}
	for _, r := range o.Runtimes {
		if have, exact, ok := handlerAt(after, version, r.Name); !ok || !exact || !reflect.DeepEqual(have, o.handler(r, systemd)) {
			return fmt.Errorf("%s: handler %s would not come out as meant", p.File, r.Name)
		}
	}
	return o.sameBesides(p.File, before, after, version)
}

// sameBesides compares two documents but for our handlers and the version.
func (o *ContainerdOptions) sameBesides(file string, before, after map[string]any, version int64) error {
	for _, doc := range []map[string]any{before, after} {
		for _, r := range o.Runtimes {
			dropAt(doc, runtimesPath(version, r.Name)...)
		}
		prune(doc)
		delete(doc, "version")
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("%s: something else would change", file)
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

// UndoContainerd plans the removal of what Containerd plans to add, from the drop-in and from the configuration file. A handler of the
// same name that leads elsewhere is an ErrConflict; Force removes it, too. A file that is left without content is removed, if it was
// agentjail's.
func UndoContainerd(o ContainerdOptions) ([]*ContainerdPlan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	var out []*ContainerdPlan
	for _, file := range []string{o.DropIn, o.Config} {
		p, doc, err := openTOML(file)
		if err != nil {
			return nil, err
		}
		p.After = p.Before
		version, err := versionOf(doc, file)
		if err == nil { // else there is nothing of ours in it
			if err := o.unregister(p, doc, version); err != nil {
				return nil, err
			}
		}
		if p, err = p.finish(); err != nil {
			return nil, err
		}
		if p.Changed() || file == o.Config && len(out) == 0 {
			out = append(out, &ContainerdPlan{Plan: p, undo: true})
		}
	}
	return out, nil
}

func (o *ContainerdOptions) unregister(p *Plan, doc map[string]any, version int64) error {
	for _, r := range o.Runtimes {
		have, _, ok := handlerAt(doc, version, r.Name)
		if !ok {
			continue
		}
		if !o.Force && !have.leadsTo(o.handler(r, false)) {
			return fmt.Errorf("%s: handler %s leads to %s, %s: %w", p.File, r.Name, have.Path, have.Options.BinaryName, ErrConflict)
		}
		var err error
		if p.After, err = cutTables(p.After, runtimesPath(version, r.Name)...); err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
	}
	after, err := readTOML(p.After)
	if err != nil {
		return fmt.Errorf("%s: its tables are written in a way that cannot be edited: %w", p.File, err)
	}
	for _, r := range o.Runtimes {
		if _, _, ok := handlerAt(after, version, r.Name); ok {
			return fmt.Errorf("%s: handler %s is written in a way that cannot be edited", p.File, r.Name)
		}
	}
	if err := o.sameBesides(p.File, doc, after, version); err != nil {
		return err
	}
	// The drop-in is agentjail's; a configuration file is, if there was none before.
	if empty := strings.TrimSpace(string(p.After)) == fmt.Sprintf("version = %d", version); empty && !bytes.Equal(p.Before, p.After) {
		_, err := os.Lstat(p.File + backupSuffix)
		p.Remove = p.File == o.DropIn || errors.Is(err, os.ErrNotExist)
	}
	return nil
}
