package check

import (
	"errors"
	"strings"
	"testing"

	"agentjail.dev/apparmor"
)

// TestDelegateLabels: what a delegate's path gets of AppArmor is stated plainly, and a remedy where
// no jail starts.
func TestDelegateLabels(t *testing.T) {
	profiles := map[string][]apparmor.Attached{
		"/usr/bin/crun": {{Name: "crun", Mode: "unconfined", Left: true}},
		"/opt/crun":     {{Name: "confined-crun", Mode: "enforce"}},
	}
	attached := func(path string) ([]apparmor.Attached, error) {
		if path == "/hidden" {
			return nil, errors.New("permission denied")
		}
		return profiles[path], nil
	}
	for _, c := range []struct {
		delegates []string
		ok        bool
		says      []string
		remedy    string
	}{
		{[]string{"/usr/bin/runc"}, true, []string{"/usr/bin/runc: none"}, ""},
		{[]string{"/usr/bin/runc", "/usr/bin/crun"}, true, []string{"/usr/bin/runc: none", "/usr/bin/crun: crun (unconfined), which confines nothing and is left"}, ""},
		{[]string{"/opt/crun", "/usr/bin/runc"}, false, []string{"/opt/crun: confined-crun (enforce), which stays and would confine the jail's init step"}, "aa-disable confined-crun"},
		{[]string{"/hidden"}, false, []string{"/hidden cannot be read: permission denied"}, "securityfs"},
		{nil, false, []string{"no delegate"}, "runc"},
	} {
		a := labelsOf(c.delegates, attached)
		for _, s := range c.says {
			if !strings.Contains(a.detail, s) {
				t.Errorf("%q: not %q: %q", c.delegates, s, a.detail)
			}
		}
		if a.ok != c.ok || a.ok == a.warn || !strings.Contains(a.remedy, c.remedy) || c.ok != (a.remedy == "") {
			t.Errorf("%q: %+v", c.delegates, a)
		}
	}
}
