package publish_test

import (
	"fmt"

	"agentjail.dev/runtime/spec/publish"
)

func ExampleList() {
	entries, engine, err := publish.List([]string{"8080:80", "engine:7000"})
	fmt.Println(entries, len(engine), err)
	_, _, err = publish.List([]string{"8080:80", "8080:81"})
	fmt.Println(err)
	// Output:
	// [127.0.0.1:8080:80] 1 <nil>
	// 127.0.0.1:8080:80 and 127.0.0.1:8080:81 listen at the same place
}
