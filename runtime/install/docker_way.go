package install

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// firstShims is the first release of Docker that accepts a runtime by its shim, with options.
const firstShims = 24

// Check returns the error of a way that does not exist; "" is the best one.
func (b By) Check() error {
	if slices.Contains([]By{"", ByShim, ByPath}, b) {
		return nil
	}
	return fmt.Errorf("%q is no way to call agentjail (remedy: %s or %s)", string(b), ByShim, ByPath)
}

// wayOf decides how Docker is to call agentjail; note is what a person has to know of it.
func wayOf(o Options) (by By, note string, err error) {
	switch o.By {
	case ByPath:
		return ByPath, "", nil
	case ByShim:
		if err := checkBinary(o.Shim); err != nil {
			return "", "", fmt.Errorf("shim: %w", err)
		}
		return ByShim, "", nil
	case "":
	default:
		return "", "", o.By.Check()
	}
	if v := dockerRelease(o); v < firstShims || o.Shim == "" {
		return ByPath, "", nil
	}
	for _, r := range o.Runtimes {
		if base := filepath.Base(r.Path); base != DefaultName && policyOf(base) == "" {
			return ByPath, fmt.Sprintf("runtime %s: %s has no shim of its own: registered by its path", r.Name, r.Path), nil
		}
	}
	if err := checkBinary(o.Shim); err != nil {
		return ByPath, fmt.Sprintf("the shim cannot be used (%v): registered by its path", err), nil
	}
	return ByShim, "", nil
}

// dockerRelease is the number of Docker's release: of the daemon that runs, else of the program
// that is installed; 0 where neither is there.
func dockerRelease(o Options) int {
	ctx, cancel := context.WithTimeout(context.Background(), programWait)
	defer cancel()
	if body, err := get(ctx, o.Socket, "/version"); err == nil {
		var v struct{ Version string }
		if json.Unmarshal(body, &v) == nil {
			return release(v.Version)
		}
	}
	program := findProgram("dockerd")
	if program == "" {
		return 0
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return 0
	}
	return DockerRelease(string(out))
}

// DockerRelease is the number of the release in what `dockerd --version` prints, 0 for none:
// "Docker version 26.1.5+dfsg1, build a72d7cd".
func DockerRelease(version string) int {
	return release(strings.TrimPrefix(version, "Docker version "))
}

// release is the first number of a version.
func release(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	return n
}
