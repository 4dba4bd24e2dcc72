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

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/overlayfs"
)

// Token identifies chosen changes with their marks and content: two calls with one result have found
// the same. It sets the Sum of each change, whose content may be another one afterwards.
func Token(ctx context.Context, upper *os.File, chosen []*Change) (string, error) {
	h := sha256.New()
	for _, c := range chosen {
		content := fmt.Sprintf("%+v", c.New)
		if c.Type == Dir || c.Type == Link || c.Kind == Deleted {
			content = ""
		}
		if c.Source.Upper && c.Type == File && c.Kind != Deleted {
			if err := c.sum(ctx, upper); err != nil {
				return "", err
			}
			content = c.Sum
		}
		fmt.Fprintf(h, "%q %q %q %q %q %o %q %q %q\n", c.Kind, c.Path, c.From, c.By, c.Type, c.New.Mode, c.Target, content, c.Marks)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sum sets the Sum of a change of a file of the layer. What the jail has removed since has none.
func (c *Change) sum(ctx context.Context, upper *os.File) error {
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
	c.Sum, err = Sum(ctx, f, st.Size)
	return err
}

// sumBlock is the unit of Sum, in bytes: a block of zeros is not in it.
const sumBlock = 64 << 10

// Sum identifies the first size bytes of a file. A hole counts as zeros, and is not read.
func Sum(ctx context.Context, f *os.File, size int64) (string, error) {
	return sum(ctx, f, size, func(at int64) int64 { return nextData(f, at, size) })
}

// sumOf is the Sum of a file with a content.
func sumOf(data []byte) string {
	out, _ := sum(context.Background(), bytes.NewReader(data), int64(len(data)), func(at int64) int64 { return at })
	return out
}

func sum(ctx context.Context, r io.ReaderAt, size int64, next func(int64) int64) (string, error) {
	h, zeros := sha256.New(), make([]byte, sumBlock)
	buf := make([]byte, 8+sumBlock)
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
