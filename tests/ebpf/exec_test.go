package ebpf

import (
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
)

// TestExec: of programs that a jail executes are reported the arguments, the working directory as the jail sees it, across its mounts, and the
// parent, also of what has ended since, and within bounds.
func TestExec(t *testing.T) {
	needsPrograms(t)
	p := newPlace(t)
	b := p.bundle(t)
	b.Mount(p.workspace(t), "/work/mounted")
	long, deep := strings.Repeat("x", 600), strings.TrimSuffix(strings.Repeat("d/", 40), "/")
	c := p.collect(t, "--no-pins")
	end := stays(t, b, p.caller(p.runtime(t), ""), `
mkdir -p /tmp/a/b /tmp/`+deep+` /tmp/gone
cd /tmp/a/b; /bin/busybox echo plain "two words" ""
cd /work/mounted; /bin/busybox echo mounted
cd /; /bin/busybox echo root
cd /dev && /bin/busybox echo another-mount
cd /tmp/`+deep+`; /bin/busybox echo deep
cd /tmp/gone; rmdir /tmp/gone; /bin/busybox echo removed
cd /; /bin/busybox echo long `+long+`
/bin/busybox sh -c '/bin/busybox echo child; exit 0'
/bin/busybox echo "$(printf 'forged\n\033[2Jline')"
`)
	for _, row := range []struct {
		name string
		argv []string // those behind the program's name and "echo"
		cwd  string
	}{
		{"plain", []string{"plain", "two words", ""}, "/tmp/a/b"},
		{"mounted", []string{"mounted"}, "/work/mounted"},
		{"root", []string{"root"}, "/"},
		{"another-mount", []string{"another-mount"}, "/dev"},
		{"removed", []string{"removed"}, "/tmp/gone"},
		{"deep", []string{"deep"}, "…/" + strings.TrimSuffix(strings.Repeat("d/", 32), "/")},
		{"long", []string{"long", long[:512-len("/bin/busybox.echo.long.")] + "…"}, "/"},
		{"child", []string{"child"}, "/"},
		{"forged", []string{`forged\x0a\x1b[2Jline`}, "/"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var e *journal.Event
			c.await(t, "an event of "+row.name, func() bool {
				e = c.find(func(e *journal.Event) bool {
					return e.Kind == journal.ProcessExec && len(e.Argv) > 2 && e.Argv[1] == "echo" && strings.HasPrefix(e.Argv[2], row.name)
				})
				return e != nil
			})
			if !slices.Equal(e.Argv[2:], row.argv) || e.Cwd != row.cwd || e.Path != "/bin/busybox" || e.Jail == "" {
				t.Errorf("%q in %q, not %q in %q: %+v", e.Argv, e.Cwd, row.argv, row.cwd, e)
			}
			if e.PPid == 0 || e.PPid == e.Pid || e.Parent == "" {
				t.Errorf("parent %q, process %d, of process %d", e.Parent, e.PPid, e.Pid)
			}
		})
	}
	if out, err := end(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	child := c.find(func(e *journal.Event) bool { return len(e.Argv) > 2 && e.Argv[2] == "child" })
	shell := c.find(func(e *journal.Event) bool {
		return len(e.Argv) > 2 && e.Argv[1] == "sh" && strings.Contains(e.Argv[len(e.Argv)-1], "child") && e.Path == "/bin/busybox"
	})
	if child == nil || shell == nil || child.PPid != shell.Pid || child.Parent != "busybox" {
		t.Errorf("the child of a shell, %+v, and that, %+v", child, shell)
	}
}
