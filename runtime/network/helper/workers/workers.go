// Package workers is the list of the processes that work for a jail outside of its program: which
// control groups each is in, what bounds it, and what happens at each bound. What a helper does for
// a jail is inside that jail's limits. docs/host-limits.md has the list, and tests hold running
// processes to it.
package workers

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/network/helper"
)

// Group names the control groups that a process is in.
type Group string

// The groups of workers.
const (
	// Own are groups that are made for the process beside the jail's, or for processor time on
	// version 1 in the jail's (helper.Place).
	Own Group = "its own, beside the jail's; version 1: for processors, in the jail's"
	// Jails are the jail's.
	Jails Group = "the jail's"
	// Callers are the groups of agentjail's caller: an engine, a user's session. They bound a jail
	// as they bound any container.
	Callers Group = "its caller's"
	// Service are the processes of the host's service.
	Service Group = "its service's"
)

// NoFile is the number of files that a helper may have open (RLIMIT_NOFILE).
const NoFile = 16384

// Bounds of the collector's service, as hack/systemd/agentjail-journal.service has them.
const (
	collectorCPU    = "100%"
	collectorMemory = "128M"
	collectorTasks  = "64"
)

// A Worker is a process that works for a jail.
type Worker struct {
	// Name is the name of the program, and Part the one of its processes; "" if it has only one.
	Name, Part string
	// While is the time during which the process exists.
	While string
	Group Group
	// Processor, Memory, Sockets and Files are the bounds of the process.
	Processor, Memory, Sockets, Files string
	// Full is what happens at the bounds.
	Full string
}

// String returns the worker's name.
func (w Worker) String() string { return strings.TrimSpace(w.Name + " " + w.Part) }

// Bounds that several have.
const (
	sockets  = "version 1: the jail's `limits.sockets` again; version 2: its memory. 2048 connections; more than 16 have small buffers. Ports: a share of the host's"
	throttle = "connections and questions wait for its next period. Out of memory it is killed, as above"
)

var (
	processor = fmt.Sprintf("version 1: the jail's quota, together with the jail; version 2: 1/%d of it besides (more of small quotas), and the jail's weight", helper.QuotaPart)
	ownMemory = fmt.Sprintf("%d MiB; version 2: %d MiB, with buffers of sockets; %d threads", helper.MemoryMax>>20,
		(helper.MemoryMax+helper.SocketsMax)>>20, helper.PidsMax)
)

// Parts of programs.
const (
	Activator = "as its activator"
	Reader    = "reader"
	Writer    = "writer"
	Verb      = "create, start, exec, delete …"
	Sandbox   = "sandbox"
	Init      = "as process 1 of a sandbox"
	Keeper    = "as the keeper of a sandbox"
)

// All is the list.
var All = []Worker{
	{
		Name: "agentjail-egress", Part: Activator, While: "from `create` to the first use of a network by name", Group: Own,
		Processor: processor, Memory: ownMemory, Sockets: "none outside", Files: "its starter's limit; it opens none",
		Full: "killed: the jail reaches nothing, `inspect` reports it",
	},
	{
		Name: "agentjail-egress", While: "from then to the jail's end", Group: Own,
		Processor: processor, Memory: ownMemory, Sockets: sockets, Files: fmt.Sprint(NoFile), Full: throttle,
	},
	{
		Name: "agentjail-egress-keys", While: "in its place, with credentials for which TLS or ssh is ended", Group: Own,
		Processor: processor, Memory: ownMemory, Sockets: sockets, Files: fmt.Sprint(NoFile), Full: throttle,
	},
	{
		Name: "agentjail-enter", While: "from `create` or `exec` to the program's first instruction", Group: Jails,
		Processor: "the jail's", Memory: "the jail's", Sockets: "the jail's", Files: "the jail's", Full: "the start or the exec fails",
	},
	{
		Name: "agentjail", Part: Verb, While: "for one call, with the delegate", Group: Callers,
		Processor: "its caller's", Memory: "its caller's; reads of what a jail wrote are bounded", Sockets: "its caller's",
		Files: "its caller's", Full: "the call fails",
	},
	{
		Name: "agentjailctl", Part: Sandbox, While: "for one run", Group: Callers,
		Processor: "its caller's", Memory: "its caller's", Sockets: "its caller's", Files: "its caller's", Full: "the run fails",
	},
	{
		Name: "agentjail-enter", Part: Init, While: "for one run", Group: Jails,
		Processor: "the jail's", Memory: "the jail's", Sockets: "one, to the sandbox", Files: "the jail's",
		Full: "out of memory it is killed, and the jail ends",
	},
	{
		Name: "agentjail-enter", Part: Keeper, While: "for one run, and to reclaim what a killed sandbox left", Group: Callers,
		Processor: "its caller's", Memory: "its caller's", Sockets: "none", Files: "its caller's; it opens none",
		Full: "another takes its place; without one, the run ends",
	},
	{
		Name: "containerd-shim-agentjail-v2", While: "as long as a jail or pod of containerd's", Group: Callers,
		Processor: "its caller's, or its `ShimCgroup`", Memory: "its caller's", Sockets: "its caller's", Files: "its caller's",
		Full: "as any shim: output waits until it is read",
	},
	{
		Name: "agentjail-journal", Part: Reader, While: "one for a host", Group: Service,
		Processor: "`CPUQuota` " + collectorCPU + " for both; a jail's share: 200 refusals and 1000 other events a second",
		Memory:    "`MemoryMax` " + collectorMemory + ", `TasksMax` " + collectorTasks + " for both",
		Sockets:   "none", Files: "its service's limit; it opens none", Full: "events are left out, and counted (`journal.lost`); the programs go on refusing",
	},
	{
		Name: "agentjail-journal", Part: Writer, While: "one for a host", Group: Service,
		Processor: "with the reader", Memory: "with the reader", Sockets: "none but to systemd",
		Files: "`journal.size` for each jail; one open at a time",
		Full:  "events wait in the ring; beyond it they are left out, and counted",
	},
}

// markdown is the list as a table. A cell is empty where the control groups alone are the bound.
func markdown() string {
	var b strings.Builder
	b.WriteString("| process | while | control groups | processor | memory | sockets | files | at a bound |\n|---|---|---|---|---|---|---|---|\n")
	var above []string
	for _, w := range All {
		name := "`" + w.Name + "`"
		if w.Part != "" {
			name += " " + w.Part
		}
		row := []string{name, w.While, string(w.Group), w.Processor, w.Memory, w.Sockets, w.Files, w.Full}
		cells := slices.Clone(row)
		for i := range cells {
			switch {
			case i > 2 && cells[i] == row[2]:
				cells[i] = ""
			case above != nil && len(cells[i]) > len("same") && cells[i] == above[i]:
				cells[i] = "same"
			}
		}
		above = row
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}
