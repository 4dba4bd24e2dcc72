package apply

import (
	"context"
	"errors"
	"fmt"
	"os"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/review"
)

// Open opens a recorded view. The caller calls the result's Close.
func Open(s workspace.Store, r *workspace.Record) (*View, error) {
	layers, err := s.OpenLayers(r)
	if err != nil {
		return nil, err
	}
	applied, err := s.Applied(r)
	if err != nil {
		layers.Close()
		return nil, err
	}
	bases, err := s.Bases(r)
	if layers.Live || r.State == workspace.Incomplete || errors.Is(err, os.ErrNotExist) {
		bases, err = review.Bases(context.Background(), layers.Upper, layers.Lower, bases, len(applied) > 0)
	}
	if err != nil {
		layers.Close()
		return nil, err
	}
	return &View{
		ID: r.ID, UID: r.UID, GID: r.GID, Upper: layers.Upper, Directory: layers.Lower, Live: layers.Live,
		Journal: s.Journal(r), Locks: s.Locks(), Applied: applied, Bases: bases, Save: func(v *View) error {
			return errors.Join(s.SaveApplied(r, v.Applied), s.SaveBases(r, v.Bases))
		}, close: layers.Close, began: s.Began,
	}, nil
}

// Close closes a view that Open opened, and its lock.
func (v *View) Close() {
	v.lock.Close()
	v.close()
}

// Review compares a view with its directory.
func (v *View) Review(ctx context.Context, r *workspace.Record, unprotect []string) (*review.Review, error) {
	since, back, err := v.began(r)
	if err != nil {
		return nil, err
	}
	return review.Of(ctx, v.Upper, v.Directory, review.Options{
		Since: since, Back: back, Applied: v.Applied, Bases: v.Bases, Hide: r.Hide, Unprotect: unprotect, Path: r.Path,
		Search: protect.For(r.Path, v.UID, nil),
	})
}

// RecoverAll finishes every apply that was cut off: all of it is done then, or taken back. It
// reports each in a line.
func RecoverAll(ctx context.Context, s workspace.Store) (lines []string, err error) {
	all, err := s.List()
	errs := []error{err}
	for _, r := range all {
		if !isPending(s.Journal(r)) {
			continue
		}
		line, err := recoverOne(ctx, s, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("finishing the apply of view %s that was cut off: %w", r.ID, err))
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines, errors.Join(errs...)
}

func recoverOne(ctx context.Context, s workspace.Store, r *workspace.Record) (string, error) {
	v, err := Open(s, r)
	if err != nil {
		return "", err
	}
	defer v.Close()
	if err := v.Lock(); errors.Is(err, errBusy) {
		return fmt.Sprintf("view %s: an apply works in %s: it is of this view, or this one's that was cut off is finished afterwards, by `agentjail gc`", r.ID, r.Path), nil
	} else if err != nil {
		return "", err
	}
	out, done, pending, err := v.recoverJournal(ctx)
	if err != nil || !pending {
		return "", err
	}
	line := fmt.Sprintf("view %s: an apply that was cut off is undone", r.ID)
	if done {
		line = fmt.Sprintf("view %s: an apply that was cut off is finished", r.ID)
	}
	for _, k := range out.Kept {
		line += "; " + k.String()
	}
	return line, nil
}
