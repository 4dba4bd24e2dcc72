package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/rootless"
)

// What an option or argument is. Of another the text is a command line that has it: FILE is a file, NEW a name and DIR a
// directory with a bundle that only root may open, and MINE is the caller's file.
const (
	noFile  = "names no file"
	ofRoot  = "of a command that is root's: no rule for a user may permit it (docs/start/ci.md)"
	inJails = "tried with jails (tests/sandbox, TestSudoRule)"
)

// filesOf are all options with a value, and all arguments, by their command. A new one is to be added: a file is opened with
// the rights of the user on whose behalf root runs the command (runtime/kernel/invoker).
var filesOf = map[string]string{
	"--root":       "--root DIR ls",
	"--log":        "--log NEW ls",
	"--log-format": noFile,
	"--rootless":   noFile,
	"--criu":       "--criu FILE ls",
	"--config":     "--config FILE ls",
	"--trace":      "--trace NEW explain DIR",

	"sandbox COMMAND":     noFile,
	"sandbox --workspace": "sandbox --workspace DIR -- true",
	"sandbox --view":      noFile,
	"sandbox --agent":     noFile,
	"sandbox --home":      noFile,
	"sandbox --key":       "sandbox --agent claude --key FILE",
	"sandbox --volume":    inJails,
	"sandbox --env":       noFile,
	"sandbox --policy":    noFile,
	"sandbox --boundary":  noFile,
	"sandbox --config":    "sandbox --config FILE -- true",
	"sandbox --tighten":   noFile,
	"sandbox --allow":     noFile,
	"sandbox --publish":   noFile,
	"sandbox --timeout":   noFile,
	"sandbox --name":      noFile,
	"sandbox --id-file":   "sandbox --id-file NEW -- true",
	"sandbox --receipt":   "sandbox --receipt NEW -- true",

	"learn COMMAND": noFile,
	"learn --from":  noFile,
	"learn --name":  noFile,
	"learn --write": inJails,

	"git DIR":                 "git DIR status",
	"git --with":              "git --with DIR . status",
	"git --view":              noFile,
	"watch CONTAINER":         noFile,
	"watch --to":              "watch --to NEW",
	"explain BUNDLE":          "explain DIR",
	"why CONTAINER":           noFile,
	"why --policy":            noFile,
	"why --seccomp-profile":   noFile,
	"why --config":            "why --config FILE mount",
	"why --profile":           noFile,
	"why --arch":              noFile,
	"export CONTAINER":        inJails,
	"export --for":            noFile,
	"receipt CONTAINER":       noFile,
	"receipt --html":          inJails,
	"receipt --key":           "receipt --verify --against MINE --key FILE",
	"receipt --against":       "receipt --verify --against FILE",
	"policy validate FILE":    "policy validate FILE",
	"policy show --policy":    noFile,
	"policy show --config":    "policy show --config FILE",
	"policy show --workspace": "policy show --workspace DIR",
	"policy show --tighten":   noFile,
	"seccomp show PROFILE":    noFile,
	"seccomp show --arch":     noFile,
	"seccomp diff PROFILE":    noFile,
	"seccomp diff --against":  "seccomp diff --against FILE",
	"seccomp diff --arch":     noFile,
	"seccomp prove PROFILE":   noFile,
	"seccomp prove --jail":    noFile,
	"seccomp prove --arch":    noFile,
	"completion SHELL":        noFile,
	"workspace apply --if":    noFile,
	"workspace export --if":   noFile,
	"network allow --for":     noFile,
	"network deny --for":      noFile,
}

// meaning returns what an option or argument is.
func meaning(command, name string) string {
	verb, _, _ := strings.Cut(command, " ")
	switch {
	case verb == "install", verb == "uninstall", isVerbOfRuntime(verb):
		return ofRoot
	case name == "CONTAINER", name == "ID": // of a jail or view of the caller's
		return noFile
	case verb == "learn" && filesOf["sandbox "+name] != "":
		return filesOf["sandbox "+name] // one list of options
	}
	return filesOf[strings.TrimSpace(command+" "+name)]
}

func isVerbOfRuntime(verb string) bool {
	for _, c := range append(runtimeCommands(), specCommand()) {
		if c.Name == verb {
			return true
		}
	}
	return false
}

// TestFilesOfArguments: each option and argument that names a file opens it with the rights of sudo's caller.
func TestFilesOfArguments(t *testing.T) {
	var lines []string
	var walk func(string, []cli.Flag, string, []*cli.Command)
	walk = func(command string, flags []cli.Flag, args string, below []*cli.Command) {
		var names []string
		for _, f := range flags {
			if v, ok := f.(cli.DocGenerationFlag); ok && v.TakesValue() {
				names = append(names, "--"+f.Names()[0])
			}
		}
		if words := strings.Fields(strings.NewReplacer("[--]", "", "[", "", "]", "", "...", "").Replace(args)); len(words) > 0 {
			names = append(names, words[0])
		}
		for _, name := range names {
			switch what := meaning(command, name); what {
			case "":
				t.Errorf("%s %s: add it to the table: does it name a file?", command, name)
			case noFile, ofRoot, inJails:
			default:
				lines = append(lines, what)
			}
		}
		for _, c := range below {
			walk(strings.TrimSpace(command+" "+c.Name), c.Flags, c.ArgsUsage, c.Subcommands)
		}
	}
	a := newApp()
	walk("", a.Flags, "", a.Commands)
	if os.Geteuid() != 0 || rootless.Inside() {
		t.Skip("the rest needs root")
	}
	t.Setenv("SUDO_UID", "12345")
	t.Setenv("SUDO_GID", "12345")
	dir := filepath.Join(t.TempDir(), "roots")
	file, made := filepath.Join(dir, "config.json"), filepath.Join(dir, "new")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"secret": "secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(filepath.Dir(dir), "mine")
	if err := os.WriteFile(mine, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := *caller
	t.Cleanup(func() { *caller = before })
	for _, line := range lines {
		*caller = before
		args := strings.Fields(strings.NewReplacer("FILE", file, "NEW", made, "DIR", dir, "MINE", mine).Replace(line))
		app := newApp()
		var out bytes.Buffer
		app.Writer, app.ErrWriter = &out, &out
		err := app.Run(append([]string{"agentjail"}, args...))
		if err == nil || !strings.Contains(err.Error(), "permission denied") && !strings.Contains(err.Error(), invoker.Remedy) {
			t.Errorf("%s: %v", line, err)
		} else if strings.Contains(err.Error()+out.String(), "secret") {
			t.Errorf("%s: it shows the file: %v, %s", line, err, out.String())
		}
		if _, err := os.Lstat(made); err == nil {
			t.Errorf("%s: it has made a file as root", line)
			os.Remove(made)
		}
	}
}
