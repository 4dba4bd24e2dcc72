// Package guest is the jail's side of the init step: it runs as the first
// program of every process that enters a jail, under all of the jail's protections.
//
// It imports next to nothing, and neither package fmt nor reflection: every
// start waits for it. Nothing that it reads in the jail is trusted further than
// to refuse the start: the files of /proc are the kernel's, and paths are
// opened without following links.
package guest

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/spec/rings"
)

// A refusal stops the start. It is made without package fmt.
type refusal string

func (r refusal) Error() string { return string(r) }

// ringRefusal refuses a start since a protection of a ring is missing.
func ringRefusal(ring rings.Ring, what string) error { return refusal(ring.String() + ": " + what) }

// Main is the whole program. It does not return.
func Main() {
	// Landlock and seccomp hold for a thread; the one that has them must be
	// the one that execs.
	runtime.LockOSThread()
	// Until then, this process is not the jail's to look into.
	failIf("clearing the dumpable flag", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	o, err := orders()
	failIf("the init step's orders", err)
	failIf("refusing to start", check(o))
	failIf("refusing to start", protect(o))
	program := os.Args[1:]
	if o.Guest {
		program = program[1:] // behind the name of the orders
	}
	if len(program) == 0 {
		fail(jailinit.ExitRefused, "agentjail: no program to start")
	}
	if isReport(o, program) {
		text, err := report(program[2:])
		if err == nil {
			_, err = os.Stdout.WriteString(text)
		}
		failIf("reporting", err)
		os.Exit(0)
	}
	env := o.Variables(os.Environ())
	path, status, why := lookup(program[0], env)
	if status != 0 {
		fail(status, why)
	}
	last, err := newFinal(o, path, program, env)
	failIf("refusing to start", err)
	if o.Init.Stays {
		last.stay(o.Init.Leads, !o.Guest)
	}
	last.become()
}

// failIf ends the process where there is an error.
func failIf(what string, err error) {
	if err != nil {
		fail(jailinit.ExitRefused, "agentjail: "+what+": "+err.Error())
	}
}

// fail ends the process with a message on its standard error.
func fail(status int, why string) {
	_, _ = unix.Write(2, []byte(why+"\n"))
	os.Exit(status)
}

// orders reads what the host's side wrote, and closes both files. A third stays this program's.
func orders() (*jailinit.Orders, error) {
	if len(os.Args) > 1 && os.Args[0] == jailinit.StepProgram {
		return fileOrders(jailinit.StepDir + "/" + os.Args[1])
	}
	data, err := read(jailinit.OrdersFD, 1<<20)
	if err != nil {
		return nil, err
	}
	o, err := jailinit.Decode(data)
	if err != nil {
		return nil, err
	}
	for _, fd := range []int{jailinit.ProgramFD, jailinit.OrdersFD} {
		if err := unix.Close(fd); err != nil {
			return nil, err
		}
	}
	// Anything else in its place is a file that a delegate left open, and found as such.
	var st unix.Stat_t
	if o.Init.Stays && unix.Fstat(jailinit.LifeFD, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		unix.CloseOnExec(jailinit.LifeFD)
	}
	from := jailinit.LifeFD
	if o.Init.Stays {
		from++
	}
	for i, to := range o.Standard {
		if err := unix.Dup3(from+i, int(to), 0); err != nil {
			return nil, err
		}
		if err := unix.Close(from + i); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// fileOrders reads orders for a guest. Those for the host's kernel are refused: their checks are
// others.
func fileOrders(path string) (*jailinit.Orders, error) {
	text, err := file(path)
	if err != nil {
		return nil, err
	}
	o, err := jailinit.Decode([]byte(text))
	if err == nil && !o.Guest {
		err = jailinit.ErrForm
	}
	return o, err
}

// protect puts up the protections that only the process itself can, but for those of
// a final: they take away what the others and the step need.
func protect(o *jailinit.Orders) error {
	runOn(o.CPUs, o.Seed)
	unix.Umask(int(o.Umask))
	if o.DenyWriteExecute {
		if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
			return ringRefusal(rings.Access, "process.deny_write_execute: "+err.Error()+" (Linux 6.3 is needed)")
		}
	}
	if o.Landlock.Want {
		if err := confine(o); err != nil {
			return ringRefusal(rings.Access, "Landlock: "+err.Error())
		}
	}
	if len(o.Filter) > 0 {
		if err := pad(o); err != nil {
			return ringRefusal(rings.Kernel, "padding of filters: "+err.Error())
		}
	}
	return nil
}

// read reads to the end of a file of at most max bytes.
func read(fd, max int) ([]byte, error) {
	buf := make([]byte, 32<<10)
	n := 0
	for {
		m, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return buf[:n], nil
		}
		if n += m; n >= max {
			return nil, unix.EFBIG
		}
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// file reads a file of the kernel's by its path.
func file(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b, err := read(fd, 4<<20)
	if err != nil {
		return "", &os.PathError{Op: "read", Path: path, Err: err}
	}
	return string(b), nil
}
