package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/traits"
)

// Dead reports that no process will ever delete this jail: it is of an earlier boot, or its maker
// and its first process are gone and neither the delegate nor the engine knows it any more. A jail
// that ends with its maker is dead without it, even if its first process runs. A jail of another
// PID namespace is never dead, since its processes are not known.
func (j *Brief) Dead() bool {
	if j.BootID != BootID() {
		return true
	}
	if !j.creator().Gone() {
		return false
	}
	if j.Bound {
		return true
	}
	if !j.Ended && !j.Init().Gone() {
		return false
	}
	if _, err := os.Lstat(j.DelegateState()); err == nil {
		// The delegate still lists it; while the engine's bundle is there, a
		// delete is to come.
		_, err := os.Lstat(j.Bundle)
		return errors.Is(err, os.ErrNotExist)
	}
	return true
}

// DelegateState is the directory, or file, that the delegate keeps for the container.
func (j *Brief) DelegateState() string {
	return traits.Of(j.Delegate).StateOf(j.Delegate, j.DelegateRoot, j.ID)
}

// Sweep finds the remains of crashes and passes each dead jail to reap, which undoes and removes
// it, locked. Sweep looks at no more than max jails, starting at a random one, and leaves out the
// one called but; max < 0 means all.
func (s Store) Sweep(ctx context.Context, max int, but string, reap func(*Brief) error) (reaped []string, err error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == but })
	if max >= 0 && len(keys) > max {
		// The directory's order is that of a hash. Starting at a random jail reaches every jail in
		// the end.
		at := rand.IntN(len(keys))
		keys = append(keys[at:], keys[:at]...)[:max]
	}
	var errs []error
	for _, k := range keys {
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("interrupted before %s: %w", k, err))
			return reaped, errors.Join(errs...)
		}
		if max >= 0 && s.runs(k) {
			continue
		}
		got, err := s.Reclaim(k, false, reap)
		if err != nil {
			errs = append(errs, err)
		}
		if got {
			reaped = append(reaped, k)
		}
	}
	if max < 0 {
		errs = append(errs, s.sweepIDs())
	}
	return reaped, errors.Join(errs...)
}

// runs reports, without reading the record, that a jail is not dead, for most jails of which that
// is so. After another boot another process could have the same number and start: that case is for
// the walk over all jails.
func (s Store) runs(key string) bool {
	pid, start, _, ok := s.first(key)
	return ok && (Process{Pid: pid, Start: start, BootID: BootID()}).Alive()
}

// Reclaim is Sweep of one jail. A jail that another process is removing is left to that process, or
// with wait reclaimed once that process has been killed: for a caller that no other call follows.
func (s Store) Reclaim(key string, wait bool, reap func(*Brief) error) (reaped bool, err error) {
	if strings.HasPrefix(key, newPrefix) {
		if makerAlive(key) {
			return false, nil
		}
		return true, s.Remove(key)
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	unlock, err := s.lock(key, how)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	j, err := s.Brief(key)
	switch {
	case errors.Is(err, ErrNotFound): // an interrupted Remove
		return true, s.Remove(key)
	case err != nil:
		return false, err
	case !j.Dead():
		return false, nil
	}
	if err := reap(j); err != nil {
		return false, fmt.Errorf("reclaiming %s: %w", j.ID, err)
	}
	return true, nil
}

// sweepIDs frees blocks whose users are gone.
func (s Store) sweepIDs() error {
	dir := filepath.Join(s.Root, "ids")
	blocks, err := readNames(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range blocks {
		users, err := readNames(filepath.Join(dir, b))
		if err != nil {
			continue
		}
		for _, k := range users {
			if _, err := os.Lstat(s.Dir(k)); errors.Is(err, os.ErrNotExist) {
				if err := os.Remove(filepath.Join(dir, b, k)); err != nil && !errors.Is(err, os.ErrNotExist) {
					errs = append(errs, err)
				}
			}
		}
		_ = os.Remove(filepath.Join(dir, b)) // only when empty
	}
	return errors.Join(errs...)
}

// makerAlive reports whether a directory may just be being made, by the PID namespace and the pid
// in its name.
func makerAlive(key string) bool {
	rest, ok := strings.CutPrefix(key, newPrefix)
	if !ok {
		return false
	}
	ns, rest, _ := strings.Cut(rest, ".")
	pid, _, _ := strings.Cut(rest, ".") // atomicfile.Unique
	space, err := strconv.ParseUint(ns, 10, 64)
	n, perr := strconv.Atoi(pid)
	if errors.Join(err, perr) != nil {
		return false
	}
	if space != PIDNS() {
		return true // nothing is known of it
	}
	_, st, err := StartTime(n)
	return err == nil && !hasEnded(st)
}
