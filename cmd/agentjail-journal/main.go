// Command agentjail-journal collects the system calls of jails by eBPF programs behind the system
// call filters, as a source of the jails' journals. One serves a host
// (hack/systemd/agentjail-journal.service); agentjail works without it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/ebpf/collector"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/version"
)

func main() {
	unix.Umask(0o022)
	if len(os.Args) == 3 && os.Args[1] == collector.ReaderVerb {
		end(collector.Read(os.Args[2]))
	}
	end(app().Run(os.Args))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "agentjail-journal:", printable.Line(err.Error(), 4096))
		os.Exit(1)
	}
	os.Exit(0)
}

func app() *cli.App {
	a := cli.NewApp()
	a.Name, a.Version = "agentjail-journal", version.Version
	a.Usage = "refuse in the kernel what no jail may do, and report it to the jails' journals"
	a.Description = strings.TrimSpace(`
Loads small eBPF programs and keeps them in the kernel. They act on jails alone, behind the two system call filters: what the
filters refuse in every profile is refused once more, and such an event means that a filter failed. The filters' refusals are reported too.
The programs stay when this program ends, until "agentjail-journal unload". "agentjail check" shows what this host's kernel can do.`)
	a.HideHelpCommand = true
	a.Flags = []cli.Flag{
		&cli.StringFlag{Name: "config", Value: policy.DefaultPath, Usage: "policy `FILE`, which defines the host ids of jails"},
		&cli.BoolFlag{Name: "syscalls", Usage: "report refused system calls also where that costs every process of the machine some 80 ns a call"},
		&cli.BoolFlag{Name: "connections", Usage: "report connect and bind, and block them for containers that request it; policy's ebpf.block does the same"},
		&cli.BoolFlag{Name: "print", Usage: "write every event to standard output too, as a line of JSON"},
		&cli.BoolFlag{Name: "no-pins", Usage: "remove the programs when this one ends"},
		&cli.StringFlag{Name: "pins", Value: ebpf.Pins, Usage: "the `DIRECTORY` of a bpf file system in which the programs stay"},
		&cli.StringFlag{Name: "user", Value: "agentjail-journal", Usage: "the `USER` that reads the kernel's events, with CAP_BPF and CAP_PERFMON and nothing else"},
	}
	a.Action = collect
	a.Commands = []*cli.Command{
		{
			Name: "unload", Usage: "remove the programs from the kernel", ArgsUsage: " ",
			Action: func(c *cli.Context) error {
				if err := alone(c); err != nil {
					return err
				}
				return collector.Unload(c.String("pins"))
			},
			Flags: []cli.Flag{&cli.StringFlag{Name: "pins", Value: ebpf.Pins, Usage: "where the programs stay"}},
		},
		{
			Name: "probe", Usage: "print what programs can do on this kernel: blocks, watches or absent", ArgsUsage: " ",
			Action: func(c *cli.Context) error {
				if err := alone(c); err != nil {
					return err
				}
				can, err := ebpf.Probe()
				fmt.Println(can)
				if can == ebpf.Absent {
					return err
				}
				return nil
			},
		},
	}
	return a
}

// alone refuses further words: no command takes one.
func alone(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("%q is no command (remedy: agentjail-journal --help)", c.Args().First())
	}
	return nil
}

func collect(c *cli.Context) error {
	if err := alone(c); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("only root can write journals; the reader of events drops root at once (remedy: sudo, or systemctl start agentjail-journal)")
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	pins := c.String("pins")
	if c.Bool("no-pins") {
		pins = ""
	}
	var show func(journal.Event)
	if c.Bool("print") {
		show = func(e journal.Event) {
			if line, err := json.Marshal(e); err == nil {
				_, _ = os.Stdout.Write(append(printable.JSON(line), '\n'))
			}
		}
	}
	return collector.Run(ctx, collector.Options{
		Print: show, Policy: c.String("config"), Syscalls: c.Bool("syscalls"), Connections: c.Bool("connections"),
		User: c.String("user"), Pins: pins,
		Logf: func(format string, args ...any) {
			fmt.Fprintln(os.Stderr, "agentjail-journal: "+printable.Line(fmt.Sprintf(format, args...), 4096))
		},
	})
}
