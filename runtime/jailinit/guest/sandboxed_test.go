package guest

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/mountinfo"
)

// TestGuestMounts: a guest kernel may add what cannot be written to, and nothing else.
func TestGuestMounts(t *testing.T) {
	t.Cleanup(func() { mountTable = nil })
	const own = "1 0 0:1 / / rw - 9p none rw\n2 1 0:2 / /proc rw - proc none rw\n3 1 0:3 / /work rw - 9p none rw\n"
	for added, bad := range map[string]string{
		"":                                      "",
		"4 1 0:4 / /x ro - tmpfs none ro\n":     "",
		"4 1 0:4 / /tmp rw - tmpfs none rw\n":   "/tmp (tmpfs)",
		"4 1 0:4 / /work/x rw - 9p none rw\n":   "/work/x (9p)",
		"4 1 0:4 / /dev/pts rw - devpts a rw\n": "",
	} {
		var err error
		if mountTable, err = mountinfo.Parse(own + added); err != nil {
			t.Fatal(err)
		}
		got := guestMounts(&jailinit.Orders{Guest: true, Places: []string{"/work"}})
		if (bad == "") != (got == "") || !strings.Contains(got, bad) {
			t.Errorf("%q: %q", added, got)
		}
		if got := guestMounts(&jailinit.Orders{Guest: true}); got != "" {
			t.Errorf("a further process: %q", got)
		}
	}
}

// TestGuestChecks: where the host holds a protection from outside, the guest looks for none of it.
func TestGuestChecks(t *testing.T) {
	for _, c := range checks {
		switch c.name {
		case "namespaces", "label", "limits", "oom score":
			if c.guest != nil {
				t.Errorf("%s is checked in a guest", c.name)
			}
		default:
			if c.guest == nil {
				t.Errorf("%s is not checked in a guest", c.name)
			}
		}
	}
}
