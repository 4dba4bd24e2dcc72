package bundle

import (
	"encoding/json"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// linuxSpec is specs.Spec without the fields for other systems than Linux. Before encoding/json
// reads or writes the first value of a type, it examines all types that the value can hold; those
// of the other systems are a quarter of the specification's.
type linuxSpec struct {
	Version     string            `json:"ociVersion"`
	Process     *specs.Process    `json:"process,omitempty"`
	Root        *specs.Root       `json:"root,omitempty"`
	Hostname    string            `json:"hostname,omitempty"`
	Domainname  string            `json:"domainname,omitempty"`
	Mounts      []specs.Mount     `json:"mounts,omitempty"`
	Hooks       *specs.Hooks      `json:"hooks,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Linux       *specs.Linux      `json:"linux,omitempty"`
}

// decodeSpec is decodeStrict for a spec: a spec with fields of another system is decoded as a
// whole.
func decodeSpec(data []byte, s *specs.Spec) bool {
	var l linuxSpec
	if !decodeStrict(data, &l) {
		return decodeStrict(data, s)
	}
	*s = specs.Spec{
		Version: l.Version, Process: l.Process, Root: l.Root, Hostname: l.Hostname, Domainname: l.Domainname,
		Mounts: l.Mounts, Hooks: l.Hooks, Annotations: l.Annotations, Linux: l.Linux,
	}
	return true
}

// encodeSpec is json.Marshal of a spec.
func encodeSpec(s *specs.Spec) ([]byte, error) {
	if s.Solaris != nil || s.Windows != nil || s.VM != nil || s.ZOS != nil || s.FreeBSD != nil {
		return json.Marshal(s)
	}
	return json.Marshal(&linuxSpec{
		Version: s.Version, Process: s.Process, Root: s.Root, Hostname: s.Hostname, Domainname: s.Domainname,
		Mounts: s.Mounts, Hooks: s.Hooks, Annotations: s.Annotations, Linux: s.Linux,
	})
}
