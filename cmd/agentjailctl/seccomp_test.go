package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compare"
	"agentjail.dev/seccomp/verify"
)

// allowedBy is how many calls a filter to compare with allows.
func allowedBy(t *testing.T, name string) int {
	t.Helper()
	d, err := sections("default", name, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	return d.B.Allowed
}

func TestSeccompShow(t *testing.T) {
	text, err := call(t, "seccomp", "show", "--arch", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nsocket ", "if unix; TCP and UDP", "refused, EINVAL", fmt.Sprintf("%d system calls allowed", seccomp.Budget("default")), fmt.Sprintf("Docker's default: %d", allowedBy(t, compare.Docker))} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	text, err = call(t, "seccomp", "show", "--json", "--arch", "arm64", "strict")
	var shown struct {
		Schema string
		Calls  []seccomp.Entry
	}
	if err != nil || json.Unmarshal([]byte(text), &shown) != nil || len(shown.Calls) < seccomp.Budget("strict") || shown.Schema != "agentjail.seccomp.show/1" {
		t.Errorf("%v: %s, %d entries", err, shown.Schema, len(shown.Calls))
	}
	for _, args := range [][]string{{"seccomp", "show", "none"}, {"seccomp", "show", "--arch", "riscv64"}, {"seccomp", "show", "default", "strict"}} {
		if _, err := call(t, args...); lifecycle.Status(err) != 2 {
			t.Errorf("%v: exit status %d", args, lifecycle.Status(err))
		}
	}
}

func TestSeccompDiff(t *testing.T) {
	text, err := call(t, "seccomp", "diff", "--arch", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	docker := allowedBy(t, compare.Docker)
	for _, want := range []string{fmt.Sprintf("default: %d system calls", seccomp.Budget("default")), fmt.Sprintf("docker: %d system calls", docker), "SCMP_ARCH_X32", fmt.Sprintf("only in docker (%d):", docker-seccomp.Budget("default")), " ptrace ", "arguments checked only in default", " ioctl "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "only in default (") && !strings.Contains(text, "checked only in default (") {
		t.Errorf("default allows what Docker does not:\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "own.json")
	if err := os.WriteFile(file, []byte(`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["bpf", "read"], "action": "SCMP_ACT_ALLOW"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err = call(t, "seccomp", "diff", "--json", "--against", file, "strict")
	var d struct {
		A     struct{ Allowed int }
		OnlyB []string
	}
	if err != nil || json.Unmarshal([]byte(text), &d) != nil || d.A.Allowed != seccomp.Budget("strict") || len(d.OnlyB) != 1 || d.OnlyB[0] != "bpf" {
		t.Errorf("%v: %+v", err, d)
	}
	for _, against := range []string{"none", file + ".missing"} {
		if _, err := call(t, "seccomp", "diff", "--against", against); lifecycle.Status(err) != 125 {
			t.Errorf("against %s: exit status %d", against, lifecycle.Status(err))
		}
	}
}

func TestSeccompProve(t *testing.T) {
	text, err := call(t, "seccomp", "prove", "--arch", "amd64", "strict")
	budget := seccomp.Budget("strict")
	count := fmt.Sprintf("  holds  at most %d system calls pass: %d pass\n", budget, budget)
	if err != nil || !strings.Contains(text, "the inner filter") || !strings.Contains(text, count) ||
		strings.Contains(text, "FAILS") || !strings.HasSuffix(text, "claims hold\n") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = call(t, "seccomp", "prove", "--all", "--json")
	var all struct {
		Schema string
		Proofs []proof
	}
	if err != nil || json.Unmarshal([]byte(text), &all) != nil || len(all.Proofs) < 2*len(seccomp.Profiles()) || all.Schema != "agentjail.seccomp.prove/1" {
		t.Errorf("%v: %s, %d proofs", err, all.Schema, len(all.Proofs))
	}
	for _, args := range [][]string{
		{"none"},
		{"--arch", "riscv64"},
		{"default", "strict"},
		{"--all", "strict"},
		{"--all", "--arch", "amd64"},
		{"--jail", "no-such-jail-as-this"},
		{"--jail", "x", "--all"},
		{"--jail", "x", "strict"},
		{"--jail", "../../etc"},
	} {
		if args[0] == "--jail" && os.Geteuid() != 0 {
			continue // see joinsPodman
		}
		want := 2
		if args[0] == "--jail" && len(args) == 2 {
			want = 125 // of no jail
		}
		if text, err := call(t, append([]string{"seccomp", "prove"}, args...)...); lifecycle.Status(err) != want {
			t.Errorf("%v: exit status %d: %s", args, lifecycle.Status(err), text)
		}
	}
}

// A claim that fails is printed, and a proof that has one does not hold.
func TestFailedProof(t *testing.T) {
	open := [][]bpf.Insn{{{Code: 0x06, K: bpf.RetAllow}}}
	res, err := verify.Profile(open, "default", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	p := newProof("default", "amd64", "a filter that allows all", res)
	if p.Holds {
		t.Error("a filter that allows all holds")
	}
	good := newProof("default", "amd64", "another", []verify.Result{{Holds: true}})
	if !good.Holds {
		t.Error("a claim that holds does not")
	}
	for _, flag := range []string{"", "--json"} {
		var out bytes.Buffer
		app := &cli.App{Writer: &out, Flags: []cli.Flag{jsonFlag}, Action: func(c *cli.Context) error { return writeProofs(c, []proof{good, p}) }}
		err := app.Run(append([]string{"prove"}, strings.Fields(flag)...))
		if lifecycle.Status(err) != 1 {
			t.Errorf("exit status %d\n%s", lifecycle.Status(err), &out)
		}
		if flag == "" && (!strings.Contains(out.String(), "  FAILS  io_uring never passes: io_uring_setup passes") || !strings.Contains(out.String(), "\nFAILED: ")) {
			t.Error(out.String())
		}
	}
}

// TestDocsCounts: the numbers in docs/seccomp.md are those of the filters.
func TestDocsCounts(t *testing.T) {
	text, err := os.ReadFile("../../docs/seccomp.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := [4]string{"| system calls that pass (amd64) |", "| of them with checked arguments |", "| other ABIs (32-bit, x32) |", "| public kernelCTF exploits whose entry point is open |"}
	for _, name := range []string{"default", "debug", "server", "tools", "strict", compare.Docker} {
		d, err := sections(name, compare.Docker, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		abis := "killed"
		if len(d.A.OtherABIs) > 0 {
			abis = "pass"
		}
		for i, cell := range []string{fmt.Sprint(d.A.Allowed), fmt.Sprint(d.A.Checked), abis, fmt.Sprintf("%d of 100", d.A.KernelCTF)} {
			rows[i] += " " + cell + " |"
		}
	}
	for _, r := range rows {
		if !strings.Contains(string(text), r+"\n") {
			t.Errorf("docs/seccomp.md does not contain %s", r)
		}
	}
}
