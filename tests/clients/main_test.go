// Package clients runs container clients that other people wrote, each from its package or module, over Docker and containerd with runc
// and with jails: what they print and how they end is the same, but where a jail is the point.
package clients

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"agentjail.dev/tests/engine"
)

// docker is the engine of clients over runc, jails that of those over jails.
var (
	docker *engine.Engine
	jails  = sync.OnceValues(func() (*engine.Engine, error) {
		e, err := docker.Another()
		if err != nil {
			return nil, err
		}
		closeAtEnd(e.Close)
		return e, e.ImportBusybox()
	})
)

// dockerFor returns the engine of a runtime.
func dockerFor(runtime string) (*engine.Engine, error) {
	if runtime == "runc" {
		return docker, nil
	}
	return jails()
}

// atEnd stops further engines.
var (
	atEnd   []func() error
	atEndMu sync.Mutex
)

// closeAtEnd has TestMain stop an engine.
func closeAtEnd(end func() error) {
	atEndMu.Lock()
	defer atEndMu.Unlock()
	atEnd = append(atEnd, end)
}

func TestMain(m *testing.M) {
	code := engine.Main(m, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	})
	for _, end := range atEnd {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "clean up:", err)
			code = 1
		}
	}
	os.Exit(code)
}
