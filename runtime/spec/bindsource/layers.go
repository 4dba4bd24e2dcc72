package bindsource

import (
	"slices"
	"strings"
)

// layerPatterns match the directories of engines' layers below their storage: the storage is the
// part before the pattern.
var layerPatterns = []string{
	"/overlay2/",                           // Docker, overlay2 driver
	"/overlay/",                            // containers/storage
	"/overlay-images/", "/overlay-layers/", // the same, additional stores
	"/fuse-overlayfs/",               // Docker, fuse-overlayfs driver
	"/io.containerd.snapshotter.v1.", // containerd, any snapshotter
	"/snapshots/snapshots/",          // BuildKit's own snapshotter
}

// LayerStorage lists the storage directories of engines, as far as the layers of a root show
// them: layers lie in their engine's storage, wherever that is.
func LayerStorage(layers []string) []string {
	var out []string
	for _, dir := range layers {
		if root := storageOf(dir); root != "" && !slices.Contains(out, root) {
			out = append(out, root)
		}
	}
	return out
}

// storageOf returns the storage that a layer lies in; "" if its name matches no engine's.
func storageOf(layer string) string {
	at := -1
	for _, pattern := range layerPatterns {
		if i := strings.LastIndex(layer, pattern); i > at {
			at = i
		}
	}
	if at <= 0 || layer[0] != '/' {
		return ""
	}
	return layer[:at]
}
