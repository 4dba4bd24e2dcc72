// Package accounts reduces the host's tables of users and groups to the entries that a jail
// needs: `docker run -v /etc/passwd:/etc/passwd:ro -u 1000` is meant to define the name and the
// home of uid 1000, not to list the host's people.
package accounts

import (
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/idmap"
)

// standard is the first id that a distribution does not assign to the same account on each of its
// machines (Debian policy, 9.2.2).
const standard = 100

// Users is a passwd(5) with the standard accounts and that of uid. Passwords and
// comments, which hold people's names, are left out.
func Users(text string, uid uint32) string {
	return reduce(text, 7, func(f []string, id uint32) bool {
		f[1], f[4] = "x", ""
		return id == uid
	})
}

// Groups is a group(5) with the standard groups and those of the ids. Passwords and
// members are left out: a process has its groups from the engine.
func Groups(text string, gids []uint32) string {
	return reduce(text, 4, func(f []string, id uint32) bool {
		f[1], f[3] = "x", ""
		return slices.Contains(gids, id)
	})
}

// reduce keeps the lines with this number of fields whose id, the third field, is standard, or
// for which keep returns true; keep may change the fields. It drops all other lines.
func reduce(text string, fields int, keep func(f []string, id uint32) bool) string {
	var out strings.Builder
	for f := range accountfile.Entries(text, fields) {
		if len(f) != fields {
			continue
		}
		id, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			continue
		}
		if kept := keep(f, uint32(id)); !kept && id >= standard && id != idmap.Overflow {
			continue
		}
		out.WriteString(strings.Join(f, ":") + "\n")
	}
	return out.String()
}
