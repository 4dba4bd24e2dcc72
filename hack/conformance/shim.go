package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/tests/engine"
)

// shimModules are the modules that shimtest needs to be built with the release of containerd whose
// shims are compared. Some of what its own go.mod names cannot be had from module proxies.
var shimModules = []string{
	"github.com/containerd/containerd/v2@v2.4.2", "github.com/containerd/containerd/api@v1.12.0", "github.com/containerd/ttrpc@v1.2.9",
	"github.com/containerd/typeurl/v2@v2.3.0", "google.golang.org/protobuf@v1.36.11", "github.com/Microsoft/go-winio@v0.6.2",
}

// shimSkip are features that the runc shim has not, or that need a network.
var shimSkip = []string{"layers", "sandbox", "transfer", "uds", "net"}

// shimSuite is containerd/shimtest, without its stress tests, which take minutes of nothing but
// starts. Alone is containerd's own runc shim here, not the delegate.
func shimSuite(ctx context.Context, o *options, version string) ([]unit, error) {
	from := filepath.Join(o.from, "shimtest")
	if _, err := os.Stat(filepath.Join(from, "go.mod")); err != nil {
		return nil, fmt.Errorf("not there: git clone https://github.com/containerd/shimtest %s, or name the directory that holds it (CONFORMANCE_DIR)", from)
	}
	dir := workDir("shimtest")
	edit := []string{"go", "-C", dir, "mod", "edit"}
	for _, m := range shimModules {
		edit = append(edit, "-require="+m)
	}
	steps := [][]string{{"rm", "-rf", dir}, {"mkdir", "-p", filepath.Dir(dir)}, {"cp", "-rL", from, dir}, edit, {"env", "GOFLAGS=-mod=mod", "make", "-C", dir, "build"}}
	if olderSpec(version) {
		steps = slices.Insert(steps, 3, []string{"sed", "-i", `s/specs\.Version,/"1.0.2",/`, filepath.Join(dir, "helpers.go")})
	}
	for _, s := range steps {
		if _, err := do(ctx, "", s...); err != nil {
			return nil, err
		}
	}
	shims, err := shimPaths()
	if err != nil {
		return nil, err
	}
	if err := profileForShims(o.delegate); err != nil {
		return nil, err
	}
	// The stock shim looks for runc by name.
	named := filepath.Join(dir, "delegate")
	if err := os.Mkdir(named, 0o755); err != nil {
		return nil, err
	}
	if err := os.Symlink(o.delegate, filepath.Join(named, "runc")); err != nil {
		return nil, err
	}
	return []unit{{name: "shimtest", run: func(ctx context.Context, path, log string) error {
		config, err := json.Marshal(map[string]any{"shim_binary": shims[subjectOf(path)], "uid": 0, "skip": shimSkip})
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "config.json") // the tests have its name
		if err := os.WriteFile(file, config, 0o644); err != nil {
			return err
		}
		env := []string{"PATH=" + named + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		return command(ctx, dir, log, env, "_output/shimtest.test", "-test.v", "-test.skip=^TestShim$/./^Stress$", "-shimtest.config="+file)
	}, read: func(log string) (results, error) { return readGoTest(log, "shimtest") }}}, nil
}

// shimPaths are the shims by subject.
func shimPaths() (map[string]string, error) {
	dir, err := engine.BinDir()
	if err != nil {
		return nil, err
	}
	stock, err := engine.Tool("containerd")
	if err != nil {
		return nil, err
	}
	own := filepath.Join(dir, "containerd-shim-agentjail-v2")
	if err := engine.Build("./cmd/containerd-shim-agentjail-v2", own); err != nil {
		return nil, err
	}
	byName := filepath.Join(dir, "containerd-shim-agentjail-passthrough-v2")
	if err := os.Link(own, byName); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return map[string]string{alone: filepath.Join(filepath.Dir(stock), "containerd-shim-runc-v2"), jails: own, passthrough: byName}, nil
}

// profileForShims puts a policy where shims look for it, in this program's mount namespace alone.
func profileForShims(delegate string) error {
	dir := filepath.Dir(policy.DefaultPath)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("agentjail-conformance", dir, "tmpfs", 0, "mode=0755,size=65536"); err != nil {
		return fmt.Errorf("mounting over %s: %w", dir, err)
	}
	// The suite has its pipes in directories of its own, as no engine has.
	text := fmt.Sprintf("delegate = %q\nshim.logs = [%q]\n[policies.passthrough]\npassthrough = true\n[policies.net.network]\nmode = \"engine\"\n", delegate, filepath.Clean(os.TempDir()))
	return os.WriteFile(policy.DefaultPath, []byte(text), 0o644)
}

// digest matches in tests' names the digests of images that are made anew for each run.
var digest = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

var goTestLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)

// readGoTest reads the output of go test -v. The verdict of a test that contains others is theirs.
func readGoTest(path, unit string) (results, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := results{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if m := goTestLine.FindStringSubmatch(lines.Text()); m != nil {
			r.add(unit, digest.ReplaceAllString(m[2], "sha256:N"), map[string]verdict{"PASS": pass, "FAIL": fail, "SKIP": skipped}[m[1]])
		}
	}
	for t := range maps.Clone(r) {
		for i := strings.LastIndexByte(t.name, '/'); i > 0; i = strings.LastIndexByte(t.name, '/') {
			t.name = t.name[:i]
			delete(r, t)
		}
	}
	return r, lines.Err()
}
