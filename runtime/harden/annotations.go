package harden

import (
	"strings"

	"agentjail.dev/runtime/report"
)

// droppedAnnotations steer a delegate or an engine, by the beginning of their
// names: crun's can switch its filter off (run.oci.seccomp_bpf_data), keep
// groups or hand a run to another program (run.oci.handler); systemd's set
// properties of the control group past our limits; CRIU's are for restore.
// runc and crun list those that they call potentially unsafe in the answer of
// their `features` (runtime-spec, features.md).
var droppedAnnotations = []string{
	"run.oci.", "org.criu.", "org.systemd.property.", "krun.", "module.wasm.image/", "com.github.containers.",
	"io.kubernetes.cri-o.umask", "io.kubernetes.cri-o.devices", "io.kubernetes.cri-o.unifiedcgroup", "io.kubernetes.cri-o.linklogs",
}

// droppedNames steer by their whole name: runc keeps a container's bundle among
// its annotations.
var droppedNames = []string{"bundle"}

func annotations(p *pass) {
	for _, k := range sortedKeys(p.spec.Annotations) {
		name := strings.ToLower(k)
		drop := false
		for _, d := range droppedAnnotations {
			drop = drop || strings.HasPrefix(name, d)
		}
		for _, d := range droppedNames {
			drop = drop || name == d
		}
		if drop {
			p.change(report.Access, report.Dropped, "annotations["+short(k)+"]", short(p.spec.Annotations[k]), "", "it steers the delegate")
			delete(p.spec.Annotations, k)
		}
	}
}
