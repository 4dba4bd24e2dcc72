// Command loops runs each of a few system calls over and over and prints what one takes, in
// nanoseconds. It is static and calls the kernel directly, so that what differs between two
// containers is the kernel's work: their filters, Landlock domains, namespaces and mounts.
//
//	loops [-group calls|layer] [-dir DIR]
//
// A line of output is the least time of a few repetitions, a tab, and the name of a loop. The
// least, since nothing but the work itself takes part in every repetition; what other programs do
// to this one is added to some of them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// repeats is how often each loop is timed within one call of the program.
const repeats = 12

func main() {
	group := flag.String("group", "calls", "which loops to run")
	dir := flag.String("dir", "/tmp", "a directory that can be written")
	flag.Parse()
	// Nothing of Go's own is to run meanwhile. Both ends of a ping-pong must share a processor
	// (which of two wakes first would be chance): the container's control group sees to that, since
	// a jail's filter has no sched_setaffinity.
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	if n := runtime.NumCPU(); n != 1 {
		fail("run on one processor", fmt.Errorf("there are %d", n))
	}
	if err := os.Chdir(*dir); err != nil {
		fail("enter the directory", err)
	}
	if groups[*group] == nil {
		fail("-group "+*group, errors.New("there is none of that name"))
	}
	for _, l := range groups[*group] {
		best, err := measure(l)
		if err != nil {
			fail(l.name, err)
		}
		fmt.Printf("%.2f\t%s\n", float64(best.Nanoseconds())/float64(l.count), l.name)
	}
}

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "loops: %s: %v\n", what, err)
	os.Exit(1)
}

// measure times the iterations of a loop a few times.
func measure(l loop) (time.Duration, error) {
	run, done, err := l.prepare()
	if err != nil {
		return 0, err
	}
	defer done()
	if err := run(max(l.count/10, 1)); err != nil {
		return 0, err
	}
	best := time.Duration(1<<63 - 1)
	for range repeats {
		start := time.Now()
		if err := run(l.count); err != nil {
			return 0, err
		}
		best = min(best, time.Since(start))
	}
	return best, nil
}
