package activator

import _ "embed"

//go:embed activator.amd64
var program []byte
