package lifecycle

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/delegate"
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
	report, err := delegate.NewCollector(maxReport)
	if err != nil {
		return "", err
	}
	messages, err := delegate.NewCollector(maxReport)
	if err != nil {
		_, _ = report.Close()
		return "", err
	}
	inside := *r
	inside.Stdio[1], inside.Stdio[2] = report.To, messages.To
	inside.Globals.Root, inside.Globals.SystemdCgroup = j.DelegateRoot, j.SystemdCgroup
	err = thread.Own(func() error { // Exec leaves it changed
		return inside.Exec(ExecOptions{ID: j.ID, Own: true, Change: func(p *specs.Process) {
			p.Args, p.Terminal = append([]string{jailinit.StepProgram, jailinit.Report}, paths...), false
		}})
	})
	text, _ := report.Close()
	why, _ := messages.Close()
	if err != nil {
		return "", fmt.Errorf("the init step's report: %w: %.500s", err, bytes.TrimSpace(why))
	}
	return string(text), nil
}
