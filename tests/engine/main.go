package engine

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// RuntimeEnv names the environment variable that says which runtime the tests try: the absolute path of a
// runc-compatible binary. Unset, agentjail is built from this checkout. Pointing it at plain runc shows that the hostile
// tests fail without the protection.
const RuntimeEnv = "AGENTJAIL_RUNTIME_UNDER_TEST"

// Name is what the runtime under test is registered as.
const Name = "agentjail"

// Main runs a package's tests with one engine shared by all of them and returns the exit code. before is called once
// the engine is there, to make images and keep the pointer.
func Main(m *testing.M, before func(*Engine) error) int {
	IfJanitor()
	e, err := startForTests()
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		return 1
	}
	// The janitor would clean up after an interrupt as well, but only once this process is gone: nobody would wait.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = e.Close()
		_ = RemoveBuilt()
		os.Exit(130)
	}()
	code := 1
	if err := before(e); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
	} else {
		code = m.Run()
	}
	if err := e.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "engine: clean up:", err)
		code = 1
	}
	if err := RemoveBuilt(); err != nil {
		fmt.Fprintln(os.Stderr, "engine: clean up:", err)
	}
	return code
}

// startForTests starts an engine with the runtime under test.
func startForTests() (*Engine, error) {
	under, err := UnderTest()
	if err != nil {
		return nil, err
	}
	e, err := Start(Options{
		Runtimes: map[string]string{Name: under},
		Log:      func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "engine: %s; runtime under test: %s\n", e.Versions(), under)
	return e, nil
}
