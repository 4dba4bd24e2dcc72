//go:build !amd64 && !arm64

package activator

var program []byte
