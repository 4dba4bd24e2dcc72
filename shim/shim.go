package shim

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/sys/reaper"
	runc "github.com/containerd/go-runc"
	"github.com/containerd/typeurl/v2"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/runtime/facts"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/programs"
	containerdrecord "agentjail.dev/runtime/observe/enginerecord/containerd"
)

// runtimeName is the shim's name in containerd's configuration.
const runtimeName = "io.containerd.agentjail.v2"

// Main is the shim's program. version is agentjail's.
func Main(version string) {
	// Threads that made a jail end: their mount namespaces must not stay. The first thread cannot
	// end, so it must not make jails.
	runtime.LockOSThread()
	ctx := context.Background()
	c, err := parseArgs(os.Args[1:])
	if err == nil {
		err = prepare(c)
	}
	switch {
	case err != nil:
	case c.version:
		fmt.Printf("%s:\n  Version:  %s\n", filepath.Base(os.Args[0]), version)
		return
	case c.action == "start" && !c.info:
		err = start(ctx, c, os.Stdin, os.Stdout)
	default:
		// This process has one processor until containerd's package takes two: the set-up here is
		// sequential, and threads that Go once started stay, with their stacks (a third fewer of
		// them, and half a megabyte less at rest).
		runtime.GOMAXPROCS(1)
		if c.action == "" && !c.info {
			programs.Hold() // this process serves its containers for as long as they live
		}
		var events *publisher
		register(&events)
		facts.ContainerdLabels = containerdrecord.Labels
		socket := ownSocket()
		shim.RunShim(ctx, &program{Shim: manager.NewShimManager(runtimeName), version: version})
		// Of a group's shim, the file in the bundle that holds the address of the socket may be
		// gone by now.
		if c.action == "" && socket != "" {
			_ = os.Remove(socket)
		}
		if events != nil {
			await(ctx, events.done, endPatience)
		}
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v", runtimeName, err)
		os.Exit(1)
	}
}

// prepare sets up the whole process.
func prepare(c commandLine) error {
	unix.Umask(0o022)
	if err := fork.CloseOnExec(); err != nil {
		return fmt.Errorf("closing inherited files: %w", err)
	}
	runc.Monitor = monitor{}
	if !c.info && c.action != "start" {
		fork.Reaper = children
		fork.RunCommand = reaped
	}
	return nil
}

// reaped runs a command in a process in which another part waits for all children.
func reaped(cmd *exec.Cmd) error {
	ends, err := reaper.Default.Start(cmd)
	if err != nil {
		return err
	}
	status, err := reaper.Default.Wait(cmd, ends)
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	return err
}

// program is containerd's manager of shims, with our answers about ourselves.
type program struct {
	shim.Shim
	version string
}

// maxInfo bounds the request, in bytes.
const maxInfo = maxOptions + 1<<10

// Info returns the features of jails under the policy that the options name: those that `agentjail
// features` prints.
func (p *program) Info(ctx context.Context, in io.Reader) (*types.RuntimeInfo, error) {
	data, err := atomicfile.ReadAll(in, maxInfo)
	if err != nil {
		return nil, fmt.Errorf("reading the options: %w", err)
	}
	info := &types.RuntimeInfo{Name: runtimeName, Version: &types.RuntimeVersion{Version: p.version}}
	var a anypb.Any
	if len(data) > 0 {
		if err := proto.Unmarshal(data, &a); err != nil {
			return nil, fmt.Errorf("reading the options: %w", err)
		}
		info.Options = &a
	}
	o, err := normalise(&a)
	if err != nil {
		return nil, err
	}
	f, err := (&runc.Runc{Command: o.BinaryName}).Features(ctx)
	if err != nil {
		return nil, err
	}
	if info.Features, err = typeurl.MarshalAnyToProto(f); err != nil {
		return nil, fmt.Errorf("encoding the features: %w", err)
	}
	return info, nil
}
