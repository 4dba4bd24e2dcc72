package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/lazyregexp"
)

// maxText bounds a file whose lines are shown, in bytes, and maxCompared the lines of all files
// that a Differ compares line by line: further files are shown as replaced.
const maxText, maxCompared = 1 << 20, 1 << 20

// A Differ writes changes as text. Patch is a patch for `git apply`; without it, the text is for a
// terminal.
type Differ struct {
	Upper, Directory *os.File
	Out              io.Writer
	Patch            bool
	// Left is called for each change that text cannot have.
	Left func(at, why string)
	// Stale reports that a file was not as its Sum has it: the jail changes it.
	Stale bool

	compared int             // lines
	without  map[string]bool // paths in whose place a patch leaves what was there
}

// A side is one file of a difference.
type side struct {
	there bool
	mode  uint32
	src   Source
	link  string
	sum   string
}

// newSide is what a change leaves at its path.
func newSide(c *Change) side {
	return side{there: c.Kind != Deleted, mode: c.New.Mode, src: c.Source, link: c.Target, sum: c.Sum}
}

// Write writes one change, or none of it. A removed directory is written file by file.
func (d *Differ) Write(ctx context.Context, c *Change) error {
	if m := c.Modes(); m != "" && !d.Patch {
		if _, err := fmt.Fprintf(d.Out, "mode %s  %s\n", printable.Line(c.Path, 0), m); err != nil {
			return err
		}
	}
	was := side{there: c.Old.Ino != 0, mode: c.Old.Mode, src: Source{Path: c.Path}}
	is := newSide(c)
	for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
		if d.without[dir] {
			d.Left(c.Path, "its directory is left out")
			return nil
		}
	}
	switch {
	case was.there && typeOf(was.mode) == Special:
		return d.leave(c.Path, "a device, socket or pipe is in its place")
	case is.there && c.Type == Special:
		return d.leave(c.Path, "it is a device, socket or pipe")
	case c.Kind != Type:
		if is.there {
			return d.pair(c.Path, was, is)
		}
		return d.removal(ctx, c.Path, was)
	}
	// Half a change would be another one.
	var text bytes.Buffer
	both, why := *d, ""
	both.Out, both.Left = &text, func(at, reason string) { why = printable.Line(at, 0) + ": " + reason }
	err := errors.Join(both.removal(ctx, c.Path, was), both.pair(c.Path, side{}, is))
	d.compared, d.Stale = both.compared, both.Stale
	if err == nil && why != "" {
		return d.leave(c.Path, "of the change of its type a patch cannot have "+why)
	}
	if err == nil {
		_, err = text.WriteTo(d.Out)
	}
	return err
}

// leave leaves a change out, and what is below its path.
func (d *Differ) leave(at, why string) error {
	if d.without == nil {
		d.without = map[string]bool{}
	}
	d.without[at] = true
	d.Left(at, why)
	return nil
}

// gitRefuses are the names that git takes for its own directory on some system (verify_path in its
// read-cache.c): a patch with one of them is refused as a whole. Of links, further ones.
var gitRefuses, gitRefusesLink = lazyregexp.New(`(?i)(^|[/\\])(\.git|git~1)[ .]*($|[:/\\])`),
	lazyregexp.New(`(?i)(^|[/\\])(\.gitmodules|gi[a-z0-9]{1,6}~[0-9]+)[ .]*($|[:/\\])`)

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
		if isDotGit(p) {
			d.Left(p, "a repository, which goes with its directory")
			continue
		}
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
		t := typeOf(s.mode)
		switch {
		case s.there && (t == Dir || t == Special):
			return nil
		case s.there && d.Patch && (gitRefuses().MatchString(at) || t == Link && gitRefusesLink().MatchString(at)):
			d.Left(at, "git refuses a patch with this name")
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
	body := unified(labels, texts[0], d.edits(texts[0], texts[1]))
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
	if !strings.ContainsFunc(at, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
		return at
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(at) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c <= ' ' || c > '~':
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
	case s.sum != "" && s.sum != sumOf(data):
		d.Stale = true
		return "", "the jail changes it"
	case slices.Contains(data, 0):
		return "", fmt.Sprintf("a binary file of %d bytes", len(data))
	}
	return string(data), ""
}

