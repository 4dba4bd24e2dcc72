package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestDockerBuildStep: only what all marks together say is a step of a build.
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
		{"no record", image, health, attach, "", "hosts", false},
		{"not JSON", `"Image"`, health, attach, "none", "hosts", false},
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
		if got := dockerBuildStep(id, s); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if dockerBuildStep("another", s) {
			t.Errorf("%s: another container's record counts", c.name)
		}
	}
}
