package guest

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// isReport reports whether the program is the step's own report. The step writes it itself, before
// other processes of the jail may look into it.
func isReport(o *jailinit.Orders, program []string) bool {
	return o.Guest && len(program) >= 2 && program[0] == jailinit.StepProgram && program[1] == jailinit.Report
}

// maxReported bounds how many processes are reported.
const maxReported = 4096

// report is what only a guest's kernel knows, a line for each process, mount, path, clock, device
// and limit (jailinit.Report).
func report(paths []string) (string, error) {
	var b strings.Builder
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", err
	}
	n, again := 0, newProcessTries
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || n == maxReported {
			continue
		}
		fields, err := settledStatus(func() (string, error) { return file("/proc/" + e.Name() + "/status") }, &again)
		if err != nil {
			continue // it has ended
		}
		n++
		b.WriteString("process " + e.Name())
		for _, name := range jailinit.ReportedStatus {
			if fields[name] == "" {
				fields[name] = "-"
			}
			b.WriteString(" " + fields[name])
		}
		b.WriteByte('\n')
	}
	if err := reportMounts(&b); err != nil {
		return "", err
	}
	for _, p := range paths {
		reportPath(&b, p)
	}
	for name, id := range map[string]int32{"boottime": unix.CLOCK_BOOTTIME, "monotonic": unix.CLOCK_MONOTONIC} {
		var now unix.Timespec
		if unix.ClockGettime(id, &now) == nil {
			b.WriteString("clock " + name + " " + itoa(uint64(now.Sec)) + "\n")
		}
	}
	reportDevices(&b)
	for i := range unix.RLIMIT_RTTIME + 1 {
		var l unix.Rlimit
		if unix.Getrlimit(i, &l) == nil {
			b.WriteString("rlimit " + strconv.Itoa(i) + " " + itoa(l.Cur) + " " + itoa(l.Max) + "\n")
		}
	}
	return b.String(), nil
}

// A new process is read again so often, of a whole report, with this pause.
const (
	newProcessTries = 100
	newProcessPause = time.Millisecond
)

// settledStatus returns the fields of a process's status. gVisor shows a new process for a moment
// without its parent's filters, before it has them and begins (Clone in
// pkg/sentry/kernel/task_clone.go): one without filters is read again, as long as tries are left.
func settledStatus(read func() (string, error), tries *int) (map[string]string, error) {
	for {
		text, err := read()
		if err != nil {
			return nil, err
		}
		fields := statusFields(text)
		if fields["Seccomp"] != "0" || *tries == 0 {
			return fields, nil
		}
		*tries--
		time.Sleep(newProcessPause)
	}
}

func reportMounts(b *strings.Builder) error {
	ms, err := table()
	if err != nil {
		return err
	}
	for i := range ms {
		m := &ms[i]
		mode, spread := "rw", "private"
		if m.ReadOnly() {
			mode = "ro"
		}
		if strings.Contains(m.Tags, "shared:") || strings.Contains(m.Tags, "master:") {
			spread = "shared"
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(m.Point, &fs); err != nil {
			fs = unix.Statfs_t{}
		}
		words := []string{"mount", mode, spread, m.FS, itoa(fs.Blocks * uint64(fs.Bsize)), itoa(fs.Files), strconv.Quote(m.Point)}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	return nil
}

// reportPath writes whether a path has any text, or entries, for this process, and whether it could
// be written to. Nothing is written for a path that is not there.
func reportPath(b *strings.Builder, name string) {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return
	}
	text, change := "hidden", "fixed"
	if hasText(name) {
		text = "readable"
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && unix.Access(name, unix.W_OK) == nil {
		change = "writable"
	}
	b.WriteString("path " + text + " " + change + " " + strconv.Quote(name) + "\n")
}

// hasText reports whether a file has a first byte, or a directory an entry. It does not wait for
// one.
func hasText(name string) bool {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	if n, err := unix.Read(fd, buf[:1]); err == nil {
		return n > 0
	}
	n, err := unix.ReadDirent(fd, buf)
	if err != nil {
		return false
	}
	_, found, _ := unix.ParseDirent(buf[:max(n, 0)], 1, nil) // without . and ..
	return found > 0
}

func reportDevices(b *strings.Builder) {
	entries, _ := os.ReadDir("/dev")
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat("/dev/"+e.Name(), &st) != nil {
			continue
		}
		kind := ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFCHR:
			kind = "c"
		case unix.S_IFBLK:
			kind = "b"
		default:
			continue
		}
		number := itoa(uint64(unix.Major(st.Rdev))) + ":" + itoa(uint64(unix.Minor(st.Rdev)))
		b.WriteString("device " + kind + " " + number + " " + strconv.Quote("/dev/"+e.Name()) + "\n")
	}
}
