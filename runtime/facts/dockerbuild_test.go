package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/bundle"
)

// TestDockerBuildStep: only a container with all marks together is a step of a build.
func TestDockerBuildStep(t *testing.T) {
	const id = "0123456789abcdef"
	const image, health, attach = `"Image":"sha256:abc"`, `"Healthcheck":{"Test":["NONE"]}`, `"AttachStdout":false`
	for _, c := range []struct {
		name, image, health, attach, log, place string
		want                                    bool
	}{
		{"a step", image, health, attach, "none", "hosts", true},
		{"docker run", `"Image":"busybox"`, health, attach, "none", "hosts", false},
		{"with a health check", image, `"Healthcheck":null`, attach, "none", "hosts", false},
		{"attached", image, health, `"AttachStderr":true`, "none", "hosts", false},
		{"on a terminal", image, health, `"Tty":true`, "none", "hosts", false},
		{"with input", image, health, `"OpenStdin":true`, "none", "hosts", false},
		{"with a log", image, health, attach, "json-file", "hosts", false},
		{"without Docker's files", image, health, attach, "none", "", false},
		{"no hostconfig.json", image, health, attach, "", "hosts", false},
		{"no JSON", `"Image"`, health, attach, "none", "hosts", false},
	} {
		dir := filepath.Join(t.TempDir(), "containers", id)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		put := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put("config.v2.json", fmt.Sprintf(`{"ID":%q,"Config":{%s,%s,%s}}`, id, c.image, c.health, c.attach))
		if c.log != "" {
			put("hostconfig.json", fmt.Sprintf(`{"LogConfig":{"Type":%q,"Config":{}}}`, c.log))
		}
		s := &specs.Spec{Mounts: []specs.Mount{{Destination: "/proc", Source: "proc"}}}
		if c.place != "" {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/etc/" + c.place, Source: filepath.Join(dir, c.place)})
		}
		found := func(id string) (bool, error) {
			p := &Gathered{Bundle: &bundle.Bundle{Dir: dir, Spec: s}}
			if err := p.readLabels(id); err != nil {
				return false, err
			}
			return dockerBuildStep(p.docker)
		}
		if got, err := found(id); got != c.want || (err != nil) != strings.HasPrefix(c.name, "no") {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if step, err := found("another"); step || err != nil {
			t.Errorf("%s: another container's record counts: %v", c.name, err)
		}
	}
}

// TestBuildKitStep: a container whose network files are of BuildKit's executor is a step of a
// build, with either of its workers; what only lies in directories of such names is none.
func TestBuildKitStep(t *testing.T) {
	const id = "0123456789abcdefghijklmno"
	top := t.TempDir()
	worker := filepath.Join(top, "containerd-overlayfs")
	if err := os.Mkdir(worker, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(worker, "workerid"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	executor := filepath.Join(top, "runc-overlayfs", "executor")
	for _, c := range []struct {
		name, bundle, at, source string
		want                     bool
	}{
		{"runc worker", filepath.Join(executor, id), "/etc/resolv.conf", filepath.Join(executor, "resolv.conf"), true},
		{"runc worker, names of its own", filepath.Join(executor, id), "/etc/hosts", filepath.Join(executor, "hosts.abc"), true},
		{"containerd worker", filepath.Join(top, "task", "buildkit", id), "/etc/resolv.conf", filepath.Join(worker, "resolv.conf"), true},
		{"another's bundle", filepath.Join(executor, "other"), "/etc/hosts", filepath.Join(executor, "hosts"), false},
		{"another place in it", filepath.Join(executor, id), "/work", filepath.Join(executor, "hosts"), false},
		{"another directory", filepath.Join(top, "bundles", id), "/etc/hosts", filepath.Join(top, "bundles", "hosts"), false},
		{"Docker's", filepath.Join(top, "task", "moby", id), "/etc/hosts", filepath.Join(top, "containers", id, "hosts"), false},
		{"relative", filepath.Join(executor, id), "/etc/hosts", "hosts", false},
	} {
		s := &specs.Spec{Mounts: []specs.Mount{{Destination: "/proc", Source: "proc"}, {Destination: c.at, Source: c.source}}}
		err := refuseBuild(id, c.bundle, s, nil)
		if got := err != nil && strings.Contains(err.Error(), "leave BuildKit its runc"); got != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
