package engine

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
)

// ImageArchive writes an image of one layer, an uncompressed tar archive, as `ctr images import` reads it.
func ImageArchive(w io.Writer, name string, layer []byte, config ImageConfig) error {
	return imageArchive(w, name, layer, config)
}

// LayeredArchive writes Busybox with a file /l/N in each of n layers as an image of that name, in the form of `docker save`,
// which every engine loads.
func LayeredArchive(w io.Writer, name string, n int) error {
	var base bytes.Buffer
	if err := busyboxTree(&base); err != nil {
		return err
	}
	layers := [][]byte{base.Bytes()}
	for i := range n {
		var b bytes.Buffer
		if err := tree(&b, []file{{name: "l/", mode: 0o755}, {name: fmt.Sprintf("l/%d", i), mode: 0o644, data: fmt.Append(nil, i)}}); err != nil {
			return err
		}
		layers = append(layers, b.Bytes())
	}
	var files []file
	var ids, names []string
	for i, l := range layers {
		names = append(names, fmt.Sprintf("%d.tar", i))
		ids = append(ids, fmt.Sprintf("sha256:%x", sha256.Sum256(l)))
		files = append(files, file{name: names[i], mode: 0o644, data: l})
	}
	config := jsonOf(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": ids},
		"config": map[string]any{"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin:/sbin"}, "Cmd": []string{"/bin/sh"}},
	})
	manifest := jsonOf([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name + ":latest"}, "Layers": names}})
	return tree(w, append(files, file{name: "config.json", mode: 0o644, data: config}, file{name: "manifest.json", mode: 0o644, data: manifest}))
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
		// Builders count the layers here.
		"history": []any{map[string]string{"created_by": fmt.Sprintf("CMD %q LABEL %q", config.Cmd, config.Labels)}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []any{tarLayer["digest"]}},
	}))
	manifest := blob("manifest.v1+json", jsonOf(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": conf, "layers": []any{tarLayer},
	}))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": name}
	files = append(files, file{name: "index.json", mode: 0o644, data: jsonOf(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})})
	return tree(w, files)
}
