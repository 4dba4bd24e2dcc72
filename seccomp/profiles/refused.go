// Package profiles holds data beside the profiles of system calls, which are JSON files in this
// directory.
package profiles

import _ "embed"

// Refused lists, as TOML, the calls that no profile lets pass, with the reason and what serves
// instead.
//
//go:embed refused.toml
var Refused []byte
