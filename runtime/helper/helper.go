// Package helper owns the long-lived helper processes of a jail: processes outside it that serve it for as long as it lives.
//
// A helper is recorded in the jail's directory before it is given any work, and waits for that work: whoever starts it can be killed at
// any time, and what is left is either recorded or ends by itself. It ends with the jail's first process, of which it has a pidfd, with
// the jail's delete, or with the clean-up after a crash. A process is only ever named by a pidfd that was compared with the record.
package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/helper/child"
	"agentjail.dev/runtime/linux/atomicfile"
	"agentjail.dev/runtime/linux/thread"
	"agentjail.dev/runtime/linux/trusted"
	"agentjail.dev/runtime/rootless"
	"agentjail.dev/runtime/state"
)

// File is the record of a jail's helper, in the jail's directory. A jail has at most one.
const File = "helper.json"

// Bounds of a helper, where a control group can be made for it.
const (
	MemoryMax = 96 << 20 // bytes
	PidsMax   = 64       // threads
)

const (
	maxRecord = 64 << 10 // bytes
	maxError  = 4 << 10  // bytes
	// patience is how long a helper may take to be ready, and a killed one to end.
	patience = 10 * time.Second
)

// A Record tells which process helps a jail.
type Record struct {
	Name   string `json:"name"` // the program's
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start"`  // clock ticks since boot (proc_pid_stat(5), field 22)
	BootID string `json:"bootID"` // of the boot that Start counts from
	// Answer is what it told its starter of itself, once it served.
	Answer string `json:"answer,omitempty"`
	// Cgroups are the control group directories that were made for it.
	Cgroups []string `json:"cgroups,omitempty"`
}

// Options are what a helper is started with.
type Options struct {
	Dir  string // the jail's directory
	Name string // the program's file name, beside the running program
	// Beside is a process whose control groups the helper's are made beside; 0 makes none.
	Beside int
	// Group names the helper's control groups.
	Group string
	// Files are handed on, from child.FirstFD.
	Files []*os.File
	// Netns is the network namespace that the helper is started in; nil is this process's.
	Netns *os.File
}

// Load reads the record of a jail's helper; nil where there is none.
func Load(dir string) (*Record, error) {
	data, err := atomicfile.Read(filepath.Join(dir, File), maxRecord)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of the jail's helper: %w", err)
	}
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("reading the record of the jail's helper: %w", err)
	}
	return r, nil
}

// pidfd opens the recorded process, or returns -1 where it has ended: the number may be another's by now.
func (r *Record) pidfd() (int, error) {
	if r.Pid <= 1 || r.BootID != state.BootID() {
		return -1, nil
	}
	fd, err := unix.PidfdOpen(r.Pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL { // EINVAL: a thread of somebody's has the number
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", r.Pid, err)
	}
	// After it was opened: the descriptor stays with the process that is looked at, or that process has ended.
	start, letter, err := state.StartTime(r.Pid)
	if err != nil || start != r.Start || letter == 'Z' || letter == 'X' {
		unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

// Alive says whether the helper runs.
func (r *Record) Alive() bool {
	fd, err := r.pidfd()
	if err != nil || fd < 0 {
		return false
	}
	unix.Close(fd)
	return true
}

// A Pending helper has been started and recorded, and waits for its work.
type Pending struct {
	o           Options
	pid         int
	record      *Record
	work, ready *os.File     // our ends of its pipes
	moved       func() error // waits until it is in its control groups
	refused     bool         // into one of them, known once moved has returned
}

// Begin starts a helper, which makes itself ready as far as it can without its work: by Serve it gets that, and by Abandon it is ended.
// After an error there is none, or what is left of it is on record for End.
//
// Its namespaces are the process's, not the calling thread's, whose mounts may be a jail's that is being made.
func Begin(o Options) (*Pending, error) {
	path, err := Path(o.Name)
	if err != nil {
		return nil, err
	}
	work, work2, err := pipe()
	if err != nil {
		return nil, err
	}
	defer work.Close() // so that it gets an end of file when ours is closed
	ready, ready2, err := pipe()
	if err != nil {
		work2.Close()
		return nil, err
	}
	defer ready2.Close()
	p := &Pending{o: o, work: work2, ready: ready, moved: func() error { return nil }}
	if p.record, err = record(o); err != nil {
		p.close()
		return nil, err
	}
	var left []string
	if p.pid, left, err = fork(path, o, p.record.Cgroups, work, ready2); err != nil {
		p.close()
		return nil, errors.Join(fmt.Errorf("starting %s: %w", o.Name, err), End(o.Dir))
	}
	if err = p.record.begun(o.Dir, p.pid); err != nil {
		return nil, errors.Join(err, p.Abandon())
	}
	p.move(left)
	return p, nil
}

// move moves the helper to control groups that it was not born in, meanwhile: a move can wait for a grace period of the kernel.
func (p *Pending) move(dirs []string) {
	done := make(chan error, 1)
	p.moved = sync.OnceValue(func() error { return <-done })
	go func() {
		for _, dir := range dirs {
			err := enter(dir, p.pid)
			if rootless.Inside() && errors.Is(err, os.ErrPermission) {
				p.refused = true // the group that both are below is not the user's (cgroups(7))
				continue
			}
			if err != nil {
				done <- fmt.Errorf("the control group of %s: %w", p.o.Name, err)
				return
			}
		}
		done <- nil
	}()
}

// Serve tells the helper its work and returns when it serves, in its control groups. After an error it is ended, or what is left of it is
// on record for End.
func (p *Pending) Serve(work []byte) error {
	err := p.serve(work)
	if err != nil {
		return errors.Join(err, p.Abandon())
	}
	p.close()
	return nil
}

func (p *Pending) serve(work []byte) error {
	if err := feed(p.work, work); err != nil {
		return fmt.Errorf("telling %s its work: %w", p.o.Name, err)
	}
	p.work.Close() // so that an end of file arrives
	answer, err := await(p.ready)
	if err != nil {
		return fmt.Errorf("%s: %w", p.o.Name, err)
	}
	if answer != "" {
		p.record.Answer = answer
		if err := p.record.save(p.o.Dir); err != nil {
			return err
		}
	}
	return p.moved()
}

// Answer is what the helper told of itself once it served.
func (p *Pending) Answer() string { return p.record.Answer }

// Bounded says whether control groups bound the helper once it serves. A user's engine may have none to give.
func (p *Pending) Bounded() bool { return p.moved() == nil && len(p.record.Cgroups) > 0 && !p.refused }

// Abandon ends the helper, which may have had its work.
func (p *Pending) Abandon() error {
	p.close()
	_ = unix.Kill(p.pid, unix.SIGKILL) // our own child, which nobody but us waits for yet
	_ = p.moved()                      // nothing may be made for it after its end
	return End(p.o.Dir)
}

func (p *Pending) close() {
	p.work.Close()
	p.ready.Close()
}

// fork starts the program in a session of its own, with nothing of ours but its files. It returns those of the control groups that it is
// not in yet.
func fork(path string, o Options, groups []string, work, ready *os.File) (pid int, left []string, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd(), work.Fd(), ready.Fd()}
	for _, f := range o.Files {
		files = append(files, f.Fd())
	}
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOTRACEBACK=none", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	}
	err = thread.Own(func() (err error) {
		if o.Netns != nil {
			if err = unix.Setns(int(o.Netns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("joining network namespace %s: %w", o.Netns.Name(), err)
			}
		}
		var second *os.File
		if second, left = birth(groups); second != nil {
			defer second.Close()
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(second.Fd())
			if pid, err = syscall.ForkExec(path, []string{o.Name}, attr); err == nil {
				return nil
			}
			attr.Sys.UseCgroupFD = false // clone3(2) may be unknown, or denied
			left = append(left, second.Name())
		}
		pid, err = syscall.ForkExec(path, []string{o.Name}, attr)
		return err
	})
	return pid, left, err
}

// record begins the record of who helps the jail, with the control groups that are about to be made for it.
func record(o Options) (*Record, error) {
	r := &Record{Name: o.Name, BootID: state.BootID()}
	if o.Beside > 0 {
		r.Cgroups = groups(o.Beside, o.Group)
	}
	if len(r.Cgroups) == 0 {
		return r, nil // nothing is made that End would have to find
	}
	return r, r.save(o.Dir)
}

// begun records the helper's process.
func (r *Record) begun(dir string, pid int) (err error) {
	r.Pid = pid
	if r.Start, _, err = state.StartTime(pid); err != nil {
		return err
	}
	return r.save(dir)
}

func (r *Record) save(dir string) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, File), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording the jail's helper: %w", err)
	}
	return nil
}

