package rootfs

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestContextOption(t *testing.T) {
	for _, c := range []struct {
		label, want string
		bad         bool
	}{
		{"", "", false},
		{"system_u:object_r:container_file_t:s0:c1,c2", `context="system_u:object_r:container_file_t:s0:c1,c2",`, false},
		{`x",upperdir=/`, "", true},
		{"a b", "", true},
	} {
		got, err := contextOption(&specs.Spec{Linux: &specs.Linux{MountLabel: c.label}})
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%q: got %q, %v", c.label, got, err)
		}
	}
	if got, err := contextOption(&specs.Spec{}); got != "" || err != nil {
		t.Errorf("without a linux section: got %q, %v", got, err)
	}
}
