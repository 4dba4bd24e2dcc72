package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/credential/secret"
)

// Bounds of a value and of reading it.
const (
	minValue = 8 // bytes: what is shorter would be found in responses by chance
	maxValue = 8 << 10
)

// patience is how long a command may take.
var patience = 10 * time.Second

// Fetch reads the value. Only root can write the file or program. No error contains any of the text
// that was read.
func (c Spec) Fetch() (secret.Value, error) {
	path, args, err := c.source()
	if err != nil {
		return secret.Value{}, err
	}
	var text []byte
	if args == nil {
		text, err = readFile(path)
	} else {
		text, err = run(path, args)
	}
	if err == nil && c.ForSSH() {
		text, err = key(text)
	} else if err == nil {
		text, err = value(text)
	}
	if err != nil {
		return secret.Value{}, fmt.Errorf("%s: %w", c.From, err)
	}
	return secret.New(text), nil
}

// Available returns why Fetch would fail, as far as that is known without running a command.
func (c Spec) Available() error {
	path, args, err := c.source()
	switch {
	case err != nil:
		return nil // Check reports it
	case args == nil:
		if _, err = c.Fetch(); err != nil {
			return err
		}
	default:
		if _, err := trusted.Executable(path); err != nil {
			return fmt.Errorf("%s: %w", c.From, err)
		}
	}
	if !c.ForSSH() {
		return nil
	}
	for _, h := range c.Hosts {
		if _, err := c.HostKeys(h); err != nil {
			return fmt.Errorf("known_hosts: %w", err)
		}
	}
	return nil
}

// value returns the text without the end of its line, or an error if a header cannot hold it.
func value(text []byte) ([]byte, error) {
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(text) < minValue || len(text) > maxValue:
		return nil, fmt.Errorf("a value of %d bytes, must be %d to %d", len(text), minValue, maxValue)
	case !printable.IsASCII(string(text)) || strings.TrimSpace(string(text)) != string(text):
		return nil, errors.New("the value must be one line of printable ASCII without space around it")
	}
	return text, nil
}

func readFile(path string) ([]byte, error) {
	f, err := trusted.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others than root can read %s (remedy: install -m 600 %s /root/KEY, and that file)", path, path)
	}
	return io.ReadAll(io.LimitReader(f, maxValue+3))
}

// run runs a command without a shell and returns its standard output. Its standard error is not
// shown, since that may contain the value too.
func run(path string, args []string) ([]byte, error) {
	path, err := trusted.Executable(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := atomicfile.Head{Max: maxValue + 3} // enough to see that it is too long
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, &out
	// The process group is killed as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = fork.RunCommand(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it has not ended after %v", patience)
	case err != nil:
		return nil, fmt.Errorf("%w (its output is not shown)", err)
	}
	return out.Text, nil
}
