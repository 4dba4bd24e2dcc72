package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// makeArchive makes an archive of the same files, to be unpacked below /usr/local, or anywhere that
// only root can write.
func makeArchive(_ context.Context, r *release, t *tree) (string, error) {
	top := "agentjail-" + r.version + "-linux-" + t.arch
	name := top + ".tar.gz"
	f, err := os.OpenFile(filepath.Join(r.out, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Close()
	level := gzip.BestCompression
	if r.o.quick {
		level = gzip.BestSpeed
	}
	z, err := gzip.NewWriterLevel(f, level)
	if err != nil {
		return "", err
	}
	w := tar.NewWriter(z)
	for _, e := range t.entries {
		if e.only == "rpm" {
			continue
		}
		if err := archived(w, r, t, e, top+"/"+archivePath(e.path)); err != nil {
			return "", err
		}
	}
	return name, errors.Join(w.Close(), z.Close(), f.Close())
}

// archivePath is where a file of a package is in the archive: as below /usr/local.
func archivePath(path string) string {
	if etc, ok := strings.CutPrefix(path, "/etc/"); ok {
		return "share/doc/agentjail/etc/" + etc
	}
	return strings.TrimPrefix(path, "/usr/")
}

func archived(w *tar.Writer, r *release, t *tree, e entry, name string) error {
	h := &tar.Header{Format: tar.FormatPAX, Name: name, ModTime: r.time, Mode: int64(e.mode), Typeflag: tar.TypeReg, Uname: "root", Gname: "root"}
	if e.link != "" {
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, int64(fs.ModePerm)
		return w.WriteHeader(h)
	}
	text, err := os.ReadFile(filepath.Join(t.dir, e.path))
	if err != nil {
		return err
	}
	h.Size = int64(len(text))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
