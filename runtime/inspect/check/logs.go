package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// The engine writes a jail's output to the host's disk. No control group counts it, and no part of
// a jail can bound it.

// unbounded are the log drivers that write a file without end unless configured (docs.docker.com,
// containers-logs(5)).
var unbounded = []string{"json-file", "k8s-file"}

// logSize looks at the engines' settings for logs. The kubelet rotates those of
// pods by itself (containerLogMaxSize, 10 MiB).
func logSize(e *env) answer {
	var found, bad, remedies []string
	for _, look := range []func(*env) (finding, error){dockerLogs, podmanLogs} {
		f, err := look(e)
		switch {
		case err != nil:
			bad, remedies = append(bad, err.Error()), append(remedies, "repair that file")
		case f.what == "":
		case f.remedy != "":
			bad, remedies = append(bad, f.what), append(remedies, f.remedy)
		default:
			found = append(found, f.what)
		}
	}
	switch {
	case len(bad) > 0:
		return warn(strings.Join(remedies, "; "), "%s", strings.Join(append(bad, found...), "; "))
	case len(found) == 0:
		return ok("no engine with logs of its own is installed; the kubelet bounds those of pods")
	}
	return ok("%s", strings.Join(found, "; "))
}

// finding reports how an engine's logs are bounded, or with a remedy, that they are
// not; empty where there is no such engine.
type finding struct{ what, remedy string }

// dockerSettings are what is looked at of dockerd's configuration file
// (dockerd(8)).
type dockerSettings struct {
	Driver  string            `json:"log-driver"`
	Opts    map[string]string `json:"log-opts"`
	Default string            `json:"default-runtime"`
	Root    string            `json:"data-root"`
}

// dockerSettings reads them; a file that is absent or empty sets nothing.
func (e *env) dockerSettings() (c dockerSettings, path string, err error) {
	path = filepath.Join(e.etc, "docker/daemon.json")
	data, err := readBounded(path)
	if err == nil && len(strings.TrimSpace(string(data))) > 0 {
		err = json.Unmarshal(data, &c)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return c, path, fmt.Errorf("reading Docker's settings in %s: %w", path, err)
	}
	return c, path, nil
}

// imageBuilds reports what becomes of builds where jails are Docker's default.
func imageBuilds(e *env) answer {
	// dockerd's BuildKit calls the runc in PATH, whatever the default runtime
	// (moby, builder-next, newExecutor).
	if runc := e.program("runc"); strings.HasPrefix(filepath.Base(runc), "agentjail") {
		return warn("put the real runc before it in PATH", "runc is %s: steps of BuildKit's builds are refused", runc)
	}
	c, path, err := e.dockerSettings()
	switch {
	case err != nil:
		return warn("repair that file", "%v", err)
	case strings.HasPrefix(c.Default, "agentjail"):
		return warn("build with BuildKit (DOCKER_BUILDKIT=1 docker build, docker buildx build, docker compose 2), or start jails with --runtime and leave the default alone",
			"%s makes jails Docker's default: steps of the classic builder are refused, since their layers would be thrown away", path)
	}
	return ok("Docker builds without jails")
}

func dockerLogs(e *env) (finding, error) {
	if e.program("dockerd") == "" {
		return finding{}, nil
	}
	c, path, err := e.dockerSettings()
	if err != nil {
		return finding{}, err
	}
	if c.Driver == "" {
		c.Driver = "json-file"
	}
	switch size := c.Opts["max-size"]; {
	case !slices.Contains(unbounded, c.Driver):
		return finding{what: "Docker's logs go to " + c.Driver + ", which has bounds of its own"}, nil
	case size != "" && size != "-1":
		return finding{what: "Docker's logs have at most " + size + " a file"}, nil
	}
	return finding{
		"Docker's logs (" + c.Driver + ") grow without end: a jail that prints fills the host's disk",
		`set "log-opts": {"max-size": "10m", "max-file": "3"} in ` + path + ` and restart dockerd, or start jails with --log-opt max-size=10m`,
	}, nil
}

// containersConf are Podman's settings, each over those before it
// (containers.conf(5)).
func (e *env) containersConf() []string {
	paths := []string{filepath.Join(e.usr, "share/containers/containers.conf"), filepath.Join(e.etc, "containers/containers.conf")}
	more, _ := filepath.Glob(filepath.Join(e.etc, "containers/containers.conf.d/*.conf"))
	return append(paths, more...)
}

// podmanSettings are what is looked at of Podman's configuration files (containers.conf(5)).
type podmanSettings struct {
	Containers struct {
		Driver string `toml:"log_driver"`
		Size   int64  `toml:"log_size_max"`
	} `toml:"containers"`
}

// podmanSettings reads them, with Podman's choices for what is not set.
func (e *env) podmanSettings() (c podmanSettings, err error) {
	c.Containers.Driver = "k8s-file"
	if _, err := os.Stat(filepath.Join(e.run, "systemd/journal")); err == nil {
		c.Containers.Driver = "journald"
	}
	for _, path := range e.containersConf() {
		data, err := readBounded(path)
		if err == nil {
			err = toml.Unmarshal(data, &c)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return c, fmt.Errorf("reading Podman's settings in %s: %w", path, err)
		}
	}
	return c, nil
}

func podmanLogs(e *env) (finding, error) {
	if e.program("podman") == "" {
		return finding{}, nil
	}
	c, err := e.podmanSettings()
	if err != nil {
		return finding{}, err
	}
	switch {
	case !slices.Contains(unbounded, c.Containers.Driver):
		return finding{what: "Podman's logs go to " + c.Containers.Driver + ", which has bounds of its own"}, nil
	case c.Containers.Size > 0:
		return finding{what: "Podman's logs are bounded by log_size_max"}, nil
	}
	return finding{
		"Podman's logs (" + c.Containers.Driver + ") grow without end: a jail that prints fills the host's disk",
		"set log_size_max in [containers] of " + filepath.Join(e.etc, "containers/containers.conf") +
			", or start jails with --log-opt max-size=10mb",
	}, nil
}

// maxSettings bounds what is read of an engine's settings, in bytes.
const maxSettings = 1 << 20

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return atomicfile.ReadAll(f, maxSettings)
}
