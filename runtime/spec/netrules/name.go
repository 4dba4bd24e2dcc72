package netrules

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of names (RFC 1035 2.3.4).
const (
	maxName  = 253
	maxLabel = 63
)

// Canonical returns the form of a name in which names are compared: lower case, without a trailing
// dot. It returns an error for all that the grammar does not have: NUL, spaces, control characters,
// "%", "@", "/", empty labels, more than one trailing dot, bytes that are not ASCII, and every
// notation of an IP address. Nothing is cut off and nothing is decoded, so a name that passes means
// the same to every resolver.
func Canonical(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return "", errors.New("an empty name")
	}
	if len(name) > maxName {
		return "", fmt.Errorf("a name of %d bytes, at most %d", len(name), maxName)
	}
	name = lower(name)
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return "", err
		}
		last = label
	}
	if numeric(last) {
		return "", errors.New("an IP address where a name is expected")
	}
	if last == "localhost" {
		return "", errors.New("localhost is the jail's own")
	}
	return name, nil
}

// lower folds ASCII only: other letters are no part of a name, and folding them could make one
// (U+212A, KELVIN SIGN, becomes k).
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// checkLabel checks one label against the grammar.
func checkLabel(label string) error {
	if label == "" {
		return errors.New("an empty label")
	}
	if len(label) > maxLabel {
		return fmt.Errorf("a label of %d bytes, at most %d", len(label), maxLabel)
	}
	for i := 0; i < len(label); i++ {
		c := label[i]
		if ('a' > c || c > 'z') && ('0' > c || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("byte %#02x in a name", c)
		}
	}
	if label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("a label that begins or ends with -")
	}
	return nil
}

// numeric reports whether a last label makes the whole an IPv4 address: digits, or 0x and
// hexadecimal digits or nothing (WHATWG URL, "ends in a number checker"; inet_aton(3)).
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
