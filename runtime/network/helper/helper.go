// Package helper owns the long-lived helper processes of a jail: processes outside the jail that
// serve it for as long as it lives.
//
// A helper is recorded in the jail's directory before it gets any work, and ends by itself if none
// comes. Its starter can be killed at any time: a helper that is left is either recorded or ends.
// Start returns when the helper has made itself ready, while the jail is being made. Place puts the
// helper into control groups once the jail has some. The work itself is between the helper and its
// network mode: the record holds that the work was sent (Assign), and that the helper serves
// (Serves).
//
// A helper ends with the jail's first process, of which its work contains a pidfd, with the jail's
// delete, or with the clean-up after a crash. A process is only ever named by a pidfd that was
// compared with the record.
package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/pidfd"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/helper/child"
	"agentjail.dev/runtime/state"
)

// recordFile is the record of a jail's helper, in the jail's directory. A jail has at most one.
const recordFile = "helper.json"

// stderrFile, in the jail's directory, is the standard error of the helper that was begun last. It
// holds the reason of a helper's end when the starter was gone, and the output of Go's runtime when
// it ends a program. The helper itself and its control group bound the size of the file.
const stderrFile = "helper.stderr"

// Bounds of a helper, if a control group can be made for it.
const (
	MemoryMax = 96 << 20 // bytes
	PidsMax   = 64       // threads
	// SocketsMax is for buffers of sockets: on version 2 beside MemoryMax, on version 1 if the jail
	// itself has no limit.
	SocketsMax = 64 << 20 // bytes
	// QuotaPart divides the jail's processor quota for a helper on version 2, beside that quota. On
	// version 1 both have one.
	QuotaPart = 4
)

const (
	maxRecord = 64 << 10 // bytes
	maxError  = 4 << 10  // bytes
	maxLine   = 300      // characters
	// patience is how long a helper may take to be ready, and a killed one to end.
	patience = 10 * time.Second
)

// A Record records a jail's helper process.
type Record struct {
	Name string `json:"name"` // the program's
	state.Process
	// Assigned reports that the work was sent to the helper, or was about to be. No other process
	// may send it work then.
	Assigned bool `json:"assigned,omitempty"`
	// Answer is the helper's answer once it serves.
	Answer string `json:"answer,omitempty"`
	// Group is the name of the helper's control groups, and Cgroups are the directories that were
	// made for the helper.
	Group   string   `json:"group,omitempty"`
	Cgroups []string `json:"cgroups,omitempty"`
	// Refused reports that the helper could not be moved into one of the groups.
	Refused bool `json:"refused,omitempty"`
}

// Options are the options of a helper's start.
type Options struct {
	Dir  string // the jail's directory
	Name string // the program's file name, beside the running program
	// Program, if not nil, is executed instead of that file, under its name. It is passed on, too,
	// after Files.
	Program *os.File
	// Beside is a process whose control groups the helper's are made beside; 0 leaves that to
	// Place.
	Beside int
	// Group names the helper's control groups.
	Group string
	// Files are passed to the helper, from child.FirstFD.
	Files []*os.File
	// Netns is the network namespace that the helper is started in; nil is this process's.
	Netns *os.File
}

