package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/jail"
	"agentjail.dev/runtime/journal"
	"agentjail.dev/runtime/journal/sources"
	"agentjail.dev/runtime/linux/atomicfile"
	"agentjail.dev/runtime/receipt"
	"agentjail.dev/runtime/rootless"
	"agentjail.dev/runtime/verbs"
)

func receiptCommand() *cli.Command {
	return &cli.Command{
		Name: "receipt", Usage: "print what a jail was, did, was refused and used, and what was removed at its end", ArgsUsage: "CONTAINER",
		Description: `CONTAINER is the id of a jail that runs or has ended, or the unique beginning of one;
ID@TIME, as ` + "`agentjail journal`" + ` lists them, is one of several with the same id.
A receipt is made of the jail's journal, which only the host writes.

   agentjail receipt --html run.html CONTAINER

--verify follows the chain of the journal; exit status 1 when it is broken.`,
		Flags: []cli.Flag{
			jsonFlag,
			&cli.StringFlag{Name: "html", Usage: "write one static page to `FILE`; - is standard output"},
			&cli.BoolFlag{Name: "verify", Usage: "follow the journal's chain of hashes"},
			&cli.StringFlag{Name: "against", Usage: "say whether a receipt that was printed earlier by --json to `FILE` follows from the journal, and print nothing else"},
		},
		Action: func(c *cli.Context) error {
			id, err := oneID(c)
			if err != nil {
				return err
			}
			if err := rootless.MustJoin(); err != nil {
				return err
			}
			place, err := journal.Here(c.String("config"), verbs.Profile(os.Args[0]))
			if err != nil {
				return err
			}
			j, err := place.Open(id)
			if err != nil {
				return err
			}
			if file := c.String("against"); file != "" {
				return against(c, file, j)
			}
			tell(c, place, j)
			r := receipt.Make(c.Context, place, j, lookAt(place), c.Bool("verify"))
			if err := printReceipt(c, r); err != nil {
				return err
			}
			if v := r.Journal.Verified; v != nil && !*v {
				return &jail.ExitError{Code: 1}
			}
			return nil
		},
	}
}

// maxReceipt bounds a receipt that is read, in bytes.
const maxReceipt = 64 << 20

// against holds an earlier receipt against the jail's journal.
func against(c *cli.Context, file string, j *journal.Jail) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var r receipt.Receipt
	if err := json.NewDecoder(io.LimitReader(f, maxReceipt)).Decode(&r); err != nil {
		return fmt.Errorf("%s is no receipt: %w", file, err)
	}
	if err := r.Follows(j.Path); err != nil {
		return fmt.Errorf("%s does not follow from the journal: %w", file, err)
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s follows from the journal\n", file)
	return err
}

// tell has the jail itself read what is known of its refusals, where policy lets it.
func tell(c *cli.Context, place journal.Place, j *journal.Jail) {
	if j.Brief == nil {
		return
	}
	whole, err := place.Store.Load(j.Key)
	if err == nil {
		err = jail.TellInside(whole, func() ([]journal.Event, error) { return sources.Events(place.Store, j), nil })
	}
	if err != nil {
		fmt.Fprintf(c.App.ErrWriter, "agentjail: telling the jail what it was refused: %v\n", err)
	}
}

// printReceipt prints a receipt in the form that was asked for.
func printReceipt(c *cli.Context, r *receipt.Receipt) error {
	switch to := c.String("html"); {
	case to == "-":
		return r.HTML(c.App.Writer)
	case to != "":
		var page bytes.Buffer
		if err := r.HTML(&page); err != nil {
			return err
		}
		if err := atomicfile.Write(to, page.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
		return nil
	case c.Bool("json"):
		return printJSON(c, r)
	}
	return r.Text(c.App.Writer)
}

// lookAt looks at a jail that was not removed yet.
func lookAt(place journal.Place) receipt.Looker {
	return func(_ context.Context, j *journal.Jail) (facts []string, files []receipt.File, more, looked bool) {
		l := jail.Look(place.Store, j.Brief)
		for _, f := range l.Files {
			files = append(files, receipt.File(f))
		}
		return l.Used, files, l.More, l.Known
	}
}
