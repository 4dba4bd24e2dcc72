package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A cause is what makes tests come out otherwise in a jail. Its switch shows that it does.
type cause struct {
	// reason is a text of the rows' reasons that no other cause's has.
	reason string
	// policy are lines of a policy by which the cause is gone: the tests then come out as on the
	// delegate.
	policy string
	// design names a test of this module, as package.Name, that shows a cause which no policy
	// removes.
	design string
}

// causes are those of the lists in tests/conformance.
var causes = []cause{
	{reason: "a writable mount of what is root's", policy: `binds.root = "allow"`},
	{reason: "files that only root may read stay root's", policy: `binds.root = "allow"`},
	{reason: "no network but lo", policy: `network.mode = "engine"`},
	{reason: "[a published port]", policy: "binds.root = \"allow\"\nnetwork.mode = \"engine\""},
	{reason: "the policy's limit](../../docs/host-limits.md) where none is requested", policy: "limits.pids = 0\nlimits.cpus = 0.0\nlimits.memory = \"0B\""},
	{reason: "the policy's limit](../../docs/host-limits.md): five processors", policy: "limits.cpus = 0.0\nlimits.swap = \"2GiB\""},
	{reason: "`limits.swap`", policy: `limits.swap = "1GiB"`},
	{reason: "three variables are set", policy: "process.environment = false"},

	{reason: "`ping`", design: "tests/e2e.TestEveryDocumentedDifference"},
	{reason: "[mounts do not propagate]", design: "runtime/harden.TestBinds"},
	{reason: "a step of the classic builder", design: "tests/e2e.TestDefaultRuntimeBuild"},
	{reason: "a step of an image's build", design: "tests/podman.TestBuild"},
	{reason: "the root file system is", design: "tests/e2e.TestRestartForgets"},
	{reason: "commit` sees nothing of a jail", design: "tests/e2e.TestCommitIsImage"},
	{reason: "a jail has namespaces of its own", design: "tests/e2e.TestLooseningOptionsStartPlainJail"},
	{reason: "a user namespace of its own", design: "tests/e2e.TestLooseningOptionsStartPlainJail"},
	{reason: "[the device nodes in /dev]", design: "tests/e2e.TestRefusedMounts"},
	{reason: "[mounts](../../docs/mounts.md) of the host's root", design: "tests/e2e.TestRefusedMounts"},
	{reason: "is so with all that is below it", design: "tests/e2e.TestMountReadOnly"},
	{reason: "control groups are read-only", design: "tests/e2e.TestKernelFiles"},
	{reason: "[sysctls and /sys]", design: "tests/e2e.TestKernelFiles"},
	{reason: "[the standard devices", design: "tests/e2e.TestLooseningOptionsStartPlainJail"},
	{reason: "[no capabilities]", design: "tests/e2e.TestLooseningOptionsStartPlainJail"},
	{reason: "[no_new_privs always]", design: "tests/e2e.TestLooseningOptionsStartPlainJail"},
	{reason: "no system calls for namespaces", design: "tests/e2e.TestLoadedFilters"},
	{reason: "[the jail's filter]", design: "tests/e2e.TestLoadedFilters"},
	{reason: "the range of groups that may ping", design: "tests/e2e.TestKeptOptions"},
	{reason: "hostname and resolv.conf are copies", design: "tests/e2e.TestNamesWritable"},
	{reason: "a path of control groups with `..`", design: "runtime/harden.TestOnlyTighter"},
	{reason: "[a jail needs to start]", design: "tests/e2e.TestLeastPids"},
	{reason: "[a jail dies first]", design: "tests/e2e.TestJailIsKilledBeforeTheHost"},
	{reason: "[a jail ends before the host's own programs]", design: "tests/e2e.TestJailIsKilledBeforeTheHost"},
	{reason: "it hands files of the host's in", design: "tests/podman.TestDeniedOptions"},
	{reason: "no CAP_DAC_OVERRIDE may write", design: "tests/podman.TestRootfs"},
	{reason: "a tmpfs has the jail's ids", design: "tests/podman.TestCopy"},
	{reason: "crun's annotations are dropped", design: "tests/podman.TestJailsByCrun"},
	{reason: "[a hostPath is read-only]", design: "tests/cri.TestHostPath"},
	{reason: "[no owner of it]", design: "tests/cri.TestHostPath"},
	{reason: "reaches ids of the host below 65536", design: "tests/podman.TestDeniedOptions"},
}

