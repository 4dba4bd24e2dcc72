// Package approver runs policy's command that decides on a name which no rule has
// (network.approval_command), in place of a person.
//
// The command gets a Question on its standard input, as JSON in one line, and prints an Answer, as
// JSON. It is run without a shell, by a user without rights and without privileges to gain, in an
// empty environment. Without a valid answer in time the name is denied, once.
package approver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/network"
)

const (
	// patience is how long the command may take.
	patience = 5 * time.Second
	// maxAnswer bounds the answer, in bytes.
	maxAnswer = 4 << 10
)

// A Question is the input of the command.
type Question struct {
	Jail string `json:"jail"` // the id
	Name string `json:"name"` // canonical
	Port uint16 `json:"port"`
}

// An Answer is the output of the command. Unknown fields are an error.
type answer struct {
	// Allow has to be there.
	Allow *bool `json:"allow"`
	// Once limits the decision to one connection, and For ("30m") to a time; neither is until the
	// jail's end.
	Once bool   `json:"once"`
	For  string `json:"for"`
}

// Decide runs the command and returns its decision. With an error the decision denies the name,
// once.
func Decide(ctx context.Context, command []string, q Question) (network.Approval, error) {
	v := network.Approval{Name: q.Name, Port: q.Port, Once: true}
	text, err := run(ctx, command, q)
	if err != nil {
		return v, fmt.Errorf("network.approval_command: %s: %w", command[0], err)
	}
	own, err := decode(text)
	if err != nil {
		return v, fmt.Errorf("network.approval_command: the answer of %s: %w", command[0], err)
	}
	v.Allow, v.Once, v.For = own.Allow, own.Once, own.For
	return v, nil
}

// decode parses an answer.
func decode(text []byte) (v network.Approval, err error) {
	if len(text) > maxAnswer {
		return v, fmt.Errorf("more than %d bytes", maxAnswer)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var a answer
	if err := d.Decode(&a); err != nil {
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("more than one")
	}
	if a.Allow == nil {
		return v, errors.New("it has no allow")
	}
	v.Allow, v.Once = *a.Allow, a.Once
	if a.For != "" {
		if v.For, err = time.ParseDuration(a.For); err != nil {
			return v, err
		}
		if v.For <= 0 || v.For > network.MaxFor || v.Once {
			return v, fmt.Errorf("for = %q: more than 0, at most %s, and not with once", a.For, network.MaxFor)
		}
	}
	return v, nil
}

// run runs the command and returns its output.
func run(ctx context.Context, command []string, q Question) ([]byte, error) {
	path, err := trusted.Executable(command[0])
	if err != nil {
		return nil, err
	}
	input, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, command[1:]...)
	out := atomicfile.Head{Max: maxAnswer + 1} // enough to see that it is too long
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = "/", []string{}, bytes.NewReader(append(input, '\n')), &out
	// The process group is killed as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 && !rootless.Inside() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: idmap.ApproverID, Gid: idmap.ApproverID}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = thread.Own(func() error {
		// The thread ends with the function, and the program inherits it.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
		return cmd.Start()
	})
	if err != nil {
		return nil, err
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it has not ended after %v", patience)
	case err != nil:
		return nil, err
	}
	return out.Text, nil
}
