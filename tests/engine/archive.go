package engine

import (
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
)

// ImageArchive writes an image of one layer, an uncompressed tar archive, as `ctr images import` reads it.
func ImageArchive(w io.Writer, name string, layer []byte, config ImageConfig) error {
	return imageArchive(w, name, layer, config)
}

// imageArchive writes an image of one layer as a tar archive of an OCI image layout (image-spec, image-layout.md), as
// `ctr images import` reads it.
func imageArchive(w io.Writer, name string, layer []byte, config ImageConfig) error {
	files := []file{{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	blob := func(mediaType string, data []byte) map[string]any {
		digest := fmt.Sprintf("%x", sha256.Sum256(data))
		files = append(files, file{name: "blobs/sha256/" + digest, mode: 0o644, data: data})
		return map[string]any{"mediaType": "application/vnd.oci.image." + mediaType, "digest": "sha256:" + digest, "size": len(data)}
	}
	tarLayer := blob("layer.v1.tar", layer)
	conf := blob("config.v1+json", jsonOf(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{tarLayer["digest"]}},
	}))
	manifest := blob("manifest.v1+json", jsonOf(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": conf, "layers": []any{tarLayer},
	}))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": name}
	files = append(files, file{name: "index.json", mode: 0o644, data: jsonOf(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})})
	return tree(w, files)
}
