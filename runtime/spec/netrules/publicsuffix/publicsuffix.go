// Package publicsuffix tells of wildcards below which strangers have names: "*.github.io" allows
// everybody's site, and a jail sends to any of them what it likes.
//
// It asks the public suffix list (publicsuffix.org) as golang.org/x/net has it. Of suffixes below
// the zone of an entry it does not know more than a short list of its own, since that package does
// not list them. It is apart from package rules, for its size.
package publicsuffix

import (
	"fmt"
	"slices"

	"golang.org/x/net/publicsuffix"

	"agentjail.dev/runtime/spec/netrules"
)

// above are zones above well-known public suffixes, or whose owner gives names in them to anybody
// without being in the list.
var above = []string{"amazonaws.com", "azure.com", "windows.net", "cloudapp.net", "googleusercontent.com", "google.com", "hf.co", "huggingface.co", "ngrok.com", "oraclecloud.com", "akamaized.net"}

// Warning reports what is wrong with the wildcard of a rule, or "".
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
