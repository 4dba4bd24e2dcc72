// Command boundaries compares what stands between a program and the host: plain chroot,
// systemd-nspawn, runc, Docker, Podman, jails, and gVisor alone and below a jail. Each runs the
// same file tree. Measured are the start of a command that ends at once, such a command beside
// one that waits, the memory of that one, small files made and removed a second, the host's
// system calls that can be reached, what is shown of the host, and which of some known ways out
// are stopped. What does not run on this machine is named, with the reason. A second table
// compares jails with the delegates alone.
//
//	make boundaries BOUNDARIES='-docs docs'    writes the tables into docs/boundaries.md
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/hack/bench/boundaries/shown"
	"agentjail.dev/tests/engine"
)

func main() {
	engine.IfJanitor()
	docs := flag.String("docs", "", "put the table into boundaries.md in `DIR`")
	rounds := flag.Int("rounds", 7, "how often each start is measured")
	flag.Parse()
	if err := run(*docs, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "boundaries:", err)
		os.Exit(1)
	}
}

// A subject is a boundary: a command line that runs a command behind it.
type subject struct {
	name string
	// command returns the call for a command; token is in the arguments of every process
	// that it leaves on the host.
	command func(ctx context.Context, token string, args ...string) *exec.Cmd
	// beside returns the call for a command beside the one that was called with token; nil where
	// there is none.
	beside func(ctx context.Context, token string, args ...string) *exec.Cmd
	// stop ends what a killed call leaves; nil for nothing.
	stop func(token string)
	// client reports that the call is an engine's client, whose memory is not the
	// container's.
	client bool
	// bare reports that it stops nothing by itself: what is stopped there, the machine
	// stops.
	bare bool
	// why is the reason where it was not run here.
	why string
}

// A row is what was found out of a subject.
type row struct {
	subject
	start  time.Duration // the median
	exec   time.Duration // the median; 0: there is none
	times  []time.Duration
	memory uint64 // bytes
	files  int    // a second, the median
	rates  []int
	calls  int // of the host's kernel; -1: not known
	shown  int // of shown.Rows
	tries  map[string]string
}

// stopped counts the ways out that end behind the boundary.
func (r *row) stopped() (n int) {
	for _, t := range tries {
		if r.tries[t] == "stopped" {
			n++
		}
	}
	return n
}

// through is what the program that tries to leave prints when it has left.
const through = "through"

// tries are the ways out, in the order of the table.
var tries = []string{"double chroot", "fchdir", "mknod", "ptrace", "/proc/1/root"}

func run(docs string, rounds int) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root")
	}
	l, err := newLab()
	if err != nil {
		return err
	}
	defer l.close()
	var rows []row
	for _, s := range l.subjects() {
		r := row{subject: s, tries: map[string]string{}}
		if s.why == "" {
			if err := l.measure(&r); err != nil {
				r.why = "not run here: " + err.Error()
			}
		}
		rows = append(rows, r)
	}
	if err := l.starts(rows, rounds); err != nil {
		return err
	}
	table := markdown(rows) + "\n" + compared(rows)
	fmt.Print(table)
	if docs == "" {
		return nil
	}
	return write(filepath.Join(docs, "boundaries.md"), table)
}

// reference is the subject whose start is the unit.
const reference = "runc"

// markdown is the table.
func markdown(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| boundary | start | exec | memory | files/s | system calls | shown, of %d | not stopped, of %d |\n|---|---|---|---|---|---|---|---|\n",
		len(shown.Rows()), len(tries))
	var unit row
	for _, r := range rows {
		if r.name == reference {
			unit = r
		}
	}
	for _, r := range rows {
		if r.why != "" {
			fmt.Fprintf(&b, "| %s | %s |%s\n", r.name, r.why, strings.Repeat(" |", 6))
			continue
		}
		calls := "not known"
		if r.calls >= 0 {
			calls = strconv.Itoa(r.calls)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %s | %d | %s |\n", r.name, times(r.start, unit.start), times(r.exec, unit.exec), size(r.memory), rounded(r.files), calls, r.shown, r.left())
	}
	return b.String()
}

