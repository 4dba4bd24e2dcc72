package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/flock"
)

// chunk bounds what is written at once.
const chunk = 64 << 10

// defaultMax bounds a journal's files together, in bytes, where a Log sets none.
const defaultMax = 4 << 20

// A Log appends to one jail's journal. Several processes may do so at a time: each holds a lock
// (flock(2)) while it writes.
//
// A journal is three files at most, each of a third of Max. The first is kept, since it reports how
// the jail began; the newest is written, and the one before it is kept until the newest is full.
type Log struct {
	Path      string
	Jail, Key string
	// Max bounds the journal, in bytes; 0 is defaultMax.
	Max int64
}

// Begin makes a jail's journal, and its directory, which no other user can write or read.
func (l *Log) Begin(events ...Event) error {
	flags := unix.O_CREAT | unix.O_EXCL
	err := l.append(flags, events)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(l.Path), 0o700); err == nil {
			err = l.append(flags, events)
		}
	}
	return err
}

// Append adds events to a journal that exists. The caller's events are not changed.
//
// Nothing is synchronised with the disk: what a crash of the machine loses, verification reports.
func (l *Log) Append(events ...Event) error { return l.append(0, events) }

func (l *Log) append(flags int, events []Event) error {
	if l.Path == "" {
		return ErrNone
	}
	w, err := l.open(flags)
	if err != nil {
		return fmt.Errorf("the journal: %w", err)
	}
	defer w.close()
	if err := w.add(l, events); err != nil {
		return fmt.Errorf("the journal: %w", err)
	}
	return nil
}

// A writer has the lock of a journal's newest file.
type writer struct {
	path string
	fd   int // no os.File, which would have the runtime's poller started for it
	size int64
	seq  uint64
	prev string
	torn bool // the file does not end with a line's end
}

func (w *writer) close() { unix.Close(w.fd) }

// open opens the newest file, and locks it.
func (l *Log) open(flags int) (*writer, error) {
	for {
		fd, err := unix.Open(l.Path, flags|unix.O_RDWR|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: l.Path, Err: err}
		}
		w := &writer{path: l.Path, fd: fd}
		current, err := w.lock(flags&unix.O_CREAT != 0)
		if err != nil {
			w.close()
			return nil, err
		}
		if current {
			return w, w.tail()
		}
		w.close() // it was rotated away meanwhile
	}
}

// lock waits for the lock, and reports whether the file is still the newest.
func (w *writer) lock(made bool) (current bool, err error) {
	fd := w.fd
	err = flock.Wait(fd, unix.LOCK_EX)
	var st, there unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		return false, &os.PathError{Op: "flock", Path: w.path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, fmt.Errorf("%s is not a file", w.path)
	}
	if made { // once for each journal
		var dir unix.Stat_t
		if err := unix.Lstat(filepath.Dir(w.path), &dir); err != nil {
			return false, err
		}
		if me := os.Geteuid(); dir.Uid != 0 && int(dir.Uid) != me || dir.Mode&0o022 != 0 {
			return false, fmt.Errorf("%s can be written by others than uid %d: run `chown %d` and `chmod 700` on it", filepath.Dir(w.path), me, me)
		}
	}
	w.size = st.Size
	if err := unix.Lstat(w.path, &there); err != nil {
		return false, nil
	}
	return st.Dev == there.Dev && st.Ino == there.Ino, nil
}

// tail reads the last line: its number and hash.
func (w *writer) tail() error {
	if w.size == 0 {
		return nil
	}
	data, err := w.last(2048) // of most lines it is enough
	if err == nil && bytes.Count(data, []byte("\n")) < 2 && w.size > int64(len(data)) {
		data, err = w.last(2*maxLine + 2)
	}
	if err != nil {
		return err
	}
	data, ended := bytes.CutSuffix(data, []byte("\n"))
	w.torn = !ended
	w.prev = hashLine(data[bytes.LastIndexByte(data, '\n')+1:])
	if w.seq = lastSeq(data); w.seq == 0 && w.size > int64(len(data))+1 {
		// The remains of a crash are longer than any line of ours.
		if data, err = w.last(maxTail); err == nil {
			w.seq = lastSeq(data)
		}
	}
	return err
}

// maxTail bounds what is read in search of a file's last event.
const maxTail = 16 << 20

