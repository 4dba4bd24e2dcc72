package delegate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// created makes the directory of a container as a delegate leaves it, and a process
// that stands for the container's.
func created(t *testing.T, record string) (dir string, process *exec.Cmd, pidfd int) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, fifoName), 0o622); err != nil {
		t.Fatal(err)
	}
	if record != "" {
		if err := os.WriteFile(filepath.Join(dir, record), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	process = exec.Command("sleep", "100000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	pidfd, err := unix.PidfdOpen(process.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pidfd) })
	return dir, process, pidfd
}

func never() error { return nil }

func TestStartRunc(t *testing.T) {
	dir, _, pidfd := created(t, "state.json")
	fifo := filepath.Join(dir, fifoName)
	wrote := make(chan error, 1)
	go func() { // as runc init does
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("0")
			f.Close()
		}
		wrote <- err
	}()
	known, err := Start(dir, pidfd, never)
	if !known || err != nil {
		t.Fatalf("Start: %v, %v", known, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(fifo); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the FIFO is still there, so that the delegate takes the container for created: %v", err)
	}
	// A second start finds a container that runs, which the delegate reports.
	if known, err := Start(dir, pidfd, never); known || err != nil {
		t.Errorf("of a container that runs: %v, %v", known, err)
	}
}

func TestStartRuncDead(t *testing.T) {
	dir, process, pidfd := created(t, "state.json")
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if known, err := Start(dir, pidfd, never); !known || !errors.Is(err, errDead) {
		t.Errorf("of a dead container: %v, %v", known, err)
	}
}

func TestStartRuncStopped(t *testing.T) {
	dir, _, pidfd := created(t, "state.json")
	paused := errors.New("paused")
	if known, err := Start(dir, pidfd, func() error { return paused }); !known || !errors.Is(err, paused) {
		t.Errorf("of a paused container: %v, %v", known, err)
	}
}

// TestStartRuncRuns: no process writes to the FIFO of a container that an earlier call started and
// was killed before it removed the FIFO.
func TestStartRuncRuns(t *testing.T) {
	dir, _, pidfd := created(t, "state.json")
	if known, err := Start(dir, pidfd, func() error { return ErrRuns }); !known || !errors.Is(err, ErrRuns) {
		t.Errorf("of a container that runs: %v, %v", known, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, fifoName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the FIFO is still there, so that the delegate takes the container for created: %v", err)
	}
	// One that wrote meanwhile was started by this call.
	dir, _, pidfd = created(t, "state.json")
	known, err := Start(dir, pidfd, func() error {
		f, err := os.OpenFile(filepath.Join(dir, fifoName), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString("0"); err != nil {
			return err
		}
		return ErrRuns
	})
	if !known || err != nil {
		t.Errorf("of a container that was started just now: %v, %v", known, err)
	}
}

func TestStartCrun(t *testing.T) {
	dir, _, pidfd := created(t, "status")
	fifo := filepath.Join(dir, fifoName)
	if known, err := Start(dir, pidfd, never); !known || !errors.Is(err, errDead) {
		t.Errorf("of a container whose process has gone: %v, %v", known, err)
	}
	f, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0) // as crun's process does
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if known, err := Start(dir, pidfd, never); !known || err != nil {
		t.Fatalf("Start: %v, %v", known, err)
	}
	var one [1]byte
	if n, err := f.Read(one[:]); n != 1 || one[0] != 0 {
		t.Errorf("the process reads %d bytes, %v: %v", n, one, err)
	}
	if _, err := os.Lstat(fifo); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the FIFO is still there: %v", err)
	}
}

// What does not look as expected is left to the delegate.
func TestStartUnknown(t *testing.T) {
	dir, _, pidfd := created(t, "")
	if known, err := Start(dir, pidfd, never); known || err != nil {
		t.Errorf("of an unknown delegate's directory: %v, %v", known, err)
	}
	other := t.TempDir()
	for _, name := range []string{"state.json", fifoName} { // a plain file in the FIFO's place
		if err := os.WriteFile(filepath.Join(other, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if known, err := Start(other, pidfd, never); known || err != nil {
		t.Errorf("without a FIFO: %v, %v", known, err)
	}
}
