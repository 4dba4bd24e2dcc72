package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// unsteady matches what differs in each output of a test of runtime-tools: containers' names,
// directories, process ids.
var unsteady = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|/tmp/[^ "]*|\b[0-9]{4,}\b|0x[0-9a-f]+`)

// toolsSuite is the validation of opencontainers/runtime-tools: one program for each part of the
// specification.
func toolsSuite(ctx context.Context, o *options, version string) ([]unit, error) {
	dir := filepath.Join(o.from, "runtime-tools")
	if _, err := os.Stat(filepath.Join(dir, "validation")); err != nil {
		return nil, fmt.Errorf("not there: git clone https://github.com/opencontainers/runtime-tools %s, or name the directory that holds it (CONFORMANCE_DIR)", dir)
	}
	if olderSpec(version) {
		var err error
		if dir, err = olderTools(ctx, dir); err != nil {
			return nil, err
		}
	}
	// It keeps what it needs in a vendor directory; newer Go would look at its old go.mod first.
	if _, err := do(ctx, dir, "make", "runtimetest", "validation-executables", "EXTRA_FLAGS=-mod=vendor"); err != nil {
		return nil, err
	}
	programs, err := filepath.Glob(filepath.Join(dir, "validation/*/*.t"))
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, p := range programs {
		name := strings.TrimSuffix(filepath.Base(p), ".t")
		units = append(units, unit{name: name, run: func(ctx context.Context, path, log string) error {
			return command(ctx, dir, log, []string{"RUNTIME=" + path}, p)
		}, read: func(log string) (results, error) {
			return readTAPFile(log, name, func(s string) string { return unsteady.ReplaceAllString(s, "N") })
		}})
	}
	return units, nil
}

// olderSpec reports whether a delegate refuses the number of the specification that the suites'
// bundles have, and any later one than 1.0.2.
func olderSpec(version string) bool { return strings.HasPrefix(version, "crun-1.8") }

// olderTools is a copy of the suite whose bundles have version 1.0.2 of the specification.
func olderTools(ctx context.Context, from string) (string, error) {
	dir := workDir("runtime-tools-1.0.2")
	const number = "vendor/github.com/opencontainers/runtime-spec/specs-go/version.go"
	for _, step := range [][]string{
		{"rm", "-rf", dir},
		{"mkdir", "-p", filepath.Dir(dir)},
		{"cp", "-rL", from, dir},
		{"sed", "-i", "-e", "s/VersionMinor = .*/VersionMinor = 0/", "-e", "s/VersionPatch = .*/VersionPatch = 2/", filepath.Join(dir, number)},
	} {
		if _, err := do(ctx, "", step...); err != nil {
			return "", err
		}
	}
	return dir, nil
}
