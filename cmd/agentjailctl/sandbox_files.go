package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/observe/receipt"
	"agentjail.dev/runtime/spec/sandbox"
	"agentjail.dev/runtime/state"
)

// handleFlags are the options by which a script knows the jail. `learn` has another --name, and no
// jail to know.
func handleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the jail for other commands: agentjail receipt NAME"},
		&cli.StringFlag{Name: "id-file", Usage: "write the jail's id to `FILE`"},
		&cli.StringFlag{Name: "receipt", Usage: "write the receipt to `FILE` at the end: as JSON to .json, a page to .html, else as text"},
	}
}

// isHandle reports whether a flag is one of handleFlags.
func isHandle(f cli.Flag) bool {
	return slices.ContainsFunc(handleFlags(), func(h cli.Flag) bool { return h.Names()[0] == f.Names()[0] })
}

// sandboxFiles are the files that a sandbox's call writes with the caller's rights. The jail may be
// able to write where they lie: they are known by their directories, which are opened before it.
type sandboxFiles struct{ id, receipt *outputFile }

// An outputFile is a regular file, new or not.
type outputFile struct {
	path string // as the caller names it
	dir  *os.File
}

// openFiles opens what the call names, and writes the id.
func openFiles(c *cli.Context, o sandbox.Options) (f sandboxFiles, err error) {
	for _, at := range []struct {
		option string
		file   **outputFile
		text   string
	}{{"id-file", &f.id, o.ID + "\n"}, {"receipt", &f.receipt, ""}} {
		path := c.String(at.option)
		if path == "" {
			continue
		}
		out := &outputFile{path: path}
		if out.dir, err = invoker.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY, 0); err == nil {
			err = out.write([]byte(at.text)) // also a receipt's: a file that cannot be written is an error at once
		}
		if err != nil {
			return f, fmt.Errorf("--%s: %w", at.option, err)
		}
		*at.file = out
	}
	return f, nil
}

func (f *outputFile) write(data []byte) error {
	return invoker.Do(func() error {
		return atomicfile.Write(openat.Proc(int(f.dir.Fd()))+"/"+filepath.Base(f.path), data, 0o644)
	})
}

// end writes the receipt of an ended sandbox.
func (f sandboxFiles) end(c *cli.Context, o sandbox.Options) error {
	if f.receipt == nil {
		return nil
	}
	// The thread that made the jail is no longer in the host's mount namespace.
	err := thread.Own(func() error {
		p, err := place(c)
		if err != nil {
			return err
		}
		j, err := p.Open(o.ID)
		if err != nil {
			return err
		}
		r := receipt.Make(p, j, usageOf(p, j), false)
		form := map[string]func(io.Writer) error{
			".html": r.HTML, ".json": func(w io.Writer) error { return printForm(w, "agentjail.receipt"+formVersion, r) },
		}[filepath.Ext(f.receipt.path)]
		if form == nil {
			form = r.Text
		}
		var text bytes.Buffer
		if err := form(&text); err != nil {
			return err
		}
		return f.receipt.write(text.Bytes())
	})
	if err != nil {
		return fmt.Errorf("--receipt: %w", err)
	}
	return nil
}

// refuseTaken refuses a name that a jail has, or that is no name.
func refuseTaken(c *cli.Context) error {
	if c.Command.Name != "sandbox" || !c.IsSet("name") {
		return nil
	}
	name := c.String("name")
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
