// Package delegate finds and runs the OCI runtime that executes hardened
// bundles: the host's runc or crun, or gVisor's runsc.
//
// # Choice
//
// Choose takes the policy's delegate. With Auto it has each delegate of the host
// run a container, and takes the quickest without known holes (package flaws). A
// delegate must be a file that only root can change, all the way up.
//
// # Differences
//
// A feature that a delegate lacks or has in its own way is a capability or a trait (package
// traits), and never a comparison with its name. Start continues a created container without the
// delegate, in the common case.
package delegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go/features"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
)

// Runtime is an OCI runtime on this host.
type Runtime struct {
	Path string // absolute
	Name string // the file's
	// Stdio take the place of our standard files, where not nil.
	Stdio [3]*os.File
	// Choice reports why this one was taken, if there was a choice.
	Choice *Choice
	// Container is the id of the jail that a call is about; "" if it is about no jail.
	Container string
	// Sandbox is what a sandbox is made with, for create; no other delegate reads it.
	Sandbox SandboxOptions
	stat    unix.Stat_t
}

// candidates are the delegates that "auto" looks for, in this order, and the directories where
// distributions and engines put them. $PATH is not used: it belongs to the user who started the
// engine.
var (
	candidates  = traits.Auto()
	directories = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
)

// Traits are what is known of it by its name.
func (r *Runtime) Traits() traits.Traits { return traits.Of(r.Name) }

// ErrNone means that there is no delegate to run jails with.
var ErrNone = errors.New("no OCI runtime found")

// Resolve finds the delegate that policy names. Every candidate is checked: an
// executable that only root can have written, and not agentjail itself.
func Resolve(want string) (*Runtime, error) {
	if filepath.IsAbs(want) {
		return open(want)
	}
	names := candidates
	if want != Auto {
		names = []string{want}
	}
	unusable := ""
	for _, n := range names {
		for _, dir := range directories {
			r, err := open(filepath.Join(dir, n))
			if err == nil {
				return r, nil
			}
			if !errors.Is(err, os.ErrNotExist) {
				unusable += "; " + err.Error()
			}
		}
	}
	return nil, fmt.Errorf("%w: looked for %s in %s%s (remedy: install %s, or set delegate in %s)",
		ErrNone, strings.Join(names, ", "), strings.Join(directories, ", "), unusable, names[0], policy.DefaultPath)
}

// All lists every usable candidate, for `agentjail check`.
func All() []*Runtime {
	var out []*Runtime
	for _, n := range candidates {
		for _, dir := range directories {
			if r, err := open(filepath.Join(dir, n)); err == nil {
				out = append(out, r)
			}
		}
	}
	return out
}

func open(path string) (*Runtime, error) {
	r := &Runtime{Path: path, Name: filepath.Base(path)}
	if err := unix.Stat(path, &r.stat); err != nil {
		return nil, &os.PathError{Op: "delegate", Path: path, Err: err}
	}
	if r.stat.Mode&unix.S_IFMT != unix.S_IFREG || r.stat.Mode&0o111 == 0 {
		return nil, fmt.Errorf("delegate %s is not an executable file", path)
	}
	if err := trusted.Owner(path, &r.stat); err != nil {
		return nil, fmt.Errorf("delegate: %w", err)
	}
	var self unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &self); err == nil && self.Dev == r.stat.Dev && self.Ino == r.stat.Ino {
		return nil, fmt.Errorf("delegate %s is agentjail itself (remedy: name runc or crun in %s)", path, policy.DefaultPath)
	}
	return r, nil
}

// environment is the delegate's: most of ours. NOTIFY_SOCKET and LISTEN_*
// would be passed into the jail (sd_notify(3), sd_listen_fds(3)); LD_* and
// GODEBUG change what the delegate does.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "NOTIFY_SOCKET" || name == "GODEBUG" || strings.HasPrefix(name, "LISTEN_") || strings.HasPrefix(name, "LD_")
	})
}

// Caps is what of the OCI specification a delegate can do. Capabilities are queried from the
// delegate once and kept until its file changes.
type Caps struct {
	Version    string   `json:"version"` // first line of --version
	OCIMax     string   `json:"ociMax"`  // newest specification it knows; "" before runc 1.1
	Namespaces []string `json:"namespaces"`
	TimeNS     bool     `json:"timeNS"`
	// SeccompFlags reports that a filter's flags can be chosen (runc 1.2, crun).
	SeccompFlags bool `json:"seccompFlags"`
	// ReadsMaps reports that it takes the maps of a user namespace that it joins from
	// there (runc 1.2). Others want them in the bundle, too.
	ReadsMaps bool `json:"readsMaps"`
	// NoSeccomp means that the delegate reports a build without seccomp.
	NoSeccomp bool `json:"noSeccomp,omitempty"`
}

