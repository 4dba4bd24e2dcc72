package rootless

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
)

// An idRange is a run of subordinate ids of a user (subuid(5)).
type idRange struct{ First, Count uint32 }

// leastIDs is how many subordinate ids a sandbox needs: its root and the groups of a system below
// 1000, such as tty's, have one each.
const leastIDs = 1000

// mostIDs bounds the subordinate ids that are mapped. A jail has no more users.
const mostIDs = 65536

// maxSubIDs bounds what is read of a file of subordinate ids, in bytes.
const maxSubIDs = 1 << 20

// subordinate returns the calling user's subordinate users and groups, as /etc/subuid and
// /etc/subgid list them by the user's name or id. The error for a user who has too few has the
// remedy.
func subordinate() (uids, gids []idRange, err error) {
	id := strconv.Itoa(os.Getuid())
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	if uids, err = rangesIn("/etc/subuid", name, id); err != nil {
		return nil, nil, err
	}
	if gids, err = rangesIn("/etc/subgid", name, id); err != nil {
		return nil, nil, err
	}
	if total(uids) < leastIDs || total(gids) < leastIDs {
		return nil, nil, fmt.Errorf("%s has %d subordinate users and %d groups in /etc/subuid and /etc/subgid, and a jail needs %d of each (remedy: %s)",
			name, total(uids), total(gids), leastIDs, addIDs(name))
	}
	return uids, gids, nil
}

// addIDs is the command by which root adds subordinate ids for a user.
func addIDs(name string) string {
	return "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 " + name +
		", with a range that no other line of /etc/subuid has"
}

// namesIn returns the users who have enough subordinate ids in a file, as it names them.
func namesIn(path string) (map[string]bool, error) {
	text, err := atomicfile.Read(path, maxSubIDs)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	ids := map[string]uint64{}
	for f := range accountfile.Entries(string(text), 3) {
		n, _ := strconv.ParseUint(f[2], 10, 32)
		ids[f[0]] += n
	}
	names := map[string]bool{}
	for name, n := range ids {
		if n >= leastIDs {
			names[name] = true
		}
	}
	return names, err
}

// rangesIn returns the ranges of a user in a file, at most mostIDs ids. Other lines are left
// out, as newuidmap(1) does.
func rangesIn(path, name, id string) (out []idRange, err error) {
	text, err := openat.Head(path, maxSubIDs)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	left := uint32(mostIDs)
	for f := range accountfile.Entries(string(text), 3) {
		if len(f) != 3 || f[0] != name && f[0] != id || left == 0 {
			continue
		}
		first, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 != nil || err2 != nil || count == 0 {
			continue
		}
		n := uint32(min(count, uint64(left), 1<<32-1-first))
		if n > 0 {
			out, left = append(out, idRange{uint32(first), n}), left-n
		}
	}
	return out, err
}

func total(ranges []idRange) (n uint32) {
	for _, r := range ranges {
		n += r.Count
	}
	return n
}
