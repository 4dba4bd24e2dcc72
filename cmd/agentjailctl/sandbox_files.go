package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/receipt"
	"agentjail.dev/runtime/state"
)

// handleFlags are the options by which a script knows the jail.
func handleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the jail for other commands: agentjail receipt NAME"},
		&cli.StringFlag{Name: "id-file", Usage: "write the jail's id to `FILE`"},
		&cli.StringFlag{Name: "receipt", Usage: "write the receipt to `FILE` at the end: as JSON to .json, a page to .html, else as text"},
	}
}

// sandboxName returns the name that the call gives the jail; "" for none. `learn` has another
// --name.
func sandboxName(c *cli.Context) string {
	if c.Command.Name != "sandbox" {
		return ""
	}
	return c.String("name")
}

// An outputFile is a regular file, new or not, that is written with the caller's rights. The jail
// may be able to write where it lies: it is known by its directory, which is opened before the jail
// is made.
type outputFile struct {
	path string // as the caller names it
	dir  *os.File
}

// openOutput opens the file that an option names, and writes a first text: a file that cannot be
// written is an error at once. Without the option it returns nil.
func openOutput(c *cli.Context, option, text string) (*outputFile, error) {
	path := c.String(option)
	if path == "" {
		return nil, nil
	}
	dir, err := invoker.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	f := &outputFile{path, dir}
	if err == nil {
		err = f.write([]byte(text))
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", option, err)
	}
	return f, nil
}

func (f *outputFile) write(data []byte) error {
	return invoker.Do(func() error {
		return atomicfile.Write(openat.Proc(int(f.dir.Fd()))+"/"+filepath.Base(f.path), data, 0o644)
	})
}

// withEnded calls f with an ended sandbox of this process, on a thread of the host's mount
// namespace: the one that made the jail is no longer in that.
func withEnded(c *cli.Context, id string, f func(journal.Place, *journal.Jail) error) error {
	return thread.Own(func() error {
		p, err := place(c)
		if err != nil {
			return err
		}
		j, err := p.Open(id)
		if err != nil {
			return err
		}
		return f(p, j)
	})
}

// writeReceipt writes the receipt of an ended sandbox, if the call names a file for it.
func writeReceipt(c *cli.Context, id string, to *outputFile) error {
	if to == nil {
		return nil
	}
	err := withEnded(c, id, func(p journal.Place, j *journal.Jail) error {
		r := receipt.Make(p, j, usageOf(p, j), false)
		form := map[string]func(io.Writer) error{
			".html": r.HTML, ".json": func(w io.Writer) error { return printForm(w, "agentjail.receipt"+formVersion, r) },
		}[filepath.Ext(to.path)]
		if form == nil {
			form = r.Text
		}
		var text bytes.Buffer
		if err := form(&text); err != nil {
			return err
		}
		return to.write(text.Bytes())
	})
	if err != nil {
		return fmt.Errorf("--receipt: %w", err)
	}
	return nil
}

// refuseTaken refuses a name that a jail has, or that is no name.
func refuseTaken(c *cli.Context) error {
	name := sandboxName(c)
	if name == "" {
		return nil
	}
	if err := state.CheckID(name); err != nil {
		return fmt.Errorf("--name %s: %w", name, err)
	}
	p, err := place(c)
	if err != nil {
		return err
	}
	j, err := p.Open(name)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("--name %s: %w", name, err)
	case j.Brief != nil && j.ID != name && j.Called() == name:
		return fmt.Errorf("--name %s: the jail %s, which has not ended, has this name (remedy: another name, or wait for its end)", name, j.ID)
	}
	return nil
}
