// Command vm runs tests in a virtual machine: a Debian 13 with Linux 6.12, Docker 26, control
// groups version 2 and AppArmor or SELinux, whatever the machine at hand has. It needs no hardware
// virtualisation and no registry, only root, a Debian mirror for the first time, and what deps.sh
// installs.
//
//	vm [options]                  run every suite, in several machines side by side
//	vm [options] SUITE...         run only these
//	vm -background FILE           one by one, beside other tests, with what those leave of the processors, until FILE is gone
//	vm -table PLACE=PATH...       report which test ran where
//
// The exit status is 0 when every step passed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
)

// options are the command line's.
type options struct {
	kind       string        // the machine's name
	out        string        // where results go: a directory, and in it one for each machine
	cache      string        // where the root file system is kept
	accel      string        // auto, kvm or tcg
	timeout    time.Duration // for everything but the first building of the root
	run        string        // -test.run for every test binary
	script     string        // a shell command to run instead of suites
	background string        // a file that is there while other tests run beside
	suites     []string
	// emulated reports that accel is tcg.
	emulated bool
}

// virtualised reports whether a host's processor has hardware virtualisation, by what /proc/cpuinfo
// has of it; on arm64 that file does not show it, and the processor is taken to have some.
func virtualised(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if flags, is := strings.CutPrefix(line, "flags"); is {
			have := strings.Fields(flags)
			return slices.Contains(have, "vmx") || slices.Contains(have, "svm")
		}
	}
	return true
}

func main() {
	var o options
	var rootOnly, table bool
	flag.StringVar(&o.kind, "machine", "apparmor,engines,selinux", "`names` of the machines to boot, side by side")
	flag.StringVar(&o.out, "out", "", "`directory` for the results (default dist/vm); each machine has its own in it, by its module")
	flag.StringVar(&o.cache, "cache", "/var/cache/agentjail-vm", "`directory` that keeps the root file system")
	flag.StringVar(&o.accel, "accel", "auto", "kvm, tcg (emulation), or auto: kvm where it works")
	flag.DurationVar(&o.timeout, "timeout", 80*time.Minute, "limit for the machine's whole life")
	flag.StringVar(&o.background, "background", "", "while this `file` is there, run machines one by one, with what others leave of the processors")
	flag.StringVar(&o.run, "run", "", "only tests that match this `pattern`")
	flag.StringVar(&o.script, "script", "", "run this shell `command` inside instead of suites")
	flag.BoolVar(&rootOnly, "root-only", false, "make the root file system if it is missing, and stop")
	flag.BoolVar(&table, "table", false, "print which test ran where, from logs of go test -v and directories with results (PLACE=PATH)")
	flag.Parse()
	o.suites = flag.Args()
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // without it nothing is left out
	if o.accel == "auto" && !virtualised(string(cpuinfo)) {
		o.accel = "tcg"
	}
	o.emulated = o.accel == "tcg"

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case table:
		err = printTable(os.Stdout, flag.Args())
	case rootOnly:
		_, err = ensureRoot(ctx, o.cache)
	default:
		err = runAll(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		stop()
		os.Exit(1)
	}
}

// runAll runs the machines side by side: containers wait for each other often enough that one
// machine leaves processors idle. The verdicts come when all are done.
func runAll(ctx context.Context, o options) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes disks with files of other owners")
	}
	root, err := engine.ModuleRoot()
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(root, "dist", "vm")
	}
	names := strings.Split(o.kind, ",")
	for _, m := range names {
		if kinds[m].line == "" {
			return fmt.Errorf("-machine %q: must be apparmor, engines, selinux or cloud", m)
		}
	}
	type outcome struct {
		o       options
		steps   []step
		results []result
		err     error
	}
	all := make([]outcome, len(names))
	var every []step
	for i, m := range names {
		all[i].o = o
		all[i].o.kind, all[i].o.out = m, filepath.Join(o.out, m)
		if all[i].steps, err = plan(all[i].o); err != nil {
			return err
		}
		every = append(every, all[i].steps...)
	}
	start := time.Now()
	guest, shared, remove, err := prepare(ctx, o, root, every)
	if err != nil {
		return err
	}
	defer remove()
	var wg sync.WaitGroup
	turn := make(chan struct{}, 1)
	for i := range all {
		done := o.takeTurn(ctx, turn)
		wg.Go(func() {
			defer done()
			all[i].results, all[i].err = run(ctx, all[i].o, all[i].steps, shared, guest)
		})
	}
	wg.Wait()
	var errs []error
	for _, r := range all {
		failed := report(os.Stdout, r.o, r.results)
		if failed > 0 {
			errs = append(errs, fmt.Errorf("%s: %d of %d steps failed", r.o.kind, failed, len(r.results)))
		}
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.o.kind, r.err))
		}
		errs = append(errs, lane(r.o.kind, r.o.out, r.results, r.err, ctx.Err() != nil).Write(filepath.Join(filepath.Dir(o.out), "lanes")))
	}
	logf("%v in all; the output of every step is in %s", time.Since(start).Round(time.Second), o.out)
	return errors.Join(errs...)
}

// prepare makes what all machines need: the root file system, and what their work disks have in
// common. Both at once, since the first waits for a mirror, and for disks.
func prepare(ctx context.Context, o options, root string, steps []step) (guest, shared string, remove func(), err error) {
	shared, remove, err = runDir()
	if err != nil {
		return "", "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := make(chan error, 1)
	go func() {
		var err error
		guest, err = ensureRoot(ctx, o.cache)
		made <- err
	}()
	logf("compiling the tests of %d steps", len(steps))
	if err = makeShared(ctx, root, shared, steps); err != nil {
		cancel()
	}
	if err = errors.Join(err, <-made); err != nil {
		remove()
		return "", "", nil, err
	}
	return guest, shared, remove, nil
}

// run does everything for one machine, from its disks to the results. Results and an error can come
// together.
func run(ctx context.Context, o options, steps []step, shared, guest string) ([]result, error) {
	dir, remove, err := runDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := makeWork(shared, filepath.Join(dir, "work"), kinds[o.kind], steps); err != nil {
		return nil, err
	}
	m := machine{guest: guest, dir: dir, cache: o.cache, kind: o.kind, others: o.others}
	if err := m.makeDisks(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return m.runSteps(o, steps, func() error { return m.boot(ctx, o.accel) }, func() error { return m.makeDisks(ctx) })
}

// runsIn is where runs have their directories. Not the temporary directory, which is often a tmpfs:
// disks are large.
const runsIn = "/var/tmp/agentjail-vm-"

// making keeps one machine's run from taking another's new directory, not yet locked, for a dead
// one's.
var making sync.Mutex

// runDir makes a directory for this run, and removes those of runs that were killed: theirs are no
// longer locked.
func runDir() (dir string, remove func(), err error) {
	making.Lock()
	defer making.Unlock()
	old, _ := filepath.Glob(runsIn + "*")
	for _, o := range old {
		if lock, err := lockDir(o); err == nil {
			_ = os.RemoveAll(o)
			lock.Close()
		}
	}
	dir, err = os.MkdirTemp(filepath.Dir(runsIn), filepath.Base(runsIn))
	if err != nil {
		return "", nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir); lock.Close() }, nil
}

// lockDir locks a directory for as long as the file is open; it does not wait.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// logf prints a progress line.
func logf(format string, args ...any) {
	fmt.Printf("vm: "+format+"\n", args...)
}
