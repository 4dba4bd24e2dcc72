package hostfacts

import (
	"os"
	"path/filepath"
	"strings"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// containerLabels reads the labels for containers of the policy in use: the file
// contexts/lxc_contexts of the policy that SELINUXTYPE in /etc/selinux/config names
// (selinux_config(5), lxc_contexts(5)). Engines take their labels from the same file.
func containerLabels(etc string) (process, file string) {
	kind, ok := assignments(filepath.Join(etc, "config"))["SELINUXTYPE"]
	if !ok || kind != filepath.Base(kind) || kind == ".." {
		return "", ""
	}
	c := assignments(filepath.Join(etc, kind, "contexts", "lxc_contexts"))
	if strings.Count(c["process"], ":") < 3 || strings.Count(c["file"], ":") < 3 {
		return "", ""
	}
	return c["process"], c["file"]
}

// maxConfig bounds how much of a configuration file is read, in bytes.
const maxConfig = 64 << 10

// assignments reads lines of the form NAME = "VALUE"; the quotes may be absent.
func assignments(path string) map[string]string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := atomicfile.ReadAll(f, maxConfig)
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); ok && !strings.HasPrefix(name, "#") {
			all[name] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return all
}
