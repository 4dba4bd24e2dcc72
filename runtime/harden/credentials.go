package harden

import (
	"fmt"
	"maps"
	"strings"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// credentials reports which credentials the jail can use, and sets their placeholders. In a
// joined network they are the first jail's.
func credentials(p *pass) {
	if !p.network.ByRules {
		return
	}
	if p.f.Host.Rootless {
		for _, name := range p.pol.Credentials.Names() {
			p.change(rings.Access, report.Dropped, "credentials."+name, "", "", "a user's own engine could not keep it from that user")
		}
		p.pol.Credentials = nil
		return
	}
	rules, err := p.pol.Network.Rules()
	if err != nil {
		return // policy was validated: with nothing allowed nothing can be used
	}
	usable := p.pol.Credentials.Usable(rules)
	if p.f.Placeholders != nil {
		own := maps.Clone(p.f.Placeholders)
		maps.DeleteFunc(own, func(name, _ string) bool { _, ok := usable[name]; return !ok })
		p.pol.Credentials = p.pol.Credentials.With(own)
	}
	for _, name := range p.pol.Credentials.Names() {
		c := p.pol.Credentials[name]
		header, _ := c.Field()
		field := "credentials." + name
		for _, h := range c.Hosts {
			if v := rules.Match(c.Endpoint(h)); !v.OK {
				p.change(rings.Access, report.Dropped, field, h, "", "the network does not allow the host: "+v.Reason)
				continue
			}
			if c.ForSSH() {
				header = "ssh as " + c.SSH
			}
			p.change(rings.Access, report.Set, field, "", fmt.Sprintf("%s at %s", header, h),
				"it can be used there, and not read: "+c.Ways(h))
		}
	}
	if p.f.Authority != "" && len(usable.Ended()) > 0 {
		p.plan.Authority = p.f.Authority
		p.change(rings.Access, report.Set, "trusted certificates", "", "the jail's own authority",
			"the helper ends TLS to "+strings.Join(usable.Ended(), ", "))
	}
	if servers := usable.Servers(); p.f.HostKey != "" && len(servers) > 0 {
		for _, s := range servers {
			p.plan.KnownHosts += s + " " + p.f.HostKey + "\n"
		}
		p.change(rings.Access, report.Set, plan.KnownHostsFile, "", "the jail's own key",
			"the helper is the server of ssh for "+strings.Join(servers, ", "))
	}
	placeholders(p)
}

// placeholders sets the variables of credentials in a process's environment, also for an exec. A
// variable that the process already has stays. Shapes, which explain shows, are never set.
func placeholders(p *pass) {
	ends := false
	for _, name := range p.pol.Credentials.Names() {
		c := p.pol.Credentials[name]
		ends = ends || c.Own() && c.Ends()
		if c.Env != "" && c.Own() {
			setVariable(p, c.Env, c.Placeholder, "a placeholder", "it stands for credentials."+name)
		}
	}
	if !ends {
		return
	}
	for _, v := range plan.TrustVariables() {
		setVariable(p, v[0], v[1], v[1], "TLS to a credential's hosts is ended by the helper")
	}
}
