package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/oomscore"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// usualIOPriority is the middle of the best-effort class: the default of a process
// (ioprio_set(2)).
const usualIOPriority = 4

// oomScore has the jail die before the host's own processes when memory runs out: kernel memory
// that the jail holds is charged to no process. A higher value in the spec stays. The score is
// never below the engine's own, which an unprivileged engine cannot lower.
func oomScore(p *pass) {
	const field, first = "process.oomScoreAdj", "when memory runs out, a jail dies before the host's own processes"
	least := max(oomscore.Jail, p.f.Host.OOMScoreAdj)
	requested := p.spec.Process.OOMScoreAdj
	switch {
	case requested == nil:
		p.change(rings.Resources, report.Set, field, "", fmt.Sprint(least), first)
	case *requested < 0:
		p.deny(rings.Resources, field, fmt.Sprint(*requested), fmt.Sprint(least), first)
	case *requested < least:
		p.change(rings.Resources, report.Set, field, fmt.Sprint(*requested), fmt.Sprint(least), first)
	default:
		return
	}
	p.spec.Process.OOMScoreAdj = new(least)
}

// priorities keep a jail behind the host's own processes, both for the OOM killer and for
// processor and disk time. Without values in the spec a jail would inherit the engine's, and
// engines protect themselves.
func priorities(p *pass) {
	pr := p.spec.Process
	oomScore(p)

	if s := pr.Scheduler; s != nil {
		why := ""
		switch {
		case s.Policy != specs.SchedOther && s.Policy != specs.SchedBatch && s.Policy != specs.SchedIdle:
			why = "real-time scheduling can starve the host"
		case s.Priority != 0 || s.Runtime != 0 || s.Deadline != 0 || s.Period != 0 || len(s.Flags) > 0:
			why = "these are for real-time scheduling, which can starve the host"
		case s.Nice < 0:
			why = "a jail does not go before the host's own processes"
		}
		if why != "" {
			p.deny(rings.Resources, "process.scheduler", fmt.Sprintf("%s, nice %d", s.Policy, s.Nice), "", why)
			pr.Scheduler = nil
		}
	}

	if io := pr.IOPriority; io != nil {
		why := ""
		switch {
		case io.Class == specs.IOPRIO_CLASS_IDLE:
		case io.Class != specs.IOPRIO_CLASS_BE:
			why = "real-time I/O can starve the host"
		case io.Priority < usualIOPriority:
			why = "a jail does not go before the host's own processes"
		}
		if why != "" {
			p.deny(rings.Resources, "process.ioPriority", fmt.Sprintf("%s, %d", io.Class, io.Priority), "", why)
			pr.IOPriority = nil
		}
	}

	if pr.ExecCPUAffinity != nil {
		p.change(rings.Resources, report.Dropped, "process.execCPUAffinity", "set", "", "a jail's processors are its control group's")
		pr.ExecCPUAffinity = nil
	}
}
