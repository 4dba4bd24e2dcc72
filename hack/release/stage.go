package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentjail.dev/apparmor"
	"agentjail.dev/hack/selinux"
)

// files are what packages bring beside the programs, and their scripts.
//
//go:embed files
var files embed.FS

// A tree is what a package for one architecture installs.
type tree struct {
	arch    string
	dir     string // where its files lie, by their path in the package
	entries []entry
	sbom    []byte
}

// An entry is one file of a tree.
type entry struct {
	path   string // in the package
	mode   fs.FileMode
	config bool   // the administrator's from then on
	link   string // where it leads, "" for a file
	only   string // the kind of package that has it, "" for all
}

// The places in a package.
const (
	binDir   = "/usr/bin/"
	shareDir = "/usr/share/agentjail/"
	docDir   = "/usr/share/doc/agentjail/"
	manDir   = "/usr/share/man/man" + section + "/"
)

// add puts a file into the tree.
func (t *tree) add(path string, text []byte) error {
	t.entries = append(t.entries, entry{path: path, mode: 0o644})
	return t.write(path, text, 0o644)
}

func (t *tree) write(path string, text []byte, mode fs.FileMode) error {
	to := filepath.Join(t.dir, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, mode)
}

// policyNames are names by which agentjail is called for a built-in policy.
var policyNames = []string{"agentjail-net", "agentjail-service"}

// stage makes the tree for one architecture in dir.
func (r *release) stage(ctx context.Context, arch, dir string) (*tree, error) {
	t := &tree{arch: arch, dir: dir}
	bin := filepath.Join(dir, binDir)
	if err := r.build(ctx, arch, bin); err != nil {
		return nil, err
	}
	for _, name := range r.mains {
		t.entries = append(t.entries, entry{path: binDir + name, mode: 0o755})
	}
	// The built-in policies that engines have runtimes of.
	for _, name := range policyNames {
		t.entries = append(t.entries, entry{path: binDir + name, link: "agentjail"})
	}
	for _, step := range []func(*tree) error{r.addManuals, r.addCompletions, r.addPolicy, r.addModules, r.addUnits, r.addDocs} {
		if err := step(t); err != nil {
			return nil, err
		}
	}
	deps, err := dependencies(bin, r.mains)
	if err != nil {
		return nil, err
	}
	found, err := licences(ctx, r.o.root, deps)
	if err != nil {
		return nil, err
	}
	if t.sbom, err = r.billOfMaterials(bin, arch, found); err != nil {
		return nil, err
	}
	if err := addLicences(t, found, r.o.root); err != nil {
		return nil, err
	}
	slices.SortFunc(t.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return t, nil
}

func (r *release) addManuals(t *tree) error {
	for name, text := range manPages(r.help, r.others, r.version, r.time) {
		if err := t.add(manDir+name+".gz", compressed(text)); err != nil {
			return err
		}
	}
	config := strings.TrimSuffix(manDir, section+"/") + configSection + "/" + configPage + "." + configSection + ".gz"
	if err := t.add(config, compressed(configManual(r.version, r.time))); err != nil {
		return err
	}
	for _, alias := range append([]string{"agentjailctl"}, policyNames...) {
		t.entries = append(t.entries, entry{path: manDir + alias + "." + section + ".gz", link: "agentjail." + section + ".gz"})
	}
	return nil
}

func (r *release) addCompletions(t *tree) error {
	for name, text := range r.shells {
		if err := t.add("/usr/share/"+name, text); err != nil {
			return err
		}
		// zsh looks elsewhere where it is not Debian's.
		if dir, ok := strings.CutPrefix(name, "zsh/vendor-completions/"); ok {
			t.entries[len(t.entries)-1].only = "deb"
			if err := t.add("/usr/share/zsh/site-functions/"+dir, text); err != nil {
				return err
			}
			t.entries[len(t.entries)-1].only = "rpm"
		}
	}
	return nil
}

// addPolicy adds the default policy and the suggested kernel settings.
func (r *release) addPolicy(t *tree) error {
	if err := t.add("/etc/agentjail/config.toml", defaultConfig()); err != nil {
		return err
	}
	t.entries[len(t.entries)-1].config = true
	text, err := files.ReadFile("files/sysctl.conf")
	if err != nil {
		return err
	}
	return t.add(shareDir+"sysctl.d/90-agentjail.conf", text)
}

// addModules adds what security modules load: the texts that agentjail loads itself, by the
// parser's abilities.
func (r *release) addModules(t *tree) error {
	for _, abi := range []string{"3.0", "4.0"} {
		text, err := apparmor.Render(apparmor.Params{Name: apparmor.DefaultName, ABI: abi})
		if err != nil {
			return err
		}
		if err := t.add(shareDir+"apparmor/"+abi, []byte(text)); err != nil {
			return err
		}
	}
	return t.add(shareDir+"selinux/agentjail.cil", selinux.Module)
}

// addUnits adds the systemd units, of which none is enabled, and the users that they need.
func (r *release) addUnits(t *tree) error {
	for pattern, place := range map[string]string{"*.service": "/usr/lib/systemd/system/NAME.service", "*.sysusers": "/usr/lib/sysusers.d/NAME.conf"} {
		paths, err := filepath.Glob(filepath.Join(r.o.root, "hack/systemd", pattern))
		if err != nil || len(paths) == 0 {
			return fmt.Errorf("hack/systemd has no %s: %w", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte(binDir))
			name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
			if err := t.add(strings.ReplaceAll(place, "NAME", name), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDocs adds the documentation, at the same places relative to each other as in the repository.
func (r *release) addDocs(t *tree) error {
	for _, name := range []string{"README.md", "SECURITY.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(r.o.root, name))
		if err != nil {
			return err
		}
		if name == "CHANGELOG.md" {
			name += ".gz"
			text = compressed(text)
		}
		if err := t.add(docDir+name, text); err != nil {
			return err
		}
	}
	docs := filepath.Join(r.o.root, "docs")
	return filepath.WalkDir(docs, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(file) != ".md" {
			return err
		}
		rel, err := filepath.Rel(r.o.root, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return t.add(docDir+rel, text)
	})
}

// addLicences adds the licences of everything that is in the programs, the list of it, and Debian's
// files about it.
func addLicences(t *tree, deps []licensed, root string) error {
	own, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return err
	}
	if err := t.add(docDir+"licences/agentjail/LICENSE.gz", compressed(own)); err != nil {
		return err
	}
	for _, d := range deps {
		for name, text := range d.texts {
			if err := t.add(docDir+"licences/"+d.path+"/"+name+".gz", compressed(text)); err != nil {
				return err
			}
		}
	}
	if err := t.add(docDir+"sbom.spdx.json.gz", compressed(t.sbom)); err != nil {
		return err
	}
	return t.add(docDir+"copyright", copyright(deps))
}

// compressed is a text as gzip -9n writes it: without a name or a time.
func compressed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(text)
	_ = w.Close() // into memory
	return b.Bytes()
}

// debianChangelog is what dpkg-parsechangelog(1) reads: one entry, for this version.
func debianChangelog(version, maintainer string, at time.Time) []byte {
	if !strings.HasSuffix(maintainer, ">") {
		maintainer += " <>" // the format wants the place of an address
	}
	return fmt.Appendf(nil, "agentjail (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n", version, maintainer, at.Format(time.RFC1123Z))
}

// noMaintainer is the maintainer of packages without an address: the project has none. SECURITY.md,
// which is in the package, reports how to reach it.
const noMaintainer = "agentjail developers"
