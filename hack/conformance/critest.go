package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentjail.dev/tests/engine"
)

// criTools is the module of Kubernetes' validation of container runtimes.
const criTools = "sigs.k8s.io/cri-tools@v1.37.0"

// critestWait bounds what it may take: some of its tests wait for minutes for what does not come.
const critestWait = 40 * time.Minute

// critestSuite is Kubernetes' validation of container runtimes over the newest containerd: with the
// handler of the shim that is tried, or, alone, of containerd's own over the delegate. Its images
// are stand-ins, pulled from a registry of this program's.
func critestSuite(ctx context.Context, o *options, _ string) ([]unit, error) {
	dir, err := moduleCopy(ctx, criTools, "cri-tools-"+criTools[strings.LastIndexByte(criTools, '@')+1:], nil)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "critest.test")
	if _, err := do(ctx, dir, "env", "CGO_ENABLED=0", "go", "test", "-c", "-trimpath", "-o", program, "./cmd/critest"); err != nil {
		return nil, err
	}
	if err := profileForShims(o.delegate); err != nil {
		return nil, err
	}
	images, err := critestImages(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{program, "-test.v", "-test.timeout=0", "-ginkgo.seed=1", "-ginkgo.no-color"}
	if o.tests != "" {
		args = append(args, "-ginkgo.focus="+o.tests)
	}
	var units []unit
	for _, h := range criHandlers {
		args := args
		if o.tests == "" && h.focus != "" {
			args = append(args[:len(args):len(args)], "-ginkgo.focus="+h.focus)
		}
		units = append(units, unit{name: h.name, wait: critestWait, run: func(ctx context.Context, path, log string) error {
			return onCRI(ctx, path, log, h.policy, args, images)
		}, read: func(log string) (results, error) { return readJUnit(log, h.name) }})
	}
	return units, nil
}

// criHandlers are the handlers that `agentjail install containerd` writes. Each is a unit of the
// suite. focus chooses the tests that a named policy is for.
var criHandlers = []struct{ name, policy, focus string }{
	{"agentjail", "", ""},
	{"agentjail-net", "net", `Networking|Streaming|Multiple Containers`},
}

// onCRI runs critest on a containerd of its own with the runtime at path, and where that jails a
// named policy. The file log gets its report, one beside it what it prints.
func onCRI(ctx context.Context, path, log, policy string, args []string, images *registry) (err error) {
	containerd, err := engine.Tool("containerd")
	if err != nil {
		return err
	}
	shims, err := shimPaths()
	if err != nil {
		return err
	}
	c, err := engine.StartContainerd(engine.ContainerdOptions{
		Binary: containerd, CRI: true, Shims: []string{filepath.Dir(shims[jails])},
		Config: func(c *engine.Containerd) string { return critestConfig(c, subjectOf(path), path, policy) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := critestFiles(c); err != nil {
		return err
	}
	report, err := filepath.Abs(log)
	if err != nil {
		return err
	}
	args = append(args, "-runtime-endpoint=unix://"+c.Socket(), "-runtime-handler=tried", "-ginkgo.junit-report="+report)
	return c.InNetns(func() error {
		return images.during(func() error { return command(ctx, c.Dir, strings.TrimSuffix(log, ".partial")+".out", nil, args...) })
	})
}

// subjectOf is whose program lies at a path that subjects made.
func subjectOf(path string) string {
	for _, s := range []string{passthrough, jails} {
		if filepath.Base(filepath.Dir(path)) == s {
			return s
		}
	}
	return alone
}

// critestConfig is CRI's part of containerd's configuration: every registry is ours.
func critestConfig(c *engine.Containerd, subject, path, policy string) string {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	kind, key := "io.containerd.runc.v2", fmt.Sprintf("BinaryName = %q", path)
	switch subject {
	case jails:
		kind, key = engine.ShimRuntime, fmt.Sprintf("ConfigPath = %q", policy)
	case passthrough:
		kind, key = "io.containerd.agentjail-passthrough.v2", ""
	}
	return fmt.Sprintf(`[%[1]s]
sandbox_image = %[2]q
restrict_oom_score_adj = true
[%[1]s.cni]
bin_dir = "/usr/lib/cni"
conf_dir = %[3]q
[%[1]s.registry]
config_path = %[4]q
[%[1]s.containerd]
default_runtime_name = "tried"
[%[1]s.containerd.runtimes.tried]
runtime_type = %[5]q
[%[1]s.containerd.runtimes.tried.options]
%[6]s
`, cri, engine.PauseImage, filepath.Join(c.Dir, "cni"), filepath.Join(c.Dir, "certs.d"), kind, key)
}

// critestFiles writes what containerd's configuration names: the pods' network, and the place of
// all images.
func critestFiles(c *engine.Containerd) error {
	if _, err := engine.WriteCNI(c.Dir); err != nil {
		return err
	}
	certs := filepath.Join(c.Dir, "certs.d/_default")
	return errors.Join(os.MkdirAll(certs, 0o755), os.WriteFile(filepath.Join(certs, "hosts.toml"),
		fmt.Appendf(nil, "server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\ncapabilities = [\"pull\", \"resolve\"]\n", registryAddress), 0o644))
}

// readJUnit reads a report of Ginkgo's.
func readJUnit(path, unit string) (results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var report struct {
		Cases []struct {
			Name   string `xml:"name,attr"`
			Status string `xml:"status,attr"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	r := results{}
	for _, c := range report.Cases {
		name, ok := strings.CutPrefix(c.Name, "[It] ")
		if !ok { // what stands around the tests
			continue
		}
		v := fail
		switch c.Status {
		case "passed":
			v = pass
		case "skipped", "pending":
			v = skipped
		}
		r.add(unit, name, v)
	}
	return r, nil
}
