package traits_test

import (
	"fmt"

	"agentjail.dev/runtime/spec/traits"
)

func Example() {
	fmt.Println(traits.Auto())
	v, ok := traits.ParseVersion("1.2.3-rc.1")
	fmt.Println(v, ok)
	// Output:
	// [runc crun]
	// 1.2.3-rc.1 true
}
