package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. In text it may carry a unit: B, KiB, MiB, GiB,
// TiB, or the short forms K, M, G, T, all powers of 1024.
type Size int64

var units = []struct {
	suffix string
	factor float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"B", 1}, {"", 1},
}

// ParseSize reads a size such as "512MiB" or "1.5G".
func ParseSize(s string) (Size, error) {
	t := strings.TrimSpace(s)
	for _, u := range units {
		num, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		num = strings.TrimSpace(num)
		if u.factor == 1 && strings.ContainsAny(num, ".eE") {
			break // surely a unit is missing
		}
		v, err := strconv.ParseFloat(num, 64)
		if err != nil || math.IsNaN(v) || v < 0 || v*u.factor >= math.MaxInt64 {
			break
		}
		return Size(v * u.factor), nil
	}
	return 0, fmt.Errorf("%q is not a size (examples: 512MiB, 1GiB)", s)
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
	for _, u := range units[:4] {
		if s != 0 && int64(s)%int64(u.factor) == 0 {
			return fmt.Sprintf("%d%s", int64(s)/int64(u.factor), u.suffix)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}
