package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestAdjustPrograms: apt's file is added where an image has apt, and what orders
// programs outside is hidden; the engine's layers stay as they were.
func TestAdjustPrograms(t *testing.T) {
	const added = "etc/apt/apt.conf.d/99agentjail"
	for _, c := range []struct {
		name string
		has  []string
		want string // of the added file, "" for none
	}{
		{"with apt", []string{"etc/apt/apt.conf.d/01image", ".krun_vm.json", "var/lib/apt/lists/partial/old:42:700"}, additions[0].text},
		{"without apt", []string{"etc/passwd"}, ""},
		{"with a file of that name", []string{added}, added},
		{"with a link", []string{"elsewhere/01image", "etc/apt/apt.conf.d->/elsewhere"}, ""},
		{"a directory", []string{".krun_vm.json/x"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				img := filepath.Join(t.TempDir(), "img")
				put(t, img, c.has...)
				st, err := Stage(*request(t, img))
				must(t, err)
				defer st.Close()
				root := fmt.Sprintf("/proc/self/fd/%d", st.Root.Fd())
				text, _ := os.ReadFile(root + "/" + added)
				want(t, "the added file", string(text), c.want)
				if c.want == additions[0].text {
					want(t, "its owner", owner(root+"/"+added), jailed(0))
					want(t, "the owner of what apt fetches into", owner(root+"/var/lib/apt/lists/partial"), jailed(0))
				}
				if fi, err := os.Lstat(root + "/.krun_vm.json"); err == nil && !fi.IsDir() {
					t.Error("the virtual machine's orders are there")
				}
				if _, err := os.Lstat(root + "/elsewhere/99agentjail"); err == nil {
					t.Error("a link was followed")
				}
				for _, name := range c.has {
					if name == ".krun_vm.json" {
						want(t, "the engine's file", exists(filepath.Join(img, name)), true)
					}
				}
				want(t, "an addition to the engine's layer", exists(filepath.Join(img, added)), c.want == added)
			})
		})
	}
}
