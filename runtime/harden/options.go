package harden

import (
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/plan"
)

// keptFlags are the mount options that a jail's mount may keep. Every other one goes: those that
// loosen (suid, dev, exec, rw and their recursive forms), let a mount travel (shared, slave), reach
// past what was prepared (remount, idmap, crun's copy-symlink and src-nofollow), and any that this
// version does not know, since a delegate hands those to the file system as they are.
var keptFlags = plan.MountFlags()

// loosening options are named in the report when they go.
var loosening = []string{
	"suid", "rsuid", "dev", "rdev", "shared", "rshared", "remount", "idmap", "ridmap", "symfollow", "rsymfollow", "mand",
}

// A dataRule reports whether the value of a key=value option may stay; key without
// value counts as value "".
type dataRule func(p *pass, value string) bool

// options returns those of opts that may stay, each once, in their order, and
// those of the loosening ones that do not.
func options(p *pass, opts []string, flags []string, data map[string]dataRule) (kept, gone []string) {
	kept = make([]string, 0, len(opts)+4)
	for _, o := range opts {
		switch {
		case slices.Contains(kept, o):
		case slices.Contains(keptFlags, o), slices.Contains(flags, o):
			kept = append(kept, o)
		case slices.Contains(loosening, o):
			gone = append(gone, o)
		default:
			k, v, _ := strings.Cut(o, "=")
			// A comma would begin another option: the data is one string in the end.
			if rule := data[k]; rule != nil && !strings.ContainsAny(o, ",\\\"") && rule(p, v) {
				kept = append(kept, o)
			}
		}
	}
	return kept, gone
}

// octal allows file modes within a mask.
func octal(mask uint64) dataRule {
	return func(_ *pass, v string) bool {
		n, err := strconv.ParseUint(v, 8, 32)
		return err == nil && n&^mask == 0
	}
}

// oneOf allows some words.
func oneOf(words ...string) dataRule {
	return func(_ *pass, v string) bool { return slices.Contains(words, v) }
}

// ownUID and ownGID allow ids that the jail has: the kernel refuses others.
func ownUID(p *pass, v string) bool {
	n, err := strconv.ParseUint(v, 10, 32)
	_, ok := p.f.IDs.HostUID(uint32(n))
	return err == nil && ok
}

func ownGID(p *pass, v string) bool {
	n, err := strconv.ParseUint(v, 10, 32)
	_, ok := p.f.IDs.HostGID(uint32(n))
	return err == nil && ok
}

// tmpfsSize reads size= or nr_blocks= in bytes; ok is false without either, or
// when it cannot be read.
func tmpfsSize(opts []string, memTotal int64) (bytes int64, ok bool) {
	v, had := value(opts, "size")
	if !had {
		if v, had = value(opts, "nr_blocks"); had {
			n, ok := memparse(v)
			return n * 4096, ok && n < 1<<40
		}
		return 0, false
	}
	if pct, ok := strings.CutSuffix(v, "%"); ok {
		n, err := strconv.ParseInt(pct, 10, 64)
		return memTotal / 100 * n, err == nil && n >= 0 && n <= 100
	}
	return memparse(v)
}

// memparse reads a number as the kernel's function of that name: decimal, hexadecimal or octal by
// prefix, with one letter as unit.
func memparse(v string) (n int64, ok bool) {
	shift := 0
	if len(v) > 0 {
		if i := strings.IndexByte("kmgtpe", v[len(v)-1]|0x20); i >= 0 {
			shift = 10 * (i + 1)
			v = v[:len(v)-1]
		}
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil || n < 0 || n > int64(1)<<62>>shift {
		return 0, false
	}
	return n << shift, true
}

// keys are the names of the options.
func keys(opts []string) []string {
	out := make([]string, len(opts))
	for i, o := range opts {
		out[i], _, _ = strings.Cut(o, "=")
	}
	return out
}

// value is the last one of key=value among the options, as the kernel takes it.
func value(opts []string, key string) (string, bool) {
	for i := len(opts) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(opts[i], "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

func has(opts []string, any ...string) bool {
	return slices.ContainsFunc(opts, func(o string) bool { return slices.Contains(any, o) })
}

// without returns opts without the keys named, a fresh slice.
func without(opts []string, keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(opts), func(o string) bool {
		k, _, _ := strings.Cut(o, "=")
		return slices.Contains(keys, k)
	})
}
