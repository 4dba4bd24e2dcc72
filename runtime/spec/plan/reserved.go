package plan

import (
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
)

// devNodes are the names in /dev that the delegate makes or relies on: with one
// of them replaced it would mask paths with, or hand out, something else
// (CVE-2025-31133, CVE-2025-52565).
var devNodes = []string{
	"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "fd", "stdin", "stdout",
	"stderr", "core",
}

// Reserved returns why a bundle may not mount anything at a clean path of the jail except the
// standard mount; "" if it may.
func Reserved(at string) string {
	for _, dir := range []string{"/proc", "/sys"} {
		if pathname.Within(at, dir) {
			return "only the jail's own kernel file system is mounted in " + dir
		}
	}
	if at == "/dev" {
		return "the jail's device nodes are in /dev"
	}
	if rest, ok := strings.CutPrefix(at, "/dev/"); ok {
		if first, _, _ := strings.Cut(rest, "/"); slices.Contains(devNodes, first) {
			return "/dev/" + first + " is the jail's own"
		}
	}
	return ""
}
