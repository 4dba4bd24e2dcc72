// Command prebuild makes what tests otherwise make at their first use, and keep: programs of other
// projects, the image for workloads, the virtual machines' root file system. make test runs it in
// the background (hack/background.sh). A test that needs one of them meanwhile waits for it. A
// failure here is not final: the test tries again and reports it.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"agentjail.dev/tests/engine"
)

// tools are programs that hack/tools/build.sh builds, in the order in which tests request them.
var tools = []string{"testcontainers", "nerdctl", "runsc", "runc", "runc-vulnerable", "containerd", "dockerd", "crio", "nfpm", "kubernetes"}

func main() {
	err := errors.Join(
		timed("the virtual machines' root", virtualMachines),
		timed("the work image", func() error { _, err := engine.WorkTar(); return err }),
	)
	for _, name := range tools {
		err = errors.Join(err, timed(name, func() error { _, err := engine.Tool(name); return err }))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prebuild:", err)
		os.Exit(1)
	}
}

// virtualMachines installs what the virtual machines need, and makes their root file system.
func virtualMachines() error {
	root, err := engine.ModuleRoot()
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"hack/vm/deps.sh"}, {"go", "run", "./hack/vm", "-root-only"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%v: %w", args, err)
		}
	}
	return nil
}

// timed reports how long making something took.
func timed(what string, do func() error) error {
	start := time.Now()
	err := do()
	became := "made"
	if err != nil {
		became = err.Error()
	}
	fmt.Printf("prebuild: %s: %v, %s\n", what, time.Since(start).Round(time.Second), became)
	return err
}
