package docs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
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
	os.Exit(engine.Main(m, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	}))
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
	as      string // what is run, where the command itself is not whole
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
	after func(row, string) // is called with each command's output
}

// newStage makes a stage with a project, whose tests write a file.
func newStage(t testing.TB) *stage {
	t.Helper()
	bin, err := engine.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{TB: t, dir: engine.TempDir(t, "/tmp", "agentjail-docs-"), tools: engine.TempDir(t, "/tmp", "agentjail-tools-"), words: map[string]string{}}
	s.tool("sudo", `exec "$@"`)
	client := docker.Command(t.Context())
	s.env = append(client.Env, "PATH="+strings.Join([]string{s.tools, filepath.Dir(bin), filepath.Dir(client.Path), os.Getenv("PATH")}, ":"))
	s.file("Makefile", "all:\n\techo made >new\ntest:\n\techo tested >tested\n")
	if err := os.Chown(s.dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	return s
}

// tool puts a script before all programs of its name.
func (s *stage) tool(name, script string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.tools, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		s.Fatal(err)
	}
}

// policy is what agentjail runs under.
func (s *stage) policy(text string) {
	s.Helper()
	bin, err := engine.UnderTest()
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(s.tools, "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	s.tool("agentjail", "exec "+bin+" --config "+file+` "$@"`)
}

// file is the project's.
func (s *stage) file(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chown(path, 1000, 1000)); err != nil {
		s.Fatal(err)
	}
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
	optional    = regexp.MustCompile(` ?\[[^]]*\]`)
)

// text is what is run for a row: without what is optional, with the stage's words for placeholders.
func (s *stage) text(r row) string {
	if r.as != "" {
		return s.replaced(r.as)
	}
	return s.replaced(optional.ReplaceAllString(r.command, ""))
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
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	in, write, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	defer in.Close()
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	if err != nil {
		s.Fatal(err)
	}
	var out strings.Builder
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		out.WriteString(line)
		if err != nil {
			break
		}
		if r.status == until && strings.Contains(line, r.has) {
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGINT)
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
