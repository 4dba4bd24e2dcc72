package guest

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// isReport reports whether the program is the step's own report. The step writes it itself, before
// other processes of the jail may look into it.
func isReport(o *jailinit.Orders, program []string) bool {
	return o.Guest && len(program) == 2 && program[0] == jailinit.StepProgram && program[1] == jailinit.Report
}

// maxReported bounds how many processes are reported.
const maxReported = 4096

// report is what only a guest's kernel knows, a line for each process, mount, device and limit
// (jailinit.Report).
func report() (string, error) {
	var b strings.Builder
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", err
	}
	n := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || n == maxReported {
			continue
		}
		text, err := file("/proc/" + e.Name() + "/status")
		if err != nil {
			continue // it has ended
		}
		n++
		b.WriteString("process " + e.Name())
		for _, key := range jailinit.ReportedStatus {
			b.WriteString(" " + statusField(text, key))
		}
		b.WriteByte('\n')
	}
	if err := reportMounts(&b); err != nil {
		return "", err
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

// statusField is a value of proc_pid_status(5), "-" where there is none.
func statusField(text, key string) string {
	value := "-"
	lines(text, func(l string) bool {
		if k, v, ok := strings.Cut(l, ":"); ok && k == key {
			value = strings.TrimSpace(v)
		}
		return true
	})
	return value
}

func reportMounts(b *strings.Builder) error {
	ms, err := table()
	if err != nil {
		return err
	}
	for i := range ms {
		m := &ms[i]
		mode, size := "rw", uint64(0)
		if m.ReadOnly() {
			mode = "ro"
		}
		var fs unix.Statfs_t
		if m.FS == "tmpfs" && unix.Statfs(m.Point, &fs) == nil {
			size = fs.Blocks * uint64(fs.Bsize)
		}
		b.WriteString("mount " + mode + " " + m.FS + " " + itoa(size) + " " + strconv.Quote(m.Point) + "\n")
	}
	return nil
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
