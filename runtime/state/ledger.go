package state

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/protect"
)

// ledgerDir holds the ledger of the placeholders of root's jails. Like the placeholders, it
// outlives a boot.
const ledgerDir = "/var/lib/agentjail/placeholders"

// Ledger returns the ledger of the placeholders of this store's jails.
func (s Store) Ledger() protect.Ledger {
	l := protect.Ledger{Dir: filepath.Join(s.Root, "placeholders"), Boot: BootID(), User: os.Geteuid() != 0 || rootless.Inside()}
	if s.Root == DefaultRoot {
		l.Dir = ledgerDir
	}
	var st unix.Stat_t
	if unix.Stat(s.Root, &st) == nil {
		l.Store = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return l
}
