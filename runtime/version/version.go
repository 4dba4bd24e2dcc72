// Package version reports which agentjail a program was built from.
package version

import (
	"cmp"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Version and Commit are set by the build (-ldflags -X).
var (
	Version = "0.1.0-dev"
	Commit  = ""
)

// Print answers in runc's form: dockerd looks for a line with "version", and for
// one that begins with "commit: " (moby daemon/info_unix.go).
func Print(out io.Writer) {
	fmt.Fprintf(out, "agentjail version %s\n", Version)
	fmt.Fprintf(out, "commit: %s\n", cmp.Or(Commit, builtFrom(), "unknown"))
	fmt.Fprintf(out, "spec: %s\n", specs.Version)
}

// builtFrom is the commit that the Go tool wrote into the program, "" where it was not built in a
// checkout.
func builtFrom() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