// feed writes the helper's work, for which it has patience: it reads before it does anything else.
func feed(w *os.File, data []byte) error {
	if err := w.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// await reads the helper's word, and returns its answer.
func await(ready *os.File) (answer string, err error) {
	if err := ready.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	var text []byte
	buf := make([]byte, maxError)
	for len(text) < maxError {
		n, err := ready.Read(buf[:maxError-len(text)])
		text = append(text, buf[:n]...)
		if answer, ok := child.Answer(string(text)); ok {
			return answer, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "", fmt.Errorf("not ready after %v", patience)
		}
		if err != nil || n == 0 {
			break
		}
	}
	if why := strings.TrimSpace(string(text)); why != "" {
		return "", errors.New(why)
	}
	return "", errors.New("it ended before it was ready")
}

// End ends a jail's helper, if it has one, and removes what was made for it. It returns when the process has ended.
func End(dir string) error {
	r, err := Load(dir)
	if err != nil || r == nil {
		return err
	}
	if err := r.kill(); err != nil {
		return fmt.Errorf("ending the jail's helper: %w", err)
	}
	if r.BootID == state.BootID() {
		for _, g := range r.Cgroups {
			if err := leave(g); err != nil {
				return fmt.Errorf("removing the helper's control group: %w", err)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, File)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the record of the jail's helper: %w", err)
	}
	return nil
}

// kill kills the process and waits for its end.
func (r *Record) kill() error {
	fd, err := r.pidfd()
	if err != nil {
		return err
	}
	// Where it is this process's child, nobody else may wait for it.
	defer func() { _, _ = unix.Wait4(r.Pid, nil, unix.WNOHANG, nil) }()
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("killing process %d: %w", r.Pid, err)
	}
	deadline := time.Now().Add(patience)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("process %d has not ended %v after it was killed", r.Pid, patience)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return err
		}
		if n > 0 {
			return nil
		}
	}
}

// Path is where a helper's program is expected: beside the running one. Nobody but root may have written it.
func Path(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's directory: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), name)
	return path, Check(path)
}

// Check says what is wrong with a helper's program, or nil.
func Check(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case err == unix.ENOENT:
		return fmt.Errorf("%s is missing: it belongs beside agentjail (remedy: install both from one build)", path)
	case err != nil:
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a file", path)
	}
	return trusted.Owner(path, &st)
}

func pipe() (r, w *os.File, err error) {
	var fds [2]int
	// Non-blocking, so that deadlines hold; a helper makes its own ends as it likes.
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "helper's pipe"), os.NewFile(uintptr(fds[1]), "helper's pipe"), nil
}
