// Command standin is in the images that stand in for those of critest (hack/conformance): a web
// server, or a program that reports whose rights it has.
//
// Usage: standin [PORT [WORD...]]
//
// With a port it answers each request there, and notes its process id as nginx does. Without one it
// prints its effective user's id. Words are for who looks at its command line.
package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Printf("Effective uid: %d\n", os.Geteuid())
		return
	}
	name := filepath.Base(os.Args[0])
	fmt.Println(name)
	if err := os.WriteFile("/var/run/"+name+".pid", fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	err := http.ListenAndServe(":"+os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) }))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
