package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// licensed is a dependency with the licence that it comes under.
type licensed struct {
	dependency
	license string            // its SPDX identifier
	texts   map[string][]byte // the files that have to go with the programs
}

// legal are the names of files that a distribution of the programs has to bring along.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences finds each dependency's licence in the module's own files. A licence that is not known
// here fails the release.
func licences(ctx context.Context, root string, deps []dependency) ([]licensed, error) {
	dirs, err := moduleDirs(ctx, root)
	if err != nil {
		return nil, err
	}
	var out []licensed
	for _, d := range deps {
		l := licensed{dependency: d, texts: map[string][]byte{}}
		dir := dirs[d.path]
		if dir == "" {
			return nil, fmt.Errorf("module %s is in a program and not among the modules of go.mod", d.path)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !legal.MatchString(e.Name()) || !e.Type().IsRegular() || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			l.texts[e.Name()] = text
			if id := identify(string(text)); id != "" && !strings.Contains(l.license, id) {
				l.license = strings.TrimPrefix(l.license+" AND "+id, " AND ")
			}
		}
		if l.license == "" {
			return nil, fmt.Errorf("module %s: no file in %s has a licence that is known here (remedy: a row of the table in licences.go)", d.path, dir)
		}
		out = append(out, l)
	}
	return out, nil
}

// moduleDirs reports where each module's files are.
func moduleDirs(ctx context.Context, root string) (map[string]string, error) {
	text, err := output(ctx, root, nil, "go", "list", "-m", "-json", "all")
	if err != nil {
		return nil, err
	}
	goroot, err := output(ctx, root, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	out := map[string]string{stdlib: goroot}
	for dec := json.NewDecoder(strings.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out[m.Path] = m.Dir
	}
}

// known are sentences that only one licence has, the most particular first.
var known = []struct{ id, sentence string }{
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"BSD-3-Clause", "contributors may be used to endorse or promote products derived from this software without specific prior written permission"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following disclaimer in the documentation"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"},
}

// identify names the licence that a text is, "" for none that is known.
func identify(text string) string {
	text = flat(text)
	for _, k := range known {
		if strings.Contains(text, flat(k.sentence)) {
			return k.id
		}
	}
	return ""
}

// flat is a text's words, whatever is between them.
func flat(s string) string {
	return strings.ToLower(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' }), " "))
}

// copyright is the file that Debian wants of every package, in its machine-readable form
// (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/).
func copyright(deps []licensed) []byte {
	var b strings.Builder
	b.WriteString(`Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: agentjail
Source: the Go module agentjail.dev

Files: *
Copyright: 2026 the agentjail authors
License: Apache-2.0
`)
	b.WriteString(`
License: Apache-2.0
 On Debian systems the whole licence is in /usr/share/common-licenses/Apache-2.0,
 and in any package in /usr/share/doc/agentjail/licences.
Comment:
 The programs hold modules of others, each with its licence and notices in
 /usr/share/doc/agentjail/licences:
`)
	for _, d := range deps {
		fmt.Fprintf(&b, " %s %s (%s)\n", d.path, d.version, d.license)
	}
	return []byte(b.String())
}
