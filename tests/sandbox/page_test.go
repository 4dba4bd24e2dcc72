package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
)

// onDocker is the command for engines: tests/contract has such containers, by the annotation or, where the client has no option for it, by
// the label.
const onDocker = `docker run --runtime=agentjail -v "$PWD":/work --annotation dev.agentjail.workspace=review IMAGE make`

// pageMakefile is of the project: make has changes of each kind that the page's commands show, and a commit.
const pageMakefile = "all:\n\techo made >new\n\techo more >>src/a\n\tgit add src/a && git -c user.name=a -c user.email=a@j commit -qm second\ntest:\n\techo tested >tested\n"

// fenced returns the commands in a page's blocks, without comments, and inline those in its text.
func fenced(t *testing.T, page string) (blocks, inline []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(m[1]) {
			command, _, _ := strings.Cut(line, "  #")
			blocks = append(blocks, strings.TrimSpace(command))
		}
	}
	for _, m := range regexp.MustCompile("`(sudo agentjail [^`]*)`").FindAllStringSubmatch(string(text), -1) {
		inline = append(inline, m[1])
	}
	return blocks, inline
}

// TestReviewPage runs every command of docs/workspace.md, in order. ID is the view without a name.
func TestReviewPage(t *testing.T) {
	statuses := map[string]int{ // 1 reports changes, or that something was left out
		"sudo agentjail sandbox --workspace . --review --view fix -- make":            0,
		"sudo agentjail workspace diff fix":                                           1,
		"sudo agentjail workspace apply fix":                                          0,
		"sudo agentjail workspace discard fix":                                        0,
		"sudo agentjail sandbox --workspace . --review -- make":                       0,
		"sudo agentjail workspace list":                                               0,
		"sudo agentjail sandbox --workspace . --review --view fix -- make test":       0,
		"sudo agentjail workspace diff ID":                                            1,
		"sudo agentjail workspace diff ID -p src":                                     1,
		"sudo agentjail workspace export ID > changes.patch":                          0,
		"sudo agentjail git --view ID . format-patch --stdout BASE.. > commits.patch": 0,
		"sudo agentjail workspace discard ID":                                         0,
		"sudo agentjail workspace discard --expired":                                  0,
	}
	dir, tools, policy := workspace(t), engine.TempDir(t, "/tmp", "agentjail-tools-"), small(t)
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { ctl(t, "workspace", "discard", name) })
	host := func(script string) string {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=/nonexistent")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for file, text := range map[string]string{
		dir + "/Makefile":    pageMakefile,
		tools + "/sudo":      "#!/bin/sh\nexec \"$@\"\n",
		tools + "/agentjail": "#!/bin/sh\nverb=$1; shift\nexec " + bin + " --config " + policy + " $verb \"$@\"\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	base := host("mkdir src; echo a >src/a; git init -q -b main . && git add src && git -c user.name=u -c user.email=u@h commit -qm first && git rev-parse HEAD")
	id := "none"
	blocks, inline := fenced(t, "../../docs/workspace.md")
	for _, command := range append(blocks, inline...) {
		if command == onDocker {
			continue
		}
		want, known := statuses[command]
		if !known {
			t.Errorf("the page has a command that is not tried here: %s", command)
			continue
		}
		cmd := exec.Command("sh", "-c", strings.NewReplacer(" fix", " "+name, "ID", id, "BASE", base).Replace(command))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: status %d, not %d: %s", command, got, want, out)
		}
		if strings.HasSuffix(command, "--review -- make") {
			_, rest, _ := strings.Cut(string(out), "in view ")
			id, _, _ = strings.Cut(rest, ":")
		}
	}
	host("git apply --stat changes.patch && grep -q '^Subject: .*second' commits.patch")
	readme, _ := fenced(t, "../../README.md")
	found := 0
	for _, command := range readme {
		if strings.Contains(command, "--review") || strings.Contains(command, "agentjail workspace") {
			found++
			if _, known := statuses[command]; !known {
				t.Errorf("the README has a command that is not tried here: %s", command)
			}
		}
	}
	if found == 0 {
		t.Error("the README has no command for views")
	}
}
