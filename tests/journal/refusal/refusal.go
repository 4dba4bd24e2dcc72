// Package refusal is what a jail is refused in a run, as a table, and how such a run is held against its journal. The suites drive it through
// each engine: the command line, Docker, Podman and containerd (tests/journal), CRI (tests/cri) and a kubelet (tests/kubernetes).
package refusal

import (
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A Driver is what starts a jail and is requested more.
type Driver string

// The drivers.
const (
	CommandLine Driver = "command line"
	Docker      Driver = "Docker"
	Podman      Driver = "Podman"
	Containerd  Driver = "containerd"
	CRI         Driver = "CRI"
	Kubernetes  Driver = "Kubernetes"
)

// A Row is a refusal: what somebody requests, and what `agentjail denied` shows of it.
type Row struct {
	Name string
	// One of these provokes it: the container's configuration; what an engine's user calls, exec's options or a limit of update; a try of the probe;
	// or a script in the jail.
	Bundle func(*specs.Spec)
	Exec   []string
	Pids   int64
	Memory int64
	Probe  string
	Sh     string
	// Stays reports that the script does not end, and Again that it runs until it is refused: on a busy machine a jail gets no more of the
	// processors than it may have.
	Stays, Again bool
	// Options are those with which Docker's user requests the configuration, or exec; Podman's are the same where there are no others.
	Options, Podman []string
	// Pod requests the configuration over CRI, and Manifest are lines of a pod's spec, or of its container's, that have a kubelet do so.
	Pod                 func(*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig)
	Manifest, Container string
	// Lacks states of a driver why it cannot provoke this.
	Lacks map[Driver]string
	// Kind and What are the event's, and Rule and Remedy are in what is shown.
	Kind, What, Rule, Remedy string
}

// Of are the rows that a driver can provoke, as it does.
func Of(d Driver) (out []Row) {
	for _, r := range Rows {
		if r.Lacks[d] != "" {
			continue
		}
		if d == Podman && r.Podman != nil {
			r.Options = r.Podman
		}
		if r.Exec != nil && (d == Docker || d == Podman) {
			r.Exec = r.Options
		}
		out = append(out, r)
	}
	return out
}

// Wanting reports which rows state of a driver neither how it provokes them nor why it cannot.
func Wanting(d Driver) (names []string) {
	for _, r := range Of(d) {
		asked := r.Probe != "" || r.Sh != "" || r.Pids != 0 || r.Memory != 0 || d == CommandLine || d == Containerd
		switch d {
		case Docker, Podman:
			asked = asked || r.Options != nil
		case CRI:
			asked = asked || r.Pod != nil
		case Kubernetes:
			asked = asked || r.Manifest != "" || r.Container != ""
		}
		if !asked {
			names = append(names, r.Name)
		}
	}
	return names
}

// A Denial is of `agentjail denied --json`.
type Denial struct {
	Kind, What, Rule, Remedy, Reason, Meaning string
	Count                                     int
}

// find are the denials of a row.
func (r *Row) find(all []Denial) (out []Denial) {
	for _, d := range all {
		if d.Kind == r.Kind && strings.Contains(d.What, r.What) && strings.Contains(d.Rule, r.Rule) {
			out = append(out, d)
		}
	}
	return out
}

// most are the denials of a row in the journal that has most of them: a pod's jails each have one.
func (r *Row) most(journals [][]Denial) []Denial {
	return slices.MaxFunc(append([][]Denial{nil}, found(r, journals)...), func(a, b []Denial) int { return len(a) - len(b) })
}

func found(r *Row, journals [][]Denial) (out [][]Denial) {
	for _, all := range journals {
		out = append(out, r.find(all))
	}
	return out
}
