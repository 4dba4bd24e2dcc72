package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// What goes onto the work disk as it is.
var (
	//go:embed guest/init
	guestInit []byte
	//go:embed guest/docker-up
	guestDockerUp []byte
	//go:embed guest/under-systemd
	guestUnderSystemd []byte
	//go:embed guest/under-runc
	guestUnderRunc []byte
	//go:embed guest/go
	guestGo []byte
)

// makeWork fills dir with what the work disk holds: the guest's init, the steps, the compiled tests beside the module's
// tree (tests read their testdata and look for go.mod), and the programs that tests would build.
func makeWork(ctx context.Context, root, dir string, steps []step) error {
	for _, d := range []string{"bin", "cmd", "prebuilt", "steps", "tests", "src"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string][]byte{"init": guestInit, "bin/docker-up": guestDockerUp, "bin/under-systemd": guestUnderSystemd, "bin/under-runc": guestUnderRunc, "bin/go": guestGo} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			return err
		}
	}
	if err := copyTree(root, filepath.Join(dir, "src")); err != nil {
		return fmt.Errorf("copy the module's tree: %w", err)
	}
	// As make build does. Beside each other, since agentjail looks for its other programs beside its own.
	build := []string{"build", "-trimpath", "-tags=urfave_cli_no_docs", "-ldflags=-s -w", "-o"}
	if err := goTool(ctx, root, append(build, filepath.Join(dir, "cmd")+"/", "./cmd/...")...); err != nil {
		return err
	}
	for _, p := range prebuilt {
		args := append(build[:len(build):len(build)], filepath.Join(dir, "prebuilt", prebuiltName(p.pkg, p.flags)))
		if p.flags != "" {
			args = append(args, p.flags)
		}
		if err := goTool(ctx, root, append(args, p.pkg)...); err != nil {
			return err
		}
	}
	for _, s := range steps {
		script := s.script
		if s.pkg != "" {
			bin := filepath.Join("tests", s.name+".test")
			err := goTool(ctx, root, "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, bin), "./"+s.pkg)
			if err != nil {
				return err
			}
			// A minute less than the step: Go then says where everything hangs, which the step's end would not.
			limit := s.limit - s.limit/8
			script = fmt.Sprintf("cd /work/src/%s && exec %s /work/%s -test.v -test.timeout=%v %s", s.pkg, s.under, bin, limit, quote(s.args))
		}
		if err := os.WriteFile(filepath.Join(dir, "steps", s.name), []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(steps, func(s step) bool { return s.packages }) {
		if err := makePackages(ctx, root, filepath.Join(dir, "packages")); err != nil {
			return err
		}
	}
	return writeOrder(dir, steps)
}

// packageVersions are those of the packages that tests/packages installs, and upgrades to.
var packageVersions = []string{"0.0.1~test1", "0.0.1~test2"}

// makePackages makes the packages of tests/packages, which the guest has no Go tool for.
func makePackages(ctx context.Context, root, dir string) error {
	for _, version := range packageVersions {
		out := filepath.Join(dir, version)
		if err := goTool(ctx, root, "run", "./hack/release", "-arch", runtime.GOARCH, "-formats", "deb", "-compression", "gzip", "-version", version, "-out", out); err != nil {
			return err
		}
	}
	return nil
}

// writeOrder says which steps the machine runs, with each one's limit in seconds.
func writeOrder(dir string, steps []step) error {
	var order strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&order, "%s %d\n", s.name, int(s.limit.Seconds()))
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
		words = append(words, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// maxTreeFile keeps what somebody left lying in the tree off the disk.
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
