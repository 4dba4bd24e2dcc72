package jail

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"

	"agentjail.dev/runtime/delegate"
)

// State prints the delegate's answer with the engine's own bundle and root in
// it: an engine compares them with what it knows.
func (w *Way) State(id string) error {
	j, err := w.find(id)
	if err != nil {
		return err
	}
	if j == nil {
		return w.Pass(id, []string{"state", id})
	}
	d, err := w.delegateFor(j)
	if err != nil {
		return err
	}
	s, err := w.askState(d, j)
	if err != nil {
		return err
	}
	s["bundle"] = j.Bundle
	if _, has := s["rootfs"]; has && j.EngineRoot != "" {
		s["rootfs"] = j.EngineRoot
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

// capture runs the delegate and returns what it printed.
func capture(d *delegate.Runtime, args []string, t delegate.Time) ([]byte, int, error) {
	if t.Join == nil {
		cmd := exec.Command(d.Path, args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			return out, ee.ExitCode(), nil
		}
		return out, 0, err
	}
	defer t.Join.Close()
	r, wr, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	var buf bytes.Buffer
	read := make(chan error, 1)
	go func() { _, err := buf.ReadFrom(r); read <- err }()
	code, err := d.RunTo(wr, args, t)
	wr.Close()
	if rerr := <-read; err == nil {
		err = rerr
	}
	return buf.Bytes(), code, err
}
