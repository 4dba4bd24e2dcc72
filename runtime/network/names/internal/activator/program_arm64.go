package activator

import _ "embed"

//go:embed activator.arm64
var program []byte
