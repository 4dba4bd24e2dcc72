package netrules_test

import (
	"fmt"

	"agentjail.dev/runtime/spec/netrules"
)

func ExampleParse() {
	set, err := netrules.Parse([]string{"api.example.com", "*.example.org:22"}, []string{"bad.example.org"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"api.example.com", "git.example.org", "bad.example.org", "example.net"} {
		fmt.Println(name, set.Allowed(name))
	}
	// Output:
	// api.example.com true
	// git.example.org true
	// bad.example.org false
	// example.net false
}
