// Command pause holds a pod's namespaces, as the program of that name of Kubernetes does: it ends on SIGINT and SIGTERM,
// reaps, and waits.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signal.Ignore(syscall.SIGCHLD) // then the kernel reaps (sigaction(2))
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
