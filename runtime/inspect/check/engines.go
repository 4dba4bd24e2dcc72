package check

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/delegate/flaws"
	"agentjail.dev/runtime/kernel/trusted"
)

// engineFixes holds the engines and runtimes on the host against the releases that
// closed what a container could do by them.
func engineFixes(e *env) answer {
	var all []flaws.Judgement
	for _, name := range flaws.Engines() {
		if path := e.program(name); path != "" {
			line, err := versionLine(path)
			all = append(all, e.judge(flaws.JudgeEngine, filepath.Join(filepath.Dir(path), name), line, err))
		}
	}
	if len(all) == 0 {
		return ok("no engine whose fixes are known is installed")
	}
	return answerOfAll(all)
}

// judge compares a program with a table of flaws by the line of its version.
func (e *env) judge(by func(path, line string, p flaws.Packages) flaws.Judgement, path, line string, err error) flaws.Judgement {
	if err != nil {
		return flaws.Judgement{Detail: path + " does not print its version", Remedy: "reinstall it"}
	}
	return by(path, line, flaws.Packages{Dpkg: e.dpkg, Doc: e.doc})
}

// answerOfAll is the answer for several programs, of which those with open flaws come first.
func answerOfAll(all []flaws.Judgement) answer {
	var good, bad, remedies []string
	for _, j := range all {
		if j.OK {
			good = append(good, j.Detail)
		} else {
			bad = append(bad, j.Detail)
		}
		if j.Remedy != "" && !slices.Contains(remedies, j.Remedy) {
			remedies = append(remedies, j.Remedy)
		}
	}
	return answer{ok: len(bad) == 0, detail: strings.Join(append(bad, good...), "; "), remedy: strings.Join(remedies, "; ")}
}

// program finds a program that only root can have written, or returns "".
func (e *env) program(name string) string {
	for _, dir := range e.bins {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err == nil && trusted.Check(real) == nil {
			return real
		}
	}
	return ""
}

// versionWait is how long a program may take to print its version.
var versionWait = time.Second

// versionLine is the first line of a program's --version.
func versionLine(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line, err
}
