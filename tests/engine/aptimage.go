package engine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Apt is an image of nothing but this machine's apt, its libraries, and a repository of one package in /repo: as a Debian
// image has it, with no setting of ours.
const Apt = "apt"

// ImportApt makes the image Apt. It needs a Debian.
func (e *Engine) ImportApt() error {
	files := []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/apt/", mode: 0o755},
		{name: "etc/apt/apt.conf.d/", mode: 0o755},
		{name: "etc/apt/preferences.d/", mode: 0o755},
		{name: "etc/apt/sources.list.d/", mode: 0o755},
		{name: "etc/apt/trusted.gpg.d/", mode: 0o755},
		{name: "etc/apt/sources.list", mode: 0o644, data: []byte("deb [trusted=yes] file:/repo ./\n")},
		{name: "etc/passwd", mode: 0o644, data: []byte(passwd + "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, data: []byte(group)},
		{name: "tmp/", mode: 0o1777},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/dpkg/", mode: 0o755},
		{name: "var/lib/dpkg/status", mode: 0o644},
		{name: "var/lib/apt/", mode: 0o755},
		{name: "var/lib/apt/lists/", mode: 0o755},
		{name: "var/lib/apt/lists/partial/", mode: 0o700, uid: 42},
		{name: "var/cache/", mode: 0o755},
		{name: "var/cache/apt/", mode: 0o755},
		{name: "var/cache/apt/archives/", mode: 0o755},
		{name: "var/cache/apt/archives/partial/", mode: 0o700, uid: 42},
		{name: "repo/", mode: 0o755},
		{name: "repo/Packages", mode: 0o644, data: []byte("Package: hello-jail\nVersion: 1.0\nArchitecture: all\nMaintainer: tests\nFilename: ./none.deb\nSize: 1\nDescription: x\n")},
	}
	paths := []string{"/usr/bin/apt-get", "/usr/bin/apt-cache", "/usr/bin/apt-config", "/usr/bin/dpkg"}
	methods, err := filepath.Glob("/usr/lib/apt/methods/*")
	if err != nil {
		return err
	}
	paths = append(paths, methods...)
	libs, err := librariesOf(paths)
	if err != nil {
		return err
	}
	tables, err := filepath.Glob("/usr/share/dpkg/*table")
	if err != nil {
		return err
	}
	for _, p := range slices.Concat(paths, libs, tables) {
		data, err := os.ReadFile(p)
		if err != nil {
			return fmt.Errorf("no apt on this machine: %w", err)
		}
		files = append(files, file{name: p[1:], mode: 0o755, data: data})
	}
	var b bytes.Buffer
	if err := tree(&b, files); err != nil {
		return err
	}
	return e.ImportTar(bytes.NewReader(b.Bytes()), Apt, "ENV PATH=/usr/bin:/bin")
}

// librariesOf lists what the dynamic linker loads for programs, the linker itself included (ldd(1)).
func librariesOf(programs []string) ([]string, error) {
	out, err := exec.Command("ldd", programs...).Output()
	if err != nil && len(out) == 0 {
		return nil, fmt.Errorf("list libraries: %w", err)
	}
	var libs []string
	for f := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(f, "/") && !strings.HasSuffix(f, ":") && strings.Contains(f, ".so") && !slices.Contains(libs, f) {
			libs = append(libs, f)
		}
	}
	return libs, nil
}
