package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/sources"
	"agentjail.dev/runtime/observe/receipt"
	"agentjail.dev/runtime/spec/policy"
)

func receiptCommand() *cli.Command {
	return &cli.Command{
		Name: "receipt", Usage: "print what a jail was, did, was refused and used, and what was removed at its end", ArgsUsage: "[CONTAINER]",
		Description: `CONTAINER is the id of a jail that runs or has ended, or the unique beginning of one;
ID@TIME, as ` + "`agentjail journal`" + ` lists them, is one of several with the same id.
A receipt is made of the jail's journal, which only the host writes.

   agentjail receipt --html run.html CONTAINER

--verify follows the chain of the journal; exit status 1 when it is broken.

   agentjail receipt --sign CONTAINER >receipt.json
   agentjail receipt --verify --against receipt.json [CONTAINER]

--sign prints an in-toto statement in a DSSE envelope, signed with the host's key,
/etc/agentjail/receipt.key; receipt.pub beside it is public. --verify with --against
checks the signature, prints the receipt that was signed, and with CONTAINER checks
also that it follows from the journal.`,
		Flags: []cli.Flag{
			jsonFlag,
			&cli.StringFlag{Name: "html", Usage: "write one static page to `FILE`; - is standard output"},
			&cli.BoolFlag{Name: "verify", Usage: "follow the journal's chain of hashes"},
			&cli.BoolFlag{Name: "sign", Usage: "print it signed with the host's key, which is made the first time"},
			&cli.StringFlag{Name: "key", Usage: "the public key for --against with --verify, a `FILE` (default: the host's own)"},
			&cli.StringFlag{Name: "against", Usage: "check only whether the receipt that --json wrote to `FILE` earlier follows from the journal"},
		},
		Action: func(c *cli.Context) error {
			if c.String("against") != "" && c.NArg() == 0 {
				_, err := readReceipt(c)
				return err
			}
			id, err := oneID(c)
			if err != nil {
				return err
			}
			place, j, _, err := openJail(c, id)
			if err != nil {
				return err
			}
			if c.String("against") != "" {
				return against(c, j)
			}
			writeInside(c, place, j)
			r := receipt.Make(place, j, usageOf(place, j), c.Bool("verify"))
			if c.Bool("sign") {
				return answered(sign(c, r), r.Journal.Verified == nil || *r.Journal.Verified)
			}
			return answered(printReceipt(c, r), r.Journal.Verified == nil || *r.Journal.Verified)
		},
	}
}

// maxReceipt bounds a receipt that is read, in bytes.
const maxReceipt = 64 << 20

// against compares an earlier receipt with the jail's journal.
func against(c *cli.Context, j *journal.Jail) error {
	r, err := readReceipt(c)
	if err != nil {
		return err
	}
	file := c.String("against")
	if err := r.Follows(j.Path); err != nil {
		return asAnswer(fmt.Errorf("%s does not follow from the journal: %w", file, err))
	}
	if c.Bool("json") && c.Bool("verify") {
		return nil
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s follows from the journal\n", file)
	return err
}

// keyDir returns the directory of the host's key for receipts: that of the policy.
func keyDir(c *cli.Context) string { return filepath.Dir(c.String("config")) }

// sign prints a receipt, signed.
func sign(c *cli.Context, r *receipt.Receipt) error {
	if c.String("html") != "" {
		return usage("--sign prints an envelope of JSON, and no page")
	}
	if os.Geteuid() != 0 || rootless.Inside() {
		return errors.New("only root on the host can sign receipts: only root can read the key")
	}
	if c.String("config") != policy.DefaultPath { // the key is made there
		if err := invoker.RootsOwn("the key beside another policy file"); err != nil {
			return err
		}
	}
	key, err := receipt.Key(keyDir(c))
	if err != nil {
		return err
	}
	e, err := r.Sign(key)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(c.App.Writer)
	enc.SetIndent("", "  ")
	return enc.Encode(e)
}

// readReceipt reads the receipt of --against; with --verify it has to be signed, and its text is
// printed from what was verified.
func readReceipt(c *cli.Context) (*receipt.Receipt, error) {
	file := c.String("against")
	data, err := invoker.Read(file, maxReceipt)
	if err != nil {
		return nil, err
	}
	if !c.Bool("verify") {
		if c.NArg() == 0 {
			return nil, usage("--against needs a CONTAINER, --verify or both")
		}
		r, err := receipt.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s is no receipt: %w (remedy: --verify, where it is a signed one)", file, err)
		}
		return r, nil
	}
	path := c.String("key")
	if path == "" {
		path = filepath.Join(keyDir(c), receipt.PublicFile)
	}
	var key ed25519.PublicKey
	if err = invoker.Do(func() (err error) { key, err = receipt.Public(path); return err }); err != nil {
		return nil, fmt.Errorf("the public key: %w", err)
	}
	r, by, err := receipt.Open(data, key)
	if err != nil {
		return nil, asAnswer(fmt.Errorf("%s: %w", file, err))
	}
	if c.Bool("json") {
		return r, printJSON(c, r)
	}
	if _, err := fmt.Fprintf(c.App.Writer, "%s is signed by %s\n", file, by); err != nil {
		return nil, err
	}
	return r, r.Text(c.App.Writer)
}

// writeInside updates the jail's own file of its refusals, if policy allows one.
func writeInside(c *cli.Context, place journal.Place, j *journal.Jail) {
	if j.Brief == nil {
		return
	}
	whole, err := place.Store.Load(j.Key)
	if err == nil {
		err = account.WriteInside(whole, func() ([]journal.Event, error) { return sources.Once(sources.Events(place.Store, j)), nil })
	}
	if err != nil {
		fmt.Fprintf(c.App.ErrWriter, "agentjail: writing the jail's file of refusals: %v\n", err)
	}
}

// printReceipt prints a receipt in the form that was requested.
func printReceipt(c *cli.Context, r *receipt.Receipt) error {
	switch to := c.String("html"); {
	case to == "-":
		return r.HTML(c.App.Writer)
	case to != "":
		var page bytes.Buffer
		if err := r.HTML(&page); err != nil {
			return err
		}
		if err := invoker.Do(func() error { return atomicfile.Write(to, page.Bytes(), 0o644) }); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
		return nil
	}
	return printResult(c, r, r.Text)
}

// usageOf collects the usage of a jail; it is empty if the jail was removed.
func usageOf(place journal.Place, j *journal.Jail) (now receipt.Now) {
	if j.Brief == nil {
		return now
	}
	l := account.Collect(place.Store, j.Brief)
	now.Used, now.More, now.Looked = l.Used, l.More, l.Known
	for _, f := range l.Files {
		now.Files = append(now.Files, journal.File(f))
	}
	for i := range l.Mounted {
		now.Mounted = append(now.Mounted, l.Mounted[i].Events()...)
	}
	return now
}
