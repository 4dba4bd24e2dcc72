// Command conformance runs other projects' test suites for OCI runtimes on a delegate alone, on
// agentjail passing calls through to it, and on agentjail's jails. Passed through, every test has
// to come out as on the delegate; in jails, every difference has to be on a reviewed list with its
// reason (tests/conformance).
//
// Usage: conformance [-suite NAME] [-delegate PATH] [-from DIR] [-out DIR] [-subjects LIST] [-only
// PATTERN] [-tests PATTERN] [-reuse] [-draft] [-causes]
//
// The suites are not part of agentjail. runc's comes from its Go module, at the delegate's version,
// and moby's from the one that Docker 29 is built of (hack/tools); the others from directories
// below -from, which the caller has cloned there. It needs root, and control groups
// (hack/with-cgroups.sh).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/tests/engine"
)

type options struct {
	suites   []string
	delegate string
	from     string
	out      string
	subjects []string
	only     *regexp.Regexp
	tests    string
	rounds   int
	draft    bool
	reuse    bool
	causes   bool
}

// The subjects, in the order in which they are run.
const (
	alone       = "delegate"
	passthrough = "passthrough"
	jails       = "jails"
)

func main() {
	engine.IfJanitor()
	var o options
	suite := flag.String("suite", "all", "`NAME` of a suite ("+strings.Join(names(), ", ")+") or all")
	flag.StringVar(&o.delegate, "delegate", "/usr/sbin/runc", "`PATH` of the OCI runtime that agentjail is compared with")
	flag.StringVar(&o.from, "from", os.Getenv("CONFORMANCE_DIR"), "`DIR` with clones of the suites' repositories")
	flag.StringVar(&o.out, "out", "dist/conformance", "`DIR` for the output of the suites")
	subjects := flag.String("subjects", passthrough+","+jails, "what to compare with the delegate")
	only := flag.String("only", "", "run the files, or packages, of a suite that match `PATTERN`")
	flag.StringVar(&o.tests, "tests", "", "of moby's suite and critest, run the tests that match `PATTERN`")
	flag.IntVar(&o.rounds, "rounds", 3, "how often a difference has to be seen to count")
	flag.BoolVar(&o.reuse, "reuse", false, "run only what an earlier call with the same -out has not")
	flag.BoolVar(&o.causes, "causes", false, "run the tests of the reviewed list again in jails without the cause that their reason names, and nothing else")
	flag.BoolVar(&o.draft, "draft", false, "print lines for the reviewed list where one is missing")
	flag.Parse()
	o.only = regexp.MustCompile(*only)
	o.suites = strings.Split(*suite, ",")
	if *suite == "all" {
		o.suites = names()
	}
	o.subjects = strings.Split(*subjects, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, &o)
	if rerr := engine.RemoveBuilt(); err == nil {
		err = rerr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func names() []string {
	var out []string
	for _, s := range suites {
		out = append(out, s.name)
	}
	return out
}

// run runs the suites and reports whether there was a difference that must not be.
func run(ctx context.Context, o *options) (failed bool, err error) {
	if os.Geteuid() != 0 {
		return true, errors.New("needs root")
	}
	version, err := versionOf(o.delegate)
	if err != nil {
		return true, err
	}
	paths, err := subjects(o.delegate)
	if err != nil {
		return true, err
	}
	for _, name := range o.suites {
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if i < 0 {
			return true, fmt.Errorf("no suite is called %q", name)
		}
		do := compare
		if o.causes {
			do = switched
		}
		bad, err := do(ctx, o, suites[i], version, paths)
		if err != nil {
			return true, fmt.Errorf("%s: %w", name, err)
		}
		failed = failed || bad
	}
	return failed, nil
}

// subjects makes the programs to test, by subject.
func subjects(delegate string) (map[string]string, error) {
	dir, err := engine.BinDir()
	if err != nil {
		return nil, err
	}
	// Jails' programs run as other users, which have to get here.
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if st, err := os.Stat(d); err != nil || st.Mode()&0o001 == 0 {
			return nil, fmt.Errorf("%s cannot be searched by everybody: %v", d, err)
		}
	}
	bin := filepath.Join(dir, "agentjail")
	if err := engine.BuildAgentjail(bin); err != nil {
		return nil, err
	}
	link, conf := filepath.Join(dir, "agentjail-passthrough"), filepath.Join(dir, "conformance.toml")
	if err := os.Symlink("agentjail", link); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	text := fmt.Sprintf("delegate = %q\n[policies.passthrough]\npassthrough = true\n", delegate)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	out := map[string]string{alone: delegate}
	for name, program := range map[string]string{passthrough: link, jails: bin} {
		// The suites take a path and no arguments, and know the runtime by its file's name.
		out[name] = filepath.Join(dir, name, filepath.Base(delegate))
		if err := os.MkdirAll(filepath.Dir(out[name]), 0o755); err != nil {
			return nil, err
		}
		options := "--config " + conf
		if name == jails {
			// Grants that a jail does not get would otherwise be printed on standard error, which
			// the suites compare.
			options += " --log " + filepath.Join(dir, "jails.log")
		}
		text := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", program, options)
		if err := os.WriteFile(out[name], []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compare runs one suite on all subjects and prints what differs.
func compare(ctx context.Context, o *options, s suite, version string, paths map[string]string) (failed bool, err error) {
	units, err := s.prepare(ctx, o, version)
	if err != nil {
		return true, err
	}
	units = slices.DeleteFunc(units, func(u unit) bool { return !o.only.MatchString(u.name) })
	if len(units) == 0 {
		return true, errors.New("there is nothing to run")
	}
	r := &runner{ctx: ctx, out: filepath.Join(o.out, s.name, version), paths: paths, reuse: o.reuse}
	base, err := r.all(alone, units, "")
	if err != nil {
		return true, err
	}
	fmt.Printf("%s on %s: %s\n", s.name, version, base)
	for _, subject := range o.subjects {
		got, err := r.all(subject, units, "")
		if err != nil {
			return true, err
		}
		fmt.Printf("%s on %s, %s: %s\n", s.name, version, subject, got)
		known := list{}
		if subject != passthrough {
			if known, err = readList(filepath.Join("tests/conformance", s.name+".md")); err != nil {
				return true, err
			}
		}
		listed, diff := known.split(differences(base, got))
		for round := 2; round <= o.rounds && len(diff) > 0; round++ {
			if diff, err = r.again(subject, units, diff, round); err != nil {
				return true, err
			}
		}
		if subject == passthrough {
			for _, d := range diff {
				fmt.Printf("DIFFERS passed through: %s\n", d)
			}
			failed = failed || len(diff) > 0
			continue
		}
		bad := known.judge(append(listed, diff...), base, o.draft)
		failed = failed || bad
	}
	return failed, nil
}

// unitWait bounds what one file of a suite may take: in jails a shell that a hook should have kept
// from starting waits for its input. (bats' own bound on a test is a job of the test's shell, for
// which tests wait.)
const unitWait = 15 * time.Minute
