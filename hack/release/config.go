package main

import (
	"strings"

	"agentjail.dev/runtime/spec/policy"
)

// configHead is how the policy file begins that a package brings.
const configHead = `# agentjail's policy: what jails are given. See /usr/share/doc/agentjail/docs/configuration.md.
#
# Every line is commented out, and shows the default. Only root may be able to write this file. Running jails keep the
# policy that they were made with.

`

// defaultConfig is the policy file of a package: all keys, commented out.
func defaultConfig() []byte {
	var b strings.Builder
	b.WriteString(configHead)
	for line := range strings.Lines(policy.Reference()) {
		if line != "\n" {
			b.WriteByte('#')
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}
