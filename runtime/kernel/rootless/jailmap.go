package rootless

import "github.com/opencontainers/runtime-spec/specs-go"

// JailMap maps the ids of a jail that a user starts in a user namespace by [Enter], whose ids are
// there: the jail's root has the first subordinate id, and each further id the next one. The user's
// own, which may be any, stands for the user where own is true. Otherwise a subordinate one does:
// no file of the user's then belongs to the jail's processes, and the user's own has an id of the
// jail that no account has. The delegate, which is root of the jail, has to pass the directories of
// the user's that lead to the jail's root.
func JailMap(there []specs.LinuxIDMapping, user uint32, own bool) []specs.LinuxIDMapping {
	count := uint32(0) // of the subordinate ids, from 1 on
	for _, m := range there {
		count += m.Size
	}
	count--
	var out []specs.LinuxIDMapping
	add := func(inside, outside, size uint32) {
		if size > 0 {
			out = append(out, specs.LinuxIDMapping{ContainerID: inside, HostID: outside, Size: size})
		}
	}
	switch {
	case !own && user < count:
		add(0, 1, count)
		add(count, 0, 1)
	case !own: // the last one stands for the user
		add(0, 1, count-1)
		add(count-1, 0, 1)
		add(user, count, 1)
	case user < count:
		add(0, 1, user)
		add(user, 0, 1)
		add(user+1, user+2, count-user-1)
	default:
		add(0, 1, count)
		add(user, 0, 1)
	}
	return out
}
