//go:build ignore

// This program writes calls_gen.go from the tables of golang.org/x/sys/unix,
// which are made from the kernel's headers.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var line = regexp.MustCompile(`(?m)^\s*SYS_(\w+)\s*=\s*(\d+)`)

func main() {
	log.SetFlags(0)
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		log.Fatal(err)
	}
	numbers := map[string][2]string{}
	for i, arch := range []string{"amd64", "arm64"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+arch+".go"))
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range line.FindAllSubmatch(data, -1) {
			name := strings.ToLower(string(m[1]))
			if name == "arch_specific_syscall" {
				continue // the start of a range, no call
			}
			n, ok := numbers[name]
			if !ok {
				n = [2]string{"none", "none"}
			}
			n[i] = string(m[2])
			numbers[name] = n
		}
	}
	var out bytes.Buffer
	out.WriteString("// Code generated from golang.org/x/sys/unix by generate.go; DO NOT EDIT.\n\npackage abi\n\nvar calls = [...]call{\n")
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		fmt.Fprintf(&out, "{%q, %s, %s},\n", name, numbers[name][0], numbers[name][1])
	}
	out.WriteString("}\n")
	src, err := format.Source(out.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("calls_gen.go", src, 0o644); err != nil {
		log.Fatal(err)
	}
}
