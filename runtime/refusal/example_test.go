package refusal_test

import (
	"errors"
	"fmt"

	"agentjail.dev/runtime/refusal"
)

func Example() {
	err := error(refusal.New("bind.source", "%s is the host's", "/etc").About("mount of /etc at /x").WithRemedy("binds.allow = [%q]", "/etc"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, refusal.Err))
	// Output:
	// mount of /etc at /x: refused: /etc is the host's (remedy: binds.allow = ["/etc"])
	// true
}
