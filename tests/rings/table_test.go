package rings

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var update = flag.Bool("update", false, "write the measured table into docs/security/rings.md")

// alone is what is left when all rings but one are taken away.
var alone = map[string]string{"2": "1,0", "1": "2,0", "0": "2,1"}

// table is the documentation's form of what was measured. A row has the attacks whose cells are alike.
func table(got map[string]map[string]outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, measuredOn+"\n\n", release())
	b.WriteString("| attack | without ring 2 | without ring 1 | without ring 0 |\n|---|---|---|---|\n")
	var order []string
	of := make(map[string][]string)
	for _, a := range attacks {
		cells := ""
		for _, r := range []string{"2", "1", "0"} {
			cells += " | " + cell(got, a, r)
		}
		if of[cells] == nil {
			order = append(order, cells)
		}
		of[cells] = append(of[cells], a.name)
	}
	for _, cells := range order {
		b.WriteString("| " + strings.Join(of[cells], ", ") + cells + " |\n")
	}
	return b.String()
}

// measuredOn states for which kernel the table is: errors differ in places.
const measuredOn = "Measured on Linux %s:"

// release is the kernel's version, as in "6.12", with the security module that it has.
func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	f := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	version := strings.Join(f[:min(len(f), 2)], ".")
	modules, _ := os.ReadFile("/sys/kernel/security/lsm")
	for m := range strings.SplitSeq(strings.TrimSpace(string(modules)), ",") {
		if m == "apparmor" || m == "selinux" {
			version += " with " + m
		}
	}
	return version
}

// sameKernel reports whether the documented table is of this kernel.
func sameKernel(t *testing.T) bool {
	t.Helper()
	text := env.Get(t, documented)
	return strings.Contains(text, fmt.Sprintf(measuredOn, release()))
}

// documented is the page with the table.
func documented() (string, error) {
	root, err := engine.ModuleRoot()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	return string(text), err
}

// page is where the table is, below the module's root.
const page = "docs/security/rings.md"

// cell is the error without ring r, and which of the other rings gives one all by itself.
func cell(got map[string]map[string]outcome, a attack, r string) string {
	o := got[r][a.name]
	if o.Errno == "" {
		return gets + ": " + a.through[r]
	}
	var by []string
	for _, other := range []string{"2", "1", "0"} {
		if other != r && got[alone[other]][a.name].Errno != "" {
			by = append(by, other)
		}
	}
	if by == nil {
		return o.Errno + " " + together
	}
	return o.Errno + " " + strings.Join(by, "/")
}

// The table's place in docs/security/rings.md.
const begin, end = "<!-- rings: made by go test ./tests/rings -update -->\n", "<!-- /rings -->\n"

// compare holds the documentation against a table, or writes it there.
func compare(t *testing.T, want string) {
	t.Helper()
	root := env.Get(t, engine.ModuleRoot)
	path := filepath.Join(root, page)
	text := env.Read(t, path)
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/security/rings.md has no place for the table of rings")
	}
	if have == want {
		return
	}
	if !*update {
		if strings.Contains(have, fmt.Sprintf(measuredOn, release())) {
			t.Errorf("the documented table is not what was measured (-update writes it):\n%s", want)
			return
		}
		for _, d := range weaker(have, want) {
			t.Errorf("on Linux %s, against the table of another kernel: %s", release(), d)
		}
		return
	}
	env.Check(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o644))
}

// weaker lists where one kernel's table promises less than the documented one. Which error an attack ends with is the kernel's. A kernel may stop
// more than another, as one with AppArmor does, but nothing less: neither an attack, nor by fewer rings alone.
func weaker(have, want string) []string {
	documented, measured := rows(have), rows(want)
	var out []string
	for name := range documented {
		if _, ok := measured[name]; !ok {
			out = append(out, name+": is documented and was not measured")
		}
	}
	for name, cells := range measured {
		old, ok := documented[name]
		if !ok {
			out = append(out, name+": is not documented")
			continue
		}
		for i, ring := range []string{"2", "1", "0"} {
			if !atLeast(cells[i], old[i]) {
				out = append(out, fmt.Sprintf("%s, without ring %s: %q, and documented is %q", name, ring, cells[i], old[i]))
			}
		}
	}
	slices.Sort(out)
	return out
}

// atLeast reports whether a cell promises at least what the documented one does.
func atLeast(measured, documented string) bool {
	if strings.HasPrefix(documented, gets) {
		return true
	}
	if strings.HasPrefix(measured, gets) {
		return false
	}
	_, by, _ := strings.Cut(measured, " ")
	_, old, _ := strings.Cut(documented, " ")
	for ring := range strings.SplitSeq(old, "/") {
		if ring != together && !slices.Contains(strings.Split(by, "/"), ring) {
			return false
		}
	}
	return true
}

// How cells begin of attacks that get through, and end of those that no ring stops alone.
const gets, together = "through", "both together"

// rows are the cells of a table by attack.
func rows(table string) map[string][3]string {
	out := make(map[string][3]string)
	for line := range strings.SplitSeq(table, "\n") {
		f := strings.Split(line, "|")
		if len(f) != 6 || strings.HasPrefix(f[1], "---") || strings.TrimSpace(f[1]) == "attack" {
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSpace(f[1]), ", ") {
			out[name] = [3]string{strings.TrimSpace(f[2]), strings.TrimSpace(f[3]), strings.TrimSpace(f[4])}
		}
	}
	return out
}

// TestTableOfAnotherKernel: a table of another kernel may have other errors and stop more, and nothing else.
func TestTableOfAnotherKernel(t *testing.T) {
	const head = "Measured on Linux 6.18:\n\n| attack | without ring 2 | without ring 1 | without ring 0 |\n|---|---|---|---|\n"
	row := func(cells ...string) string { return head + "| " + strings.Join(cells, " | ") + " |\n" }
	documented := row("bpf", "ENOSYS 1/0", "ENOSYS 0", "through: x")
	if got := rows(row("bpf, reboot", "ENOSYS 1/0", "ENOSYS 0", "EPERM 1")); len(got) != 2 || got["bpf"] != got["reboot"] {
		t.Errorf("attacks of one row: %v", got)
	}
	for _, c := range []struct {
		measured string
		n        int
	}{
		{documented, 0},
		{row("bpf", "EPERM 1/0", "ENOSYS 0", "through: x"), 0},
		{row("bpf", "ENOSYS 0", "ENOSYS 0", "through: x"), 1},
		{row("bpf", "through: y", "ENOSYS 0", "EPERM 1"), 1},
		{row("bpf", "ENOSYS both together", "ENOSYS 2/0", "EPERM 1"), 1},
		{row("io_uring", "ENOSYS 1/0", "ENOSYS 0", "through: x"), 2},
		{head, 1},
	} {
		if d := weaker(documented, c.measured); len(d) != c.n {
			t.Errorf("%s\n%q, not %d", c.measured, d, c.n)
		}
	}
}
