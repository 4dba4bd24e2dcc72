package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/idmap"
)

// maxIDFile bounds the account files that are read, in bytes; directories of
// large sites are not in files.
const maxIDFile = 16 << 20

// An idFile is where this host hands out ids.
type idFile struct {
	name string
	what string
	// first and count are the fields of an entry; a count of -1 means one id.
	first, count int
	// fatal: the id belongs to another user, as whom a jail would run.
	fatal bool
}

var idFiles = []idFile{
	{"passwd", "user", 2, -1, true},
	{"group", "group", 2, -1, true},
	{"subuid", "sub-uids", 1, 2, false},
	{"subgid", "sub-gids", 1, 2, false},
}

// owner is the name under which the pool may be registered in subuid and
// subgid, so that other tools keep clear of it.
const owner = "agentjail"

// idPool reports whether no account has the pool's ids, and whether blocks are left.
func idPool(e *env) answer {
	pool := e.policy.Userns.Pool
	first, end := uint64(pool.First), uint64(pool.First)+uint64(pool.Count)
	var shared []string
	registered := 0
	for _, f := range idFiles {
		entries, err := readIDs(filepath.Join(e.etc, f.name), f)
		if err != nil && !os.IsNotExist(err) {
			return warn("", "%v", err)
		}
		for _, x := range entries {
			if x.first >= end || x.first+x.count <= first {
				continue
			}
			if !f.fatal && x.name == owner {
				registered++
				continue
			}
			if f.fatal {
				return fail("set userns.pool to ids that no account has", "the pool %s holds the %s %s (%s, id %d)", text(pool),
					f.what, x.name,
					filepath.Join(e.etc, f.name), x.first)
			}
			shared = append(shared, fmt.Sprintf("%s of %s (%s)", f.what, x.name, filepath.Join(e.etc, f.name)))
		}
	}
	used, err := os.ReadDir(filepath.Join(e.store.Root, "ids"))
	if err != nil && !os.IsNotExist(err) {
		return warn("", "%v", err)
	}
	n := 0
	for _, u := range used {
		if id, err := strconv.ParseUint(u.Name(), 10, 32); err == nil && id >= first && id < end {
			n++
		}
	}
	if n >= pool.Blocks() {
		return fail("run `agentjail gc`, or make userns.pool larger", "all %d blocks of the pool %s are taken", pool.Blocks(),
			text(pool))
	}
	if len(shared) > 0 {
		return warn("set userns.pool to other ids", "the pool %s overlaps %s: other tools may hand out the same ids", text(pool), strings.Join(shared, ", "))
	}
	note := ""
	if registered > 0 {
		note = ", registered as " + owner + "'s"
	}
	return ok("%d of %d blocks free, used by no account of this host%s", pool.Blocks()-n, pool.Blocks(), note)
}

func text(p idmap.Pool) string {
	b, _ := p.MarshalText()
	return string(b)
}

// idRange is an entry: count ids from first on.
type idRange struct {
	name         string
	first, count uint64
}

// readIDs reads passwd(5), group(5), subuid(5) or subgid(5).
func readIDs(path string, f idFile) ([]idRange, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := atomicfile.ReadAll(file, maxIDFile)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var out []idRange
	for fields := range accountfile.Entries(string(text), max(f.first, f.count)+1) {
		r := idRange{name: fields[0], count: 1}
		if r.first, err = strconv.ParseUint(fields[f.first], 10, 32); err != nil {
			continue
		}
		if f.count >= 0 {
			if r.count, err = strconv.ParseUint(fields[f.count], 10, 32); err != nil {
				continue
			}
		}
		out = append(out, r)
	}
	return out, nil
}
