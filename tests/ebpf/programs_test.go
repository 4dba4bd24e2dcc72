package ebpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	cilium "github.com/cilium/ebpf"

	"agentjail.dev/tests/env"
)

// programID is what the kernel reports of a descriptor of an eBPF program or of its link (/proc/PID/fdinfo).
var programID = regexp.MustCompile(`(?m)^prog_id:\s*(\d+)$`)

// programs are the eBPF programs that processes hold a descriptor of, or of their links.
func programs(t *testing.T, pids ...int) (all []cilium.ProgramID) {
	t.Helper()
	for _, pid := range pids {
		infos, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fdinfo/*")
		env.Check(t, err)
		for _, info := range infos {
			text, err := os.ReadFile(info)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has been closed since
			}
			env.Check(t, err)
			found := programID.FindSubmatch(text)
			if found == nil {
				continue
			}
			id, err := strconv.ParseUint(string(found[1]), 10, 32)
			if err != nil {
				t.Fatalf("%s: %v", info, err)
			}
			all = append(all, cilium.ProgramID(id))
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		t.Fatalf("processes %v hold no eBPF programs", pids)
	}
	return all
}

// awaitDetached waits until programs have ended whose links are closed, or are about to be. The kernel closes the descriptors of a process that
// is killed after wait(2) has returned in its parent, and detaches programs later still; until then they act. The id of a program goes last.
func awaitDetached(t *testing.T, ids []cilium.ProgramID) {
	t.Helper()
	for _, id := range ids {
		env.Eventually(t, fmt.Sprintf("the end of eBPF program %d, which has lost its links", id), func() bool {
			p, err := cilium.NewProgramFromID(id)
			if errors.Is(err, fs.ErrNotExist) {
				return true
			}
			if err != nil {
				t.Fatalf("eBPF program %d: %v", id, err)
			}
			p.Close()
			return false
		})
	}
}
