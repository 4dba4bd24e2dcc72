package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// mostAtStart is what a package of ours may allocate before main, in bytes. A
// regular expression with counted repetitions takes a hundred times that.
const mostAtStart = 8 << 10

// A docker run starts this program half a dozen times: packages must not do
// work before main that only some verbs need. The Go runtime reports what each
// package's initialisation took (GODEBUG=inittrace=1, package runtime).
func TestLittleHappensBeforeMain(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	ours := 0
	for lines := bufio.NewScanner(&trace); lines.Scan(); {
		// init PACKAGE @0.1 ms, 0.01 ms clock, 123 bytes, 4 allocs
		f := strings.Fields(lines.Text())
		if len(f) != 11 || f[0] != "init" {
			continue
		}
		if f[1] == "net/http" || f[1] == "crypto/tls" || strings.HasPrefix(f[1], "github.com/urfave/") {
			t.Errorf("%s is linked in: it belongs into agentjailctl", f[1])
		}
		if !strings.HasPrefix(f[1], "agentjail.dev/") {
			continue
		}
		ours++
		if n, err := strconv.Atoi(f[7]); err != nil || n > mostAtStart {
			t.Errorf("%s allocates %s bytes before main, more than %d: make it when it is needed (sync.OnceValue)", f[1], f[7], mostAtStart)
		}
	}
	if ours == 0 {
		t.Fatalf("the trace names no package of ours:\n%s", trace.String())
	}
}
