package docs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// docker is the engine that all plays share; nil for an ordinary user, for whom no play runs.
var docker *engine.Engine

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	engine.IfJanitor()
	runsc, err := engine.Tool("runsc")
	if err == nil {
		err = engine.OwnPolicy(strings.ReplaceAll(hostPolicy, "RUNSC", runsc))
	}
	var shim, under string
	if err == nil {
		shim, err = engine.Shim()
	}
	if err == nil {
		under, err = engine.UnderTest()
	}
	gvisor := filepath.Join(filepath.Dir(under), "agentjail-gvisor")
	if err == nil {
		err = errors.Join(os.Symlink("agentjail", gvisor), engine.Build("./cmd/agentjail-journal", filepath.Join(filepath.Dir(under), "agentjail-journal")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		return 1
	}
	engine.Runtimes["agentjail-gvisor"] = engine.Runtime{Path: gvisor}
	engine.Policies["agentjail-docs"] = "[network]\nmode = \"names\"\nallow = [\"pypi.org:443\"]\npublish = [\"127.0.0.1:8080\", \"127.0.0.1:8090\"]\napproval = \"prompt\"\n"
	edition := engine.Editions["29"]
	code := engine.MainWith(m, engine.Options{Edition: &edition, Shims: []string{shim}}, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	})
	return max(code, dropped())
}

// dropped ends what OwnPolicy began.
func dropped() int {
	if err := engine.DropPolicy(); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		return 1
	}
	return 0
}

// A play runs commands in the order of its rows, on a stage of its own.
type play struct {
	name string
	set  func(*stage)
	rows []row
}

// A row is a command of a page, and how it ends.
type row struct {
	command string // as the page has it
	status  int
	has     string // a part of its output
	as      string // what is run, where the command is not whole by itself; % stands for it
}

// until is the status of a command that stays: it is interrupted once it has written what the row has.
const until = -1

// A stage is what the commands of a play find.
type stage struct {
	testing.TB
	dir   string // where they run: a project of uid 1000
	tools string // before all other programs
	words map[string]string
	env   []string
	shell func(context.Context, string) *exec.Cmd
	after func(row, string) // is called with each command's output
}

// newStage makes a stage with a project, whose tests write a file.
func newStage(t testing.TB) *stage {
	t.Helper()
	bin := env.Get(t, engine.UnderTest)
	s := &stage{TB: t, dir: engine.TempDir(t, "/tmp", "agentjail-docs-"), tools: engine.TempDir(t, "/tmp", "agentjail-tools-")}
	top, err := filepath.Abs(Top)
	env.Check(t, err)
	s.words = map[string]string{"BIN": filepath.Dir(bin), "TOP": top}
	s.tool("sudo", `exec "$@"`)
	s.of(docker)
	s.shell = func(ctx context.Context, text string) *exec.Cmd { return exec.CommandContext(ctx, "sh", "-c", text) }
	s.file("Makefile", "all:\n\techo made >new\ntest:\n\techo tested >tested\n")
	env.Check(t, errors.Join(os.Chown(s.dir, 1000, 1000), os.Chmod(s.dir, 0o700)))
	return s
}

// tool puts a script before all programs of its name.
func (s *stage) tool(name, script string) {
	s.Helper()
	env.Check(s, os.WriteFile(filepath.Join(s.tools, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// of has clients call an engine.
func (s *stage) of(e *engine.Engine) {
	client := e.Command(s.Context())
	s.env = append(client.Env, "PATH="+strings.Join([]string{s.tools, s.words["BIN"], filepath.Dir(client.Path), os.Getenv("PATH")}, ":"))
}

// options has agentjail's install and uninstall of an engine take further options.
func (s *stage) options(of map[string]string) {
	s.Helper()
	script := "bin=" + s.words["BIN"] + "/agentjail\ncase \"$1 $2\" in\n"
	for engine, options := range of {
		script += "*install\"" + engine + "\") exec $bin \"$@\" " + options + " ;;\n"
	}
	s.tool("agentjail", script+"*) exec $bin \"$@\" ;;\nesac")
}

// file is the project's.
func (s *stage) file(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	env.Check(s, errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chown(path, 1000, 1000)))
}

// host runs a script in the project as its owner.
func (s *stage) host(script string) string {
	s.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=/nonexistent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

var (
	placeholder = regexp.MustCompile(`\b[A-Z]{2,}\b|\bfix\b`)
	optional    = regexp.MustCompile(` ?\[[^]]*\]| \.\.\.`)
)

// text is what is run for a row: without what is optional, with the stage's words for placeholders.
func (s *stage) text(r row) string {
	return s.replaced(strings.ReplaceAll(cmp.Or(r.as, "%"), "%", optional.ReplaceAllString(r.command, "")))
}

func (s *stage) replaced(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(w string) string { return cmp.Or(s.words[w], w) })
}

// run runs a row.
func (s *stage) run(r row) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	text := s.text(r)
	cmd := s.shell(ctx, text)
	cmd.Dir = s.dir
	if cmd.Env == nil {
		cmd.Env = s.env
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	in, write, err := os.Pipe()
	env.Check(s, err)
	defer in.Close()
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	env.Check(s, err)
	var out strings.Builder
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		out.WriteString(line)
		if err != nil {
			break
		}
		if r.status == until && strings.Contains(line, r.has) {
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGTERM)
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != r.status && r.status != until || ctx.Err() != nil {
		s.Errorf("`%s`, run as `%s`: status %d, not %d (%v): %s", r.command, text, got, r.status, ctx.Err(), out.String())
	}
	if !strings.Contains(out.String(), s.replaced(r.has)) {
		s.Errorf("`%s`, run as `%s`: no %q: %s", r.command, text, r.has, out.String())
	}
	if s.after != nil {
		s.after(r, out.String())
	}
}
