package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/enter/outside"
	"agentjail.dev/runtime/install"
	"agentjail.dev/runtime/verbs"
)

// nodeCommand is for the image of the DaemonSet in hack/kubernetes, which holds
// nothing but agentjail's programs.
func nodeCommand(usage string, register bool) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "root", Usage: "where the node's file tree is mounted", Required: true},
		&cli.StringFlag{Name: "to", Usage: "`FOLDER` on the node for the programs", Value: "/usr/local/bin"},
		&cli.StringSliceFlag{Name: "restart", Usage: "a word of the command that restarts containerd on the node, run when its configuration has changed"},
	}
	if register {
		flags = append(flags, &cli.BoolFlag{Name: "stay", Usage: "wait for the end of the container afterwards"})
	}
	return &cli.Command{
		Name: "node", Usage: usage, Flags: flags,
		Action: func(c *cli.Context) error {
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			o := install.NodeOptions{
				From: filepath.Dir(exe), Names: []string{verbs.Program, verbs.PeoplesProgram, outside.Name, shimName}, Links: []string{"agentjail-net"},
				Root: c.String("root"), To: c.String("to"),
			}
			runtime := filepath.Join(o.To, verbs.Program)
			if !register {
				if err := onNode(c, runtime, "uninstall"); err != nil {
					return err
				}
				return install.RemoveFromNode(o)
			}
			if _, err := install.CopyToNode(o); err != nil {
				return err
			}
			if err := onNode(c, runtime, "install"); err != nil {
				return err
			}
			if c.Bool("stay") {
				ended := make(chan os.Signal, 1)
				signal.Notify(ended, unix.SIGTERM, unix.SIGINT)
				<-ended
			}
			return nil
		},
	}
}

// onNode has the copy of this program on the node change containerd's
// configuration there, for the copy of the runtime at that path, and restarts
// containerd if that did.
func onNode(c *cli.Context, runtime, verb string) error {
	run := func(name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Stdout, cmd.Stderr = c.App.Writer, c.App.ErrWriter
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.String("root")}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s on the node: %w", name, err)
		}
		return nil
	}
	before, err := configOf(c.String("root"))
	if err != nil {
		return err
	}
	if err := run(filepath.Join(filepath.Dir(runtime), verbs.PeoplesProgram), verb, "containerd", "--path", runtime); err != nil {
		return err
	}
	after, err := configOf(c.String("root"))
	if restart := c.StringSlice("restart"); err == nil && before != after && len(restart) > 0 {
		return run(restart[0], restart[1:]...)
	}
	return err
}

// configOf is what of containerd's configuration may change.
func configOf(root string) (string, error) {
	var all string
	for _, file := range []string{install.DefaultContainerdConfig, install.DefaultContainerdDropIn} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		all += string(text) + "\x00"
	}
	return all, nil
}
