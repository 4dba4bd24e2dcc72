package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A Result is what a command left behind.
type Result struct {
	Program        string
	Args           []string
	Stdout, Stderr string
	Code           int // the exit code; -1 when the command was killed or did not start
	Took           time.Duration
	err            error
}

// ended takes in how a command ended: with an exit code, or not at all.
func (r *Result) ended(err error) {
	r.err = err
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code = -1
		r.Stderr += err.Error()
	}
}

// String shows the command and everything it printed, for failure messages.
func (r Result) String() string {
	return fmt.Sprintf("%s %s\n  exit code %d after %v\n  stdout: %s\n  stderr: %s",
		r.Program, strings.Join(r.Args, " "), r.Code, r.Took.Round(time.Millisecond), cut(r.Stdout), cut(r.Stderr))
}

// cut shortens s to what a failure message can hold.
func cut(s string) string {
	const most = 4000
	s = strings.TrimRight(s, "\n")
	if len(s) > most {
		s = s[:most/2] + "\n[...]\n" + s[len(s)-most/2:]
	}
	return s
}

// Must ends the test where the command failed, and returns its trimmed standard output.
func (r Result) Must(t testing.TB) string {
	t.Helper()
	if r.Code != 0 {
		t.Fatal(r)
	}
	return strings.TrimSpace(r.Stdout)
}

// Run runs a program to its end, whatever its exit code. The test ends if it cannot be started or is killed.
func Run(t testing.TB, path string, args ...string) Result {
	t.Helper()
	return RunPrepared(t, exec.Command(path, args...))
}

// RunPrepared is Run with a command.
func RunPrepared(t testing.TB, cmd *exec.Cmd) Result {
	t.Helper()
	r := RunCommand(context.Background(), cmd, nil)
	if r.Code == -1 {
		t.Fatal(r)
	}
	return r
}

// Within calls f, which runs a command that ends with its context, and ends the test where the command takes longer than limit.
func Within(t testing.TB, limit time.Duration, f func(context.Context) Result) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := f(ctx)
	if ctx.Err() != nil {
		t.Fatalf("hangs: %s", r)
	}
	return r
}

// RunCommand runs a prepared command, which ends with ctx at the latest, and returns what it printed.
func RunCommand(ctx context.Context, cmd *exec.Cmd, stdin io.Reader) Result {
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errOut
	start := time.Now()
	err := cmd.Run()
	r := Result{Program: filepath.Base(cmd.Path), Args: cmd.Args[1:], Stdout: out.String(), Stderr: errOut.String(), Took: time.Since(start)}
	r.ended(err)
	if ctx.Err() != nil {
		r.Code = -1
		r.Stderr += fmt.Sprintf("\n(killed after %v: %v)", r.Took.Round(time.Millisecond), ctx.Err())
	}
	return r
}

// Capture runs a prepared command whose output goes to files in dir: a container inherits them, and must not keep a pipe open.
func Capture(dir string, cmd *exec.Cmd, stdin io.Reader) Result {
	r := Result{Program: filepath.Base(cmd.Path), Args: cmd.Args[1:]}
	var files [2]*os.File
	for i := range files {
		f, err := os.CreateTemp(dir, "out-")
		if err != nil {
			r.ended(err)
			return r
		}
		defer os.Remove(f.Name())
		defer f.Close()
		files[i] = f
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, files[0], files[1]
	start := time.Now()
	err := cmd.Run()
	r.Took = time.Since(start)
	for i, to := range []*string{&r.Stdout, &r.Stderr} {
		text, rerr := os.ReadFile(files[i].Name())
		*to, err = string(text), cmp.Or(err, rerr)
	}
	r.ended(err)
	return r
}

// LastLine is the last line of what a command printed.
func LastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// Heard repeats a command that changes nothing while its output is lost, a few times: ctr since 1.7 closes its end when it
// has deleted a process, whether it has read what is there or not (Delete of containerd's client).
func Heard[R any](lost func(R) bool, run func() R) (r R) {
	for range 5 {
		if r = run(); !lost(r) {
			break
		}
	}
	return r
}

// Silent reports whether a command that prints something succeeded and printed nothing (Heard).
func Silent(r Result) bool { return r.Code == 0 && r.Stdout == "" }
