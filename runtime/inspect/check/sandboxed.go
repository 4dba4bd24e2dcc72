package check

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/spec/traits"
)

// others are boundaries that this version has no delegate for, with the reason.
const others = "microVMs (krun, Kata, urunc): not supported; a guest image, and /dev/kvm for use, would be needed"

// sandboxes looks for the delegates that have a kernel of their own, at their usual places and
// where policy names one.
func sandboxes(e *env) answer {
	var found, warnings, remedies []string
	for _, name := range traits.Sandboxes() {
		if policyNames := traits.Of(e.policy.Delegate).Sandbox == traits.Of(name).Sandbox; policyNames {
			name = e.policy.Delegate
		}
		d, err := delegate.Resolve(name)
		if errors.Is(err, delegate.ErrNone) || errors.Is(err, os.ErrNotExist) {
			found = append(found, name+": not installed (docs/boundaries.md)")
			continue
		}
		if err != nil {
			return fail("make it root's alone", "%v", err)
		}
		line, err := d.VersionLine()
		if err != nil {
			return fail("reinstall it", "%v", err)
		}
		text := fmt.Sprintf("%s (%s), %s sandbox, platform %s", d.Path, line, d.Traits().Sandbox, delegate.Platform)
		if old := olderThan(line, d.Traits().Pinned); old != "" {
			warnings, remedies = append(warnings, text+": "+old), append(remedies, "install release "+d.Traits().Pinned+" or later")
			continue
		}
		found = append(found, text)
	}
	detail := strings.Join(append(append(warnings, found...), others), "; ")
	if len(warnings) > 0 {
		return warn(strings.Join(remedies, "; "), "%s", detail)
	}
	return ok("%s", detail)
}

// day is a release's day in the version text of a sandbox.
var day = regexp.MustCompile(`\b(20\d{6})\b`)

// olderThan reports that a version's release is older than the one that the tests run, or unknown.
func olderThan(version, pinned string) string {
	m := day.FindStringSubmatch(version)
	switch {
	case m == nil:
		return "its release is not known, and " + pinned + " is the one that is tested"
	case m[1] < pinned:
		return "its release is older than " + pinned + ", which is the one that is tested"
	}
	return ""
}
