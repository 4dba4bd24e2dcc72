package outcome

import (
	"fmt"
	"os"
	"time"
)

// A Cost is how long something took, and how much processor time the whole machine used meanwhile.
// What runs at a lower priority (hack/background.sh) does not count.
type Cost struct {
	Took      time.Duration
	Processor time.Duration // 0 where several things ran at a time
}

// A PackageCost is what the tests of a package cost, with their compilation.
type PackageCost struct {
	Package string
	Cost
}

// A Meter measures from one moment to the next.
type Meter struct {
	at        time.Time
	processor time.Duration
}

// NewMeter returns a meter that measures from now on.
func NewMeter() Meter { return Meter{time.Now(), processor()} }

// Next returns the cost since the meter was made or last read.
func (m *Meter) Next() Cost {
	before := *m
	*m = NewMeter()
	return Cost{m.at.Sub(before.at), m.processor - before.processor}
}

// processor returns the machine's time in processes and its kernel, from /proc/stat: user, nice,
// system, idle, iowait, irq, softirq, in hundredths of a second (proc_stat(5)). It is 0 where that
// cannot be read.
func processor() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var name string
	var n [7]int64
	_, _ = fmt.Sscan(string(text), &name, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6])
	return time.Duration(n[0]+n[2]+n[5]+n[6]) * time.Second / 100
}
