package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/overlayfs"
)

// The first letters of tokens: of those with the files' content, and of those with their states.
const contentToken, stateToken = "c", "s"

// Token identifies chosen changes with their marks and content: two calls with one result have
// found the same. While a jail has the view (live), a file's content is read, and its change's Sum
// set: a write by a mapping need not show in the time of change (mmap(2)). Without a jail, each
// later write is by a new mount, in which the first one of a file sets its time.
func Token(ctx context.Context, upper *os.File, chosen []*Change, live bool) (string, error) {
	kind := stateToken
	if live {
		kind = contentToken
	}
	return token(ctx, upper, chosen, kind)
}

// IsToken reports whether a Token of the chosen changes is, or was, the one of an earlier call.
func IsToken(ctx context.Context, upper *os.File, chosen []*Change, of string) (bool, error) {
	kind := stateToken
	if strings.HasPrefix(of, contentToken) {
		kind = contentToken
	}
	now, err := token(ctx, upper, chosen, kind)
	return now == of, err
}

func token(ctx context.Context, upper *os.File, chosen []*Change, kind string) (string, error) {
	h := sha256.New()
	var s Summer
	for _, c := range chosen {
		content := fmt.Sprintf("%+v", c.New)
		if c.Type == Dir || c.Type == Link || c.Kind == Deleted {
			content = ""
		}
		if kind == contentToken && c.Source.Upper && c.Type == File && c.Kind != Deleted {
			if err := c.sum(ctx, &s, upper); err != nil {
				return "", err
			}
			content = c.Sum
		}
		fmt.Fprintf(h, "%q %q %q %q %q %o %q %q %q\n", c.Kind, c.Path, c.From, c.By, c.Type, c.New.Mode, c.Target, content, c.Marks)
	}
	return kind + hex.EncodeToString(h.Sum(nil)), nil
}

// sum sets the Sum of a change of a file of the layer. A file that is removed by now has none.
func (c *Change) sum(ctx context.Context, s *Summer, upper *os.File) error {
	c.Sum = "gone"
	fd, err := overlayfs.Beneath(int(upper.Fd()), c.Source.Path, unix.O_RDONLY)
	if err != nil {
		return nil //nolint:nilerr // staging meets the same
	}
	f := os.NewFile(uintptr(fd), c.Path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || typeOf(st.Mode) != File {
		return err
	}
	c.Sum, err = s.Sum(ctx, f, st.Size)
	return err
}

// A Summer makes the Sums of files.
type Summer struct{ buf []byte }

// sumBlock is the unit of a Sum, in bytes: a block of zeros is not in it.
const sumBlock = 64 << 10

var zeros [sumBlock]byte

// Sum identifies the first size bytes of a file. A hole counts as zeros, and is not read.
func (s *Summer) Sum(ctx context.Context, f *os.File, size int64) (string, error) {
	return s.sum(ctx, f, size, func(at int64) int64 { return nextData(f, at, size) })
}

// sumOf is the Sum of a file with a content.
func sumOf(data []byte) string {
	out, _ := new(Summer).sum(context.Background(), bytes.NewReader(data), int64(len(data)), func(at int64) int64 { return at })
	return out
}

func (s *Summer) sum(ctx context.Context, r io.ReaderAt, size int64, next func(int64) int64) (string, error) {
	if s.buf == nil {
		s.buf = make([]byte, 8+sumBlock)
	}
	h, buf := sha256.New(), s.buf
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(size)))
	for at := int64(0); at < size; at += sumBlock {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if at = next(at) &^ (sumBlock - 1); at >= size {
			break
		}
		binary.LittleEndian.PutUint64(buf, uint64(at))
		n, err := r.ReadAt(buf[8:min(8+sumBlock, 8+size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if !bytes.Equal(buf[8:8+n], zeros[:n]) {
			h.Write(buf[:8+n])
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
