package apply

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/lazyregexp"
	"agentjail.dev/runtime/workspace/review"
)

// A Guard passes on what a jail's git prints, and ends before a patch of what an apply would leave
// out. Such a text is the jail's: any line counts that `git am` or `git apply` could take for the
// head of a patch (git-am(1), git-apply(1)).
type Guard struct {
	Options
	// Review returns the view's, for its marks. It is called at most once.
	Review func() (*review.Review, error)

	review *review.Review
	at     string // the file of the patch, where it is a link
	link   bool
	header bool // the line before was of a mail's Content-Type
}

// maxLine is how much of a line Guard reads, in bytes, and maxSpaces how many spaces the paths of a
// line have.
const maxLine, maxSpaces = 64 << 10, 64

var (
	headOfPatch = lazyregexp.New(`^(diff --git|---|\+\+\+|rename (?:from|to)|copy (?:from|to)) (.*)$`)
	linkMode    = lazyregexp.New(`^(new file mode|new mode|old mode|index .*) 120000$`)
	plain       = lazyregexp.New(`: *(8bit|7bit|binary)$`)
	charset     = lazyregexp.New(`charset\s*=\s*"?([^";\s]*)`)
)

// Copy passes on what it reads, whole lines at a time. Its error names what is left out with all
// that follows.
func (g *Guard) Copy(to io.Writer, from io.Reader) error {
	in := bufio.NewReaderSize(from, maxLine)
	for begin := true; ; {
		line, err := in.ReadSlice('\n')
		if begin {
			if err := g.judge(strings.TrimRight(string(line), "\r\n"), errors.Is(err, bufio.ErrBufferFull)); err != nil {
				return err
			}
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
		begin = !errors.Is(err, bufio.ErrBufferFull)
		if err == io.EOF {
			return nil
		}
		if err != nil && begin {
			return err
		}
	}
}

// judge refuses a line.
func (g *Guard) judge(line string, cut bool) error {
	lower := strings.ToLower(line)
	g.header = strings.HasPrefix(lower, "content-type:") || g.header && strings.TrimLeft(line, " \t") != line
	m := charset().FindStringSubmatch(lower)
	if g.header && m != nil && m[1] != "utf-8" && m[1] != "us-ascii" ||
		strings.HasPrefix(lower, "content-transfer-encoding:") && !plain().MatchString(lower) {
		return fmt.Errorf("the jail's patch is encoded: %s (remedy: agentjail workspace export)", printable.Line(line, 80))
	}
	if m = headOfPatch().FindStringSubmatch(line); m != nil {
		if cut || strings.Count(line, " ") > maxSpaces {
			return fmt.Errorf("the patch ends before a line that is too long, or has too many spaces: %s", printable.Line(line, 80))
		}
		if m[1] == "diff --git" {
			g.link = false
		}
		all := names(m[2])
		g.at = all[0]
		for _, at := range all {
			if err := g.check(at, ""); err != nil {
				return err
			}
		}
		return nil
	}
	switch target, added := strings.CutPrefix(line, "+"); {
	case linkMode().MatchString(line):
		g.link = true
	case g.link && line == "GIT binary patch":
		return g.check(g.at, "/")
	case g.link && added:
		return g.check(g.at, target)
	}
	return nil
}

// names are the paths that the rest of a patch's line can have, the one that lies highest first:
// without the first part and with it, and of two from each space on.
func names(text string) (out []string) {
	text, _, _ = strings.Cut(text, "\t")
	parts := []string{text}
	for i := range text {
		if text[i] == ' ' {
			parts = append(parts, text[i+1:])
		}
	}
	for _, at := range slices.Backward(parts) {
		if i := strings.IndexByte(at, '"'); i >= 0 {
			if plain, err := strconv.Unquote(strings.TrimSpace(at[i:])); err == nil {
				at = plain
			}
		}
		if _, rest, ok := strings.Cut(at, "/"); ok {
			out = append(out, rest)
		}
		out = append(out, at)
	}
	return out
}

// check refuses a path, or a link at it, that the options leave out.
func (g *Guard) check(at, target string) (err error) {
	if g.review == nil {
		if g.review, err = g.Review(); err != nil {
			return fmt.Errorf("looking at the view, for what the patch may have: %w", err)
		}
	}
	c := &review.Change{Kind: review.Modified, Type: review.File, Path: strings.TrimPrefix(path.Clean("/"+at), "/")}
	if c.New.Mode = unix.S_IFREG; target != "" {
		c.Type, c.Target, c.New.Mode = review.Link, target, unix.S_IFLNK
	}
	if c.Path == "" {
		return nil
	}
	if strings.Count(c.Path, "/") >= protect.DefaultLimits.Depth {
		return fmt.Errorf("the patch ends before a path in %d directories", protect.DefaultLimits.Depth)
	}
	g.review.Mark(c)
	if why := g.exclude(c); why != "" {
		return fmt.Errorf("the patch ends before %s: %s", printable.Line(c.Path, 0), why)
	}
	return nil
}
