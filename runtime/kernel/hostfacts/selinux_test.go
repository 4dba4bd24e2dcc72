package hostfacts

import (
	"os"
	"path/filepath"
	"testing"
)

func TestContainerLabels(t *testing.T) {
	const (
		config   = "# comment\nSELINUX=enforcing\nSELINUXTYPE=mine\n"
		contexts = "process = \"system_u:system_r:container_t:s0\"\ncontent = \"system_u:object_r:virt_var_lib_t:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"\n"
	)
	for name, c := range map[string]struct{ config, contexts, process, file string }{
		"there":            {config, contexts, "system_u:system_r:container_t:s0", "system_u:object_r:container_file_t:s0"},
		"no configuration": {"", contexts, "", ""},
		"another policy":   {"SELINUXTYPE=other\n", contexts, "", ""},
		"a path":           {"SELINUXTYPE=../mine\n", contexts, "", ""},
		"parent":           {"SELINUXTYPE=..\n", contexts, "", ""},
		"no containers":    {config, "content = \"system_u:object_r:virt_var_lib_t:s0\"\n", "", ""},
		"no labels":        {config, "process = \"container_t\"\nfile = \"container_file_t\"\n", "", ""},
	} {
		etc := t.TempDir()
		if err := os.MkdirAll(filepath.Join(etc, "mine", "contexts"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"config": c.config, "mine/contexts/lxc_contexts": c.contexts} {
			if err := os.WriteFile(filepath.Join(etc, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if process, file := containerLabels(etc); process != c.process || file != c.file {
			t.Errorf("%s: %q, %q", name, process, file)
		}
	}
}
