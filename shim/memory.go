package shim

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tidyAfter is how long the process must have been idle before memory is returned to the kernel.
const tidyAfter = time.Second

// A tidier returns to the kernel the memory that commands used. A jail is made in a moment, and the
// process then waits for its end for hours.
type tidier struct {
	mu    sync.Mutex
	busy  int
	timer *time.Timer
}

var memory tidier

// begin records that a command begins.
func (t *tidier) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy++
	if t.timer != nil {
		t.timer.Stop()
	}
}

// end records that a command has ended. Once no other has begun for a while, memory is returned to
// the kernel.
func (t *tidier) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy--; t.busy > 0 {
		return
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(tidyAfter, func() {
			debug.FreeOSMemory()
			forgetProgram()
		})
		return
	}
	t.timer.Reset(tidyAfter)
}

// forgetProgram drops the parts of this program's file that are in memory. Parts that are needed
// again come back from the page cache, and that is few of those that making a jail needs.
func forgetProgram() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// START-END PERMISSIONS OFFSET DEVICE INODE PATH (proc_pid_maps(5))
		w := strings.Fields(lines.Text())
		if len(w) != 6 || w[5] != self || strings.Contains(w[1], "w") {
			continue // a page that was written to would be lost
		}
		from, to, _ := strings.Cut(w[0], "-")
		start, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err != nil || err2 != nil {
			continue
		}
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
	}
}
