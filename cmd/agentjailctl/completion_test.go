package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBashCompletion: bash offers the verbs and options of the command that has been typed, and no
// more.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash: ", err)
	}
	script, err := call(t, "completion", "bash")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "agentjail")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"agentjail comp":                     "completion",
		"agentjail network ":                 "check log reload restart allow deny pending --help -h",
		"agentjail --root /x install do":     "docker",
		"agentjail install docker --dr":      "--dry-run",
		"agentjail install docker --name ":   "",
		"agentjail install docker --root x":  "",
		"agentjail sandbox --boundary gv":    "",
		"agentjail sandbox --bou":            "--boundary",
		"agentjail why --prof":               "", // hidden
		"agentjail completion --hel":         "--help",
		"agentjail workspace diff --protec":  "",
		"agentjail workspace apply --protec": "--protected",
	} {
		words := strings.Split(line, " ")
		script := fmt.Sprintf(`source %s; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _agentjail; echo "${COMPREPLY[*]}"`, file)
		out, err := exec.Command(bash, append([]string{"--norc", "-c", script, "bash"}, words...)...).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %q, not %q (%v)", line, got, want, err)
		}
	}
}

// TestCompletionSyntax: each shell that is there can read what is made for it.
func TestCompletionSyntax(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := call(t, "completion", shell)
		if err != nil || len(text) < 5000 || !strings.Contains(text, "boundary") || strings.Contains(text, "`") {
			t.Errorf("%s: %v, %d characters", shell, err, len(text))
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		cmd := exec.Command(program, "-n")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v: %s", shell, err, out)
		}
	}
}
