package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// Size is a number of bytes. In text it may carry a unit as Docker's options do: k, m, g or t,
// KB or KiB, in any case, all powers of 1024.
type Size int64

// ParseSize reads a size such as "512MiB", "512m" or "1.5G".
func ParseSize(s string) (Size, error) {
	t := strings.TrimSpace(s)
	v, err := units.RAMInBytes(t)
	// A number that is too large for the type becomes a value that depends on the architecture. A
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

// Span is a length of time. In text it is a whole number with a unit: s, m, h, d or w.
type Span time.Duration

// spanUnits are the units of a Span, the largest first.
var spanUnits = []struct {
	suffix string
	length time.Duration
}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

// maxSpan keeps a Span far from what a time can hold.
const maxSpan = 100 * 365 * 24 * time.Hour

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	for _, u := range spanUnits {
		digits, ok := strings.CutSuffix(string(text), u.suffix)
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || n > uint64(maxSpan/u.length) {
			continue
		}
		*s = Span(time.Duration(n) * u.length)
		return nil
	}
	return fmt.Errorf("%q is not a time (examples: 90m, 12h, 30d, 8w)", clipped(string(text)))
}

// MarshalText implements encoding.TextMarshaler.
func (s Span) MarshalText() ([]byte, error) {
	for _, u := range spanUnits {
		if d := time.Duration(s); d != 0 && d%u.length == 0 {
			return fmt.Appendf(nil, "%d%s", d/u.length, u.suffix), nil
		}
	}
	return []byte("0s"), nil
}
