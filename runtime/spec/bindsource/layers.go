package bindsource

import (
	"slices"
	"strings"
)

// layerPatterns are how engines name the directories of their layers below their
// storage: what is before the pattern is the storage.
var layerPatterns = []string{
	"/overlay2/",                           // Docker, overlay2 driver
	"/overlay/",                            // containers/storage
	"/overlay-images/", "/overlay-layers/", // the same, additional stores
	"/fuse-overlayfs/",               // Docker, fuse-overlayfs driver
	"/io.containerd.snapshotter.v1.", // containerd, any snapshotter
	"/snapshots/snapshots/",          // BuildKit's own snapshotter
}

// LayerStorage lists the directories in which an engine keeps its containers, as
// far as the layers of a root tell, which lie in its storage wherever that is.
func LayerStorage(layers []string) []string {
	var out []string
	for _, dir := range layers {
		if root := storageOf(dir); root != "" && !slices.Contains(out, root) {
			out = append(out, root)
		}
	}
	return out
}

// storageOf is the storage that a layer lies in; "" where its name says nothing.
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
