// Demo shows agentjail on a real Docker: it starts one of its own, runs useful and hostile work
// through docker run --runtime=agentjail, shows the ring report of a running jail, and removes
// everything again.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"agentjail.dev/tests/engine"
)

func main() {
	engine.IfJanitor()
	binary := flag.String("runtime", "bin/agentjail", "the agentjail to show")
	flag.Parse()
	if err := show(*binary); err != nil {
		fmt.Fprintln(os.Stderr, paint(bad, "demo:"), err)
		os.Exit(1)
	}
}

// A demo is a Docker with agentjail, and the means to talk to it.
type demo struct {
	*engine.Engine
	runtime string // agentjail, in a place that only root can write
}

func show(binary string) error {
	var e *engine.Engine
	var mu sync.Mutex // of e
	clean := func() error {
		mu.Lock()
		defer mu.Unlock()
		var err error
		if e != nil {
			err = e.Close()
		}
		return errors.Join(err, engine.RemoveBuilt())
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		// Where the engine is only just starting, its janitor cleans up.
		_ = clean()
		os.Exit(130)
	}()
	runtime, err := install(binary)
	if err == nil {
		heading("Starting a Docker of its own, beside whatever runs on this machine.")
		var started *engine.Engine
		started, err = engine.Start(engine.Options{
			Runtimes: map[string]engine.Runtime{engine.Name: {Path: runtime}},
			Log:      func(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) },
		})
		mu.Lock()
		e = started
		mu.Unlock()
	}
	if err == nil {
		err = demo{e, runtime}.acts()
	}
	if cerr := clean(); err == nil {
		err = cerr
	}
	if err == nil {
		heading("Everything held, and everything is removed again. To use agentjail with this machine's own Docker:")
		fmt.Println("  " + paint(typed, "sudo agentjail install docker"))
	}
	return err
}

// install copies agentjail to where only root can write: what runs as root must not come from a
// directory that others can change.
func install(binary string) (string, error) {
	dir, err := engine.BinDir()
	if err != nil {
		return "", err
	}
	for _, name := range []string{"agentjail", "agentjailctl", "agentjail-enter", "agentjail-egress", "agentjail-egress-keys"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(binary), name))
		if err != nil {
			return "", fmt.Errorf("no agentjail to show (make build makes it): %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "agentjail"), nil
}
