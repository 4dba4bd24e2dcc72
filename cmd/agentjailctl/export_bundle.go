package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/exported"
)

// exportBundle writes the hardened bundle of a jail into a new directory.
func exportBundle(c *cli.Context) error {
	if c.NArg() != 2 {
		return usage("export --bundle requires a container and a new directory (see `agentjail export --help`)")
	}
	target := c.String("for")
	adapt, known := exported.Targets[target]
	if target != "" && !known {
		return usage("--for %q: not one of %s", target, strings.Join(slices.Sorted(maps.Keys(exported.Targets)), ", "))
	}
	store, j, err := existingJail(c, c.Args().First())
	if err == nil {
		err = checkInvoker(&j.Brief)
	}
	if err != nil {
		return err
	}
	hardened, err := bundle.Load(filepath.Join(store.Dir(j.Key), "bundle"))
	if err != nil {
		return err
	}
	in := exported.Jail{
		Hardened: hardened.Spec, Process: j.Process, Dir: store.Dir(j.Key), Root: j.EngineRoot, UIDs: j.IDs.UIDs, GIDs: j.IDs.GIDs,
	}
	if original, err := bundle.Load(j.Bundle); err == nil { // a sandbox has none
		in.Original = original.Spec
		if r := in.Original.Root; r != nil && in.Root == "" {
			in.Root = bundle.Path(j.Bundle, r.Path)
		}
		for i, m := range in.Original.Mounts {
			in.Original.Mounts[i].Source = bundle.Path(j.Bundle, m.Source)
		}
	}
	s, lacks, err := exported.Bundle(in)
	if err != nil {
		return fmt.Errorf("jail %s: %w", j.ID, err)
	}
	if adapt != nil {
		lacks = append(lacks, adapt(s)...)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	dir := c.Args().Get(1)
	if err := invoker.Do(func() error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return atomicfile.WriteNew(filepath.Join(dir, bundle.ConfigName), append(text, '\n'), 0o600)
	}); err != nil {
		return err
	}
	for _, l := range lacks {
		fmt.Fprintf(os.Stderr, "agentjail: not in the bundle: %s\n", printable.Line(l, 0))
	}
	return nil
}
