package host

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"time"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/atomicfile"
)

// ordersPrefix begins the names of orders in a sandbox's directory.
const ordersPrefix = "orders-"

// Directory puts the step and its orders into a directory for a sandbox, which has it at
// jailinit.StepDir, and returns the name of the orders there. store is agentjail's directory of
// state, on the same file system, where the program's copy is kept for all jails.
//
// The sandbox reads the files as one of the jail's users. Nothing in orders for a guest is of the
// host.
func Directory(store, dir string, o *jailinit.Orders) (name string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the caller's mask
		return "", err
	}
	if err := linkProgram(store, filepath.Join(dir, path.Base(jailinit.StepProgram))); err != nil {
		return "", err
	}
	prune(dir, ordersPrefix, ordersAge) // those of further processes that the caller did not wait for
	name = atomicfile.Unique(ordersPrefix)
	at := filepath.Join(dir, name)
	if err := atomicfile.WriteNew(at, o.Encode(), 0o444); err != nil {
		return "", err
	}
	return name, os.Chmod(at, 0o444)
}

// linkProgram makes a link to the program's copy, unless there is one.
func linkProgram(store, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	copied, err := openCopy(store, "", guestMode)
	if err != nil {
		return err
	}
	defer copied.Close()
	return link(copied, to)
}

// ordersAge is how long orders stay at least: their process may take so long to read them.
const ordersAge = time.Minute
