package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"agentjail.dev/runtime/spec/policy"
)

// configPage is the name of the manual page of the policy file, and configSection its section.
const (
	configPage    = "agentjail-config"
	configSection = "5"
)

// configManual is the manual page of the policy file, made of the table of its keys.
func configManual(version string, at time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s %s %s %s\n", strings.ToUpper(roff(configPage)), configSection, at.Format(time.DateOnly), quoted("agentjail "+version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- the policy file of agentjail\n.SH SYNOPSIS\n%s\n.SH DESCRIPTION\n", roff(configPage), roff(policy.DefaultPath))
	b.WriteString(roffLine("The file is TOML. Only root may be able to write it. Without it, the defaults below hold; an unknown key is an error."))
	b.WriteString(roffLine("A table [policies.NAME], or a file policies.d/NAME.toml beside it, has the same keys for the named policy NAME."))
	b.WriteString(roffLine("`agentjail policy validate` lists mistakes."))
	b.WriteString(".SH KEYS\n")
	for _, k := range policy.Keys {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR = %s\n%s", roff(k.Name), roff(k.Default()), roffLine(k.About))
		if k.OneOf != nil {
			fmt.Fprintf(&b, ".br\n%s", roffLine("One of "+strings.Join(k.OneOf, ", ")+"."))
		} else {
			fmt.Fprintf(&b, ".br\n%s", roffLine("Value: "+k.Type()+"."))
		}
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n.BR agentjail (%s),\n.BR agentjail\\-policy (%s),\n/usr/share/doc/agentjail\n", section, section)
	return b.Bytes()
}
