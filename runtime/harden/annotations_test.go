package harden

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-spec/specs-go/features"

	"agentjail.dev/runtime/spec/report"
)

// TestSteeringAnnotations: of each row, no spelling reaches a delegate, and the
// report reports why.
func TestSteeringAnnotations(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range steerings {
		if seen[row.name] || row.reader == "" || row.does == "" || row.source == "" || row.name != strings.ToLower(row.name) {
			t.Errorf("%+v is incomplete, or there twice", row)
		}
		seen[row.name] = true
		name, whole := strings.CutSuffix(row.name, "=")
		if !whole {
			name += "x"
		}
		for _, spelling := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			res, rep := jail(t, with(func(s *specs.Spec) { s.Annotations = map[string]string{spelling: "1", "com.example": "stays"} }))
			if len(res.Spec.Annotations) != 1 || res.Spec.Annotations["com.example"] != "stays" {
				t.Errorf("%s reaches the delegate: %v", spelling, res.Spec.Annotations)
			}
			if found := find(rep, report.Dropped, "annotations[*"); len(found) != 1 || !strings.Contains(found[0].Why, "it steers the delegate: ") {
				t.Errorf("%s: the report states %v", spelling, found)
			}
		}
	}
}

// TestEngineAnnotations: what engines write for themselves passes.
func TestEngineAnnotations(t *testing.T) {
	for _, name := range []string{
		"io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.ContainerType", "io.kubernetes.cri-o.SandboxID",
		"io.kubernetes.pod.uid", "io.containerd.runc.v2.group", "io.container.manager", "io.podman.annotations.autoremove",
		"org.opencontainers.image.title", "org.opencontainers.image.stopSignal", "dev.agentjail.limits.pids", "com.docker.compose.project",
		"bundles", "run.ocix", "krunx", "io.kubernetes.cri-o.umasked",
	} {
		res, _ := jail(t, with(func(s *specs.Spec) { s.Annotations = map[string]string{name: "1"} }))
		if res.Spec.Annotations[name] != "1" {
			t.Errorf("%s is dropped", name)
		}
	}
}

// TestUnsafeAnnotationsOfDelegates: what the delegates on this machine call
// potentially unsafe is in the table.
func TestUnsafeAnnotationsOfDelegates(t *testing.T) {
	for _, delegate := range []string{"runc", "crun", "youki"} {
		out, err := exec.Command(delegate, "features").Output()
		if err != nil {
			continue // not here, or of a release without its version
		}
		var f features.Features
		if err := json.Unmarshal(out, &f); err != nil {
			t.Errorf("%s features: %v", delegate, err)
		}
		for _, name := range f.PotentiallyUnsafeConfigAnnotations {
			if strings.HasSuffix(name, ".") {
				name += "x"
			}
			if steers(name) == nil {
				t.Errorf("%s calls %s potentially unsafe", delegate, name)
			}
		}
	}
}

// TestSteeringAnnotationsInDocs: docs/engines.md lists them.
func TestSteeringAnnotationsInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range steerings {
		if !strings.Contains(string(text), "`"+strings.TrimSuffix(row.name, "=")) {
			t.Errorf("docs/engines.md does not list %s", row.name)
		}
	}
}
