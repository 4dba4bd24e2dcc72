package protect_test

import (
	"fmt"

	"agentjail.dev/runtime/protect"
)

func ExampleInside() {
	for _, path := range []string{"lib/.git/hooks/pre-commit", ".vscode/tasks.json", "main.go"} {
		fmt.Println(path, protect.Inside("/home/a/project", path, []string{".vscode"}) != nil)
	}
	// Output:
	// lib/.git/hooks/pre-commit true
	// .vscode/tasks.json false
	// main.go false
}
