// Package gitsettings copies git's configuration without values that could be credentials. It
// copies only sections and keys that are known to hold none, and of those only values that look
// like none; it refuses all unknown ones. It leaves comments out.
package gitsettings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/protect/gitconfig"
	"agentjail.dev/runtime/spec/lazyregexp"
)

const (
	maxText     = 64 << 10
	maxSettings = 2000
)

// plain are sections whose settings control git's behaviour (git-config(1)).
var plain = []string{
	"advice", "alias", "am", "apply", "attr", "blame", "branch", "bundle", "checkout", "clean", "clone", "color", "column", "commit",
	"commitgraph",
	"core", "delta", "diff", "difftool", "extensions", "feature", "fetch", "filter", "format", "fsck", "fsmonitor", "gc", "ghq",
	"gitk", "gpg",
	"grep", "gui", "help",
	"i18n", "include", "includeif", "index", "init", "interactive", "lfs", "log", "mailinfo", "mailmap", "maintenance", "man",
	"merge", "mergetool", "notes",
	"pack", "pager", "pretty", "protocol", "pull", "push", "rebase", "receive", "remote", "rerere", "revert", "safe", "sequence",
	"showbranch",
	"splitindex", "ssh", "stash",
	"status", "submodule", "tag", "tar", "trailer", "transfer", "uploadarchive", "uploadpack", "user", "versionsort", "web",
	"worktree",
}

// keys are the allowed keys of sections that can also hold credentials.
var keys = map[string][]string{
	"url":        {"insteadof", "pushinsteadof"},
	"credential": {"helper", "username", "usehttppath", "interactive", "provider", "guiprompt", "autodetecttimeout"},
	"http": {
		"sslverify", "sslcainfo", "sslcapath", "sslbackend", "sslversion", "postbuffer", "lowspeedlimit", "lowspeedtime", "version",
		"followredirects",
		"maxrequests", "minsessions", "noepsv", "proxy", "schannelcheckrevoke", "schannelusesslcainfo", "emptyauth", "savecookies",
		"usekeepalive",
	},
	"sendemail": {
		"to", "cc", "from", "smtpserver", "smtpserverport", "smtpencryption", "confirm", "annotate", "chainreplyto", "thread",
		"suppresscc", "signedoffbycc", "validate",
	},
}

// helpers are the words of credential helpers that hold nothing themselves
// (gitcredentials(7)); a program of another kind could be a script with a password
// in it.
var helpers = lazyregexp.New(`^(|store|cache( --timeout[= ][0-9]+)?|manager|manager-core|manager-ui|libsecret|gnome-keyring|osxkeychain|wincred|oauth|netrc|gcloud\.sh|` +
	`!(/[A-Za-z0-9/._-]*/)?(gh|glab) auth git-credential|!aws codecommit credential-helper \$@|/[A-Za-z0-9/._-]*/git-credential-[a-z-]+)$`)

var (
	// words of commands and keys that come with credentials.
	words = lazyregexp.New(`(?i)authorization|bearer|password|passwd|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_ ]?key|extraheader|cookie`)
	// issued are the beginnings of services' tokens.
	issued = lazyregexp.New(`(gh[pousr]_|github_pat_|glpat-|gl[a-z]{2,6}-|xox[abpsr]-|\bsk-|AKIA|ASIA|ATATT|ATBB|ATCTT|npm_|pypi-|hf_|AIza|ya29\.|eyJ[A-Za-z0-9])[A-Za-z0-9_.-]{8}`)
	// userinfo is that of a URL: http's has a password, or is a token itself.
	userinfo = lazyregexp.New(`(?i)([a-z][a-z0-9+.-]*)://([^/@\s"']*)@`)
	// opaque is a run of characters that could be a key.
	opaque = lazyregexp.New(`[A-Za-z0-9_+=-]{32,}`)
)

// Copy returns the settings of a configuration, or an error that reports which of them
// could be a credential, without its value.
func Copy(text string) (string, error) {
	if len(text) > maxText {
		return "", fmt.Errorf("it is larger than %d bytes", maxText)
	}
	settings, err := gitconfig.Parse(text, maxSettings)
	if err != nil {
		return "", err
	}
	for _, s := range settings {
		if why := credential(s); why != "" {
			return "", errors.New(why)
		}
	}
	return gitconfig.Format(settings), nil
}

// credential reports why a setting could be a credential; "" where it cannot.
func credential(s gitconfig.Setting) string {
	name := short(s.Section)
	if s.HasSub {
		name += ".*"
	}
	if s.Key != "" {
		name += "." + short(s.Key)
	}
	known, some := keys[s.Section]
	switch {
	case !some && !slices.Contains(plain, s.Section), some && s.Key != "" && !slices.Contains(known, s.Key):
		return "the setting " + name + " is not known to hold no credential"
	case words().MatchString(s.Key), looksSecret(s.Sub), !public(s) && looksSecret(s.Value):
		return "the setting " + name + " looks like a credential"
	case s.Section == "credential" && s.Key == "helper" && !helpers().MatchString(s.Value):
		return "the setting " + name + " runs a program that could hold a credential"
	}
	return ""
}

// public reports whether a setting is a public key or the name of one.
func public(s gitconfig.Setting) bool {
	return s.Section == "user" && s.Key == "signingkey" && publicKey().MatchString(s.Value)
}

var publicKey = lazyregexp.New(`^((key::)?(ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [\w@.-]+)?|(0x)?[0-9A-Fa-f]{8,40}!?)$`)

func looksSecret(v string) bool {
	if words().MatchString(v) || issued().MatchString(v) {
		return true
	}
	for _, m := range userinfo().FindAllStringSubmatch(v, -1) {
		// The user of ssh is an account; a password follows a colon.
		if scheme := strings.ToLower(m[1]); m[2] != "git" && (!strings.Contains(scheme, "ssh") || strings.Contains(m[2], ":")) {
			return true
		}
	}
	for _, run := range opaque().FindAllString(v, -1) {
		if strings.ContainsAny(run, "0123456789") && strings.ContainsFunc(run, func(r rune) bool {
			return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		}) {
			return true
		}
	}
	return false
}

// short keeps a name from filling a message.
func short(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