// causeOf returns the cause of a reason, nil where there is none or more than one.
func causeOf(reason string) (found *cause) {
	for i := range causes {
		if strings.Contains(reason, causes[i].reason) {
			if found != nil {
				return nil
			}
			found = &causes[i]
		}
	}
	return found
}

// switched runs the tests of a suite's rows once more in jails without the rows' cause, one run for
// each cause that policy can remove, and reports whether a test does not come out as on the
// delegate.
func switched(ctx context.Context, o *options, s suite, version string, paths map[string]string) (failed bool, err error) {
	known, err := readList(filepath.Join("tests/conformance", s.name+".md"))
	if err != nil {
		return true, err
	}
	for n, c := range causes {
		rows := map[string][]string{}
		for row, reason := range known {
			if causeOf(reason) == &causes[n] && c.policy != "" && o.only.MatchString(row.unit) {
				rows[row.unit] = append(rows[row.unit], row.name)
			}
		}
		subject := fmt.Sprintf("switched-%d", n)
		if len(rows) > 0 {
			if paths[subject], err = runtimeUnder(paths, subject, c.policy); err != nil {
				return true, err
			}
		}
		for in, names := range rows {
			slices.Sort(names)
			some := *o
			if s.pattern != nil {
				some.tests = s.pattern(names)
			}
			units, err := s.prepare(ctx, &some, version)
			if err != nil {
				return true, err
			}
			units = slices.DeleteFunc(units, func(u unit) bool { return !like(in, u.name) })
			r := &runner{ctx: ctx, out: filepath.Join(o.out, s.name, version), paths: paths, reuse: o.reuse}
			base, err := r.all(alone, units, "."+subject)
			if err != nil {
				return true, err
			}
			got, err := r.all(subject, units, "")
			if err != nil {
				return true, err
			}
			for _, name := range names {
				failed = shown(test{in, name}, c, base, got) || failed
			}
		}
	}
	return failed, nil
}

// shown prints what of a row's tests its cause does not explain, and reports whether there is any.
func shown(row test, c cause, base, got results) (failed bool) {
	run := false
	for t, was := range base {
		if !matches(row, t) || was != pass {
			continue
		}
		run = true
		if got[t] != was {
			failed = true
			fmt.Printf("NOT BY ITS REASON: %s: %q under %s, alone %q\n", t, got[t], strings.TrimSpace(c.policy), was)
		}
	}
	if !run {
		fmt.Printf("not run: %s\n", row)
	}
	if run && !failed {
		fmt.Printf("shown: %s\n", row)
	}
	return failed
}

// runtimeUnder makes a runtime like that of jails, with further lines of policy.
func runtimeUnder(paths map[string]string, subject, policy string) (string, error) {
	like, err := os.ReadFile(paths[jails])
	if err != nil {
		return "", err
	}
	at := filepath.Join(filepath.Dir(filepath.Dir(paths[jails])), subject, filepath.Base(paths[jails]))
	conf := filepath.Join(filepath.Dir(at), "conformance.toml")
	before := filepath.Join(filepath.Dir(filepath.Dir(at)), "conformance.toml")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	text, err := os.ReadFile(before)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(conf, []byte(policy+"\n"+string(text)), 0o644); err != nil {
		return "", err
	}
	return at, os.WriteFile(at, []byte(strings.Replace(string(like), before, conf, 1)), 0o755)
}

// goPattern is go test's pattern for rows, by as many levels as all of them have.
func goPattern(names []string) string {
	var levels []string
	for depth := 0; ; depth++ {
		var parts []string
		for _, name := range names {
			all := strings.Split(name, "/")
			if depth >= len(all) || depth > 0 && strings.Contains(all[depth-1], "*") {
				parts = nil
				break
			}
			if p := pattern(all[depth]); !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
		if parts == nil {
			return cmp.Or(strings.Join(levels, "/"), ".")
		}
		levels = append(levels, "("+strings.Join(parts, "|")+")")
	}
}

// pattern is the regular expression of a row's name, in which "*" is any text. Output has "_" where
// names have spaces.
func pattern(name string) string {
	var out strings.Builder
	for i, part := range strings.Split(name, "*") {
		if i > 0 {
			out.WriteString(".*")
		}
		for _, c := range part {
			if strings.ContainsRune(`\.+*?()|[]{}^$`, c) {
				out.WriteByte('\\')
			}
			out.WriteRune(c)
		}
	}
	return "^" + out.String() + "$"
}

// namePattern is bats' and ginkgo's pattern for rows.
func namePattern(names []string) string {
	var parts []string
	for _, name := range names {
		parts = append(parts, strings.Trim(pattern(name), "^$"))
	}
	return strings.Join(parts, "|")
}
