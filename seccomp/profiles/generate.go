//go:build ignore

// This program writes ../profiles_gen.go from the profiles in this directory:
// a table that needs no parsing when a container starts.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

type group struct {
	Names                  []string
	Arch, Rule, Errno, Why string
}

type profile struct {
	About, Extends string
	Budget         int
	Allow, Refuse  []group
}

func main() {
	log.SetFlags(0)
	files, err := filepath.Glob("profiles/*.json")
	if err != nil {
		log.Fatal(err)
	}
	sort.Strings(files)
	var out bytes.Buffer
	out.WriteString("// Code generated from profiles/*.json by profiles/generate.go; DO NOT EDIT.\n\npackage seccomp\n\nvar profiles = [...]profile{\n")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			log.Fatal(err)
		}
		var p profile
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil {
			log.Fatalf("%s: %v", f, err)
		}
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		fmt.Fprintf(&out, "{\nname: %q, about: %q, extends: %q, budget: %d,\n", name, p.About, p.Extends, p.Budget)
		groups(&out, "allow", p.Allow)
		groups(&out, "refuse", p.Refuse)
		out.WriteString("},\n")
	}
	out.WriteString("}\n")
	src, err := format.Source(out.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("profiles_gen.go", src, 0o644); err != nil {
		log.Fatal(err)
	}
}

func groups(out *bytes.Buffer, field string, in []group) {
	if len(in) == 0 {
		return
	}
	fmt.Fprintf(out, "%s: []group{\n", field)
	for _, g := range in {
		fmt.Fprintf(out, "{names: %#v", g.Names)
		for _, f := range [][2]string{{"arch", g.Arch}, {"rule", g.Rule}, {"errno", g.Errno}, {"why", g.Why}} {
			if f[1] != "" {
				fmt.Fprintf(out, ", %s: %q", f[0], f[1])
			}
		}
		out.WriteString("},\n")
	}
	out.WriteString("},\n")
}
