package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/printable"
	programs "agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/sources"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/rings"
)

// place returns the directories of this user's jails and journals.
func place(c *cli.Context) (journal.Place, error) {
	p, err := journal.Here(configFile(c), caller.PolicyName)
	if err != nil {
		return p, err
	}
	p.Invoker, err = invoker.UID()
	return p, err
}

// configFile is the policy file that a call names, before or after the verb; "" for none.
func configFile(c *cli.Context) string {
	for _, level := range c.Lineage() {
		if path := level.String("config"); path != "" {
			return path
		}
	}
	return ""
}

// allJails lists this user's jails, with those that ended.
func allJails(c *cli.Context) ([]*journal.Jail, error) {
	p, err := place(c)
	if err != nil {
		return nil, err
	}
	return p.Jails()
}

func journalCommand() *cli.Command {
	return &cli.Command{
		Name: "journal", Usage: "print what happened in a jail, also in one that was deleted; without a jail, list the journals", ArgsUsage: "[CONTAINER]",
		Description: `CONTAINER is an id or the unique beginning of one, or ID@TIME as in the list. All
sources at hand are read: the jail's journal, the log of its network, the counters of
its control group, and the kernel's log. A source that cannot be read is an event, too.

--verify follows the journal's chain of hashes. Exit status 1 where a line was changed,
taken out or put in. Its last line's hash shows later whether the end was cut off.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON, one event a line (docs/journal.md)"},
			&cli.BoolFlag{Name: "verify", Usage: "follow the chain of hashes, and print no events"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 && !c.Bool("verify") {
				return listJournals(c)
			}
			id, err := oneID(c)
			if err != nil {
				return err
			}
			p, j, _, err := openJail(c, id)
			if err != nil {
				return err
			}
			if c.Bool("verify") {
				return verifyJournal(c, j)
			}
			for _, e := range sources.Events(p.Store, j) {
				if err := writeEvent(c.App.Writer, &e, c.Bool("json")); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// listed is a jail of the list.
type listed struct {
	ID    string `json:"id"`
	Name  string `json:"name"` // ID@TIME
	Born  string `json:"born"`
	State string `json:"state"` // "exists" or "deleted"
	Path  string `json:"path"`
}

func listJournals(c *cli.Context) error {
	jails, err := allJails(c)
	if err != nil {
		return err
	}
	noteHidden(c)
	all := []listed{}
	for _, j := range jails {
		if j.Path == "" {
			continue
		}
		l := listed{ID: j.ID, Name: j.Name(), Born: journal.At(j.Born), State: "deleted", Path: j.Path}
		if j.Brief != nil {
			l.State = "exists"
		}
		all = append(all, l)
	}
	if c.Bool("json") {
		return printJSON(c, map[string]any{"journals": all})
	}
	for _, l := range all {
		if _, err := fmt.Fprintf(c.App.Writer, "%-8s %s\n", l.State, printable.Line(l.Name, 0)); err != nil {
			return err
		}
	}
	return nil
}

func verifyJournal(c *cli.Context, j *journal.Jail) error {
	if j.Path == "" {
		return fmt.Errorf("%s: %w", j.ID, journal.ErrNone)
	}
	r, err := journal.Verify(j.Path)
	if err != nil {
		return err
	}
	if err := j.VerifyKept(r); err != nil {
		return err
	}
	if c.Bool("json") {
		err = printForm(c.App.Writer, verifiedForm, r)
	} else {
		err = printVerified(c, r)
	}
	return answered(err, r.Whole())
}

func printVerified(c *cli.Context, r *journal.Result) error {
	verdict := "whole"
	if !r.Whole() {
		verdict = "BROKEN"
	}
	_, err := fmt.Fprintf(c.App.Writer, "%s: %d events, %d to %d, head %s\n", verdict, r.Events, r.First, r.Last, r.Head)
	for _, part := range []struct {
		what  string
		lines []string
	}{{"dropped by rotation", r.Gaps}, {"cut short by a crash", r.Torn}, {"BROKEN", r.Problems}} {
		for _, l := range part.lines {
			if err == nil {
				_, err = fmt.Fprintf(c.App.Writer, "  %s: %s\n", part.what, printable.Line(l, 0))
			}
		}
	}
	return err
}

// A denial groups the refusals of one kind for one reason.
type denial struct {
	Kind  string     `json:"kind"`
	Ring  rings.Ring `json:"ring"`
	What  string     `json:"what"`
	Count uint64     `json:"count"`
	First string     `json:"first"`
	Last  string     `json:"last"`
	// Value is the requested or found value, and Limit the largest allowed one.
	Value  string `json:"value,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Program is the last one that was refused.
	Program string `json:"program,omitempty"`
	Source  string `json:"source"`
	Meaning string `json:"meaning"`
}

func deniedCommand() *cli.Command {
	return &cli.Command{
		Name: "denied", Usage: "list what a jail was refused so far, with the ring, the rule and the remedy", ArgsUsage: "CONTAINER",
		Description: "Of a jail that exists or was deleted: an id, the unique beginning of one, or ID@TIME as\n`agentjail journal` lists them. Equal refusals are counted. A remedy is what would allow\nthe call, not advice to allow it.",
		Flags:       []cli.Flag{jsonFlag},
		Action: func(c *cli.Context) error {
			p, j, _, err := openJail(c, c.Args().First())
			if err != nil {
				return err
			}
			events := sources.Once(sources.Events(p.Store, j))
			all, unseen := denials(events)
			unseen = append(unseen, unseenKinds(events, programs.Look())...)
			return printResult(c, map[string]any{"jail": j.ID, "denied": all, "unseen": unseen}, func(w io.Writer) error {
				return printDenials(w, all, unseen)
			})
		},
	}
}

// unseenKinds lists what no source at hand would have seen of a jail's refusals, and how to see it:
// the kernel refuses system calls and access to files without a record.
func unseenKinds(events []journal.Event, acting programs.State) []string {
	by := func(source string, kinds ...journal.Kind) bool {
		return slices.ContainsFunc(events, func(e journal.Event) bool { return e.Source == source && slices.Contains(kinds, e.Kind) })
	}
	var out []string
	if !by(journal.SourceEBPF, journal.SyscallRefused) && !by(journal.SourceKernel, journal.SyscallRefused) {
		how := "`agentjail-journal --syscalls` reports them; `agentjail why ID CALL` answers for one"
		if !acting.Acting {
			how = "agentjail-journal, which does not run here, reports them with --syscalls (systemctl enable --now agentjail-journal); `agentjail why ID CALL` answers for one"
		}
		out = append(out, "refused system calls: "+how)
	}
	if !by(journal.SourceKernel, journal.LandlockDenied, journal.ApparmorDenied, journal.SelinuxDenied) {
		out = append(out, "refused access to files (read-only and protected paths, owner and mode): `agentjail why ID /PATH` answers for one")
	}
	return out
}

// maxGroups bounds how many groups are made: a jail chooses its names.
const maxGroups = 1000

// denials groups the refusals. unseen lists the sources that could not be read, and lost events.
func denials(events []journal.Event) (all []denial, unseen []string) {
	all, unseen = []denial{}, []string{}
	at := map[string]int{}
	for _, e := range events {
		if e.Kind == journal.SourceAbsent || e.Kind == journal.JournalLost {
			line := strings.TrimSpace(e.Target + " " + e.Reason)
			if e.Dropped > 0 {
				line = fmt.Sprintf("%d events of %s are missing", e.Dropped, e.Source)
			}
			if !slices.Contains(unseen, line) && len(unseen) < maxGroups {
				unseen = append(unseen, line)
			}
		}
		if !e.Refused() {
			continue
		}
		what := e.What()
		key := strings.Join([]string{e.Kind.String(), what, e.Rule, e.Source, e.Credential}, "\x00")
		if e.Source == journal.SourceNetwork {
			key += "\x00" + e.Reason // one entry refuses for several
		}
		i, known := at[key]
		if !known && len(all) >= maxGroups {
			what, key = "(others)", e.Kind.String()
			i, known = at[key]
		}
		if !known {
			i, at[key] = len(all), len(all)
			all = append(all, denial{
				Kind: e.Kind.String(), Ring: e.Ring, What: what, First: e.Time, Rule: e.Decided(), Source: e.Source,
				Meaning: e.Kind.Info().Meaning,
			})
		}
		d := &all[i]
		d.Count += max(1, e.Count)
		d.Last, d.Reason, d.Remedy, d.Value, d.Limit = e.Time, e.Reason, e.Remedy, e.Value, e.Limit
		if e.Program != "" {
			d.Program = e.Program
		}
	}
	slices.SortStableFunc(all, func(a, b denial) int { return int(b.Ring - a.Ring) })
	return all, unseen
}

func printDenials(w io.Writer, all []denial, unseen []string) error {
	var b strings.Builder
	if len(all) == 0 {
		b.WriteString("no refusal was seen\n")
	}
	for i, d := range all {
		if i == 0 || all[i-1].Ring != d.Ring {
			heading := d.Ring.String()
			if d.Ring == rings.None {
				heading = "the jail itself"
			}
			b.WriteString(heading + "\n")
		}
		line := fmt.Sprintf("%6dx %s %s", d.Count, d.Kind, d.What) +
			printable.Labelled("value", d.Value, "limit", d.Limit, "by", d.Rule, "because", d.Reason, "program", d.Program)
		if d.Remedy != "" {
			line += " (remedy: " + d.Remedy + ")"
		}
		b.WriteString(printable.Line(line, 0) + "\n")
	}
	for _, u := range unseen {
		b.WriteString("not seen: " + printable.Line(u, 0) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pruneJournals removes the oldest journals of deleted jails, for gc.
func pruneJournals(c *cli.Context) error {
	path, name := c.String("config"), caller.PolicyName
	pol, err := policy.Load(path, name)
	if err != nil {
		return nil // the caller has reported it
	}
	p, err := journal.Here(path, name)
	if err != nil {
		return err
	}
	gone, err := journal.Prune(p.Store, p.Dir, pol.Journal)
	for _, name := range gone {
		fmt.Fprintf(c.App.Writer, "removed the journal of %s\n", printable.Line(name, 0))
	}
	if errors.Is(err, os.ErrPermission) {
		err = nil
	}
	return err
}
