package policy

import (
	"fmt"
	"math"
	"strings"

	"github.com/docker/go-units"
)

// Size is a number of bytes. In text it may carry a unit as Docker's options do: k, m, g or t,
// KB or KiB, in any case, all powers of 1024.
type Size int64

// ParseSize reads a size such as "512MiB", "512m" or "1.5G".
func ParseSize(s string) (Size, error) {
	t := strings.TrimSpace(s)
	v, err := units.RAMInBytes(t)
	// What is too large for the type is converted to a value that depends on the architecture. A
	// fraction of a byte has surely lost its unit.
	if err != nil || v < 0 || v == math.MaxInt64 || strings.Contains(t, ".") && strings.Trim(t, "0123456789.") == "" {
		return 0, fmt.Errorf("%q is not a size (examples: 536870912, 512m, 1GiB)", s)
	}
	return Size(v), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err == nil {
		*s = v
	}
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the size with the largest unit that leaves a whole number.
func (s Size) String() string {
	for _, u := range []struct {
		suffix string
		factor Size
	}{{"TiB", units.TiB}, {"GiB", units.GiB}, {"MiB", units.MiB}, {"KiB", units.KiB}} {
		if s != 0 && s%u.factor == 0 {
			return fmt.Sprintf("%d%s", s/u.factor, u.suffix)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}
