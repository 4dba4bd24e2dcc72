// Package promise reports what every jail is. It is the one definition: tests/contract runs it over every engine, and other suites
// check parts of it of the jails that they make (Jailed, Held, Confined).
//
// To add a promise, add an entry to All with a function that reports what is wrong. The control, a container of runc alone, must fail it.
package promise

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// An Engine is one way to start jails.
type Engine struct {
	// Start starts a container in the background, whose first process is a command, and removes it with the test. Without a network
	// or anything else requested.
	Start func(t testing.TB, command ...string) *Jail
	// Run runs a container to its end; privileged requests as much as the engine can request.
	Run func(t testing.TB, privileged bool, command ...string) engine.Result
	// Viewed makes a container with a view of a directory.
	Viewed Viewed
	// Query is `agentjail VERB…`, as the user whose engine it is.
	Query func(t testing.TB, args ...string) engine.Result
	// Places are patterns (filepath.Glob) of what the host keeps of one container; %s stands for its id.
	Places []string
	// Keeps is what its policy leaves to a jail's root, as a mask of capabilities.
	Keeps uint64
	// Permits are those of the probe's attempts that these capabilities are for.
	Permits []string
	// Lacks are reasons why a promise, by its name, is not given here.
	Lacks map[string]string
}

// A Jail is a running container.
type Jail struct {
	ID  string
	PID int // of its first process, on the host
	// Exec runs a command in it, and Privileged with as much as the engine can request; nil where it cannot.
	Exec, Privileged func(command ...string) engine.Result
	// Kill ends its first process with SIGKILL and returns the exit code that the engine reports; -1 where it reports none.
	Kill func() int
	// Remove deletes it, running or not.
	Remove func()
}

// A Promise is one thing that holds of every jail.
type Promise struct {
	Name string
	// Wrong reports what of a jail is not as promised, or nil.
	Wrong func(*Subject) error
	// Without, where set, reports why this machine cannot show it, or "".
	Without func() string
	// Plain is the reason why a container of runc alone keeps it as well; "" where such a container must fail it.
	Plain string
}

// A Subject is an engine with a jail to look at.
type Subject struct {
	testing.TB
	*Engine
	Jail *Jail
	// Patience bounds the waits for what an engine does on its own.
	Patience time.Duration

	// Traits are those of the delegate, where that is not a plain one (sandboxed.go).
	Traits traits.Traits

	first, exec *engine.Who
	other       *Jail // another one, to compare with and to kill
}

// NewSubject starts the jails that the promises are tried on.
func NewSubject(t testing.TB, e *Engine) *Subject {
	t.Helper()
	return &Subject{TB: t, Engine: e, Patience: env.Patience, Jail: e.Start(t, "sh", "-c", toExec), other: e.Start(t, "sleep", "3600")}
}

// First is the probe's word on the first process of a container.
func (s *Subject) First() (engine.Who, error) {
	if s.first == nil {
		w, err := answer[engine.Who](s.Run(s.TB, false, "probe", "identity"))
		if err != nil {
			return w, err
		}
		s.first = &w
	}
	return *s.first, nil
}

// Execed is the probe's word on a further process of the jail.
func (s *Subject) Execed() (engine.Who, error) {
	if s.exec == nil {
		w, err := answer[engine.Who](s.Jail.Exec("probe", "identity"))
		if err != nil {
			return w, err
		}
		s.exec = &w
	}
	return *s.exec, nil
}

// ErrNoAnswer is the error of a promise whose question was not answered: a command did not start, for example. It shows nothing of the protection.
var ErrNoAnswer = errors.New("no answer")

// answer decodes what the probe printed.
func answer[A any](r engine.Result) (A, error) {
	var a A
	if r.Code != 0 {
		return a, fmt.Errorf("%w: %s", ErrNoAnswer, r)
	}
	if err := json.Unmarshal([]byte(r.Stdout), &a); err != nil {
		return a, fmt.Errorf("%w, the probe printed no JSON: %w: %s", ErrNoAnswer, err, r)
	}
	return a, nil
}

// The names of promises that some engines cannot give.
const (
	memoryLimits = "memory is limited"
	pidsLimits   = "the number of processes is limited"
	ownHostIDs   = "host ids of its own, and a namespace of each kind"
)

// All are the promises, in the order in which they are tried: the last ones end the jail.
var All = append(ofProcesses(), []Promise{
	{Name: "no capability but those of policy, and none that is inherited", Wrong: onlyPolicys},
	{Name: "an exec is under the same protections", Wrong: execs},
	{Name: "an exec is in the first process's world", Wrong: sameWorld, Plain: "any container's exec joins the container"},
	{Name: "a privileged request still gives a jail", Wrong: privileged},
	{Name: "nothing that the probe tries gets through", Wrong: attempts},
	{Name: "no file of the kernel's takes a write", Wrong: kernelFiles},
	{Name: "masked and read-only paths, also when privileged", Wrong: paths},
	{Name: "the standard devices and no others, also when privileged", Wrong: devices},
	{Name: "the first process's signals reach what an exec started", Wrong: signals, Plain: "any container's do"},
	{Name: "changes go to a capped layer", Wrong: layer},
	{Name: views, Wrong: viewed, Without: engine.WithoutViews},
	{Name: memoryLimits, Wrong: memoryLimit},
	{Name: pidsLimits, Wrong: processLimit},
	{Name: "it dies first when memory runs out", Wrong: diesFirst},
	{Name: "exit codes come through", Wrong: exitCodes, Plain: "any container's do"},
	{Name: "agentjail inspect reports that every protection holds", Wrong: inspected},
	{Name: "the host has its journal", Wrong: journaled},
	{Name: ownHostIDs, Wrong: apart},
	{Name: "a killed jail leaves nothing", Wrong: killed, Plain: "runc leaves nothing of its own either"},
	{Name: "a removed jail leaves nothing", Wrong: removed, Plain: "runc leaves nothing of its own either"},
	{Name: "a removed jail has a receipt", Wrong: receipted},
}...)

// Without reports why a promise cannot be tried of this engine on this machine, or "".
func (s *Subject) Without(p Promise) string {
	if why := s.Lacks[p.Name]; why != "" {
		return why
	}
	if why := void[p.Name]; why != "" && s.Traits.Sandbox != "" {
		return why
	}
	if p.Without == nil {
		return ""
	}
	return p.Without()
}
