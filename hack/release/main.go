// Command release makes what is published of a version: packages for Debian and for distributions
// with rpm, an archive of static programs, lists of what is in them, and checksums.
//
//	release [options]
//
// The version is that of the tag on HEAD, else a snapshot's. The same commit gives the same bytes,
// wherever and whenever it is made: every time in them is the commit's, or $SOURCE_DATE_EPOCH.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// options are the command line's.
type options struct {
	out     string
	arches  []string
	formats []string
	version string
	quick   bool // compress less, in a third of the time
	// maintainer is who the packages name: who offers them, with an address.
	maintainer string
	// sign is a command of the shell's: its last argument is the file of the checksums, and it
	// writes the signature beside. "" signs nothing.
	sign string
	root string // of the module
}

func main() {
	var o options
	var arches, formats string
	flag.StringVar(&o.out, "out", "dist/release", "`directory` for what is made; what it held before is removed")
	flag.StringVar(&arches, "arch", "amd64,arm64", "Go's `names` of the architectures")
	flag.StringVar(&formats, "formats", "deb,rpm,tar", "which `kinds` to make")
	flag.StringVar(&o.version, "version", "", "the `version`, where it is not the tag's")
	flag.BoolVar(&o.quick, "quick", false, "compress less, in a third of the time: for tests")
	flag.StringVar(&o.maintainer, "maintainer", noMaintainer, "who offers the packages: `NAME <ADDRESS>`")
	flag.StringVar(&o.sign, "sign", "", "the `COMMAND` that signs the checksums: it gets their file's path, and writes the signature beside it")
	flag.Parse()
	o.arches, o.formats = strings.Split(arches, ","), strings.Split(formats, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

// makers make each kind from a staged tree.
var makers = map[string]func(context.Context, *release, *tree) (string, error){
	"deb": makePackage("deb"),
	"rpm": makePackage("rpm"),
	"tar": makeArchive,
}

func run(ctx context.Context, o options) error {
	for _, f := range o.formats {
		if makers[f] == nil {
			return fmt.Errorf("-formats %q: must be deb, rpm or tar", f)
		}
	}
	for _, a := range o.arches {
		if !slices.Contains([]string{"amd64", "arm64"}, a) {
			return fmt.Errorf("-arch %q: must be amd64 or arm64", a)
		}
	}
	var err error
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.root, err = moduleRoot(ctx); err != nil {
		return err
	}
	r, err := newRelease(ctx, o)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "agentjail-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// What is there already is replaced when all is made.
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(o.out), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := r.makeAll(ctx, work, fresh); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(o.out), os.Chmod(fresh, 0o755), os.Rename(fresh, o.out)); err != nil {
		return err
	}
	fmt.Printf("release: %s is in %s\n", r.version, o.out)
	return nil
}

// makeAll makes every kind for every architecture in the directory out.
func (r *release) makeAll(ctx context.Context, work, out string) error {
	r.out = out
	if err := r.prepare(ctx, work); err != nil {
		return err
	}
	var files []string
	for _, arch := range r.o.arches {
		t, err := r.stage(ctx, arch, filepath.Join(work, arch))
		if err != nil {
			return err
		}
		for _, kind := range r.o.formats {
			file, err := makers[kind](ctx, r, t)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", kind, arch, err)
			}
			files = append(files, file)
		}
		sbom := fmt.Sprintf("agentjail_%s_%s.spdx.json", r.version, arch)
		if err := os.WriteFile(filepath.Join(out, sbom), t.sbom, 0o644); err != nil {
			return err
		}
		files = append(files, sbom)
	}
	if err := writeChecksums(out, files); err != nil {
		return err
	}
	return sign(ctx, r.o.sign, filepath.Join(out, checksums))
}

// sign has the command sign a file. A release without the signature that was requested is an error.
func sign(ctx context.Context, command, path string) error {
	if command == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command+` "$1"`, "sh", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("signing %s by %q: %w", filepath.Base(path), command, err)
	}
	made, err := filepath.Glob(path + ".*")
	if err != nil || len(made) == 0 {
		return fmt.Errorf("signing %s by %q: no signature is beside it (remedy: a command that writes %s.sig or .asc)", filepath.Base(path), command, filepath.Base(path))
	}
	return nil
}
