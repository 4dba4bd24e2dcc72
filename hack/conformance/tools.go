package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What a test of runtime-tools says is different each time: containers' names, folders, process ids.
var unsteady = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|/tmp/[^ "]*|\b[0-9]{4,}\b|0x[0-9a-f]+`)

// toolsSuite is the validation of opencontainers/runtime-tools: one program for each part of the specification.
func toolsSuite(ctx context.Context, o *options, _ string) ([]unit, error) {
	dir := filepath.Join(o.from, "runtime-tools")
	if _, err := os.Stat(filepath.Join(dir, "validation")); err != nil {
		return nil, fmt.Errorf("not there: git clone https://github.com/opencontainers/runtime-tools %s, or name the folder that holds it (CONFORMANCE_DIR)", dir)
	}
	// It keeps what it needs in a vendor folder; newer Go would look at its old go.mod first.
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
		units = append(units, unit{name, func(ctx context.Context, path, log string) error {
			return command(ctx, dir, log, []string{"RUNTIME=" + path}, p)
		}, func(log string) (results, error) {
			return readTAPFile(log, name, func(s string) string { return unsteady.ReplaceAllString(s, "N") })
		}})
	}
	return units, nil
}
