package harden

import (
	"maps"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// A steering annotation makes a delegate, or the sandbox around it, deviate from the runtime
// specification.
type steering struct {
	// name is the beginning of the annotations' names, in lower case, or a whole
	// name if it ends in "=".
	name   string
	reader string // the programs that read it
	does   string // its effect
	source string // where that is written
}

// steerings never reach a delegate. The caller that starts the container writes annotations, and
// some engines also pass on an image's labels as annotations. An annotation outside this list
// belongs to an engine and passes: no delegate reads it. runc and crun list the annotations that
// they call potentially unsafe in the output of `features` (runtime-spec, features.md).
var steerings = []steering{
	{"run.oci.handler", "crun, youki", "passes the container to another program: krun, wasm", "crun(1), run.oci.handler"},
	{
		"run.oci.seccomp", "crun", "replaces the filter, ignores what it does not know of it, or sends its events to a socket",
		"crun(1), run.oci.seccomp_bpf_data; shown on 1.8.1",
	},
	{"run.oci.", "crun", "keeps groups, splits the control group, runs hooks otherwise", "crun(1), ANNOTATIONS"},
	{"krun.", "crun with libkrun", "sets the virtual machine's processors, memory and kernel", "crun, krun.1.md"},
	{"module.wasm.image/", "crun, youki", "passes the container to a WebAssembly runtime", "crun, docs/wasm-on-kubernetes"},
	{"run.youki.", "youki", "as run.oci.", "youki, libcontainer"},
	{"dev.gvisor.", "runsc", "sets flags of the sandbox, its network and file access among them", "gvisor.dev, user guide, dev.gvisor.flag"},
	{
		"io.katacontainers.", "Kata Containers", "sets the virtual machine's kernel, image, memory and the program that runs it",
		"kata-containers, how-to-set-sandbox-config-kata",
	},
	{
		"com.github.containers.virtcontainers.", "Kata Containers before 2.0", "as io.katacontainers.",
		"kata-containers/runtime, annotations.go",
	},
	{"com.urunc.", "urunc", "passes the container to a hypervisor", "urunc, docs/package"},
	{"com.github.containers.", "cc-oci-runtime and its heirs", "sets the virtual machine", "clearcontainers"},
	{
		"cdi.k8s.io/", "engines, nvidia-container-runtime", "adds devices and hooks; engines have done so before",
		"CNCF container device interface, SPEC.md",
	},
	{"nvidia.", "nvidia-container-runtime", "adds devices and hooks", "nvidia-container-toolkit"},
	{"org.criu.", "runc, crun", "names the configuration of checkpoint and restore", "runc, docs/checkpoint"},
	{"org.systemd.property.", "runc, crun", "sets properties of the unit past the limits", "runc, docs/systemd.md"},
	{"io.kubernetes.cri-o.umask=", "CRI-O's runtimes", "sets the process's mask", "cri-o, annotations.go"},
	{"io.kubernetes.cri-o.devices=", "CRI-O", "adds devices", "cri-o, annotations.go"},
	{"io.kubernetes.cri-o.unifiedcgroup", "CRI-O", "writes files of the control group", "cri-o, annotations.go"},
	{"io.kubernetes.cri-o.linklogs=", "CRI-O", "links the log into a volume", "cri-o, annotations.go"},
	{"bundle=", "runc", "is where runc keeps the bundle's path", "runc, libcontainer/utils"},
}

// steers returns the entry that explains why an annotation is dropped, or nil. The comparison
// ignores letter case: no engine has two names that differ by case alone.
func steers(name string) *steering {
	name = strings.ToLower(name)
	for i, s := range steerings {
		if whole, ok := strings.CutSuffix(s.name, "="); ok && name == whole || !ok && strings.HasPrefix(name, s.name) {
			return &steerings[i]
		}
	}
	return nil
}

func annotations(p *pass) {
	for _, k := range slices.Sorted(maps.Keys(p.spec.Annotations)) {
		if s := steers(k); s != nil {
			p.change(rings.Access, report.Dropped, "annotations["+short(k)+"]", short(p.spec.Annotations[k]), "",
				"it steers the delegate: "+s.reader+", "+s.does)
			delete(p.spec.Annotations, k)
		}
	}
}
