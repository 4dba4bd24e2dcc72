package leak

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// A snapshot is what there is on the host that a jail could leave, one line each.
type snapshot map[string]bool

// take looks at everything. Lines of others change while the tests run; see ours.
func take(t testing.TB) snapshot {
	t.Helper()
	s := snapshot{}
	f, err := os.Open("/proc/self/mountinfo")
	env.Check(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// Without the numbers in front, which mean nothing to anybody.
		if f := strings.Fields(lines.Text()); len(f) > 5 {
			s["mount "+strings.Join(f[3:], " ")] = true
		}
	}
	for kind, root := range map[string]string{"cgroup": "/sys/fs/cgroup", "state": "/run/agentjail", "delegate's state": filepath.Join(base, "state")} {
		_ = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // it went while we looked
			}
			if kind != "cgroup" || e.IsDir() {
				s[kind+" "+p] = true
			}
			return nil
		})
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		args, _ := os.ReadFile(p + "/cmdline")
		group, _ := os.ReadFile(p + "/cgroup")
		s[fmt.Sprintf("process %s %q %q", filepath.Base(p), args, group)] = true
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && !strings.Contains(to, "anon_inode") && !strings.HasPrefix(to, "/proc/") {
			s["open file "+to] = true
		}
	}
	return s
}

// ours reports whether a line is about this run. On a machine of its own, as in continuous integration, every line is:
// AGENTJAIL_TEST_ALONE reports it.
func ours(line string) bool {
	return strings.Contains(line, filepath.Base(base)) || os.Getenv("AGENTJAIL_TEST_ALONE") != "" && !strings.HasPrefix(line, "process ")
}

// unchanged waits until everything of this run that came after before is gone, and fails the test otherwise.
func unchanged(t testing.TB, before snapshot) {
	t.Helper()
	var left []string
	if !env.Poll(env.Patience, func() bool {
		left = left[:0]
		for line := range take(t) {
			// The directory of the run itself and its own cgroup, which the delegate makes as a parent, stay.
			if !before[line] && ours(line) && !keeps(line) {
				left = append(left, line)
			}
		}
		return len(left) == 0
	}) {
		if len(left) > 20 {
			left = append(left[:20], fmt.Sprintf("and %d more", len(left)-20))
		}
		t.Errorf("left behind:\n  %s", strings.Join(left, "\n  "))
	}
}

// keeps reports whether a line may stay: the parent cgroup that all containers of the run share, the delegate's empty state
// directory, and what this process is.
func keeps(line string) bool {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "cgroup":
		return filepath.Base(rest) == filepath.Base(base)
	case "delegate's":
		return strings.TrimPrefix(rest, "state ") == filepath.Join(base, "state")
	case "process":
		return strings.HasPrefix(rest, strconv.Itoa(os.Getpid())+" ")
	}
	return false
}

// slab counts live kernel objects of a kind (slabinfo(5)); -1 when the kernel does not report them.
func slab(name string) int {
	text, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		return -1
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == name {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return -1
}
