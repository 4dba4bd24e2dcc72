package names

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
)

// An engine that learns of a container's network namespace by a hook (Docker up to 27) gets the
// helper's namespace. It adds its interface there, publishes ports that lead there, counts and
// filters there, and removes all of it after the container has exited. It never sees the jail's
// namespace.

// engineFile, in the jail's directory, records the engine's answer.
const engineFile = "engine-network.json"

const (
	maxEngineFile = 64 << 10 // bytes
	maxHookOutput = 4 << 10  // bytes
	// engineTime is how long the engine may take to set up its network.
	engineTime = time.Minute
)

// engineNetwork is the place of the engine's network.
type engineNetwork struct {
	// Path is the namespace's path; "" if the engine made no network.
	Path string `json:"path"`
	// Dev and Ino are the namespace's numbers (ioctl_ns(2)), which distinguish it from a later
	// namespace at Path.
	Dev uint64 `json:"dev,omitempty"`
	Ino uint64 `json:"ino,omitempty"`
}

// located returns the jail with the network namespace that its helper connects from, if the
// engine's answer is on record.
func located(j network.Jail) (network.Jail, error) {
	if j.Decision.Hook == nil {
		return j, nil
	}
	data, err := atomicfile.Read(filepath.Join(j.Dir, engineFile), maxEngineFile)
	if errors.Is(err, os.ErrNotExist) {
		return j, nil
	}
	var e engineNetwork
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		return j, fmt.Errorf("reading where the engine's network is: %w", err)
	}
	return e.applyTo(j), nil
}

// applyTo returns the jail with that network.
func (e engineNetwork) applyTo(j network.Jail) network.Jail {
	j.Decision.Outside, j.Decision.Hook = e.Path, nil
	j.OutsideDev, j.OutsideIno = e.Dev, e.Ino
	return j
}

// whereFrom opens the namespace that a helper is to be started in; nil means the caller's. It makes
// a new namespace if the engine has yet to add its network there.
func whereFrom(j network.Jail) (*os.File, error) {
	j, err := located(j)
	if err != nil {
		return nil, err
	}
	if j.Decision.Hook != nil {
		return seal.Make()
	}
	return outside(j)
}

// requestEngineNetwork runs the engine's hook, which adds the engine's network to the helper's
// namespace. If the engine has none for this container, the helper is started anew in the caller's
// network, as without such an engine.
func (s *helperStart) requestEngineNetwork() error {
	j := s.jail
	if err := runHook(j, s.helper.Pid); err != nil {
		return err
	}
	crash.Point("start.engine")
	e, err := foundNetwork(s.helper.Pid)
	if err != nil {
		return err
	}
	data, err := json.Marshal(e)
	if err == nil {
		err = atomicfile.Write(filepath.Join(j.Dir, engineFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording where the engine's network is: %w", err)
	}
	s.jail = e.applyTo(j)
	if e.Path != "" {
		return nil
	}
	if err := s.restart(); err != nil {
		return err
	}
	return s.helper.Assign(s.jail.Dir)
}

// runHook runs the engine's hook for the namespace of a process.
func runHook(j network.Jail, pid int) error {
	input, err := json.Marshal(specs.State{
		Version: specs.Version, ID: filepath.Base(j.Key), Status: specs.StateCreating, Pid: pid,
		Bundle: j.Dir,
	})
	if err != nil {
		return err
	}
	h := j.Decision.Hook
	program, err := openHook(h, j.InitPid)
	if err != nil {
		return err
	}
	defer program.Close()
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), program.Fd()))
	cmd.Args, cmd.Env, cmd.Dir, cmd.Stdin = h.Args, []string{}, "/", bytes.NewReader(input)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := fork.RunCommand(cmd); err != nil {
		out := text.Bytes()
		return fmt.Errorf("the engine's network: its hook %s: %w: %s", h.Args[0], err,
			strings.TrimSpace(string(out[:min(len(out), maxHookOutput)])))
	}
	return nil
}

// openHook opens the hook's program, which the bundle names by the engine's process. The engine
// began before the jail. A process that began later reuses the number of an engine that has exited,
// and may belong to anyone, even to a jail.
func openHook(h *network.Hook, initPid int) (*os.File, error) {
	var pid int
	if n, err := fmt.Sscanf(h.Path, "/proc/%d/exe", &pid); n != 1 || err != nil || h.Path != fmt.Sprintf("/proc/%d/exe", pid) {
		return nil, fmt.Errorf("the engine's hook %q is not the program of a process", h.Path)
	}
	f, err := os.Open(h.Path)
	if err != nil {
		return nil, refusal.New(refusal.Network, "the engine that made the container has ended (%v)",
			err).WithRemedy("start the container anew")
	}
	engine, _, err := state.StartTime(pid)
	jail, _, jerr := state.StartTime(initPid)
	if err = errors.Join(err, jerr); err == nil && engine >= jail {
		err = refusal.New(refusal.Network, "the engine that made the container has ended: process %d is another", pid).WithRemedy("start the container anew")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// foundNetwork returns the place of the network in a process's namespace, after the engine has
// added it. The engine keeps the namespace as a file of its own until the container has exited, so
// the file outlives a helper.
func foundNetwork(pid int) (e engineNetwork, err error) {
	own := fmt.Sprintf("/proc/%d/ns/net", pid)
	f, err := os.Open(own)
	if err != nil {
		return e, err
	}
	defer f.Close()
	links, err := seal.Links(f)
	if err != nil || len(links) == 0 {
		return e, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return e, err
	}
	e = engineNetwork{Path: own, Dev: st.Dev, Ino: st.Ino}
	// The process's table: the thread's mounts may be those of a jail that is being made.
	mounts, err := mountinfo.Read(mountinfo.Own)
	if err != nil {
		return e, err
	}
	for _, m := range mounts {
		if m.FS == "nsfs" && m.Root == fmt.Sprintf("net:[%d]", st.Ino) {
			e.Path = m.Point
		}
	}
	return e, nil
}
