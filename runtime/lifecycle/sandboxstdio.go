package lifecycle

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
)

// A sandbox keeps a position of its own in a regular file, which begins at 0: it would overwrite
// what others have written to the file, and read what they have read. Where this process stays,
// such a file is the other end of a pipe.

// copies are copies between standard files and pipes.
type copies struct {
	pipes  []*os.File // the sandbox's ends
	inputs []*os.File
	wg     sync.WaitGroup
}

// pipeFiles returns the delegate with pipes in the place of standard files that are regular ones.
func (r *Runtime) pipeFiles(d *delegate.Runtime) (*delegate.Runtime, *copies, error) {
	own, c := *d, &copies{}
	for i, f := range r.stdio() {
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			c.started()
			return nil, nil, fmt.Errorf("making a pipe: %w", err)
		}
		if i == 0 {
			own.Stdio[i] = read
			c.pipes, c.inputs = append(c.pipes, read), append(c.inputs, write)
			go func() { _, _ = io.Copy(write, f); write.Close() }()
			continue
		}
		own.Stdio[i] = write
		c.pipes = append(c.pipes, write)
		c.wg.Go(func() { _, _ = io.Copy(f, read); read.Close() })
	}
	return &own, c, nil
}

// started closes the ends that the sandbox has by now.
func (c *copies) started() {
	if c == nil {
		return
	}
	for _, f := range c.pipes {
		f.Close()
	}
	c.pipes = nil
}

// drain waits for the last output, when all writers have ended.
func (c *copies) drain() {
	if c != nil {
		c.started()
		c.wg.Wait()
		for _, f := range c.inputs {
			f.Close()
		}
	}
}
