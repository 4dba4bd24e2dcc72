package apply

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkMany reviews and applies 50,000 new files, and copies them by `cp -a`.
func BenchmarkMany(b *testing.B) {
	for b.Loop() {
		p := newPlace(b, project)
		for d := range 500 {
			dir := fmt.Sprintf("%s/many/%d", p.merged, d)
			must(b, os.MkdirAll(dir, 0o755))
			for f := range 100 {
				must(b, os.WriteFile(fmt.Sprintf("%s/%d", dir, f), make([]byte, 100+f*20), 0o644))
			}
		}
		p.own(b, p.merged)
		p.unmount(b)
		start := time.Now()
		r := p.review(b)
		b.ReportMetric(time.Since(start).Seconds(), "s/diff")
		unix.Sync() // what was written before is written out at no one's cost
		start = time.Now()
		if out, err := exec.Command("cp", "-a", p.upper+"/many", p.top+"/copy").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		copied := time.Since(start)
		unix.Sync()
		start = time.Now()
		if _, err := p.view.Run(b.Context(), r, r.Changes, Options{}); err != nil {
			b.Fatal(err)
		}
		applied := time.Since(start)
		b.ReportMetric(applied.Seconds(), "s/apply")
		b.ReportMetric(applied.Seconds()/copied.Seconds(), "apply/cp")
	}
}
