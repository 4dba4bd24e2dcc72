package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/inspect"
	"agentjail.dev/runtime/state"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
	"agentjail.dev/seccomp/readback"
	"agentjail.dev/seccomp/verify"
)

// proof is the result for one filter, or for the filters of a process.
type proof struct {
	Profile string `json:"profile"`
	Arch    string `json:"arch"`
	// Of names the program that was checked, and where it comes from.
	Of     string          `json:"of"`
	Holds  bool            `json:"holds"`
	Claims []verify.Result `json:"claims"`
}

func newProof(profile, arch, of string, res []verify.Result) proof {
	p := proof{Profile: profile, Arch: arch, Of: of, Holds: true, Claims: res}
	for _, r := range res {
		p.Holds = p.Holds && r.Holds
	}
	return p
}

func proveCommand(profiles string) *cli.Command {
	return &cli.Command{
		Name: "prove", Usage: "prove from compiled filters what cannot pass", ArgsUsage: "[PROFILE]",
		Description: profiles + " Explores compiled filters with the arguments unknown and\nchecks, for every number and argument, that only listed calls pass; that io_uring,\nnamespace flags, other ABIs, set-id bits and the like do not; that no high bits of an\nargument make a difference; and how many public kernelCTF exploits find their entry\npoint open. Exit status 1 when a claim fails.\n\n" +
			"For a profile: the inner filter, loaded by the init step in addition to the\ndelegate's. A call must pass both. " + delegateNote + "\n\n" +
			"With --jail CONTAINER: the filters that the kernel holds for each process of a\nrunning jail, by any compiler. Each process is stopped for the moment of\nreading, as by a debugger. Takes root on the host, and CONFIG_CHECKPOINT_RESTORE.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "every profile on every architecture"},
			&cli.StringFlag{Name: "jail", Usage: "a running jail's loaded filters; `CONTAINER` is an id or the beginning of one"},
			archFlag, jsonFlag,
		},
		Action: proveSeccomp,
	}
}

func proveSeccomp(c *cli.Context) error {
	proofs, err := proofsFor(c)
	if err != nil {
		return err
	}
	return writeProofs(c, proofs)
}

// writeProofs prints proofs; a claim that fails makes the exit status 1.
func writeProofs(c *cli.Context, proofs []proof) error {
	err := printResult(c, map[string]any{"proofs": proofs}, func(w io.Writer) error { return printProofs(w, proofs) })
	return answered(err, allHold(proofs))
}

func allHold(proofs []proof) bool {
	return !slices.ContainsFunc(proofs, func(p proof) bool { return !p.Holds })
}

// proofsFor returns the proofs that the command line requests.
func proofsFor(c *cli.Context) ([]proof, error) {
	if id := c.String("jail"); id != "" {
		if c.NArg() > 0 || c.Bool("all") || c.IsSet("arch") {
			return nil, usage("--jail takes no profile, --all or --arch: the jail has its own")
		}
		return proveJail(c, id)
	}
	name, err := profileArgument(c)
	if err != nil {
		return nil, err
	}
	profiles, arches := []string{name}, []string{c.String("arch")}
	if c.Bool("all") {
		if c.NArg() > 0 || c.IsSet("arch") {
			return nil, usage("--all takes no profile or --arch")
		}
		profiles, arches = seccomp.Profiles(), []string{"amd64", "arm64"}
	}
	var out []proof
	for _, profile := range profiles {
		for _, arch := range arches {
			p, err := proveProfile(profile, arch)
			if err != nil {
				return nil, err
			}
			out = append(out, p...)
		}
	}
	return out, nil
}

// proveProfile proves the inner filter of a profile, for both answers to
// violations, and the delegate's where this program has libseccomp.
func proveProfile(profile, arch string) ([]proof, error) {
	var res []verify.Result
	var sizes []string
	for _, kill := range []bool{false, true} {
		prog, err := compiler.Program(profile, arch, kill)
		if err != nil {
			return nil, err
		}
		r, err := verify.Profile([][]bpf.Insn{prog}, profile, arch)
		if err != nil {
			return nil, err
		}
		res, sizes = verify.Merge(res, r), append(sizes, fmt.Sprint(len(prog)))
	}
	of := "the inner filter, as the init step loads it (" + sizes[0] + " instructions; " + sizes[1] +
		" with on_violation = \"kill\")"
	out := []proof{newProof(profile, arch, of, res)}
	more, err := proveDelegate(profile, arch)
	return append(out, more...), err
}

// A process that an exec is making has not all of its filters yet: a broken result is checked
// again.
const (
	proveLooks    = 4
	proveLookWait = 100 * time.Millisecond
)

// proveJail proves the filters that the kernel holds for a jail's processes.
func proveJail(c *cli.Context, id string) ([]proof, error) {
	store, j, err := existingJail(c, id)
	if err != nil {
		return nil, err
	}
	if err := hostsCalls(j.Delegate, "seccomp prove --jail"); err != nil {
		return nil, err
	}
	var out []proof
	for i := range proveLooks {
		if i > 0 {
			time.Sleep(proveLookWait)
		}
		pids, err := inspect.Pids(store, j)
		if err != nil {
			return nil, err
		}
		if out, err = provePids(j, pids); err != nil {
			return nil, err
		}
		if allHold(out) {
			break
		}
	}
	return out, nil
}

// provePids reads the filters of processes and proves each set of them once.
func provePids(j *state.Jail, pids []int) ([]proof, error) {
	type group struct {
		progs [][]bpf.Insn
		pids  []string
	}
	var groups []*group
	for _, pid := range pids {
		progs, err := readback.Filters(pid)
		if errors.Is(err, unix.ESRCH) && pid != j.InitPid {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(groups, func(g *group) bool {
			return slices.EqualFunc(g.progs, progs, slices.Equal[[]bpf.Insn])
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{progs: progs})
		}
		groups[i].pids = append(groups[i].pids, fmt.Sprint(pid))
	}
	var out []proof
	for _, g := range groups {
		res, err := verify.Profile(g.progs, j.Policy.Seccomp.Profile, runtime.GOARCH)
		if err != nil {
			return nil, err
		}
		sizes := make([]string, len(g.progs))
		for i, p := range g.progs {
			sizes[i] = fmt.Sprint(len(p))
		}
		if len(g.pids) > 5 {
			g.pids = append(g.pids[:5], "…")
		}
		of := fmt.Sprintf("the %d filters that the kernel holds for process %s of jail %s (instructions: %s)",
			len(g.progs), strings.Join(g.pids, ", "), j.ID, strings.Join(sizes, " + "))
		out = append(out, newProof(j.Policy.Seccomp.Profile, runtime.GOARCH, of, res))
	}
	return out, nil
}

func printProofs(w io.Writer, proofs []proof) error {
	shown, failed := 0, 0
	for _, p := range proofs {
		fmt.Fprintf(w, "profile %s on %s: %s\n", p.Profile, p.Arch, p.Of)
		for _, r := range p.Claims {
			verdict := "holds "
			shown++
			if !r.Holds {
				verdict = "FAILS "
				failed++
			}
			line := "  " + verdict + " " + r.Claim
			if r.Detail != "" {
				line += ": " + r.Detail
			}
			fmt.Fprintln(w, line)
		}
	}
	if failed > 0 {
		fmt.Fprintf(w, "FAILED: %d of %d claims\n", failed, shown)
		return nil
	}
	_, err := fmt.Fprintf(w, "all %d claims hold\n", shown)
	return err
}
