package enginerecord

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// maxEvents bounds the size of Podman's file of events, in bytes: containers.conf(5) has 1 MB.
const maxEvents = 4 << 20

// maxContainers bounds the size of the list of a storage's containers, in bytes. One takes about
// seven hundred.
const maxContainers = 16 << 20

// PodmanImage returns the name of the image of a Podman container, and the annotations of the
// image's manifest, which Podman makes the container's. It finds both by the bundle: the directory
// userdata in that of the container, beside the lists of all, and the images beside those
// (containers/storage). Those that are gone after a reboot are in a list of their own.
func PodmanImage(bundle, id string) (name string, annotations func() (map[string]string, error)) {
	dir := filepath.Dir(bundle)
	all, image := filepath.Dir(dir), ""
	annotations = func() (map[string]string, error) {
		var manifest struct{ Annotations map[string]string }
		if image == "" || filepath.Base(image) != image {
			return nil, fmt.Errorf("the image of container %s is not known", id)
		}
		err := readOwn(filepath.Join(strings.TrimSuffix(all, "-containers")+"-images", image, "manifest"), maxImage, &manifest)
		return manifest.Annotations, err
	}
	if filepath.Base(bundle) != "userdata" || filepath.Base(dir) != id {
		return "", annotations
	}
	for _, list := range []string{"containers.json", "volatile-containers.json"} {
		var containers []struct{ ID, Image, Metadata string }
		if !readJSON(filepath.Join(all, list), maxContainers, &containers) {
			continue
		}
		for _, c := range containers {
			var of struct {
				Image string `json:"image-name"`
			}
			if c.ID == id && json.Unmarshal([]byte(c.Metadata), &of) == nil {
				image = c.Image
				return of.Image, annotations
			}
		}
	}
	return "", annotations
}

// podmanEvent is a line of Podman's file of events (libpod/events, Event).
type podmanEvent struct {
	ID, Status        string
	Time              time.Time
	ContainerExitCode *uint8
}

// PodmanStatus reads the exit status of the container id, which was made at a time, from Podman's
// file of events. Podman records it before it calls the runtime's delete. Of a file longer than
// maxEvents, which Podman before release 4 writes, it reads the end.
func PodmanStatus(events, id string, made time.Time) (status uint32, known bool) {
	if events == "" {
		return 0, false
	}
	f, err := openOwn(events)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, false
	}
	data := make([]byte, min(size, maxEvents))
	if _, err := f.ReadAt(data, size-int64(len(data))); err != nil {
		return 0, false
	}
	for at := bytes.LastIndex(data, []byte(id)); at > 0; at = bytes.LastIndex(data, []byte(id)) {
		start := bytes.LastIndexByte(data[:at], '\n') + 1
		line, _, _ := bytes.Cut(data[start:], []byte("\n"))
		data = data[:max(0, start-1)]
		var e podmanEvent
		if json.Unmarshal(line, &e) == nil && e.ID == id && e.Status == "died" {
			if e.ContainerExitCode == nil || e.Time.Before(made) {
				return 0, false
			}
			return uint32(*e.ContainerExitCode), true
		}
	}
	return 0, false
}

func readJSON(path string, most int64, to any) bool {
	data, err := atomicfile.Read(path, most)
	return err == nil && json.Unmarshal(data, to) == nil
}