// left lists the ways out that the boundary does not stop, by what became of them.
func (r *row) left() string {
	var out []string
	for _, t := range tries {
		if got := r.tries[t]; got != "stopped" {
			out = append(out, t+" ("+got+")")
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// times is a duration in another.
func times(d, unit time.Duration) string {
	if d == 0 {
		return "none"
	}
	return fmt.Sprintf("×%.2g", float64(d)/float64(max(unit, 1)))
}

// rounded keeps two digits: what is measured is no more exact.
func rounded(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}

func size(n uint64) string {
	if n < 1<<20 {
		return "< 1 MiB"
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// What the program writes stands between these.
const (
	docsBegin = "<!-- measured: make boundaries BOUNDARIES='-docs docs' -->\n"
	docsEnd   = "<!-- /measured -->"
)

func write(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(docsBegin))
	_, after, ended := bytes.Cut(rest, []byte(docsEnd))
	if !found || !ended {
		return fmt.Errorf("%s has no place for the table", path)
	}
	return os.WriteFile(path, slices.Concat(before, []byte(docsBegin+table+docsEnd), after), 0o644)
}

// wait bounds a call.
const wait = 60 * time.Second

// starts measures the start and the files of each subject in turn, round after round: the machine's
// load is then that of all.
func (l *lab) starts(rows []row, rounds int) error {
	for i := range rounds {
		for n := range rows {
			r := &rows[n]
			if r.why != "" {
				continue
			}
			began := time.Now()
			if _, err := l.output(r.subject, fmt.Sprintf("1%d", i), "/bin/true"); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.times = append(r.times, time.Since(began))
			slices.Sort(r.times)
			r.start = r.times[len(r.times)/2]
			text, err := l.output(r.subject, fmt.Sprintf("3%d", i), "/escape", "files")
			if err != nil {
				return fmt.Errorf("%s: files: %w", r.name, err)
			}
			rate, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				return fmt.Errorf("%s: files: %w", r.name, err)
			}
			r.rates = append(r.rates, rate)
			slices.Sort(r.rates)
			r.files = r.rates[len(r.rates)/2]
		}
	}
	return nil
}

// measure fills a row, but for the start and the files.
func (l *lab) measure(r *row) error {
	for i, name := range tries {
		out, err := l.output(r.subject, fmt.Sprintf("2%d", i), "/escape", name, l.marker, strconv.FormatUint(l.device, 10), strconv.Itoa(l.victim.Process.Pid))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %s: %s", r.name, name, out)
		r.tries[name], _, _ = strings.Cut(strings.TrimSpace(out), ":")
		if r.bare && r.tries[name] != through {
			r.tries[name] = "by the machine"
		}
	}
	before := shown.Read()
	out, err := l.output(r.subject, "40", "/escape", "shown")
	if err != nil {
		return fmt.Errorf("what is shown: %w", err)
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(out), &texts); err != nil {
		return fmt.Errorf("what is shown: %w", err)
	}
	after := shown.Read()
	for path, text := range texts {
		if shown.Host(before[path], text, after[path]) {
			fmt.Fprintf(os.Stderr, "%s: shows %s\n", r.name, path)
			r.shown++
		}
	}
	return l.waiting(r)
}

func (l *lab) output(s subject, token string, args ...string) (string, error) {
	return l.run(s.command, l.token+token, args...)
}

func (l *lab) run(command func(context.Context, string, ...string) *exec.Cmd, token string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	cmd := command(ctx, token, args...)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("%w: %.200s", err, line)
	}
	return out.String(), nil
}

// waiting fills in what is measured of a command that waits: the proportional share of memory
// (proc_pid_smaps_rollup(5)) of all that it has on the host, the system calls, and a command beside
// it.
func (l *lab) waiting(r *row) error {
	s := r.subject
	ctx, cancel := context.WithCancel(context.Background())
	token := l.token + "99"
	cmd := s.command(ctx, token, "/bin/sh", "-c", "echo waits; sleep "+token)
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		if s.stop != nil {
			s.stop(token)
		}
		cancel()
		_ = cmd.Wait()
	}()
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := io.ReadFull(out, make([]byte, len("waits"))); err != nil {
		return fmt.Errorf("the command did not start: %w", err)
	}
	pids := processesOf(cmd.Process.Pid, token)
	for pid := range pids {
		if pid != cmd.Process.Pid || !s.client {
			r.memory += pss(pid)
		}
	}
	if r.calls, err = behind(pids, token); err != nil {
		fmt.Fprintf(os.Stderr, "%s: system calls: %v\n", s.name, err)
		r.calls = -1
	}
	return l.execs(r, token)
}

// execs measures a command that ends at once, beside one that waits.
func (l *lab) execs(r *row, token string) error {
	if r.beside == nil {
		return nil
	}
	const rounds = 7
	var took []time.Duration
	for range rounds {
		began := time.Now()
		if _, err := l.run(r.beside, token, "/bin/true"); err != nil {
			return fmt.Errorf("exec: %w", err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	r.exec = took[rounds/2]
	return nil
}

// processesOf are a call's process and all below it, those with the token in their arguments,
// and engines' processes above these.
func processesOf(call int, token string) map[int]bool {
	parents, out := map[int]int{}, map[int]bool{call: true}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		text, err := os.ReadFile(dir + "/stat")
		if _, rest, ok := strings.Cut(string(text), ") "); err == nil && ok {
			if f := strings.Fields(rest); len(f) > 1 {
				parents[pid], _ = strconv.Atoi(f[1])
			}
		}
		if args, err := os.ReadFile(dir + "/cmdline"); err == nil && strings.Contains(string(args), token) {
			out[pid] = true
		}
	}
	for pid := range out {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parents[pid])); err == nil && (strings.HasPrefix(string(name), "containerd-shim") || strings.HasPrefix(string(name), "conmon")) {
			out[parents[pid]] = true
		}
	}
	for more := true; more; {
		more = false
		for pid, parent := range parents {
			if out[parent] && !out[pid] {
				out[pid], more = true, true
			}
		}
	}
	return out
}

func pss(pid int) uint64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// deviceOf is the block device that a directory lies on.
func deviceOf(dir string) uint64 {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0
	}
	return st.Dev
}
