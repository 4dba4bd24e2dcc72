package protect

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// readers is how many threads work on one directory at once. They spend their time in the kernel.
const readers = 2

// parallel calls f for each number below n, on at most readers threads.
func parallel(n int, f func(i int)) {
	workers := min(readers, n, runtime.GOMAXPROCS(0))
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var others sync.WaitGroup
	panicked := make(chan any, readers)
	for range workers - 1 {
		others.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked <- p
				}
			}()
			work()
		})
	}
	work()
	others.Wait()
	select {
	case p := <-panicked:
		panic(p) // where it can be caught: on the caller's own goroutine
	default:
	}
}
