// Probe runs inside a container, reads or attempts one thing there, and prints the answer as one line of JSON. The tests
// use it where a shell could not state exactly which system call was refused, and how.
//
//	probe NAME [ARGUMENT...]
//
// It is a static binary without dependencies on the image.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"syscall"

	"golang.org/x/sys/unix"
)

// commands are the questions and attempts, by name. The value they return is printed.
var commands map[string]func(args []string) (any, error)

func init() {
	commands = map[string]func([]string) (any, error){
		"identity":          identity,
		"interfaces":        interfaces,
		"clocks":            clocks,
		"attempts":          attempts,
		"attempt":           attempt,
		"read":              read,
		"write":             write,
		"listing":           listing,
		"fill":              fill,
		"inodes":            inodes,
		"forks":             forks,
		"memory":            memory,
		"pause":             pause,
		"connect":           connect,
		"counts":            counts,
		"echo-server":       echoServer,
		"attack":            attack,
		"cwd":               cwd,
		"chmod":             chmod,
		"open":              open,
		"winsize":           winsize,
		"rings":             rings,
		"refused-calls":     refusedCalls,
		"victim":            victim,
		"overwrite":         overwrite,
		"release-agent":     releaseAgentOf,
		"sandbox":           sandboxed,
		"executable-memory": executableMemory,
		"netlink-sockets":   netlinkSockets,
		"in-flight":         descriptorsInFlight,
		"udp-sockets":       udpSockets,
		"record-locks":      recordLocks,
		"locked-memory":     lockedMemory,
		"unaccepted":        unaccepted,
		"tcp-sockets":       tcpSockets,
		"orphans":           orphans,
		"pounce":            pounce,
		"address":           address,
		"costs":             costs,
		"endpoints":         endpoints,
		"own-endpoints":     ownEndpoints,
		"changes":           changes,
	}
}

func main() {
	args := os.Args[1:]
	if len(args) == 0 || commands[args[0]] == nil {
		names := []string{}
		for n := range commands {
			names = append(names, n)
		}
		sort.Strings(names)
		fmt.Fprintln(os.Stderr, "usage: probe NAME [ARGUMENT...]; names:", names)
		os.Exit(2)
	}
	answer, err := commands[args[0]](args[1:])
	if err != nil {
		answer = map[string]string{"error": err.Error(), "errno": errnoName(err)}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

// errnoName names the error number inside err: "" for none, "other" when it is not one.
func errnoName(err error) string {
	if err == nil {
		return ""
	}
	var n syscall.Errno
	if errors.As(err, &n) {
		return unix.ErrnoName(n)
	}
	return "other"
}

// outcome is what became of one attempt.
type outcome struct {
	Errno string `json:"errno"`
	Note  string `json:"note,omitempty"`
}

func outcomeOf(err error) outcome {
	if err == nil {
		return outcome{}
	}
	return outcome{Errno: errnoName(err), Note: err.Error()}
}
