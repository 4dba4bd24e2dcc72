// Agentjail-egress-keys is agentjail-egress for a jail with credentials for which TLS or ssh is
// ended: it also speaks HTTP/2 and ssh. It is a program of its own, so that the helpers of all
// other jails stay small. It also makes the jail's own keys.
package main

import (
	"fmt"
	"os"
	"slices"

	"agentjail.dev/runtime/network/names/egress"
	"agentjail.dev/runtime/network/names/terminate"
	"agentjail.dev/runtime/spec/credential"
)

func main() {
	if slices.Equal(os.Args[1:], []string{credential.IssueVerb}) {
		if err := egress.IssueKeys(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(egress.Main(terminate.Protocols()))
}
