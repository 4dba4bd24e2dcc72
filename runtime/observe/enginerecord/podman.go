package enginerecord

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// maxEvents bounds the size of Podman's file of events, in bytes: containers.conf(5) has 1 MB.
const maxEvents = 4 << 20

// maxContainers bounds the size of the list of a storage's containers, in bytes. One takes about
// seven hundred.
const maxContainers = 16 << 20

// PodmanImage returns the name of the image of a Podman container, by its bundle: the directory
// userdata in that of the container, beside the lists of all (containers/storage). Those that are
// gone after a reboot are in a list of their own.
func PodmanImage(bundle, id string) string {
	dir := filepath.Dir(bundle)
	if filepath.Base(bundle) != "userdata" || filepath.Base(dir) != id {
		return ""
	}
	for _, name := range []string{"containers.json", "volatile-containers.json"} {
		var all []struct{ ID, Metadata string }
		if !readJSON(filepath.Join(filepath.Dir(dir), name), maxContainers, &all) {
			continue
		}
		for _, c := range all {
			var of struct {
				Image string `json:"image-name"`
			}
			if c.ID == id && json.Unmarshal([]byte(c.Metadata), &of) == nil {
				return of.Image
			}
		}
	}
	return ""
}

// PodmanStatus reads the exit status of the container id, which was made at a time, from Podman's
// file of events. Podman records it before it calls the runtime's delete.
func PodmanStatus(events, id string, made time.Time) (status uint32, known bool) {
	if events == "" {
		return 0, false
	}
	data, err := atomicfile.Read(events, maxEvents)
	if err != nil {
		return 0, false
	}
	for _, line := range slices.Backward(bytes.Split(data, []byte("\n"))) {
		if !bytes.Contains(line, []byte(id)) {
			continue
		}
		var e struct {
			ID, Status        string
			Time              time.Time
			ContainerExitCode *uint8
		}
		if json.Unmarshal(line, &e) == nil && e.ID == id && e.Status == "died" {
			if e.ContainerExitCode == nil || e.Time.Before(made) {
				return 0, false
			}
			return uint32(*e.ContainerExitCode), true
		}
	}
	return 0, false
}
