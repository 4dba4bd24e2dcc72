package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nfpmConfig is nfpm's configuration (https://nfpm.goreleaser.com/docs/configuration/). It reads
// YAML, of which JSON is a part.
type nfpmConfig struct {
	Name        string            `json:"name"`
	Arch        string            `json:"arch"`
	Platform    string            `json:"platform"`
	Version     string            `json:"version"`
	Schema      string            `json:"version_schema"`
	Section     string            `json:"section"`
	Priority    string            `json:"priority"`
	Maintainer  string            `json:"maintainer"`
	Description string            `json:"description"`
	Vendor      string            `json:"vendor,omitempty"`
	License     string            `json:"license,omitempty"`
	NoGlobbing  bool              `json:"disable_globbing"`
	Time        time.Time         `json:"mtime"`
	Depends     []string          `json:"depends,omitempty"`
	Recommends  []string          `json:"recommends,omitempty"`
	Suggests    []string          `json:"suggests,omitempty"`
	Contents    []nfpmContent     `json:"contents"`
	Scripts     map[string]string `json:"scripts"`
	Deb         map[string]any    `json:"deb,omitempty"`
	RPM         map[string]any    `json:"rpm,omitempty"`
}

type nfpmContent struct {
	Source      string       `json:"src,omitempty"`
	Destination string       `json:"dst"`
	Type        string       `json:"type,omitempty"`
	Info        nfpmFileInfo `json:"file_info"`
}

type nfpmFileInfo struct {
	Mode  uint32    `json:"mode,omitempty"`
	Owner string    `json:"owner"`
	Group string    `json:"group"`
	Time  time.Time `json:"mtime"`
}

const about = `run OCI containers as jails for AI agents
An OCI runtime with runc's command line, for Docker, Podman, containerd and
Kubernetes. It rewrites every bundle into a jail of three rings (resources,
access, kernel surface) and has the host's runc or crun execute it.`

// kinds are what differs between the kinds of packages.
var kinds = map[string]struct {
	depends, recommends, suggests []string
	quick                         string // its compression where that is not xz
	file                          func(version, arch string) string
}{
	"deb": {
		[]string{"runc | crun"},
		[]string{"apparmor", "e2fsprogs"},
		[]string{"docker.io | docker-ce | podman | containerd"},
		"gzip", // as Debian 11's dpkg and lintian read it, too
		func(version, arch string) string { return "agentjail_" + version + "_" + arch + ".deb" },
	},
	"rpm": {
		[]string{"(runc or crun)"},
		[]string{"e2fsprogs"},
		[]string{"podman"},
		"zstd",
		func(version, arch string) string {
			return "agentjail-" + version + "-1." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch] + ".rpm"
		},
	},
}

// makePackage returns what makes packages of a kind.
func makePackage(kind string) func(context.Context, *release, *tree) (string, error) {
	return func(ctx context.Context, r *release, t *tree) (string, error) {
		k := kinds[kind]
		name := k.file(r.version, t.arch)
		conf, err := r.nfpmConfig(kind, t)
		if err != nil {
			return "", err
		}
		text, err := json.MarshalIndent(conf, "", " ")
		if err != nil {
			return "", err
		}
		file := filepath.Join(t.dir, kind+".yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return "", err
		}
		_, err = output(ctx, t.dir, []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10)},
			r.nfpm, "package", "--config", file, "--packager", kind, "--target", filepath.Join(r.out, name))
		return name, err
	}
}

// nfpmConfig describes a tree.
func (r *release) nfpmConfig(kind string, t *tree) (*nfpmConfig, error) {
	k := kinds[kind]
	c := &nfpmConfig{
		Name: "agentjail", Arch: t.arch, Platform: "linux", Version: r.version, Schema: "none", Section: "admin", Priority: "optional",
		Maintainer: r.o.maintainer, Description: about, License: "Apache-2.0", NoGlobbing: true, Time: r.time,
		Depends: k.depends, Recommends: k.recommends, Suggests: k.suggests, Scripts: map[string]string{},
	}
	if err := c.addScripts(t); err != nil {
		return nil, err
	}
	entries := slices.Clone(t.entries)
	packed := "xz"
	if r.o.quick {
		packed = k.quick
	}
	switch kind {
	case "deb":
		c.Deb = map[string]any{"compression": packed}
		c.License = "" // Debian has no such field, but the file copyright
		more, err := r.debianFiles(t)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	case "rpm":
		c.RPM = map[string]any{"buildhost": "localhost", "compression": packed, "group": "System Environment/Base", "packager": r.o.maintainer, "summary": strings.Split(about, "\n")[0]}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.only != "" && e.only != kind })
	for _, dir := range directories(entries) {
		c.Contents = append(c.Contents, nfpmContent{Destination: dir, Type: "dir", Info: nfpmFileInfo{Mode: 0o755, Owner: "root", Group: "root", Time: r.time}})
	}
	for _, e := range entries {
		c.Contents = append(c.Contents, r.content(t, e))
	}
	return c, nil
}

// everywhere are directories that a distribution has without the package.
var everywhere = []string{"/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/usr/lib/systemd", "/usr/lib/systemd/system", "/usr/lib/sysusers.d", "/usr/share", "/usr/share/doc", "/usr/share/man", "/usr/share/man/man5", "/usr/share/man/man8"}

// directories are those of the entries that go with the package: rpm removes only what a package
// names.
func directories(entries []entry) []string {
	var out []string
	for _, e := range entries {
		for dir := filepath.Dir(e.path); !slices.Contains(everywhere, dir); dir = filepath.Dir(dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// addScripts adds the scripts that dpkg and rpm call.
func (c *nfpmConfig) addScripts(t *tree) error {
	for hook, name := range map[string]string{"postinstall": "postinst", "preremove": "prerm", "postremove": "postrm"} {
		text, err := files.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		c.Scripts[hook] = filepath.Join(t.dir, "scripts", name)
		if err := t.write("scripts/"+name, text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// debianFiles are what only Debian's packages have.
func (r *release) debianFiles(t *tree) (out []entry, err error) {
	overrides, err := files.ReadFile("files/lintian")
	if err != nil {
		return nil, err
	}
	for path, text := range map[string][]byte{
		docDir + "changelog.gz":                  compressed(debianChangelog(r.version, r.o.maintainer, r.time)),
		"/usr/share/lintian/overrides/agentjail": overrides,
	} {
		if err := t.write(path, text, 0o644); err != nil {
			return nil, err
		}
		out = append(out, entry{path: path, mode: 0o644})
	}
	return out, nil
}

// content is an entry in nfpm's terms.
func (r *release) content(t *tree, e entry) nfpmContent {
	c := nfpmContent{
		Source: filepath.Join(t.dir, e.path), Destination: e.path,
		Info: nfpmFileInfo{Mode: uint32(e.mode), Owner: "root", Group: "root", Time: r.time},
	}
	switch {
	case e.link != "":
		c.Source, c.Type = e.link, "symlink"
	case e.config:
		c.Type = "config|noreplace"
	}
	return c
}

// checksums is the name of the file of checksums.
const checksums = "SHA256SUMS"

// writeChecksums writes SHA256SUMS, as sha256sum -c reads it.
func writeChecksums(dir string, names []string) error {
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), name)
	}
	return os.WriteFile(filepath.Join(dir, checksums), []byte(b.String()), 0o644)
}
