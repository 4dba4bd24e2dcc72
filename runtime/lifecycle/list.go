package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/state"
)

// List prints the containers of the delegate's root in runc's forms, and those of `agentjail
// sandbox` too if the caller names no root. A delegate that does not know of time namespaces takes
// live jails for stopped when it looks from outside: List queries those one by one, from inside.
func (r *Runtime) List(format string, quiet bool) error {
	if format != "" && format != "table" && format != "json" {
		return errors.New("invalid format option: table or json")
	}
	d, err := r.delegateFor(nil)
	if err != nil {
		return err
	}
	items, err := r.listed(d)
	if err != nil {
		return err
	}
	if own := ownRoot(r.Store); r.Globals.Root == "" && isDir(own) {
		more := *r
		more.Globals.Root = own
		owned, err := more.listed(d)
		if err != nil {
			return err
		}
		items = append(items, owned...)
	}
	switch {
	case quiet:
		for _, it := range items {
			fmt.Fprintln(r.out(), it.text("id"))
		}
		return nil
	case format == "json":
		text, err := json.Marshal(items)
		if err == nil {
			_, err = r.out().Write(append(printable.JSON(text), '\n'))
		}
		return err
	}
	t := tabwriter.NewWriter(r.out(), 12, 1, 3, ' ', 0)
	fmt.Fprint(t, "ID\tPID\tSTATUS\tBUNDLE\tCREATED\tOWNER\n")
	for _, it := range items {
		created := it.text("created")
		if c, err := time.Parse(time.RFC3339Nano, created); err == nil {
			created = c.Format(time.RFC3339Nano)
		}
		fmt.Fprintf(t, "%v\t%v\t%v\t%v\t%v\t%v\n", it.text("id"), it.text("pid"), it.text("status"),
			printable.Line(it.text("bundle"), 0), created, it.text("owner"))
	}
	return t.Flush()
}

// listed returns the containers below the delegate's root.
func (r *Runtime) listed(d *delegate.Runtime) ([]*object, error) {
	var items []*object
	err := r.Globals.query(d, delegate.Time{}, &items, "list", "--format", "json")
	if err == nil {
		items, err = r.withSandboxes(items)
	}
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		j, err := r.Store.Brief(state.Key(r.Globals.Root, it.text("id"))) // of this root, and no other
		if err != nil {
			continue
		}
		it.set("bundle", j.Bundle)
		if !r.Store.Complete(j).OwnTime || !j.InitAlive() {
			continue
		}
		if s, err := r.Globals.queryState(d, j); err == nil {
			it.put("status", s.values["status"])
			it.put("pid", s.values["pid"])
		} else if rootless.Inside() {
			// From the user namespace of this call, that of the jail cannot be entered.
			it.set("status", map[bool]string{true: "running", false: "created"}[j.Started])
			it.put("pid", json.RawMessage(strconv.Itoa(j.InitPid)))
		}
	}
	return items, nil
}

// withSandboxes adds the jails with a sandbox. Their delegate has a root for each, and lists none
// from the caller's.
func (r *Runtime) withSandboxes(items []*object) ([]*object, error) {
	keys, err := r.Store.Keys()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		j, err := r.Store.Brief(key)
		if err != nil || j.DelegateRoot != r.Globals.Root || sandboxOf(j) == "" {
			continue
		}
		d, err := r.delegateFor(j)
		if err != nil {
			return nil, err
		}
		if s, err := r.Globals.queryState(d, j); err == nil { // it may be gone meanwhile
			items = append(items, s)
		}
	}
	slices.SortStableFunc(items, func(a, b *object) int { return strings.Compare(a.text("id"), b.text("id")) })
	return items, nil
}

func isDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// queryState returns the delegate's state of a jail.
func (g Globals) queryState(d *delegate.Runtime, j *state.Brief) (*object, error) {
	t, err := inTime(j)
	if err != nil {
		return nil, err
	}
	s := new(object)
	return s, g.query(d, t, s, "state", j.ID)
}

// query decodes what a verb of the delegate prints, which is JSON.
func (g Globals) query(d *delegate.Runtime, t delegate.Time, into any, args ...string) error {
	if t.Join != nil {
		defer t.Join.Close()
	}
	out, code, err := d.Capture(append(g.Args(), args...), t)
	if err = exitError(code, err); err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("reading the delegate's %s: %w", args[0], err)
	}
	return nil
}
