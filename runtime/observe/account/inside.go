package account

import (
	"time"

	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/inside"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// InsideFile returns the text of the file in which a new jail reads its refusals, if policy allows
// one: what was denied when the jail was made.
func InsideFile(p policy.Policy, rep *report.Report) string {
	if p.Journal.Inside != policy.InsideOn {
		return ""
	}
	return string(inside.Of(Changed(rep.Changes), time.Now()))
}

// WriteInside writes the file in which a running jail reads its refusals, if the jail has one.
// events is called only then.
func WriteInside(j *state.Jail, events func() ([]journal.Event, error)) error {
	if j.Policy.Journal.Inside != policy.InsideOn || j.SyntheticDev == 0 || !j.InitAlive() {
		return nil
	}
	list, err := events()
	if err != nil {
		return err
	}
	text := inside.Of(list, time.Now())
	return rootfs.RewriteInside(j.SyntheticDev, text, func(f func() error) error { return namespace.InMount(j.InitPid, f) })
}
