package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// Node is containerd on a node of Kubernetes, which is set up from a container that has the node's
// file tree mounted: agentjail's programs are copied there, and the copy registers itself with the
// node's containerd.
var Node Engine = node{}

type node struct{}

func (node) Name() string         { return "node" }
func (node) Title() string        { return "the node" }
func (node) reserved(string) bool { return false }

// registered is empty: the copy on the node lists its own.
func (node) registered(*Plan) ([]Runtime, error) { return nil, nil }

func (node) Defaults() Options { return Options{Machine: Machine{To: "/usr/local/bin"}} }

// plan changes no file itself: the copy on the node does.
func (node) plan(p *Plan) error {
	p.live = onNode{}
	return nil
}

// onNode is the live of a node.
type onNode struct{ noDaemon }

// begin copies the programs, or has the copy take itself out of containerd's configuration.
func (onNode) begin(p *Plan, _ *Result) error {
	m := p.options.Machine
	if p.options.Undo {
		if err := m.jailless(); err != nil {
			return err
		}
		return m.register("uninstall")
	}
	_, err := copyToNode(m)
	return err
}

// settle has the copy register itself, or removes it.
func (onNode) settle(_ context.Context, p *Plan, _ *Result) error {
	m := p.options.Machine
	if p.options.Undo {
		return removeFromNode(m)
	}
	return m.register("install")
}

// Machine is one whose file tree is mounted in this one's, as a container that installs has it.
type Machine struct {
	// From is the directory of the programs, Names are their names in it.
	From  string
	Names []string
	// Links are further names of the first program, which pick named policies.
	Links []string
	// Root is where the machine's file tree is mounted, To the directory on it, as seen there.
	Root, To string
	// Installer is the name of the program among Names that registers the first with containerd.
	Installer string
	// Restart is the command that restarts containerd on the machine, run when its configuration
	// has changed; empty for none.
	Restart []string
	// Stdout and Stderr are those of the programs that run on the machine.
	Stdout, Stderr io.Writer
}

// register has the copy of the installer on the machine change containerd's configuration there,
// and restarts containerd if that did, or if an earlier run did and failed to restart it.
func (m Machine) register(verb string) error {
	owed, err := m.restartPending()
	if err != nil {
		return err
	}
	before, err := m.configuration()
	if err != nil {
		return err
	}
	// Before the change: whatever ends this process in between, the next run knows.
	if len(m.Restart) > 0 && !owed {
		if err := m.markRestart(); err != nil {
			return err
		}
	}
	err = m.run(filepath.Join(m.To, m.Installer), verb, Containerd.Name(), "--path", filepath.Join(m.To, m.Names[0]))
	after, aerr := m.configuration()
	if err = errors.Join(err, aerr); err != nil {
		if !owed && aerr == nil && before == after {
			err = errors.Join(err, m.clearRestart()) // nothing is owed
		}
		return err
	}
	if len(m.Restart) == 0 {
		return nil
	}
	if owed && before == after {
		fmt.Fprintln(m.Stdout, "an earlier run could not restart containerd: restarting it now")
	}
	if owed || before != after {
		if err := m.run(m.Restart[0], m.Restart[1:]...); err != nil {
			return err
		}
	}
	return m.clearRestart()
}

// run runs a program of the machine, with its file tree as root. A name without a slash is looked
// up there.
func (m Machine) run(name string, args ...string) error {
	path, err := m.find(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = m.Stdout, m.Stderr
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + strings.Join(machinePath, ":")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.Root}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s on the node: %w", name, err)
	}
	return nil
}

// configuration is what of containerd's may change.
func (m Machine) configuration() (string, error) {
	var all string
	for _, file := range []string{containerdConfig, containerdDropIn} {
		text, err := os.ReadFile(filepath.Join(m.Root, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		all += string(text) + "\x00"
	}
	return all, nil
}

// copyToNode copies the programs, each in one step: a running program keeps its file. It reports
// whether anything changed. No link of the machine leads out of Root (openat2(2),
// RESOLVE_IN_ROOT).
func copyToNode(o Machine) (changed bool, err error) {
	dir, err := o.directory(o.To)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	for _, name := range o.Names {
		program, err := os.ReadFile(filepath.Join(o.From, name))
		if err != nil {
			return changed, fmt.Errorf("reading a program: %w", err)
		}
		did, err := putProgram(dir, name, program)
		if err != nil {
			return changed, fmt.Errorf("copying %s to %s: %w", name, o.To, err)
		}
		changed = changed || did
	}
	for _, link := range o.Links {
		target, err := openat.Readlink(int(dir.Fd()), link)
		if err == nil && target == o.Names[0] {
			continue
		}
		if err == nil || errors.Is(err, unix.EINVAL) {
			return changed, fmt.Errorf("%s in %s is no link to %s: %w", link, o.To, o.Names[0], errConflict)
		}
		if err := unix.Symlinkat(o.Names[0], int(dir.Fd()), link); err != nil {
			return changed, fmt.Errorf("linking %s in %s: %w", link, o.To, err)
		}
		changed = true
	}
	return changed, nil
}

// directory opens a directory of the machine, making the last part of its path where that is
// missing.
func (m Machine) directory(path string) (*os.File, error) {
	if !filepath.IsAbs(m.Root) || !plainPath(path) {
		return nil, fmt.Errorf("%q and %q must be plain absolute paths", m.Root, path)
	}
	fd, err := m.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		parent, perr := m.open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY)
		if perr != nil {
			return nil, perr
		}
		defer unix.Close(parent)
		if err := unix.Mkdirat(parent, filepath.Base(path), 0o755); err != nil {
			return nil, &os.PathError{Op: "mkdir", Path: filepath.Join(m.Root, path), Err: err}
		}
		fd, err = m.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// jailsDir is where the machine has a directory for each jail (runtime/state).
const jailsDir = "/run/agentjail/jails"

// jailless refuses to take agentjail off a machine where it is needed: a jail is entered, ended and
// removed by it.
func (m Machine) jailless() error {
	fd, err := m.open(jailsDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), jailsDir)
	defer dir.Close()
	jails, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("reading %s of the node: %w", jailsDir, err)
	}
	if n := len(jails); n > 0 {
		return fmt.Errorf("refused: %d jails are on the node, and agentjail is what ends them (remedy: delete their pods, then this runs again; `agentjail gc` for what an engine has left)", n)
	}
	return nil
}

// putProgram writes a program unless it is there already.
func putProgram(dir *os.File, name string, program []byte) (bool, error) {
	at := func(n string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), n) }
	if st, err := os.Lstat(at(name)); err == nil && st.Mode() == 0o755 {
		if have, err := os.ReadFile(at(name)); err == nil && bytes.Equal(have, program) {
			return false, nil
		}
	}
	c := &config{path: filepath.Join(dir.Name(), name), dir: int(dir.Fd()), name: name, exists: true}
	c.stat.Mode = 0o755 // and root's
	return true, c.put(name, program)
}

// removeFromNode removes the files of copyToNode. A missing file is no error.
func removeFromNode(o Machine) error {
	dir, err := o.directory(o.To)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range slices.Concat(o.Links, o.Names) {
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s from %s: %w", name, o.To, err)
		}
	}
	return nil
}
