package names

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/netrules"
)

// maxReserved bounds the helper's record of assigned addresses, in bytes. A helper writes some
// hundred short lines in a jail's life.
const maxReserved = 16 << 10

// continueFrom sets the positions at which a helper continues: in the log, and among the addresses.
func continueFrom(w *helperproto.Work, dir string) (err error) {
	if w.LogTurn, w.LogSeq, err = decisions.Last(dir); err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	w.Reserved, err = readReserved(dir)
	return err
}

func openReserved(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, helperproto.ReservedFile),
		os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
}

// readReserved returns the number below which a jail's helpers may have assigned every address; 0
// if no helper has assigned any.
func readReserved(dir string) (int, error) {
	text, err := atomicfile.Read(filepath.Join(dir, helperproto.ReservedFile), maxReserved)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%w (remedy: start the jail anew)", err)
	}
	reserved := 0
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
		if err != nil || n <= 0 || n > netrules.PoolSize {
			return 0, fmt.Errorf("%s was not written by a helper: no address is known to be new (remedy: start the jail anew)",
				helperproto.ReservedFile)
		}
		reserved = max(reserved, n)
	}
	return reserved, nil
}
