// Package publicsuffix warns of wildcards below which strangers own names: "*.github.io" allows the
// site of every GitHub user, and a jail can send data to each of them.
//
// It uses the public suffix list (publicsuffix.org) of golang.org/x/net. That package does not list
// suffixes below the zone of an entry, so a short list of such zones is here. It is apart from
// package netrules because of the list's size.
package publicsuffix

import (
	"fmt"
	"slices"

	"golang.org/x/net/publicsuffix"

	"agentjail.dev/runtime/spec/netrules"
)

// above are zones above well-known public suffixes, and zones that are not in the list although
// their owner assigns names to everyone.
var above = []string{
	"amazonaws.com", "azure.com", "windows.net", "cloudapp.net", "googleusercontent.com", "google.com", "hf.co",
	"huggingface.co", "ngrok.com", "oraclecloud.com", "akamaized.net",
}

// Warning returns the warning about a rule's wildcard, or "".
func Warning(r *netrules.Rule) string {
	if !r.Wildcard {
		return ""
	}
	suffix, icann := publicsuffix.PublicSuffix(r.Name)
	below, byRegistry := publicsuffix.PublicSuffix("name." + r.Name) // a zone in which each name is a suffix
	switch {
	case suffix == r.Name && icann:
		return fmt.Sprintf("*.%s is a registry's zone: anybody can buy a name in it", r.Name)
	case suffix == r.Name, below == "name."+r.Name && !byRegistry, slices.Contains(above, r.Name):
		return fmt.Sprintf("strangers have names below %s, and receive what is sent to them", r.Name)
	}
	return ""
}
