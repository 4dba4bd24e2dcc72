// Package secret is a value that is never shown: whatever prints, marshals or logs one gets a word
// in its place. Who needs the value itself reports it by Reveal.
package secret

import (
	"fmt"
	"io"
)

// Redacted stands in a value's place.
const Redacted = "[redacted]"

// A Value is a secret. The zero value is none.
type Value struct{ text []byte }

// New takes text over: the caller does not use it again.
func New(text []byte) Value { return Value{text} }

// Reveal is the secret itself, not to be kept and not to be changed.
func (v Value) Reveal() []byte { return v.text }

// Empty reports whether there is none.
func (v Value) Empty() bool { return len(v.text) == 0 }

// Wipe overwrites the secret, for all copies of the Value.
func (v Value) Wipe() { clear(v.text) }

// String is not the secret.
func (v Value) String() string { return Redacted }

// GoString is not the secret.
func (v Value) GoString() string { return Redacted }

// Format is not the secret, whatever the verb.
func (v Value) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, Redacted) }

// MarshalText is not the secret, in JSON and other formats.
func (v Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalJSON is not the secret.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }
