package policy_test

import (
	"fmt"

	"agentjail.dev/runtime/spec/policy"
)

func ExampleParse() {
	text := []byte(`
limits.memory = "1GiB"

[policies.strict]
seccomp.profile = "strict"
`)
	for _, name := range []string{"", "strict"} {
		p, err := policy.Parse(text, "config.toml", name)
		fmt.Println(p.Limits.Memory, p.Seccomp.Profile, err)
	}
	_, err := policy.Parse([]byte("[limits]\nmemroy = 1\n"), "config.toml", "")
	fmt.Println(err)
	// Output:
	// 1GiB default <nil>
	// 1GiB strict <nil>
	// policy config.toml: line 2: unknown key "limits.memroy" (did you mean "limits.memory"?)
}
