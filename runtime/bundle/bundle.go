// Package bundle reads and writes OCI bundles. Input is hostile: sizes are
// bounded, and what this version does not know is named and left out.
package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// ConfigName is the spec's file name within a bundle (OCI runtime-spec,
// bundle.md).
const ConfigName = "config.json"

// MaxConfig bounds config.json in bytes; engines write some tens of thousands.
const MaxConfig = 8 << 20

// Bundle is an OCI bundle with its spec.
type Bundle struct {
	Dir  string // absolute
	Spec *specs.Spec
	// Unknown lists the fields of config.json that the specification's Go types
	// do not have, as dotted paths. They are not written again.
	Unknown []string
}

// Load reads DIR/config.json.
func Load(dir string) (*Bundle, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", dir, err)
	}
	data, err := ReadFile(filepath.Join(abs, ConfigName), MaxConfig)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("JSON specification file %s not found in bundle %s", ConfigName, abs)
		}
		return nil, err
	}
	b := &Bundle{Dir: abs, Spec: new(specs.Spec)}
	if b.Unknown, err = Decode(data, b.Spec); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(abs, ConfigName), err)
	}
	return b, nil
}

// ReadFile reads a regular file of at most max bytes, not following a symbolic
// link in the last component.
func ReadFile(path string, max int64) ([]byte, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if st.Size > max {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", path, st.Size, max)
	}
	data := make([]byte, 0, st.Size+1)
	for {
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return data, nil
		}
		data = data[:len(data)+n]
		if int64(len(data)) > max {
			return nil, fmt.Errorf("%s has more than the %d bytes that are read", path, max)
		}
		if len(data) == cap(data) { // it has grown
			data = slices.Grow(data, 512)
		}
	}
}

// Decode reads one JSON document into v, which is a pointer to a struct, and
// returns the fields that v's type does not have.
func Decode(data []byte, v any) ([]string, error) {
	alike, err := scan(data)
	if err != nil {
		return nil, err
	}
	// Most bundles have nothing unknown, which the decoder itself can tell.
	if strict := reflect.New(reflect.TypeOf(v).Elem()); !alike && decodeStrict(data, strict.Interface()) {
		reflect.ValueOf(v).Elem().Set(strict.Elem())
		return nil, nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, jsonError(err)
	}
	return unknownFields(data, v)
}

// decodeStrict says whether data is one document whose every field v has.
func decodeStrict(data []byte, v any) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if dec.Decode(v) != nil {
		return false
	}
	_, err := dec.Token()
	return err == io.EOF
}

// jsonError names the field for wrong types and the place for everything else,
// as the decoder's own text does not always.
func jsonError(err error) error {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		if te.Field == "" {
			return fmt.Errorf("is a JSON %s, not an object", te.Value)
		}
		return fmt.Errorf("field %s cannot be a %s", clip(te.Field), clip(te.Value))
	}
	var se *json.SyntaxError
	if errors.As(err, &se) {
		return fmt.Errorf("not JSON at byte %d: %w", se.Offset, err)
	}
	return err
}

// Save writes the spec to DIR/config.json with mode 0600, replacing it in one
// step.
func (b *Bundle) Save() error {
	data, err := json.Marshal(b.Spec)
	if err != nil {
		return fmt.Errorf("encoding the spec: %w", err)
	}
	return WriteFile(filepath.Join(b.Dir, ConfigName), data, 0o600)
}

// Unique makes a file's name that nobody else makes meanwhile, of prefix, our
// process id and a number.
func Unique(prefix string) string {
	return fmt.Sprintf("%s%d.%d", prefix, os.Getpid(), names.Add(1))
}

var names atomic.Uint64

// WriteFile replaces path with data in one step; readers see the old or the
// new content. There is no fsync: what is written here is void after a reboot.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	tmp := Unique(path+".") + ".tmp"
	err := write(tmp, data, unix.O_TRUNC, mode)
	if err == nil {
		err = unix.Rename(tmp, path)
	}
	if err != nil {
		_ = unix.Unlink(tmp)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// WriteNew writes a file that nobody has written or looks for yet: an error
// wraps os.ErrExist where there is something.
func WriteNew(path string, data []byte, mode os.FileMode) error {
	if err := write(path, data, unix.O_EXCL, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// write goes without os.File, which asks the kernel of each file whether it can
// be waited for.
func write(path string, data []byte, flags int, mode os.FileMode) error {
	fd, err := open(path, unix.O_WRONLY|unix.O_CREAT|flags, mode)
	if err != nil {
		return err
	}
	for len(data) > 0 && err == nil {
		var n int
		if n, err = unix.Write(fd, data); err == unix.EINTR {
			err = nil
		} else if err == nil {
			data = data[n:]
		}
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

func open(path string, flags int, mode os.FileMode) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, uint32(mode.Perm()))
		if err != unix.EINTR {
			return fd, err
		}
	}
}
