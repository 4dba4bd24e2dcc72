package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/sources"
)

func lsCommand() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the jails of all engines, and those that ended",
		Description: `The newest first. NAME and IMAGE are the engine's, where it records them in a place
that is known; a sandbox has its command there. Of jails that ended the journal is left
(policy: journal.keep). REFUSED counts what agentjail denied ID lists.

Commands take an id, its unique beginning, a name, or ID@TIME for one of several.
JSON has all jails.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "all jails that ended, not only the last 20"},
			&cli.BoolFlag{Name: "running", Aliases: []string{"r"}, Usage: "only jails that were not deleted"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: runLs,
	}
}

// endedRows is how many jails that ended are listed. The usage of --all has the number.
const endedRows = 20

// jailRow is a jail of the list.
type jailRow struct {
	ID      string   `json:"id"`
	At      string   `json:"at"` // ID@TIME
	Name    string   `json:"name,omitempty"`
	Image   string   `json:"image,omitempty"`
	Command []string `json:"command,omitempty"`
	Engine  string   `json:"engine,omitempty"`
	Policy  string   `json:"policy,omitempty"`
	Made    string   `json:"made"`
	State   string   `json:"state"` // created, running, stopped, ended
	Exit    string   `json:"exit,omitempty"`
	Refused uint64   `json:"refused"`
	made    time.Time
}

func runLs(c *cli.Context) error {
	jails, err := allJails(c)
	if err != nil {
		return err
	}
	p, err := place(c)
	if err != nil {
		return err
	}
	known := sources.NewReader(p.Store)
	noteHidden(c)
	rows, ended, all := []jailRow{}, 0, c.Bool("all") || c.Bool("json")
	for _, j := range jails {
		if j.Brief == nil {
			if c.Bool("running") {
				continue
			}
			if ended++; ended > endedRows && !all {
				continue
			}
		}
		rows = append(rows, rowOf(j, known.Events(j)))
	}
	if c.Bool("json") {
		return printJSON(c, struct {
			Jails []jailRow `json:"jails"`
		}{rows})
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tIMAGE\tENGINE\tPOLICY\tAGE\tSTATE\tREFUSED")
	for _, r := range rows {
		state := r.State
		if r.Exit != "" {
			state += " " + r.Exit
		}
		cells := []string{
			shortID(r.ID), cmp.Or(r.Name, strings.Join(r.Command, " ")), r.Image, r.Engine, r.Policy, age(time.Since(r.made)),
			state, fmt.Sprint(r.Refused),
		}
		for i, cell := range cells {
			cells[i] = cmp.Or(printable.Line(cell, 32), "-")
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	noteHomes(c.App.ErrWriter)
	if more := ended - endedRows; more > 0 && !all {
		fmt.Fprintf(c.App.ErrWriter, "agentjail: %s ended before these (agentjail ls --all)\n", printable.Count(more, "jail"))
	}
	return nil
}

// rowOf returns the row of a jail, of which these events are known.
func rowOf(j *journal.Jail, events []journal.Event) jailRow {
	s := journal.Summarize(events)
	r := jailRow{
		ID: j.ID, At: j.Name(), Name: s.Name, Image: s.Image, Command: s.Argv, Engine: s.Engine, Policy: s.PolicyName,
		Made: journal.At(j.Born), State: "ended", Exit: s.Exit, Refused: sources.Refused(events), made: j.Born,
	}
	if strings.HasPrefix(j.ID, sandboxPrefix) && r.Engine == "" {
		r.Engine = "sandbox"
	}
	switch b := j.Brief; {
	case b == nil:
	case !b.InitAlive():
		r.State = "stopped"
	case b.Started:
		r.State = "running"
	default:
		r.State = "created"
	}
	return r
}

// shortID is as long as Docker's for the ids of engines.
func shortID(id string) string {
	if len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" {
		return id[:12]
	}
	return id
}

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
