//go:build !(cgo && libseccomp)

package main

// delegateNote states in the help what this program can prove of the delegate's filter.
const delegateNote = "The delegate's\nown filter, which its libseccomp compiles, is proved by `make prove` in agentjail's\nsource, and where it is loaded by --jail: this program has no libseccomp."

// proveDelegate proves nothing: this program has no libseccomp.
func proveDelegate(string, string) ([]proof, error) { return nil, nil }