// fileID distinguishes a binary from its successor after an upgrade.
type fileID struct {
	Dev, Ino    uint64
	Mtime, Size int64
}

func (r *Runtime) id() fileID {
	return fileID{r.stat.Dev, r.stat.Ino, r.stat.Mtim.Nano(), r.stat.Size}
}

type capsRecord struct {
	Form int // capsForm of the program that wrote it
	File fileID
	Caps Caps
}

// capsForm changes with Caps.
const capsForm = 4

// Capabilities queries the delegate, or reads the record of an earlier answer in the directory
// cacheDir; "" always queries, and keeps nothing.
func (r *Runtime) Capabilities(cacheDir string) (Caps, error) {
	var old capsRecord
	if recall(cacheDir, r.cacheName(), &old) && old.Form == capsForm && old.File == r.id() {
		return old.Caps, nil
	}
	caps, err := r.query()
	if err == nil {
		keep(cacheDir, r.cacheName(), capsRecord{capsForm, r.id(), caps})
	}
	return caps, err
}

// recall reads a record that keep wrote, and reports whether there is one. There is none in the
// directory "".
func recall(dir, name string, record any) bool {
	if dir == "" {
		return false
	}
	data, err := atomicfile.Read(filepath.Join(dir, name), 1<<16)
	return err == nil && json.Unmarshal(data, record) == nil
}

// keep writes a record, unless the directory is "". It is a shortcut for the next time: nothing is
// lost without it.
func keep(dir, name string, record any) {
	if data, err := json.Marshal(record); err == nil && dir != "" {
		_ = os.Mkdir(dir, 0o711)
		_ = atomicfile.Write(filepath.Join(dir, name), data, 0o600)
	}
}

// cacheName distinguishes delegates that are used in turn and have one name.
func (r *Runtime) cacheName() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(r.Path))
	return fmt.Sprintf("delegate-%s-%08x.json", r.Name, sum.Sum32())
}

func (r *Runtime) query() (Caps, error) {
	var c Caps
	var err error
	if c.Version, err = r.VersionLine(); err != nil {
		return c, err
	}
	f, err := r.Features()
	if err != nil {
		return c, nil //nolint:nilerr // crun before 1.8.? has no `features`: then nothing beyond the basics is used
	}
	c.OCIMax = f.OCIVersionMax
	if f.Linux != nil {
		c.Namespaces = f.Linux.Namespaces
		c.NoSeccomp = f.Linux.Seccomp == nil || f.Linux.Seccomp.Enabled == nil || !*f.Linux.Seccomp.Enabled
		c.SeccompFlags = f.Linux.Seccomp != nil && len(f.Linux.Seccomp.KnownFlags) > 0
	}
	program, _, _ := strings.Cut(c.Version, " ") // whatever the file's name
	c.ReadsMaps = traits.Of(program).ReadsMaps && f.Linux != nil && f.Linux.MountExtensions != nil
	c.TimeNS = slices.Contains(c.Namespaces, "time")
	return c, nil
}

// VersionLine is the first line of the delegate's --version.
func (r *Runtime) VersionLine() (string, error) {
	out, err := r.Output("--version")
	line, _, _ := strings.Cut(string(out), "\n")
	return line, err
}

// Features is the delegate's answer to `features` (OCI runtime-spec,
// features.md).
func (r *Runtime) Features() (*features.Features, error) {
	out, err := r.Output("features")
	if err != nil {
		return nil, err
	}
	f := new(features.Features)
	if err := json.Unmarshal(out, f); err != nil {
		return nil, fmt.Errorf("reading `%s features`: %w", r.Path, err)
	}
	return f, nil
}

// Exec becomes the delegate: for verbs that need nothing of ours afterwards.
// It returns only on failure.
func (r *Runtime) Exec(args []string) error {
	err := syscall.Exec(r.Path, append([]string{r.Path}, r.translate(args)...), environment())
	return fmt.Errorf("running %s: %w", r.Path, err)
}
