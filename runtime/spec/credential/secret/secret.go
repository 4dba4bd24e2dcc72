// Package secret is a value that is never shown: code that prints, marshals or logs it gets
// redacted in its place. Only Reveal returns the value itself.
package secret

import (
	"fmt"
	"io"
)

// redacted is printed in a value's place.
const redacted = "[redacted]"

// A Value is a secret. The zero value is empty.
type Value struct{ text []byte }

// New wraps text, which the caller must not use again.
func New(text []byte) Value { return Value{text} }

// Reveal returns the secret itself. The caller neither keeps nor changes it.
func (v Value) Reveal() []byte { return v.text }

// Empty reports whether there is no secret.
func (v Value) Empty() bool { return len(v.text) == 0 }

// Wipe overwrites the secret, for all copies of the Value.
func (v Value) Wipe() { clear(v.text) }

// String returns Redacted.
func (v Value) String() string { return redacted }

// GoString returns Redacted.
func (v Value) GoString() string { return redacted }

// Format prints Redacted for every verb.
func (v Value) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText returns Redacted, for JSON and other formats.
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns Redacted as JSON.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
