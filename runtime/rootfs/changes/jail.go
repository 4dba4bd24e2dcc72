package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/state"
)

// OfJail lists what a running jail has changed of its image.
func OfJail(ctx context.Context, s state.Store, j *state.Jail) ([]Change, error) {
	layer, err := rootfs.OpenChanges(s.Dir(j.Key))
	if err != nil {
		return nil, noView(j, err)
	}
	defer layer.Close()
	below := ByOrigin(layer)
	layers, err := engineLayers(j.EngineRoot)
	if err != nil {
		return nil, err
	}
	defer closeAll(layers)
	if len(layers) > 0 {
		below = layersBelow(layers)
	}
	return list(ctx, layer, below, s.FirstAt(j.Key))
}

// ExportJail writes a running jail's root as a tar archive, with the jail's owners. warn is as of
// export.
func ExportJail(ctx context.Context, out io.Writer, j *state.Jail, warn func(path, why string)) error {
	root, err := rootfs.OpenAttached(j.EngineRoot, j.EngineRootDev)
	if err != nil {
		return noView(j, err)
	}
	defer root.Close()
	return export(ctx, out, root, j.IDs, warn)
}

// noView reports why there is nothing to look at.
func noView(j *state.Jail, err error) error {
	switch {
	case !j.InitAlive():
		return fmt.Errorf("jail %s has ended, and what it changed is gone with it (remedy: a volume or a mounted directory for what is to stay)", j.ID)
	case j.EngineRoot == "" || errors.Is(err, rootfs.ErrNoChanges):
		return fmt.Errorf("jail %s: no engine sees its root, so that its changes are not kept within reach: %w", j.ID, err)
	}
	return err
}

// engineLayers opens the layers of the engine's root, below the jail's that is
// mounted over it, the topmost first. None where it is no overlay, or one that
// mountinfo names in another way.
func engineLayers(at string) ([]*os.File, error) {
	mounts, err := mountinfo.Read(mountinfo.OfThread)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if m.Point != at || m.FS != "overlay" {
			continue
		}
		if dirs := rootfs.CoveredLayers(at, m.Source, m.Super); len(dirs) > 0 {
			return openAll(dirs), nil
		}
	}
	return nil, nil
}

// openAll opens directories; none if one cannot be opened.
func openAll(dirs []string) []*os.File {
	var out []*os.File
	for _, dir := range dirs {
		f, err := os.Open(dir) // the engine's own links lead to it
		if err != nil {
			closeAll(out)
			return nil
		}
		out = append(out, f)
	}
	return out
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