// Load reads the record of a jail's helper; nil if there is none.
func Load(dir string) (*Record, error) {
	data, err := atomicfile.Read(filepath.Join(dir, recordFile), maxRecord)
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

// Waits reports whether the helper runs and has not been sent its work.
func (r *Record) Waits() bool { return r != nil && !r.Assigned && r.Alive() }

// Assign records that the helper is about to be sent its work. After a crash between Assign and
// Serves it is unknown whether the helper got its work.
func (r *Record) Assign(dir string) error {
	r.Assigned = true
	return r.save(dir)
}

// Serves records how the helper serves.
func (r *Record) Serves(dir, answer string) error {
	r.Answer = answer
	return r.save(dir)
}

// Bounded reports whether control groups bound the helper. A user's engine may have none.
func (r *Record) Bounded() bool { return len(r.Cgroups) > 0 && !r.Refused }

// Start starts a helper and records it, sends it the instructions by which it makes itself ready,
// and returns when it is ready and in its control groups. After an error there is no helper, or it
// is on record for End.
//
// The helper's namespaces are the process's. The mounts of the calling thread may be those of a
// jail that is being made.
func Start(o Options, instructions []byte) (*Record, error) {
	path, err := programs.Path(o.Name)
	if err != nil {
		return nil, err
	}
	setup, ourSetup, err := pipe()
	if err != nil {
		return nil, err
	}
	defer ourSetup.Close()
	ourReady, ready, err := pipe()
	if err != nil {
		setup.Close()
		return nil, err
	}
	defer ourReady.Close()
	r, left, of, err := begin(path, o, setup, ready)
	// Without other copies of their ends, each side gets an end of file when the other is gone.
	setup.Close()
	ready.Close()
	if err != nil {
		return nil, err
	}
	crash.Point("create.helping")
	// The move runs in parallel, since it can wait for a grace period of the kernel, and on another
	// thread, whose mounts are the process's.
	err = thread.Together(
		func() error { return r.instruct(ourSetup, ourReady, instructions) },
		func() error { return r.move(left, of) },
	)
	if err == nil && r.Refused {
		err = r.save(o.Dir)
	}
	crash.Point("create.helped")
	if err != nil {
		return nil, errors.Join(err, r.abandon(o.Dir))
	}
	return r, nil
}

// begin starts the program and records it. It returns the control groups that the program is still
// to be moved to, and their bounds. The program waits for its instructions, and ends if there are
// none.
func begin(path string, o Options, setup, ready *os.File) (r *Record, left []string, of []bound, err error) {
	all := placesOf(o)
	if of, err = follow(all); err != nil {
		return nil, nil, nil, err
	}
	of = slices.Concat(own, of)
	if r, err = record(o, all); err != nil {
		return nil, nil, nil, err
	}
	pid, left, err := fork(path, o, r.Cgroups, of, setup, ready)
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("starting %s: %w", o.Name, err), End(o.Dir))
	}
	if err := r.begun(o.Dir, pid); err != nil {
		return nil, nil, nil, errors.Join(err, r.abandon(o.Dir))
	}
	return r, left, of, nil
}

// instruct sends the helper its instructions and returns when it is ready.
func (r *Record) instruct(setup, ready *os.File, instructions []byte) error {
	if err := feed(setup, instructions); err != nil {
		return fmt.Errorf("sending %s its instructions: %w", r.Name, err)
	}
	setup.Close() // so that an end of file arrives
	if err := await(ready); err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	return nil
}

// abandon ends a helper that this process has started.
func (r *Record) abandon(dir string) error {
	_ = unix.Kill(r.Pid, unix.SIGKILL) // our own child, for which only this process waits yet
	return End(dir)
}

// move moves the helper to control groups that it was not born in.
func (r *Record) move(dirs []string, of []bound) error {
	for _, dir := range dirs {
		err := enter(dir, of, r.Pid)
		if rootless.Inside() && errors.Is(err, os.ErrPermission) {
			r.Refused = true // the group that both are below is not the user's (cgroups(7))
			continue
		}
		if err != nil {
			return fmt.Errorf("the control group of %s: %w", r.Name, err)
		}
	}
	return nil
}

// Place puts a jail's helper, if there is one, into control groups beside those of a process,
// unless the helper has some.
func Place(dir string, beside int) error {
	r, err := Load(dir)
	if err != nil || r == nil || len(r.Cgroups) > 0 {
		return err
	}
	all := places(beside, r.Group)
	if r.Cgroups = dirs(all); len(r.Cgroups) == 0 {
		return nil
	}
	of, err := follow(all)
	if err != nil {
		return fmt.Errorf("the limits of the jail, for %s: %w", r.Name, err)
	}
	if err := r.save(dir); err != nil { // before they are made, so that End finds them
		return err
	}
	crash.Point("create.placing")
	fd, err := r.Open()
	if err != nil {
		return err
	}
	if fd < 0 {
		return fmt.Errorf("%s, process %d, has ended", r.Name, r.Pid)
	}
	defer unix.Close(fd)
	if err := r.move(r.Cgroups, slices.Concat(own, of)); err != nil {
		return err
	}
	if r.Refused {
		return r.save(dir)
	}
	return nil
}

