package inside

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	processLabel = regexp.MustCompile(`^system_u:system_r:container_t:(s0:c\d+,c\d+)$`)
	fileLabel    = regexp.MustCompile(`^system_u:object_r:container_file_t:(s0:c\d+,c\d+)$`)
)

// label is the label of a process of the container, without the final zero byte.
func label(t testing.TB, args ...string) string {
	t.Helper()
	return strings.TrimRight(docker(t, append(append([]string{"exec"}, args...), "cat", "/proc/self/attr/current")...), "\x00")
}

// TestLabel: every process of a jail is in the container domain, with a pair of categories that no other jail has.
func TestLabel(t *testing.T) {
	need(t, "selinux")
	each(t, func(t *testing.T, runtime string) {
		seen := map[string]string{}
		for _, options := range [][]string{
			nil, {}, {"-u", "1000"}, {"--privileged"}, {"--security-opt", "label=disable"}, {"--security-opt", "label=type:spc_t"},
			{"--pid=host"}, {"--ipc=host"},
		} {
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
			eq(t, what+" exec", label(t, id), first)
			eq(t, what+" exec --privileged", label(t, "--privileged", "-u", "0", id), first)
			root := regexp.MustCompile(`(?m)^\S+ on / type overlay .*context="?([^",]+(?:,c\d+)?)`).FindStringSubmatch(docker(t, "exec", id, "mount"))
			if root == nil || !fileLabel.MatchString(root[1]) || !strings.HasSuffix(root[1], m[1]) {
				t.Errorf("%q: the root's label: %q", what, root)
			}
			eq(t, what+" writes", docker(t, "exec", id, "sh", "-c", "echo 1 > /new && echo 2 > /tmp/new && echo 3 > /dev/shm/new && cat /new /tmp/new /dev/shm/new"), "1\n2\n3")
		}
	})
}

// TestOnlySELinux: with every other wall gone (plain runc, all capabilities, no filter), the label keeps a container from
// a folder that was not given to it; without the label the same container reads and writes it.
func TestOnlySELinux(t *testing.T) {
	need(t, "selinux")
	dir := "/srv/vm-test"
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("secret\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	bare := []string{"docker", "run", "--rm", "--runtime=runc", "--cap-add=ALL", "--security-opt=seccomp=unconfined", "-v", dir + ":/given"}
	sh := []string{image, "sh", "-c", "cat /given/secret && echo more >> /given/secret"}
	if r := run(t, append(append(bare[:len(bare):len(bare)], "--security-opt=label=disable"), sh...)...); r.code != 0 {
		t.Fatalf("without a label: %s", r)
	}
	if r := run(t, append(bare[:len(bare):len(bare)], sh...)...); r.code == 0 {
		t.Errorf("with a label: %s", r)
	}
	if r := run(t, append([]string{"docker", "run", "--rm", "--runtime=agentjail", "-v", dir + ":/given"}, sh...)...); r.code == 0 {
		t.Errorf("in a jail: %s", r)
	}
}

// TestLabelledVolume: a volume labelled for one jail works there and is closed to the next.
func TestLabelledVolume(t *testing.T) {
	need(t, "selinux")
	each(t, func(t *testing.T, runtime string) {
		volume := docker(t, "volume", "create")
		t.Cleanup(func() { docker(t, "volume", "rm", "-f", volume) })
		id := detached(t, runtime, "-v", volume+":/given:Z")
		eq(t, "write and read", docker(t, "exec", id, "sh", "-c", "echo mine > /given/f && cat /given/f"), "mine")
		if r := run(t, "docker", "run", "--rm", runtime, "-v", volume+":/theirs", image, "cat", "/theirs/f"); r.code == 0 {
			t.Errorf("another jail reads it: %s", r)
		}
	})
}
