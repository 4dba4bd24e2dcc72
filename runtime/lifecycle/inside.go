package lifecycle

import (
	"time"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/inside"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// insideFile is the file in which a new jail reads what it was refused, where policy lets it: what was denied when it was made.
func insideFile(p policy.Policy, rep *report.Report) string {
	if p.Journal.Inside != policy.InsideOn {
		return ""
	}
	return string(inside.Of(changed(rep.Changes), time.Now()))
}

// TellInside writes the file in which a running jail reads what it was refused, where it has one. events are requested only then.
func TellInside(j *state.Jail, events func() ([]journal.Event, error)) error {
	if j.Policy.Journal.Inside != policy.InsideOn || j.ViewsDev == 0 || !j.InitAlive() {
		return nil
	}
	list, err := events()
	if err != nil {
		return err
	}
	text := inside.Of(list, time.Now())
	return rootfs.RewriteInside(j.ViewsDev, text, func(f func() error) error { return inMountNS(j.InitPid, f) })
}
