package main

import (
	"errors"
	"strings"
)

// configHead is how the policy file begins that a package brings.
const configHead = `# agentjail's policy: what jails are given. See /usr/share/doc/agentjail/docs/configuration.md.
#
# Every line is commented out, and shows the default. Only root may be able to write this file. Running jails keep the
# policy that they were made with.

`

// defaultConfig is the policy file of a package: the reference of docs/configuration.md, commented
// out. Tests of the policy hold that reference against the code.
func defaultConfig(reference string) ([]byte, error) {
	_, rest, ok := strings.Cut(reference, "\n## Keys\n\n```toml\n")
	block, _, ok2 := strings.Cut(rest, "\n```\n")
	if !ok || !ok2 {
		return nil, errors.New("docs/configuration.md has no reference of the keys")
	}
	var b strings.Builder
	b.WriteString(configHead)
	for line := range strings.SplitSeq(block, "\n") {
		if line != "" {
			b.WriteString("#" + line)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String()), nil
}
