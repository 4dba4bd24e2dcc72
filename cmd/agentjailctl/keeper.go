package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/jailinit/keeper"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/kernel/rootless"
)

// A kept process has a keeper, which reclaims its jail at its end. If the keeper ends before that,
// another one is started.
type kept struct {
	id, config string

	mu   sync.Mutex
	cmd  *exec.Cmd
	over bool
	done chan struct{}
}

// keep starts a keeper for the jail that this process is about to make.
func keep(id, config string) (*kept, error) {
	k := &kept{id: id, config: config, done: make(chan struct{})}
	if err := k.start(); err != nil {
		return nil, fmt.Errorf("starting the keeper, which ends the jail when this process is killed: %w", err)
	}
	go k.watch()
	return k, nil
}

// start starts a keeper without this process's files, session and directory: a caller would
// otherwise wait for the keeper's end too.
func (k *kept) start() error {
	path, err := programs.Path(host.Name)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.Open("/proc/self/exe") // of this release, whatever is at the path by then
	if err != nil {
		return fmt.Errorf("opening this program: %w", err)
	}
	defer program.Close()
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("opening this process: %w", err)
	}
	of := os.NewFile(uintptr(fd), "this process")
	defer of.Close()
	cmd := exec.Command(path)
	cmd.Args = []string{keeper.Name, self}
	if k.config != "" {
		cmd.Args = append(cmd.Args, "--config", k.config)
	}
	cmd.Args = append(cmd.Args, "gc")
	if rootless.Inside() {
		cmd.Args = append(cmd.Args, "--inner")
	}
	cmd.Args = append(cmd.Args, k.id)
	cmd.Stdin, cmd.Dir, cmd.Env = of, "/", []string{"GOMAXPROCS=1"}
	cmd.ExtraFiles = []*os.File{program}
	for _, name := range rootless.Variables {
		if v, ok := os.LookupEnv(name); ok && rootless.Inside() {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return nil
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	k.cmd = cmd
	return nil
}

// watch starts another keeper for each that ends early. If that fails, the jail is ended as by a
// signal: it could outlive this process.
func (k *kept) watch() {
	defer close(k.done)
	for {
		k.mu.Lock()
		cmd := k.cmd
		k.mu.Unlock()
		_ = cmd.Wait()
		k.mu.Lock()
		over := k.over
		k.mu.Unlock()
		if over {
			return
		}
		if err := k.start(); err != nil {
			caller.Fail(fmt.Errorf("the keeper, which ends the jail with this process, was killed and cannot be restarted: %w", err))
			_ = unix.Kill(os.Getpid(), unix.SIGTERM)
			return
		}
	}
}

// end ends the keeper: the jail that it would reclaim is gone.
func (k *kept) end() {
	k.mu.Lock()
	k.over = true
	if err := k.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		caller.Fail(err)
	}
	k.mu.Unlock()
	<-k.done
}