// fork starts the program in a session of its own, with nothing of ours but its files. It returns
// the directories of the control groups that the program is not in yet.
func fork(path string, o Options, groups []string, of []bound, work, ready *os.File) (pid int, left []string, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	stderr, err := os.OpenFile(filepath.Join(o.Dir, stderrFile),
		os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, nil, err
	}
	defer stderr.Close()
	files := []uintptr{null.Fd(), null.Fd(), stderr.Fd(), work.Fd(), ready.Fd()}
	for _, f := range o.Files {
		files = append(files, f.Fd())
	}
	if o.Program != nil { // by the number that it has in the child, whose others are overwritten
		path = fmt.Sprintf("/proc/self/fd/%d", len(files))
		files = append(files, o.Program.Fd())
	}
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOTRACEBACK=none", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	err = thread.Own(func() (err error) {
		if o.Netns != nil {
			if err = unix.Setns(int(o.Netns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("joining network namespace %s: %w", o.Netns.Name(), err)
			}
		}
		var second *os.File
		if second, left = birth(groups, of); second != nil {
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

// placesOf returns the places of a helper that is started beside a process.
func placesOf(o Options) []place {
	if o.Beside <= 0 {
		return nil
	}
	return places(o.Beside, o.Group)
}

// record begins the record of the jail's helper, with the control groups that are about to be made
// for it.
func record(o Options, all []place) (*Record, error) {
	r := &Record{
		Name: o.Name, Process: state.Process{PIDNS: state.PIDNS(), BootID: state.BootID()}, Group: o.Group,
		Cgroups: dirs(all),
	}
	if len(r.Cgroups) == 0 {
		return r, nil // nothing is made that End would have to find
	}
	return r, r.save(o.Dir)
}

// begun records the helper's process.
func (r *Record) begun(dir string, pid int) (err error) {
	if r.Process, err = state.Recorded(pid); err != nil {
		return err
	}
	return r.save(dir)
}

func (r *Record) save(dir string) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, recordFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording the jail's helper: %w", err)
	}
	return nil
}

// feed writes the helper's instructions. It may take its time: the helper reads before it does
// anything else.
func feed(w *os.File, data []byte) error {
	if err := w.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// await reads the helper's answer.
func await(ready *os.File) error {
	if err := ready.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	var text []byte
	buf := make([]byte, maxError)
	for len(text) < maxError {
		n, err := ready.Read(buf[:maxError-len(text)])
		text = append(text, buf[:n]...)
		if string(text) == child.Ready {
			return nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("not ready after %v", patience)
		}
		if err != nil || n == 0 {
			break
		}
	}
	if why := strings.TrimSpace(string(text)); why != "" {
		return errors.New(why)
	}
	return errors.New("it ended before it was ready")
}

// LastError returns the first line that the helper begun last has written to its standard error, as
// printable text in quotes; "" if there is none. A helper talks to a jail: its output is read with
// limits.
func LastError(dir string) string {
	f, err := os.OpenFile(filepath.Join(dir, stderrFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, maxError))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return ""
	}
	return `"` + printable.Line(line, maxLine) + `"`
}

// End ends a jail's helper, if there is one, and removes what was made for it. It returns when the
// process has ended.
func End(dir string) error {
	r, err := Load(dir)
	if err != nil || r == nil {
		return err
	}
	if err := r.kill(); err != nil {
		return err
	}
	if r.BootID == state.BootID() {
		for _, g := range r.Cgroups {
			if err := leave(g); err != nil {
				return fmt.Errorf("removing the helper's control group: %w", err)
			}
		}
	}
	for _, name := range []string{stderrFile, recordFile} { // the record last, by which the rest is found
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the record of the jail's helper: %w", err)
		}
	}
	return nil
}

// Kill ends the process of a jail's helper, if there is one, and leaves the rest to End.
func Kill(dir string) error {
	r, err := Load(dir)
	if err != nil || r == nil {
		return err
	}
	return r.kill()
}

// kill kills the process and waits for its end. One of another PID namespace ends with its control
// groups, or they stay where they hold it.
func (r *Record) kill() error {
	fd, err := r.Open()
	if errors.Is(err, state.ErrElsewhere) && len(r.Cgroups) > 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ending the jail's helper: %w", err)
	}
	// If the helper is this process's child, no other process may wait for it.
	defer func() { _, _ = unix.Wait4(r.Pid, nil, unix.WNOHANG, nil) }()
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	if err := pidfd.Kill(fd, patience); err != nil {
		return fmt.Errorf("ending the jail's helper, process %d: %w", r.Pid, err)
	}
	return nil
}

func pipe() (r, w *os.File, err error) {
	var fds [2]int
	// Non-blocking, so that deadlines hold; a helper makes its own ends as it likes.
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "helper's pipe"), os.NewFile(uintptr(fds[1]), "helper's pipe"), nil
}
