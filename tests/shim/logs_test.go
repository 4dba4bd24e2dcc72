package shim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// logger writes a program that a log URI can name: it states that it ran, and is ready at once (containerd,
// runtime/v2/logging: descriptor 5 is closed when the logger is).
func logger(t *testing.T) (program, ran string) {
	t.Helper()
	dir := env.Get(t, engine.BinDir)
	f, err := os.CreateTemp(dir, "logger-*")
	env.Check(t, err)
	ran = f.Name() + ".ran"
	t.Cleanup(func() { os.Remove(f.Name()); os.Remove(ran) })
	_, err = fmt.Fprintf(f, "#!/bin/sh\nexec 5>&-\nexec cat <&3 >>%s\n", ran)
	if err = firstError(err, f.Chmod(0o755), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name(), ran
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A log URI that names a program, or a file, is refused unless policy lists it.
func TestLogURI(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		program, ran := logger(t)
		victim := filepath.Join(t.TempDir(), "victim")
		env.Check(t, os.WriteFile(victim, []byte("as it was\n"), 0o600))
		say := []string{"--", "echo", "said"}
		for _, uri := range []string{"binary://" + program, "file://" + victim} {
			id := newID()
			r := c.Ctr(runArgs(id, append([]string{"--rm", "--log-uri", uri}, say...)...)...)
			if r.Code == 0 || !strings.Contains(r.Stderr, "refused") || !strings.Contains(r.Stderr, "remedy: ") {
				t.Errorf("%s: %s", uri, r)
			}
			c.Remove(id)
		}
		if _, err := os.Lstat(ran); err == nil {
			t.Error("a program that no policy lists ran on the host")
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "as it was\n" {
			t.Errorf("a file of the host's is written: %q, %v", text, err)
		}
		file := engine.PolicyFile(t, fmt.Sprintf("shim.loggers = [%q]\nshim.logs = [%q]\n", program, filepath.Dir(victim)))
		for uri, f := range map[string]string{"binary://" + program: ran, "file://" + victim: victim} {
			id := newID()
			if r := c.Ctr(runArgs(id, append([]string{"-d", "--runtime-config-path", file, "--log-uri", uri}, say...)...)...); r.Code != 0 {
				t.Errorf("%s: %s", uri, r)
			}
			env.Eventually(c, "the task ends", func() bool { return status(c, id) != "RUNNING" })
			// A logger ends with its task's removal, and what it has not read then is lost.
			env.Eventually(c, f+" has what was printed", func() bool { text, _ := os.ReadFile(f); return strings.Contains(string(text), "said\n") })
			c.Remove(id)
		}
		nothingLeft(t, c)
	})
}

// An image's labels can have containerd's restart monitor run a program (CVE-2026-53488): it is refused, and the same
// image's program runs where policy lists it, so that the refusal is the shim's.
func TestLogLabel(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		program, ran := logger(t)
		const image = "docker.io/library/labelled:latest"
		var layer bytes.Buffer
		env.Check(t, engine.BusyboxTree(&layer))
		err := c.ImportImage(c.Namespace(), image, layer.Bytes(), engine.ImageConfig{
			Cmd: []string{"/bin/sleep", "1000"},
			// Without the status, which an image can bring as well: the monitor would race with the container's first start.
			Labels: map[string]string{"containerd.io/restart.policy": "always", "containerd.io/restart.loguri": "binary://" + program},
		})
		env.Check(t, err)
		t.Cleanup(func() { c.Ctr("images", "rm", image) })
		labelled := func(args ...string) string {
			id := newID()
			all := append([]string{"run", "-d", "--runtime", engine.ShimRuntime}, args...)
			if r := c.Ctr(append(all, image, id)...); r.Code != 0 {
				t.Fatal(r)
			}
			return id
		}
		id := labelled()
		if out := c.Must("containers", "info", id); !strings.Contains(out, "restart.loguri") {
			// Releases with the fix take no such labels from images: as somebody else could have set them.
			c.Must("containers", "label", id, "containerd.io/restart.policy=always", "containerd.io/restart.loguri=binary://"+program)
		}
		c.Must("containers", "label", id, "containerd.io/restart.status=running")
		c.Must("tasks", "kill", "--signal", "KILL", id)
		env.Eventually(c, "the monitor has tried", func() bool {
			_, err := os.Lstat(ran)
			return err == nil || strings.Contains(c.Logs(400), "would run the program "+program)
		})
		if _, err := os.Lstat(ran); err == nil {
			t.Error("a program that a label names ran on the host")
		}
		leaveAlone(c, id)

		id = labelled("--runtime-config-path", engine.PolicyFile(t, fmt.Sprintf("shim.loggers = [%q]\n", program)))
		c.Must("containers", "label", id, "containerd.io/restart.status=running", "containerd.io/restart.policy=always",
			"containerd.io/restart.loguri=binary://"+program)
		c.Must("tasks", "kill", "--signal", "KILL", id)
		env.Eventually(c, "the monitor starts it again", func() bool { _, err := os.Lstat(ran); return err == nil })
		// A container can be removed while its task is made, which then belongs to no container.
		env.Eventually(c, "its task runs", func() bool {
			return slices.ContainsFunc(strings.Split(c.Ctr("tasks", "ls").Stdout, "\n"), func(line string) bool {
				return strings.HasPrefix(line, id+" ") && strings.Contains(line, "RUNNING")
			})
		})
		leaveAlone(c, id)
		nothingLeft(t, c)
	})
}

// leaveAlone has the restart monitor want a container stopped, and removes it. The monitor works on what it read a while
// ago: it may start the container once more, or stop and delete the task at the same time as this does.
func leaveAlone(c *engine.CT, id string) {
	c.Helper()
	c.Must("containers", "label", id, "containerd.io/restart.status=stopped")
	env.Eventually(c, "the container is removed", func() bool {
		c.Ctr("tasks", "rm", "-f", id)
		r := c.Ctr("containers", "rm", id)
		return r.Code == 0 || strings.Contains(r.Stderr, "not found")
	})
}
