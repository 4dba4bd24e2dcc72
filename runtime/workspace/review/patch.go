package review

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/printable"
)

// maxText bounds a file whose lines are compared, in bytes.
const maxText = 1 << 20

// A Differ writes changes as text. Patch is a patch for `git apply`; without it, the text is for a
// terminal.
type Differ struct {
	Upper, Directory *os.File
	Out              io.Writer
	Patch            bool
	// Left is called for each change that text cannot have.
	Left func(at, why string)
}

// A side is one file of a difference.
type side struct {
	there bool
	mode  uint32
	src   Source
	link  string
}

// Write writes one change. A removed directory is written file by file.
func (d *Differ) Write(ctx context.Context, c *Change) error {
	if m := c.Modes(); m != "" && !d.Patch {
		if _, err := fmt.Fprintf(d.Out, "mode %s  %s\n", printable.Line(c.Path, 0), m); err != nil {
			return err
		}
	}
	was := side{there: c.Old.Ino != 0, mode: c.Old.Mode, src: Source{Path: c.Path}}
	is := side{there: c.Kind != Deleted, mode: c.New.Mode, src: c.Source, link: c.Target}
	if c.Type == Special && c.Kind != Deleted {
		d.Left(c.Path, "it is a device, socket or pipe")
		is.there = false
	}
	if was.there && typeOf(was.mode) == Special {
		d.Left(c.Path, "a device, socket or pipe is in its place")
		return nil
	}
	if was.there && (c.Kind == Type || !is.there) {
		if err := d.removal(ctx, c.Path, was); err != nil {
			return err
		}
		was = side{}
	}
	if !is.there {
		return nil
	}
	return d.pair(c.Path, was, is)
}

// removal writes that a file, or all in a directory, is removed.
func (d *Differ) removal(ctx context.Context, at string, was side) error {
	if typeOf(was.mode) != Dir {
		return d.pair(at, was, side{})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	fd, err := overlayfs.Beneath(int(d.Directory.Fd()), at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		d.Left(at, err.Error())
		return nil
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		p := path.Join(at, name)
		if err := d.removal(ctx, p, side{there: true, mode: st.Mode, src: Source{Path: p}}); err != nil {
			return err
		}
	}
	return nil
}

// gitMode is a file's mode as git has it.
func gitMode(mode uint32) string {
	switch {
	case typeOf(mode) == Link:
		return "120000"
	case mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// pair writes the difference of two files of one type.
func (d *Differ) pair(at string, was, is side) error {
	for _, s := range []side{was, is} {
		if t := typeOf(s.mode); s.there && (t == Dir || t == Special) {
			return nil
		}
	}
	var head strings.Builder
	from, to := d.name("a/", at), d.name("b/", at)
	fmt.Fprintf(&head, "diff --git %s %s\n", from, to)
	labels := [2]string{from, to}
	switch {
	case !was.there:
		labels[0] = "/dev/null"
		fmt.Fprintf(&head, "new file mode %s\n", gitMode(is.mode))
	case !is.there:
		labels[1] = "/dev/null"
		fmt.Fprintf(&head, "deleted file mode %s\n", gitMode(was.mode))
	case gitMode(was.mode) != gitMode(is.mode):
		fmt.Fprintf(&head, "old mode %s\nnew mode %s\n", gitMode(was.mode), gitMode(is.mode))
	}
	texts, why := d.texts(was, is)
	if why != "" && !d.Patch {
		_, err := fmt.Fprintf(d.Out, "%s(%s)\n", head.String(), why)
		return err
	}
	if why != "" {
		d.Left(at, why)
		return nil
	}
	body := udiff.Unified(labels[0], labels[1], texts[0], texts[1])
	if body == "" && was.there && is.there && gitMode(was.mode) == gitMode(is.mode) {
		if d.Patch {
			d.Left(at, fmt.Sprintf("git has no mode %04o", is.mode&0o777))
		}
		return nil
	}
	if d.Patch {
		_, err := io.WriteString(d.Out, head.String()+body)
		return err
	}
	return printable.Copy(d.Out, strings.NewReader(head.String()+body))
}

// name is a path in a patch, quoted as by git (quote_c_style in its quote.c).
func (d *Differ) name(prefix, at string) string {
	at = prefix + at
	if !strings.ContainsFunc(at, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' }) {
		return at
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(at) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// texts reads both sides, or returns why one has no lines.
func (d *Differ) texts(was, is side) (texts [2]string, why string) {
	for i, s := range []side{was, is} {
		if texts[i], why = d.text(s); why != "" {
			break
		}
	}
	return texts, why
}

// text reads a file whose lines can be compared, or returns why it is none.
func (d *Differ) text(s side) (text, why string) {
	if !s.there {
		return "", ""
	}
	root := d.Directory
	if s.src.Upper {
		root = d.Upper
	}
	if typeOf(s.mode) == Link {
		if s.link != "" {
			return s.link, ""
		}
		fd, err := overlayfs.Beneath(int(root.Fd()), s.src.Path, unix.O_PATH)
		if err != nil {
			return "", err.Error()
		}
		defer unix.Close(fd)
		if text, err = openat.Readlink(fd, ""); err != nil {
			return "", err.Error()
		}
		return text, ""
	}
	fd, err := overlayfs.Beneath(int(root.Fd()), s.src.Path, unix.O_RDONLY)
	if err != nil {
		return "", err.Error()
	}
	f := os.NewFile(uintptr(fd), s.src.Path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", "it is another file by now"
	}
	if st.Size > maxText {
		return "", fmt.Sprintf("a file of %d bytes", st.Size)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return "", err.Error()
	case len(data) > maxText:
		return "", "the file grows"
	case slices.Contains(data, 0):
		return "", fmt.Sprintf("a binary file of %d bytes", len(data))
	}
	return string(data), ""
}

// Lines counts the added and removed lines of a change of a text file; false for others.
func (d *Differ) Lines(c *Change) (added, removed int, ok bool) {
	was := side{
		there: c.Old.Ino != 0 && typeOf(c.Old.Mode) != Dir && typeOf(c.Old.Mode) != Special, mode: c.Old.Mode,
		src: Source{Path: c.Path},
	}
	is := side{there: c.Kind != Deleted && (c.Type == File || c.Type == Link), mode: c.New.Mode, src: c.Source, link: c.Target}
	texts, why := d.texts(was, is)
	if why != "" {
		return 0, 0, false
	}
	for _, e := range udiff.Lines(texts[0], texts[1]) {
		removed += lines(texts[0][e.Start:e.End])
		added += lines(e.New)
	}
	return added, removed, true
}

func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
