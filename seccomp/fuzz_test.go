package seccomp

import (
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp/bpf/filtertest"
)

// allowsCall reads a filter's rules the strict way: some rule allows the call,
// and none refuses it but the refusal of the rest.
func allowsCall(f *specs.LinuxSeccomp, name string, args [6]uint64) bool {
	ok := f.DefaultAction == specs.ActAllow || f.DefaultAction == specs.ActLog
	for _, s := range f.Syscalls {
		if !slices.Contains(s.Names, name) {
			continue
		}
		allows := s.Action == specs.ActAllow || s.Action == specs.ActLog
		rest := len(s.Args) == 1 && s.Args[0] == specs.LinuxSeccompArg{Op: specs.OpGreaterEqual}
		matches, readable := filtertest.Matches(s.Args, args)
		if !matches && (readable || allows) || !allows && rest {
			continue
		}
		if !allows {
			return false
		}
		ok = true
	}
	return ok
}

// FuzzIntersect feeds arbitrary JSON as the incoming filter. Whatever it states,
// the result allows no call that either filter refuses, never io_uring, stays
// with our architecture, and does not change when intersected again.
func FuzzIntersect(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"defaultAction":"SCMP_ACT_ALLOW"}`,
		`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read","socket","io_uring_setup"],"action":"SCMP_ACT_ALLOW"}]}`,
		`{"defaultAction":"SCMP_ACT_KILL","architectures":["SCMP_ARCH_X86"],"listenerPath":"/x","flags":["SECCOMP_FILTER_FLAG_SPEC_ALLOW"],
		 "syscalls":[{"names":["socket"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":40,"op":"SCMP_CMP_NE"}]},{"names":["ptrace"],"action":"SCMP_ACT_TRAP"}]}`,
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["socket"],"action":"SCMP_ACT_KILL_PROCESS","args":[{"index":0,"value":16,"op":"SCMP_CMP_EQ"},{"index":2,"value":9,"op":"SCMP_CMP_EQ"}]},
		 {"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":2114060288,"valueTwo":0,"op":"SCMP_CMP_MASKED_EQ"},{"index":0,"value":3,"op":"SCMP_CMP_GE"}]},
		 {"names":["openat"],"action":"SCMP_ACT_ERRNO","errnoRet":2,"args":[{"index":9,"value":1,"op":"nonsense"}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var in specs.LinuxSeccomp
		if json.Unmarshal(data, &in) != nil {
			return
		}
		h := fnv.New64a()
		h.Write(data)
		r := rand.New(rand.NewPCG(h.Sum64(), 0))
		ours, err := OCI(Options{Profile: Profiles()[r.IntN(len(Profiles()))], Arch: "amd64", Kill: r.IntN(2) == 0})
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal([]any{ours, &in})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := Intersect(ours, &in)
		if after, _ := json.Marshal([]any{ours, &in}); string(after) != string(before) {
			t.Fatal("an input was changed")
		}
		if again, _ := Intersect(ours, got); !reflect.DeepEqual(again, got) {
			t.Fatal("not idempotent")
		}
		if !slices.Equal(got.Architectures, []specs.Arch{specs.ArchX86_64}) || got.ListenerPath != "" || len(got.Flags) > 0 {
			t.Fatalf("architectures %v, listener %q, flags %v", got.Architectures, got.ListenerPath, got.Flags)
		}
		off := in.DefaultAction == "" && len(in.Syscalls) == 0
		var values []uint64
		for _, f := range []*specs.LinuxSeccomp{ours, &in} {
			for _, s := range f.Syscalls {
				for _, a := range s.Args {
					values = append(values, a.Value, a.ValueTwo)
				}
			}
		}
		for _, s := range got.Syscalls {
			if s.Action != specs.ActAllow {
				continue
			}
			for _, name := range s.Names {
				if strings.HasPrefix(name, "io_uring") {
					t.Fatal("io_uring came in")
				}
				for range 4 {
					var args [6]uint64
					for i := range args {
						args[i] = values[r.IntN(len(values))]
						switch r.IntN(4) {
						case 0:
							args[i] |= r.Uint64() << 32
						case 1:
							args[i] += uint64(r.IntN(3)) - 1
						}
					}
					for _, a := range s.Args { // meet the rule's own conditions where they are equalities
						if a.Op == specs.OpMaskedEqual {
							args[a.Index] = args[a.Index]&^a.Value | a.ValueTwo
						} else {
							args[a.Index] = a.Value
						}
					}
					if allowsCall(got, name, args) && !(allowsCall(ours, name, args) && (off || allowsCall(&in, name, args))) {
						t.Fatalf("%s%#x passes, which not both allow", name, args)
					}
				}
			}
		}
	})
}
