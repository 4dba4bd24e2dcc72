package names

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/addrpool"
	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/helperproto"
)

// maxGiven bounds the helper's record of assigned addresses, in bytes. A helper writes some hundred
// short lines in a jail's life.
const maxGiven = 16 << 10

// goOn sets the positions at which a helper continues: in the log, and among the addresses.
func goOn(w *helperproto.Work, dir string) (err error) {
	if w.LogTurn, w.LogSeq, err = decisions.Last(dir); err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	w.Given, err = readGiven(dir)
	return err
}

func openGiven(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, helperproto.GivenFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
}

// readGiven returns the number below which a jail's helpers may have assigned every address; 0 if
// no helper has assigned any.
func readGiven(dir string) (int, error) {
	f, err := os.OpenFile(filepath.Join(dir, helperproto.GivenFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxGiven+1))
	if err != nil {
		return 0, err
	}
	given := 0
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
		if err != nil || n <= 0 || n > addrpool.Total || len(text) > maxGiven {
			return 0, fmt.Errorf("%s was not written by a helper: no address is known to be new (remedy: start the jail anew)", f.Name())
		}
		given = max(given, n)
	}
	return given, nil
}
