package project

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// TestMain makes the test program the one that parses.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		if len(os.Args) > 2 && strings.Contains(os.Args[2], "probe") {
			os.Exit(probe())
		}
		os.Exit(Work())
	}
	os.Exit(m.Run())
}

// probe is Work, and after it tries what it must not have the rights to.
func probe() int {
	if Work() != 0 {
		return 1
	}
	if f, err := os.Open("/etc/passwd"); err == nil {
		f.Close()
		return 10
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err == nil {
		unix.Close(fd)
		return 11
	}
	if exec.Command("/bin/true").Run() == nil {
		return 12
	}
	return 0
}

// ownParser has this test program parse, from a place that any user can read.
func ownParser(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the process that parses drops its rights")
	}
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "agentjail-project-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "parser")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, data, 0o755)); err != nil {
		t.Fatal(err)
	}
	before := parser
	parser = func() (string, error) { return program, nil }
	t.Cleanup(func() { parser = before })
}

// TestNarrow: the file is read as the directory's owner and within its bound, by a process without
// rights; without it nothing changes.
func TestNarrow(t *testing.T) {
	ownParser(t)
	for _, c := range []struct {
		name string
		make func(file string) error
		want string // "" is a file that is followed, "none" one that is not there
	}{
		{"none", func(string) error { return nil }, "none"},
		{"plain", func(f string) error { return os.WriteFile(f, []byte("limits.pids = 7\n"), 0o644) }, ""},
		{"probe", func(f string) error { return os.WriteFile(f, []byte("limits.pids = 7\n"), 0o644) }, ""},
		{"looser", func(f string) error { return os.WriteFile(f, []byte("\nlimits.pids = 5000\n"), 0o644) }, "line 2: limits.pids = 5000: wider than the policy's 1024"},
		{"misspelt", func(f string) error { return os.WriteFile(f, []byte("limits.pid = 5\n"), 0o644) }, `did you mean "limits.pids"?`},
		{"link to a secret", func(f string) error {
			secret := filepath.Join(filepath.Dir(f), "secret")
			return errors.Join(os.WriteFile(secret, []byte("limits.pids = 7\n"), 0o600), os.Symlink(secret, f))
		}, "symbolic links"},
		{"file of root's alone", func(f string) error { return os.WriteFile(f, []byte("limits.pids = 7\n"), 0o600) }, "permission denied"},
		{"directory", func(f string) error { return os.Mkdir(f, 0o755) }, "not a regular file"},
		{"pipe", func(f string) error { return unix.Mkfifo(f, 0o666) }, "not a regular file"},
		{"long", func(f string) error { return os.WriteFile(f, make([]byte, policy.MaxProject+1), 0o644) }, "too long"},
		{"deep", func(f string) error {
			return os.WriteFile(f, []byte("x = "+strings.Repeat("[", policy.MaxProject/2)), 0o644)
		}, "line 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), c.name)
			if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 1000, 1000), c.make(filepath.Join(dir, policy.ProjectFile))); err != nil {
				t.Fatal(err)
			}
			p, err := Narrow(policy.Default(), dir)
			switch pids := p.Limits.Pids; {
			case c.want == "none" && (err != nil || pids != 1024), c.want == "" && (err != nil || pids != 7):
				t.Errorf("%d, %v", pids, err)
			case c.want != "" && c.want != "none" && (err == nil || !strings.Contains(err.Error(), c.want) || pids != 1024):
				t.Errorf("%d, %v, not %q", pids, err, c.want)
			}
		})
	}
}

// TestApply: a bundle's annotation names the mounts whose directories count.
func TestApply(t *testing.T) {
	ownParser(t)
	a, b := t.TempDir(), t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(a, policy.ProjectFile), []byte("limits.pids = 7\n"), 0o644),
		os.WriteFile(filepath.Join(b, policy.ProjectFile), []byte("limits.mounts = 9\n"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	spec := &specs.Spec{Mounts: []specs.Mount{{Destination: "/a", Source: a}, {Destination: "/b", Source: b}, {Destination: "/tmp", Source: "tmpfs"}}}
	for places, want := range map[string]refusal.Code{"": refusal.Annotation, "/a": "", "/a:/b": "", "/c": refusal.Annotation, "/tmp": refusal.Annotation} {
		spec.Annotations = map[string]string{policy.AnnotationPrefix + policy.ProjectAnnotation: places}
		p, err := Apply(policy.Default(), spec)
		var refused *refusal.Error
		if errors.As(err, &refused) != (want != "") || want != "" && refused.Code != want {
			t.Errorf("%q: %v", places, err)
		}
		if want == "" && (p.Limits.Pids != 7 || (p.Limits.Mounts == 9) != (places == "/a:/b")) {
			t.Errorf("%q: %+v", places, p.Limits)
		}
	}
	spec.Annotations = nil
	if p, err := Apply(policy.Default(), spec); err != nil || p.Limits.Pids != 1024 {
		t.Errorf("without the annotation: %+v, %v", p.Limits, err)
	}
}
