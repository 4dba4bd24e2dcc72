package guest

import (
	"slices"

	"agentjail.dev/runtime/jailinit"
)

// initialMap is the map of a kernel's first user namespace (user_namespaces(7)).
const initialMap = "0 0 4294967295\n"

// guestIDs: the user namespace is the guest kernel's first one, whose ids mean nothing outside.
func guestIDs(*jailinit.Orders) string {
	return ids(&jailinit.Orders{UIDMap: initialMap, GIDMap: initialMap})
}

// guestMounts: no mount can be written to that the bundle has not. A guest kernel adds some by
// itself, such as a tmpfs at /tmp that may take half of the memory.
func guestMounts(o *jailinit.Orders) string {
	if len(o.Places) == 0 { // a further process, whose jail was checked at its start
		return ""
	}
	ms, err := table()
	if err != nil {
		return err.Error()
	}
	for i := range ms {
		m := &ms[i]
		if m.Point == "/" || m.ReadOnly() || guestOwn[m.FS] || slices.Contains(o.Places, m.Point) {
			continue
		}
		return "the guest kernel has a writable mount of its own at " + m.Point + " (" + m.FS + ")"
	}
	return ""
}

// guestOwn are file systems that hold nothing that is written to them.
var guestOwn = map[string]bool{"proc": true, "sysfs": true, "devpts": true, "cgroup": true, "mqueue": true}
