package main

import (
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/tests/env"
)

const helpText = `NAME:
   agentjail sandbox - run a command in a jail

USAGE:
   agentjail sandbox [command options] [--] COMMAND [ARG...]

DESCRIPTION:
   Runs COMMAND.

      agentjail sandbox -- make test

COMMANDS:
   check    print whether a jail's \ name
            continues
   help, h  Shows a list of commands or help for one command

OPTIONS:
   --workspace DIR, -w DIR
                        let DIR
                        be written
   --env NAME=VALUE     set NAME=VALUE
   --json, -j           print JSON
`

// TestParseHelp: names, options and commands are read from what the command line library prints.
func TestParseHelp(t *testing.T) {
	p, subs, err := parseHelp(helpText)
	env.Check(t, err)
	if p.name() != "agentjail sandbox" || p.Short != "run a command in a jail" || strings.Join(subs, " ") != "check help" {
		t.Errorf("%q, %q, %q", p.name(), p.Short, subs)
	}
	var got []string
	for _, o := range p.Options {
		got = append(got, strings.Join(o.Names, "/")+"="+o.Value+":"+o.Text)
	}
	if want := "--workspace/-w=DIR:let DIR be written|--env=NAME=VALUE:set NAME=VALUE|--json/-j=:print JSON"; strings.Join(got, "|") != want {
		t.Errorf("the options are %q", got)
	}
	if _, _, err := parseHelp("usage: something else\n"); err == nil {
		t.Error("a text that is no help passes")
	}
}

// TestManPage: what means something to troff is escaped, and an example keeps its lines.
func TestManPage(t *testing.T) {
	p, _, err := parseHelp(helpText)
	env.Check(t, err)
	p.Short = `.it's a \ name`
	text := string(manPage(p, "1.0~rc1", time.Unix(0, 0).UTC()))
	for _, want := range []string{
		`.TH AGENTJAIL\-SANDBOX 8 1970-01-01 "agentjail 1.0\(tirc1"`, `\(aqs a \e name`, ".nf\nagentjail sandbox \\-\\- make test\n.fi", `\fB\-\-workspace\fR, \fB\-w\fR \fIDIR\fR`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

// TestVersions: dpkg and rpm take every version, and order a pre-release before its release.
func TestVersions(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		tag     string
		changed bool
		want    string
	}{
		{"v1.2.3", false, "1.2.3"},
		{"v1.2.3-rc.1", false, "1.2.3~rc.1"},
		{"", false, "0~20260102030405.g0123456789"},
		{"v1.2.3", true, "1.2.3+changed"},
	} {
		if got := versionOf(c.tag, "0123456789abcdef", at, c.changed); got != c.want || !packageVersion.MatchString(got) {
			t.Errorf("tag %q: version %q, not %q", c.tag, got, c.want)
		}
	}
}

// TestDefaultConfig: the packages' policy file states nothing, and uncommented the default.
func TestDefaultConfig(t *testing.T) {
	text := defaultConfig()
	p, err := policy.Parse(text, "config.toml", "")
	env.Check(t, err)
	if p.Limits.Pids != policy.Default().Limits.Pids {
		t.Error("it is not the default")
	}
	_, keys, _ := strings.Cut(string(text), "\n\n")
	active := strings.Replace(strings.ReplaceAll("\n"+keys, "\n#", "\n"), "limits.pids = 1024", "limits.pids = 77", 1)
	if p, err = policy.Parse([]byte(active), "config.toml", ""); err != nil || p.Limits.Pids != 77 {
		t.Errorf("uncommented, with a change, it gives %d processes: %v", p.Limits.Pids, err)
	}
}

// TestIdentify: licences are known by their words, whatever their lines.
func TestIdentify(t *testing.T) {
	own := env.Read(t, "../../LICENSE")
	for text, want := range map[string]string{
		string(own): "Apache-2.0",
		"Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software and associated documentation files (the \"Software\")": "MIT",
		"All rights reserved.": "",
	} {
		if got := identify(text); got != want {
			t.Errorf("%.40q: %q, not %q", text, got, want)
		}
	}
}
