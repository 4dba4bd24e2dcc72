package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"agentjail.dev/tests/engine"
)

// The registries and the users that critest knows.
const (
	criRegistry   = "gcr.io/k8s-staging-cri-tools/"
	e2eRegistry   = "registry.k8s.io/e2e-test-images/"
	critestUsers  = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33:www-data:/var/www:/bin/false\ndefault-user:x:1000:1000::/home:/bin/sh\n"
	critestGroups = "root:x:0:\nwww-data:x:33:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n"
)

// critestImages makes stand-ins for the images that critest pulls: this machine's busybox, and one
// program of ours for the servers.
func critestImages(ctx context.Context) (*registry, error) {
	dir, err := engine.BinDir()
	if err != nil {
		return nil, err
	}
	standin, pause := filepath.Join(dir, "standin"), filepath.Join(dir, "pause")
	if err := engine.Build("./hack/conformance/standin", standin); err != nil {
		return nil, err
	}
	if err := engine.Build("./tests/cri/pause", pause); err != nil {
		return nil, err
	}
	busybox := filepath.Join(dir, "critest.tar")
	if err := busyboxTar(ctx, busybox, critestUsers, critestGroups); err != nil {
		return nil, err
	}
	layer, err := withPrograms(busybox, map[string]string{"bin/nginx": standin, "bin/httpd": standin, "bin/nnp": standin, "pause": pause})
	if err != nil {
		return nil, err
	}
	r := &registry{manifests: map[string][]byte{}, blobs: map[string][]byte{}}
	shell := func(user string) engine.ImageConfig {
		return engine.ImageConfig{User: user, Cmd: []string{"sh"}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	}
	server := func(args ...string) engine.ImageConfig {
		c := shell("")
		c.Cmd, c.Entrypoint = nil, args
		return c
	}
	tags := func(name string, tags ...string) []string {
		var out []string
		for _, t := range tags {
			out = append(out, criRegistry+name+":"+t)
		}
		return out
	}
	for _, i := range []struct {
		config engine.ImageConfig
		names  []string
	}{
		{shell(""), []string{e2eRegistry + "busybox:1.29-2"}},
		{server("/bin/nginx", "80", "master process"), []string{e2eRegistry + "nginx:1.14-2"}},
		{server("/bin/httpd", "80"), []string{e2eRegistry + "httpd:2.4.39-4"}},
		{server("/bin/nginx", "12003"), tags("hostnet-nginx-"+runtime.GOARCH, "latest")},
		{server("/bin/nnp"), []string{e2eRegistry + "nonewprivs:1.3"}},
		{server("/pause"), []string{engine.PauseImage, "registry.k8s.io/pause:3.9", "k8s.gcr.io/pause:3.9"}},
		{shell("1002"), tags("test-image-user-uid", "latest")},
		{shell("www-data"), tags("test-image-user-username", "latest")},
		{shell("1003:1004"), tags("test-image-user-uid-group", "latest")},
		{shell("www-data:1004"), tags("test-image-user-username-group", "latest")},
		{shell("1000"), tags("test-image-predefined-group", "latest")},
		{labelled("tags"), tags("test-image-tags", "1", "2", "3")},
		{labelled("tag"), append(tags("test-image-tag", "test", "all"), tags("test-image-latest", "latest")...)},
		{labelled("1"), tags("test-image-1", "latest")},
		{labelled("2"), tags("test-image-2", "latest")},
		{labelled("3"), tags("test-image-3", "latest")},
	} {
		if err := r.add(layer, i.config, i.names...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// labelled is the configuration of an image that differs from others.
func labelled(text string) engine.ImageConfig {
	return engine.ImageConfig{Cmd: []string{"sh"}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Labels: map[string]string{"image": text}}
}

// withPrograms is a tar archive with more programs, by the names that they get. They run with the
// rights of root, who owns them.
func withPrograms(archive string, programs map[string]string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, in); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "var/run/", Mode: 0o777, Typeflag: tar.TypeDir}); err != nil {
		return nil, err
	}
	for name, path := range programs {
		program, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o4755, Size: int64(len(program)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(program); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
