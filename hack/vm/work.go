package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/tests/engine"
)

// What goes onto the work disk as it is.
var (
	//go:embed guest/init
	guestInit []byte
	//go:embed guest/init-systemd
	guestInitSystemd []byte
	//go:embed guest/steps
	guestSteps []byte
	//go:embed guest/docker-up
	guestDockerUp []byte
	//go:embed guest/under-systemd
	guestUnderSystemd []byte
	//go:embed guest/under-runc
	guestUnderRunc []byte
	//go:embed guest/under-all-processors
	guestUnderAllProcessors []byte
	//go:embed guest/go
	guestGo []byte
)

// makeShared fills dir with what the work disks of all machines hold: the guest's programs, the
// module's tree (tests read their testdata and look for go.mod), the programs, also those that
// tests would build; and with the compiled tests of steps.
func makeShared(ctx context.Context, root, dir string, steps []step) error {
	for _, d := range []string{"bin", "cmd", "prebuilt", "tests", "src"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string][]byte{"bin/steps": guestSteps, "bin/docker-up": guestDockerUp, "bin/under-systemd": guestUnderSystemd, "bin/under-runc": guestUnderRunc, "bin/under-all-processors": guestUnderAllProcessors, "bin/go": guestGo} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			return err
		}
	}
	if err := goTool(ctx, root, "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "bin", "testlane"), "./hack/testlane"); err != nil {
		return err
	}
	if err := copyTree(root, filepath.Join(dir, "src")); err != nil {
		return fmt.Errorf("copy the module's tree: %w", err)
	}
	if err := buildPrograms(ctx, root, dir); err != nil {
		return err
	}
	for _, s := range steps {
		bin := filepath.Join(dir, s.binary())
		if _, err := os.Lstat(bin); s.pkg == "" || err == nil {
			continue // another step's, too
		}
		if err := goTool(ctx, root, "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", bin, "./"+s.pkg); err != nil {
			return err
		}
	}
	for _, s := range steps {
		for _, name := range s.tools {
			if err := copyTool(name, filepath.Join(dir, "tools", name)); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(steps, func(s step) bool { return s.packages }) {
		return makePackages(ctx, root, filepath.Join(dir, "packages"))
	}
	return nil
}

// copyTool copies one of the programs that hack/tools builds to dir, with those beside it; it is
// built if it is not there yet.
func copyTool(name, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil // another step's, too
	}
	program, err := engine.Tool(name)
	if err != nil {
		return err
	}
	built := filepath.Dir(program)
	files, err := os.ReadDir(built)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := copyFile(filepath.Join(built, f.Name()), filepath.Join(dir, f.Name()), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// buildPrograms builds agentjail's programs, beside each other, since agentjail looks for its
// others beside itself, and those that tests would build. All as make build does.
func buildPrograms(ctx context.Context, root, dir string) error {
	build := []string{"build", "-trimpath", "-tags=urfave_cli_no_docs", "-ldflags=-s -w", "-o"}
	if err := goTool(ctx, root, append(build, filepath.Join(dir, "cmd")+"/", "./cmd/...")...); err != nil {
		return err
	}
	for _, p := range prebuilt {
		out := filepath.Join(dir, "prebuilt", prebuiltName(p.pkg, p.flags))
		if p.flags == "" && path.Dir(p.pkg) == "./cmd" {
			if err := os.Link(filepath.Join(dir, "cmd", path.Base(p.pkg)), out); err != nil {
				return err
			}
			continue
		}
		args := append(build[:len(build):len(build)], out)
		if p.flags != "" {
			args = append(args, p.flags)
		}
		if err := goTool(ctx, root, append(args, p.pkg)...); err != nil {
			return err
		}
	}
	return nil
}

// binary is where a step's compiled tests are on the work disk, from its root.
func (s step) binary() string {
	return filepath.Join("tests", strings.ReplaceAll(s.pkg, "/", "-")+".test")
}

// makeWork fills dir with what one machine's work disk holds: what is shared, its steps, and how it
// boots.
func makeWork(shared, dir string, k kind, steps []step) error {
	if err := linkTree(shared, dir, func(name string) bool {
		return filepath.Dir(name) == "tests" && !slices.ContainsFunc(steps, func(s step) bool { return s.binary() == name }) ||
			filepath.Dir(name) == "tools" && !slices.ContainsFunc(steps, func(s step) bool { return slices.Contains(s.tools, filepath.Base(name)) }) ||
			name == "packages" && !slices.ContainsFunc(steps, func(s step) bool { return s.packages })
	}); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "steps"), 0o755); err != nil {
		return err
	}
	for _, s := range steps {
		script := s.script
		if s.pkg != "" {
			// A minute less than the step: Go then reports where everything hangs, which the step's
			// end would not.
			limit := s.limit - s.limit/8
			script = fmt.Sprintf("cd /work/src/%s && exec testlane tests -program -packages %[1]s %s /work/%s -test.v -test.timeout=%v %s",
				s.pkg, s.under, s.binary(), limit, quote(s.args))
			if len(s.tools) > 0 {
				script = "export AGENTJAIL_BUILT_TOOLS=/work/tools; " + script
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "steps", s.name), []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	boot := guestInit
	if k.userData != "" {
		boot = guestInitSystemd
		if err := seed(dir, k.userData); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "init"), boot, 0o755); err != nil {
		return err
	}
	return writeOrder(dir, steps)
}

// linkTree links the files below from below to, in directories like their own. It leaves out the
// files for which without returns true; the argument of without is a path below from.
func linkTree(from, to string, without func(name string) bool) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		switch at := filepath.Join(to, name); {
		case without(name) && d.IsDir():
			return filepath.SkipDir
		case without(name):
			return nil
		case d.IsDir():
			return os.MkdirAll(at, 0o755)
		default:
			return os.Link(p, at)
		}
	})
}

