package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/state"
)

// maxReport bounds what is read of a report, in bytes.
const maxReport = 4 << 20

// Inside has the init step of a running jail in a sandbox report what only the guest's kernel knows
// (jailinit.Report). The step enters as any further process does, under all of the jail's
// protections. The report is the guest's: it is to be read as hostile. The step looks at paths.
func (r *Runtime) Inside(j *state.Brief, paths []string) (string, error) {
	if sandboxOf(j) == "" {
		return "", errors.New("the jail is in no sandbox")
	}
	out, w, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("making a pipe: %w", err)
	}
	defer out.Close()
	errOut, errW, err := os.Pipe()
	if err != nil {
		w.Close()
		return "", fmt.Errorf("making a pipe: %w", err)
	}
	defer errOut.Close()
	inside := *r
	inside.Stdio[1], inside.Stdio[2] = w, errW
	inside.Globals.Root, inside.Globals.SystemdCgroup = j.DelegateRoot, j.SystemdCgroup
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Exec leaves it changed: it ends with the goroutine
		err := thread.Caught(func() error {
			return inside.Exec(ExecOptions{ID: j.ID, Own: true, Change: func(p *specs.Process) {
				p.Args, p.Terminal = append([]string{jailinit.StepProgram, jailinit.Report}, paths...), false
			}})
		})
		w.Close()
		errW.Close()
		ended <- err
	}()
	messages := make(chan string, 1)
	go func() { messages <- readReport(errOut) }()
	text := readReport(out)
	why := strings.TrimSpace(<-messages)
	if err := <-ended; err != nil {
		return "", fmt.Errorf("the init step's report: %w: %.500s", err, why)
	}
	return text, nil
}

// readReport reads to the end, and keeps the beginning.
func readReport(f *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(f, maxReport))
	_, _ = io.Copy(io.Discard, f)
	return string(text)
}
