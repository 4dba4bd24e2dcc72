package install

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// handler is containerd's entry for one name. The entry names the shim by its path, with options of
// runc's kind, the only kind that containerd 2.4 can add a pod's own ids to; releases that take no
// notice of the path start their own shim, and that the program.
type handler struct {
	Type                 string   `toml:"runtime_type"`
	Path                 string   `toml:"runtime_path"`
	Devices              bool     `toml:"privileged_without_host_devices"`
	PodAnnotations       []string `toml:"pod_annotations"`
	ContainerAnnotations []string `toml:"container_annotations"`
	Options              struct {
		BinaryName    string `toml:"BinaryName"`
		SystemdCgroup bool   `toml:"SystemdCgroup"`
	} `toml:"options"`
}

func handlerOf(o Options, r Runtime, systemd bool) handler {
	// The annotations can only tighten.
	own := []string{"dev.agentjail.*"}
	h := handler{Type: "io.containerd.runc.v2", Path: o.Shim, Devices: true, PodAnnotations: own, ContainerAnnotations: own}
	h.Options.BinaryName, h.Options.SystemdCgroup = r.Path, systemd
	return h
}

// text is the handler's tables.
func (h handler) text(version int64, name string) string {
	annotations := `["` + strings.Join(h.PodAnnotations, `", "`) + `"]`
	table := fmt.Sprintf("plugins.%q.containerd.runtimes.%s", cri[version], tomlKey(name))
	return fmt.Sprintf(`[%s]
  runtime_type = %q
  runtime_path = %q
  privileged_without_host_devices = %v
  pod_annotations = %s
  container_annotations = %s
[%s.options]
  BinaryName = %q
  SystemdCgroup = %v
`, table, h.Type, h.Path, h.Devices, annotations, annotations, table, h.Options.BinaryName, h.Options.SystemdCgroup)
}

// handlerAt is a document's entry for a name; ok is false for nothing, and exact for what this
// version would not have written.
func handlerAt(doc map[string]any, version int64, name string) (h handler, exact, ok bool) {
	v := at(doc, runtimesPath(version, name)...)
	if v == nil {
		return h, false, false
	}
	text, err := toml.Marshal(v)
	if err != nil {
		return h, false, true
	}
	err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&h)
	return h, err == nil, true
}

// leadsTo reports whether a handler runs the same programs.
func (h handler) leadsTo(x handler) bool {
	return h.Path == x.Path && h.Options.BinaryName == x.Options.BinaryName
}
