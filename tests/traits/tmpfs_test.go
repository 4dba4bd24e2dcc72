package traits

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestTmpfsHasTheBundlesOptions: mode, owner and size of a tmpfs are the bundle's, over a directory of the image's, below another
// tmpfs, in a bind mount, and where there is no directory.
func TestTmpfsHasTheBundlesOptions(t *testing.T) {
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			base := engine.TempDir(t, "/var/tmp", "agentjail-traits-")
			b := engine.NewBundle(t, base)
			env.Check(t, os.MkdirAll(filepath.Join(b.Rootfs, "had/below"), 0o755))
			env.Check(t, os.Symlink("had", filepath.Join(b.Rootfs, "led")))
			work := engine.TempDir(t, base, "work")
			env.Check(t, os.Chown(work, 1000, 1000))
			b.Mount(work, "/work")
			want, script := "", ""
			tmpfs := func(at, options, result string) {
				b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{
					Destination: at, Type: "tmpfs", Source: "tmpfs",
					Options: append([]string{"nosuid", "nodev"}, strings.Split(options, ",")...),
				})
				want += fmt.Sprintf("%s %s 16\n", at, result)
				script += fmt.Sprintf("set -- $(stat -f -c '%%b %%s' %s); echo $(stat -c '%%n %%a %%u %%g' %s) $(($1 * $2 / 65536)); ", at, at)
			}
			tmpfs("/had", "mode=1777,size=1m", "1777 0 0")
			tmpfs("/had/below", "mode=0700,uid=7,gid=8,size=1m", "700 7 8")
			tmpfs("/var", "mode=0750,gid=8,size=1m", "750 0 8")
			tmpfs("/dev/shm", "mode=1777,size=1m", "1777 0 0")
			tmpfs("/missing/x", "mode=0711,size=1m", "711 0 0")
			tmpfs("/work/tmp", "mode=1770,uid=7,gid=8,size=1m", "1770 7 8")
			env.Check(t, os.MkdirAll(filepath.Join(b.Rootfs, "led-to"), 0o755))
			env.Check(t, os.Symlink("led-to", filepath.Join(b.Rootfs, "link")))
			tmpfs("/link", "mode=1733,size=1m", "777 0 0")
			b.Spec.Process.Args = []string{"sh", "-c", script}
			out, err := b.Run(t, s.under(t, b, ""))
			env.Check(t, err)
			env.Equal(t, "path, mode, owner, group, size", strings.TrimSpace(out), strings.TrimSpace(want))
		})
	}
}
