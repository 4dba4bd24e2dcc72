package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/state"
)

// ledgerDir holds the ledger of the placeholders of root's jails. Like the placeholders, it
// outlives a boot.
const ledgerDir = "/var/lib/agentjail/placeholders"

// ledger returns the ledger of placeholders.
func (r *Runtime) ledger() protect.Ledger {
	l := protect.Ledger{Dir: filepath.Join(r.Store.Root, "placeholders"), Boot: state.BootID(), User: os.Geteuid() != 0 || rootless.Inside()}
	if r.Store.Root == state.DefaultRoot {
		l.Dir = ledgerDir
	}
	var st unix.Stat_t
	if unix.Stat(r.Store.Root, &st) == nil {
		l.Store = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return l
}
