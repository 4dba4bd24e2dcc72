package inside

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

var (
	processLabel = regexp.MustCompile(`^system_u:system_r:container_t:(s0:c\d+,c\d+)$`)
	rootLabel    = regexp.MustCompile(`(?m)^\S+ on / type overlay .*context="?([^",]+(?:,c\d+)?)`)
	fileLabel    = regexp.MustCompile(`^system_u:object_r:container_file_t:(s0:c\d+,c\d+)$`)
)

// label is the label of a process of the container, without the final zero byte.
func label(t testing.TB, args ...string) string {
	t.Helper()
	return strings.TrimRight(docker(t, append(append([]string{"exec"}, args...), "cat", "/proc/self/attr/current")...), "\x00")
}

// TestLabel: every process of a jail is in the container domain, with a pair of categories that no
// other jail has.
func TestLabel(t *testing.T) {
	need(t, "selinux")
	each(t, func(t *testing.T, runtime string) {
		seen := map[string]string{}
		for _, options := range [][]string{
			nil,
			{"--privileged"},
			{"--pid=host"},
			{"--security-opt", "label=disable"},
			{"--security-opt", "label=type:spc_t"},
			{"--security-opt", "label=type:unconfined_t"},
		} {
			if runtime != "--runtime="+runtimes[0] && len(options) == 2 {
				continue // the delegate has no influence in it
			}
			what := strings.Join(options, " ")
			id := detached(t, append([]string{runtime}, options...)...)
			pid := docker(t, "inspect", "-f", "{{.State.Pid}}", id)
			first := strings.TrimRight(read(t, "/proc/"+pid+"/attr/current"), "\x00")
			m := processLabel.FindStringSubmatch(first)
			if m == nil {
				t.Errorf("%q: label %q", what, first)
				continue
			}
			if other, twice := seen[m[1]]; twice {
				t.Errorf("%q and %q share the categories %s", what, other, m[1])
			}
			seen[m[1]] = what
			// What an exec has, and what it can do with that.
			got := docker(t, "exec", "--privileged", "-u", "0", id, "sh", "-c", `
				echo 1 > /new && echo 2 > /tmp/new && echo 3 > /dev/shm/new && cat /new /tmp/new /dev/shm/new
				grep -o -m 1 localhost /etc/hosts
				cat /proc/self/attr/current; echo
				mount`)
			says := strings.SplitN(got, "\n", 6)
			if len(says) < 6 {
				t.Errorf("%q: exec states %q", what, got)
				continue
			}
			env.Equal(t, what+" files", strings.Join(says[:4], " "), "1 2 3 localhost")
			env.Equal(t, what+" exec", strings.TrimRight(says[4], "\x00"), first)
			if root := rootLabel.FindStringSubmatch(says[5]); root == nil || !fileLabel.MatchString(root[1]) || !strings.HasSuffix(root[1], m[1]) {
				t.Errorf("%q: the root's label: %q", what, root)
			}
		}
	})
}

// TestLevels: a pair of categories that was requested is kept, on the process and on its files; a
// level that opens other jails' files, or its own to all, is replaced.
func TestLevels(t *testing.T) {
	need(t, "selinux")
	for asked, kept := range map[string]bool{"s0:c100,c200": true, "s0:c0.c1023": false, "s0": false} {
		got := docker(t, "run", "--rm", "--runtime=agentjail", "--security-opt", "label=level:"+asked, image, "sh", "-c", "cat /proc/self/attr/current; echo; mount")
		first, mounts, _ := strings.Cut(got, "\n")
		m := processLabel.FindStringSubmatch(strings.TrimRight(first, "\x00"))
		if m == nil || (m[1] == asked) != kept {
			t.Errorf("requested %s: label %q", asked, first)
			continue
		}
		if root := rootLabel.FindStringSubmatch(mounts); root == nil || !strings.HasSuffix(root[1], ":"+m[1]) {
			t.Errorf("requested %s: the process has %s, its root %q", asked, m[1], root)
		}
	}
}

// TestOnlySELinux: with every other protection gone (plain runc, the host's root with all
// capabilities, no filter, the file mounted in), the label keeps a container from a directory that
// was not given to it, and from another jail's file; without the label, or with that jail's own,
// the same container reads and writes it.
func TestOnlySELinux(t *testing.T) {
	need(t, "selinux")
	// A directory of the machine's, and one that a jail has and labels for itself.
	theirs, its := directory(t, "theirs"), directory(t, "its")
	jail := detached(t, "--runtime=agentjail", "-v", its+":/given:Z")
	pair := strings.SplitN(label(t, jail), ":", 4)[3]
	must(t, "chcon", "system_u:object_r:container_file_t:s0:c1,c2", theirs, theirs+"/secret")

	bare := []string{"docker", "run", "--rm", "--runtime=runc", "--cap-add=ALL", "--security-opt=seccomp=unconfined"}
	sh := []string{image, "sh", "-c", "cat /given/secret && echo more >> /given/secret"}
	for _, c := range []struct {
		what, source, option string
		goes                 bool
	}{
		{"another's file, without a label", theirs, "label=disable", true},
		{"another's file, with a label", theirs, "label=level:s0:c3,c4", false},
		{"a jail's file, without a label", its, "label=disable", true},
		{"a jail's file, with its label", its, "label=level:" + pair, true},
		{"a jail's file, with half of its label", its, "label=level:" + strings.Split(pair, ",")[0], false},
		{"a jail's file, with another label", its, "label=level:s0:c3,c4", false},
	} {
		r := run(t, append(append(bare[:len(bare):len(bare)], "--security-opt="+c.option, "-v", c.source+":/given"), sh...)...)
		if (r.Code == 0) != c.goes {
			t.Errorf("%s: %s", c.what, r)
		}
	}
	if r := run(t, append([]string{"docker", "run", "--rm", "--runtime=agentjail", "-v", theirs + ":/given"}, sh...)...); r.Code == 0 {
		t.Errorf("in a jail: %s", r)
	}
}

// directory makes a directory with a file "secret" that anybody may read and write, with a label
// that containers may not.
func directory(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join("/srv", name)
	env.Check(t, os.MkdirAll(dir, 0o777))
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "secret")
	env.Check(t, os.WriteFile(file, []byte("secret\n"), 0o666))
	for _, path := range []string{dir, file} {
		if err := errors.Join(os.Chmod(path, 0o777), os.Chown(path, 1000, 1000)); err != nil { // what is root's is refused
			t.Fatal(err)
		}
	}
	must(t, "chcon", "-R", "-t", "container_var_lib_t", dir)
	return dir
}

// TestLabelledDir: a directory labelled for one jail works there and is closed to the next.
func TestLabelledDir(t *testing.T) {
	need(t, "selinux")
	each(t, func(t *testing.T, runtime string) {
		dir := directory(t, "labelled")
		id := detached(t, runtime, "-v", dir+":/given:Z")
		env.Equal(t, "write and read", docker(t, "exec", id, "sh", "-c", "echo mine > /given/f && cat /given/f"), "mine")
		if r := run(t, "docker", "run", "--rm", runtime, "-v", dir+":/theirs", image, "cat", "/theirs/f"); r.Code == 0 {
			t.Errorf("another jail reads it: %s", r)
		}
	})
}
