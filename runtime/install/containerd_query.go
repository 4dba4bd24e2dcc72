package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/trusted"
)

// firstMerging is the version of the configuration that containerd 2.0, 2.1 and 2.2 print: the
// first that merge a plugin's table from several files. 2.3 and later print version 4.
const firstMerging = 3

// cri is where a version of the configuration has the CRI plugin's runtimes.
var cri = map[int64]string{2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime", 4: "io.containerd.cri.v1.runtime"}

func runtimesPath(version int64, more ...string) []string {
	return append([]string{"plugins", cri[version], "containerd", "runtimes"}, more...)
}

// versionOf is the version of a file that is there.
func versionOf(doc map[string]any, file string) (int64, error) {
	v, ok := doc["version"].(int64)
	switch {
	case !ok || v == 1:
		return 0, fmt.Errorf("%s is of version 1 (remedy: `containerd config migrate`, or version = 2)", file)
	case cri[v] == "":
		return 0, fmt.Errorf("%s is of version %d, which this version of agentjail does not know", file, v)
	}
	return v, nil
}

// effective is what containerd makes of its configuration.
type effective struct {
	program string // that reported it; "" for nothing known
	version int64  // the newest that it reads, which is the one that it prints
	systemd bool   // runc's control groups are made by systemd
	note    string
}

// programWait bounds a question to containerd.
const programWait = 20 * time.Second

// effectiveConfig returns the effective configuration that containerd prints. Every release can.
func effectiveConfig(o Options) (effective, error) {
	e := effective{program: o.Program}
	if e.program == "" {
		e.program = findProgram("containerd")
	}
	if e.program == "" {
		e.note = "no containerd program was found: only its configuration file was read"
		return e, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), programWait)
	defer cancel()
	args := []string{"--config", o.Config, "config", "dump"}
	if _, err := os.Stat(o.Config); errors.Is(err, os.ErrNotExist) {
		args = []string{"config", "default"}
	}
	cmd := exec.CommandContext(ctx, e.program, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return e, fmt.Errorf("%s %s: %w: %s", e.program, strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	doc, err := readTOML(out)
	if err != nil {
		return e, fmt.Errorf("%s %s: %w", e.program, strings.Join(args, " "), err)
	}
	e.version, _ = doc["version"].(int64)
	e.systemd = systemdOf(doc, e.version)
	return e, nil
}

// findProgram looks for an engine's program that root may run.
func findProgram(name string) string {
	for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin"} {
		path := filepath.Join(dir, name)
		if _, err := trusted.Executable(path); err == nil {
			return path
		}
	}
	return ""
}

// systemdOf reports which driver runc's containers have.
func systemdOf(doc map[string]any, version int64) bool {
	name, _ := at(doc, "plugins", cri[version], "containerd", "default_runtime_name").(string)
	return slices.ContainsFunc([]string{"runc", name}, func(n string) bool {
		v, _ := at(doc, runtimesPath(version, n, "options", "SystemdCgroup")...).(bool)
		return v
	})
}