// seed writes the machine's user data, a file of the module's, which names the package on the work
// disk.
func seed(dir, userData string) error {
	text, err := os.ReadFile(filepath.Join(dir, "src", userData))
	if err != nil {
		return err
	}
	deb := fmt.Sprintf("packages/%s/agentjail_%[1]s_%s.deb", packageVersions[0], runtime.GOARCH)
	pkg, err := os.ReadFile(filepath.Join(dir, deb))
	if err != nil {
		return err
	}
	filled := strings.NewReplacer("DEB_URL", "file:/work/"+deb, "DEB_SHA256", fmt.Sprintf("%x", sha256.Sum256(pkg))).Replace(string(text))
	return os.WriteFile(filepath.Join(dir, "user-data"), []byte(filled), 0o644)
}

// packageVersions are those of the packages that tests/packages installs, and upgrades to.
var packageVersions = []string{"0.0.1~test1", "0.0.1~test2"}

// makePackages makes the packages of tests/packages, which the guest has no Go tool for.
func makePackages(ctx context.Context, root, dir string) error {
	for _, version := range packageVersions {
		out := filepath.Join(dir, version)
		if err := goTool(ctx, root, "run", "./hack/release", "-arch", runtime.GOARCH, "-formats", "deb", "-quick", "-version", version, "-out", out); err != nil {
			return err
		}
	}
	return nil
}

// writeOrder reports which steps the machine runs, with each one's limit in seconds: twice its own,
// since what fails runs once more.
func writeOrder(dir string, steps []step) error {
	var order strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&order, "%s %d\n", s.name, 2*int(s.limit.Seconds()))
	}
	return os.WriteFile(filepath.Join(dir, "steps.order"), []byte(order.String()), 0o644)
}

// goTool runs the Go tool, gently: the machine may be shared.
func goTool(ctx context.Context, root string, args ...string) error {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// quote makes shell words of arguments.
func quote(args []string) string {
	var words []string
	for _, a := range args {
		words = append(words, printable.ShellQuote(a))
	}
	return strings.Join(words, " ")
}

// maxTreeFile keeps files that were left lying in the tree off the disk.
const maxTreeFile = 16 << 20

// copyTree copies the module's files, without what git and builds keep there.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (rel == ".git" || rel == "dist" || rel == "bin"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > maxTreeFile {
			return nil //nolint:nilerr // removed meanwhile
		}
		return copyFile(path, filepath.Join(to, rel), info.Mode().Perm())
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
