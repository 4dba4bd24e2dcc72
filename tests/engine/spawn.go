package engine

import (
	"os"
	"os/exec"
	"syscall"

	"agentjail.dev/tests/env"
)

// A spawner starts long-lived processes from one operating-system thread that never ends and that lives in a network
// namespace of its own: what is forked there sees bridges and packet filter rules of its own, so that neither a Docker that
// already runs on this machine nor its firewall is touched.
//
// PR_SET_PDEATHSIG fires when the thread that forked ends, not when the process does (prctl(2)), and Go ends threads when it likes.
type spawner struct{ *env.Place }

// start starts cmd on the spawner's thread; it is killed when this process dies, whatever way that happens.
func (s *spawner) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A process group of its own: an interrupt typed at a terminal must reach the tests, which then stop the daemons
	// in the right order.
	cmd.SysProcAttr.Setpgid = true
	return s.Do(cmd.Start)
}

// devNull opens /dev/null for reading and writing.
func devNull() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_RDWR, 0) }
