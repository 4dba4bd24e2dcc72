package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/compare"
)

var archFlag = &cli.StringFlag{Name: "arch", Value: runtime.GOARCH, Usage: "`ARCH`, amd64 or arm64", Action: knownArch}

func knownArch(_ *cli.Context, arch string) error {
	if all := []string{"amd64", "arm64"}; !slices.Contains(all, arch) {
		return usage("--arch %q: must be one of %s", arch, strings.Join(all, ", "))
	}
	return nil
}

func seccompCommand() *cli.Command {
	profiles := "Profiles: " + strings.Join(seccomp.Profiles(), ", ") + "."
	return &cli.Command{
		Name: "seccomp", Usage: "look at the system call filter, compare it, prove it",
		Subcommands: []*cli.Command{{
			Name: "show", Usage: "list a profile's system calls, each with its reason", ArgsUsage: "[PROFILE]",
			Description: profiles + " Other calls return ENOSYS, on which programs\nfall back, or end the process (seccomp.on_violation = \"kill\").",
			Flags:       []cli.Flag{archFlag, jsonFlag},
			Action:      showSeccomp,
		}, {
			Name: "diff", Usage: "compare a profile with Docker's default or another filter", ArgsUsage: "[PROFILE]",
			Description: profiles + " Compares the calls that each allows, decided from\nthe compiled filters. --against takes docker, a profile, or a file: an OCI seccomp\nsection, a config.json, or a profile in Docker's form, as it applies to a container\nwithout capabilities.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "against", Value: compare.Docker, Usage: "docker, a profile or a JSON `FILE`"},
				archFlag, jsonFlag,
			},
			Action: diffSeccomp,
		}, proveCommand(profiles)},
	}
}

// profileArgument returns the profile that a command's argument names.
func profileArgument(c *cli.Context) (string, error) {
	name := cmp.Or(c.Args().First(), "default")
	if all := seccomp.Profiles(); !slices.Contains(all, name) {
		return "", usage("profile %q: must be one of %s", name, strings.Join(all, ", "))
	}
	return name, nil
}

func showSeccomp(c *cli.Context) error {
	name, err := profileArgument(c)
	if err != nil {
		return err
	}
	entries, err := seccomp.Entries(name, c.String("arch"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c, map[string]any{"profile": name, "arch": c.String("arch"), "calls": entries})
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	allowed, checked := 0, 0
	for _, e := range entries {
		how := "allowed"
		switch {
		case e.Errno != "" && e.Rule != "":
			how = "answered: " + e.Errno + ", or refused"
		case e.Errno == seccomp.Done:
			how = "answered: " + e.Errno
		case e.Errno != "":
			how = "refused, " + e.Errno
		case e.Rule != "":
			how = "if " + e.Rule
			checked++
			allowed++
		default:
			allowed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.Why, how)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	d, err := sections(name, compare.Docker, c.String("arch"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%d system calls allowed, %d of them with checked arguments (Docker's default: %d, %d); all others answer ENOSYS, other ABIs are killed\n",
		allowed, checked, d.B.Allowed, d.B.Checked)
	return err
}

// sections compares two filters by name.
func sections(a, b, arch string) (*compare.Diff, error) {
	sa, err := compare.Section(a, arch)
	if err != nil {
		return nil, err
	}
	sb, err := compare.Section(b, arch)
	if err != nil {
		return nil, err
	}
	return compare.Sections(a, sa, b, sb, arch)
}

func diffSeccomp(c *cli.Context) error {
	name, err := profileArgument(c)
	if err != nil {
		return err
	}
	d, err := sections(name, c.String("against"), c.String("arch"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c, d)
	}
	out := c.App.Writer
	for _, s := range []compare.Side{d.A, d.B} {
		abis := "calls of other ABIs are killed"
		if len(s.OtherABIs) > 0 {
			abis = fmt.Sprintf("calls of %v too", s.OtherABIs)
		}
		fmt.Fprintf(out, "%s: %d system calls, %d of them with checked arguments; %s; open to %d of 100 public kernelCTF exploits\n",
			s.Name, s.Allowed, s.Checked, abis, s.KernelCTF)
	}
	for _, l := range []struct {
		title string
		names []string
	}{
		{"only in " + d.A.Name, d.OnlyA},
		{"only in " + d.B.Name, d.OnlyB},
		{"arguments checked only in " + d.A.Name, d.CheckedA},
		{"arguments checked only in " + d.B.Name, d.CheckedB},
		{"arguments checked in both, perhaps differently", d.CheckedBoth},
	} {
		if len(l.names) > 0 {
			fmt.Fprintf(out, "\n%s (%d):\n%s\n", l.title, len(l.names), printable.Wrap("  ", strings.Join(l.names, " "), 78))
		}
	}
	return nil
}
