package pathname_test

import (
	"fmt"

	"agentjail.dev/runtime/kernel/pathname"
)

func Example() {
	fmt.Println(pathname.Within("/a", "/a"), pathname.Below("/a", "/a"), pathname.Below("/ab", "/a"))
	fmt.Println(pathname.Rel("/a/b", "/a"))
	// Output:
	// true false false
	// b true
}