// last reads the last n bytes.
func (w *writer) last(n int64) ([]byte, error) {
	at := max(0, w.size-n)
	data := make([]byte, w.size-at)
	got, err := unix.Pread(w.fd, data, at)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: w.path, Err: err}
	}
	return data[:got], nil
}

// lastSeq is the number of the last event in data; 0 is none.
func lastSeq(data []byte) uint64 {
	for len(data) > 0 {
		i := bytes.LastIndexByte(data, '\n')
		if seq := seqOf(data[i+1:]); seq > 0 {
			return seq
		}
		data = data[:max(i, 0)]
	}
	return 0
}

// hashLine is a line's hash: of its last maxLine bytes, for one that is none of ours and longer.
func hashLine(line []byte) string {
	sum := sha256.Sum256(line[max(0, len(line)-maxLine):])
	return hex.EncodeToString(sum[:])
}

// add writes events behind the last line.
func (w *writer) add(l *Log, events []Event) error {
	var buf []byte
	if w.torn {
		buf = append(buf, '\n')
		events = append([]Event{{Kind: JournalTorn}}, events...)
	}
	now := At(time.Now())
	var errs []error
	for _, e := range events {
		if e.Jail == "" {
			e.Jail, e.Key = l.Jail, l.Key
		}
		if e.Time == "" {
			e.Time = now
		}
		line, err := w.next(&e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		buf = append(append(buf, line...), '\n')
		if len(buf) >= chunk {
			if err := w.write(l, buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	if len(buf) > 0 {
		errs = append(errs, w.write(l, buf))
	}
	return errors.Join(errs...)
}

// next makes the next line of an event.
func (w *writer) next(e *Event) ([]byte, error) {
	e.Argv, e.Arguments = slices.Clone(e.Argv), slices.Clone(e.Arguments)
	if err := e.Complete(); err != nil {
		return nil, err
	}
	e.Clean()
	e.Seq, e.Prev = w.seq+1, w.prev
	line, err := e.line()
	if err != nil {
		return nil, err
	}
	w.seq, w.prev = e.Seq, hashLine(line)
	return line, nil
}

// write writes whole lines, or nothing.
func (w *writer) write(l *Log, buf []byte) error {
	limit := l.Max
	if limit <= 0 {
		limit = defaultMax
	}
	if w.size > 0 && w.size+int64(len(buf)) > limit/3 && !w.torn {
		return w.rotate(buf)
	}
	n, err := writeAll(w.fd, buf)
	if err != nil {
		_ = unix.Ftruncate(w.fd, w.size) // the lock is ours; a torn line is found by the next writer
		return &os.PathError{Op: "write", Path: w.path, Err: err}
	}
	w.size += int64(n)
	w.torn = false
	return nil
}

// rotate begins a new newest file with these lines. The names change so that there is a newest file
// at each moment.
func (w *writer) rotate(buf []byte) error {
	base := strings.TrimSuffix(w.path, suffix)
	fresh, err := unix.Open(base+".new", unix.O_CREAT|unix.O_TRUNC|unix.O_RDWR|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: base + ".new", Err: err}
	}
	fail := func(err error) error {
		unix.Close(fresh)
		_ = os.Remove(base + ".new")
		return err
	}
	if err := flock.Wait(fresh, unix.LOCK_EX); err != nil {
		return fail(err)
	}
	n, err := writeAll(fresh, buf)
	if err != nil {
		return fail(err)
	}
	to := base + firstSuffix
	if _, err := os.Lstat(to); err == nil {
		to = base + formerSuffix
	}
	_ = os.Remove(base + ".link")
	err = os.Link(w.path, base+".link")
	if err == nil {
		err = os.Rename(base+".link", to)
	}
	if err == nil {
		err = os.Rename(base+".new", w.path)
	}
	if err != nil {
		return fail(err)
	}
	w.close()
	w.fd, w.size, w.torn = fresh, int64(n), false
	return nil
}

// writeAll writes all of buf, and reports how much it wrote.
func writeAll(fd int, buf []byte) (n int, err error) {
	for n < len(buf) {
		m, err := unix.Write(fd, buf[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m <= 0:
			return n, unix.EIO
		default:
			n += m
		}
	}
	return n, nil
}
