package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/tests/env"
)

// TestWorkers: the table of docs/host-limits.md has every program that is installed, but for the
// command line, which people run. It has the bounds of helpers and of the collector's service.
// TestWorkers of tests/names holds running processes to it.
func TestWorkers(t *testing.T) {
	page := string(env.Read(t, filepath.Join(top, "docs/host-limits.md")))
	programs, err := os.ReadDir(filepath.Join(top, "cmd"))
	env.Check(t, err)
	for _, p := range programs {
		if !strings.Contains(page, "\n| `"+p.Name()+"`") {
			t.Errorf("what bounds %s?", p.Name())
		}
	}
	for _, bound := range []string{
		fmt.Sprintf("version 2: 1/%d of it besides", helper.QuotaPart),
		fmt.Sprintf("| %d MiB; version 2: %d MiB, with buffers of sockets; %d threads |", helper.MemoryMax>>20,
			(helper.MemoryMax+helper.SocketsMax)>>20, helper.PidsMax),
	} {
		if !strings.Contains(page, bound) {
			t.Errorf("the page has no %q", bound)
		}
	}
	service := string(env.Read(t, filepath.Join(top, "hack/systemd/agentjail-journal.service")))
	for key, value := range map[string]string{"CPUQuota": "100%", "MemoryMax": "128M", "TasksMax": "64"} {
		if !strings.Contains(page, "`"+key+"` "+value) || !strings.Contains(service, "\n"+key+"="+value+"\n") {
			t.Errorf("the page and the collector's service do not both have %s %s", key, value)
		}
	}
}
