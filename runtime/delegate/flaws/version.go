package flaws

import (
	"strings"

	"agentjail.dev/runtime/spec/traits"
)

// Version reads the first line of a delegate's --version: "runc version
// 1.1.5+ds1", "crun version 1.8.1". Text is the number as it stands there.
func Version(line string) (name string, r traits.Version, text string, ok bool) {
	name, text, found := strings.Cut(line, " version ")
	text = strings.TrimSpace(text)
	if !found {
		return "", traits.Version{}, "", false
	}
	r, ok = traits.ParseVersion(text)
	return name, r, text, ok
}
