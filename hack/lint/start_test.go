package lint

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// heavy are packages that would cost every start of a program that links them, used or not: in sum
// a tenth of the processor time of agentjail's.
var heavy = []string{"crypto/x509", "crypto/tls", "net/http"}

// TestLinkedPackages: what engines start for each verb does not link them.
func TestLinkedPackages(t *testing.T) {
	if os.Getenv("AGENTJAIL_TEST_PROGRAMS") != "" {
		t.Skip("as hack/quick.sh's user, who has no module cache, it would download modules; make test-unit runs it")
	}
	if got := linked(t, "cmd/agentjail-egress-keys"); !slices.Contains(got, "crypto/x509") {
		t.Fatalf("the program that has certificates does not link them: %v", got)
	}
	for _, p := range linked(t, "cmd/agentjail") {
		if slices.Contains(heavy, p) {
			t.Errorf("cmd/agentjail links %s (`go list -deps` shows the importer)", p)
		}
	}
}

// linked lists the packages that a program consists of.
func linked(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", module+program)
	cmd.Dir, cmd.Env = top, append(cmd.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}