// Mark marks a change that comes from elsewhere, as a patch of the view's repository.
func (r *Review) Mark(c *Change) {
	r.w.mark(c)
	if why := r.w.known().at(c.Path); why != "" && !c.Has(Protected) {
		c.Marks = append(c.Marks, Mark{Protected, why})
	}
}

// Lines counts the added and removed lines of a change of a text file; false for others.
func (d *Differ) Lines(c *Change) (added, removed int, ok bool) {
	was := side{
		there: c.Old.Ino != 0 && typeOf(c.Old.Mode) != Dir && typeOf(c.Old.Mode) != Special, mode: c.Old.Mode,
		src: Source{Path: c.Path},
	}
	is := newSide(c)
	is.there = is.there && (c.Type == File || c.Type == Link)
	texts, why := d.texts(was, is)
	if why != "" {
		return 0, 0, false
	}
	for _, e := range d.edits(texts[0], texts[1]) {
		removed += lines(texts[0][e.Start:e.End])
		added += lines(e.New)
	}
	return added, removed, true
}

// edits returns what makes one text of another, at the boundaries of lines. Beyond maxCompared
// all that lies between their common beginning and end is replaced: comparing lines takes much
// more time than writing them.
func (d *Differ) edits(was, is string) []udiff.Edit {
	n := 0
	if was != "" && is != "" {
		n = lines(was) + lines(is)
	}
	if d.compared += n; n > 0 && d.compared <= maxCompared {
		return udiff.Lines(was, is)
	}
	d.compared -= n
	start, short := 0, min(len(was), len(is))
	for start < short && was[start] == is[start] {
		start++
	}
	if start == len(was) && start == len(is) {
		return nil
	}
	start = strings.LastIndexByte(was[:start], '\n') + 1
	end := 0
	for end < short-start && was[len(was)-end-1] == is[len(is)-end-1] {
		end++
	}
	// The common end begins after the end of a line in both.
	if at := strings.IndexByte(was[len(was)-end:], '\n'); at >= 0 {
		end -= at + 1
	} else {
		end = 0
	}
	return []udiff.Edit{{Start: start, End: len(was) - end, New: is[start : len(is)-end]}}
}

// contextLines is the number of lines that are shown around a change.
const contextLines = 3

// unified is a text's edits, which are at the boundaries of lines, as a unified difference
// (diff(1)); "" for none.
func unified(labels [2]string, was string, edits []udiff.Edit) string {
	if len(edits) == 0 {
		return ""
	}
	out, body := []byte("--- "+labels[0]+"\n+++ "+labels[1]+"\n"), []byte(nil)
	at, line, grown := 0, 0, 0 // line counts lines before at, grown how many more the other text has
	for i := 0; i < len(edits); {
		from := edits[i].Start
		for range contextLines {
			from = strings.LastIndexByte(was[:max(from-1, 0)], '\n') + 1
		}
		line += lines(was[at:from])
		at, body = from, body[:0]
		removed, added := 0, 0
		for ; i < len(edits) && lines(was[at:edits[i].Start]) <= 2*contextLines; i++ {
			e := edits[i]
			between := was[at:e.Start]
			body = prefixed(prefixed(prefixed(body, ' ', between), '-', was[e.Start:e.End]), '+', e.New)
			removed += lines(between) + lines(was[e.Start:e.End])
			added += lines(between) + lines(e.New)
			at = e.End
		}
		end := at
		for range contextLines {
			if n := strings.IndexByte(was[end:], '\n'); n >= 0 {
				end += n + 1
			} else {
				end = len(was)
			}
		}
		n := lines(was[at:end])
		body = prefixed(body, ' ', was[at:end])
		removed, added, at = removed+n, added+n, end
		out = append(out, "@@ -"+hunkRange(line, removed)+" +"+hunkRange(line+grown, added)+" @@\n"...)
		out = append(out, body...)
		line, grown = line+removed, grown+added-removed
	}
	return string(out)
}

// hunkRange is a range of lines in the head of a hunk, by the number of lines before.
func hunkRange(before, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return strconv.Itoa(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, n)
}

// prefixed adds lines with a sign before each.
func prefixed(to []byte, sign byte, text string) []byte {
	for text != "" {
		to = append(to, sign)
		n := strings.IndexByte(text, '\n')
		if n < 0 {
			return append(append(to, text...), "\n\\ No newline at end of file\n"...)
		}
		to, text = append(to, text[:n+1]...), text[n+1:]
	}
	return to
}

func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
